"""The usual case of a capture, in C (gluonjit/native)."""

from collections.abc import Callable
from typing import Any

class Value:
    """One captured array: see gluonjit.graph.values."""

    rows: int | tuple[int, ...]
    depth: int
    spec: Any
    graph: Any
    taped: bool
    base: Any
    result: Any
    def __init__(
        self, rows: int | tuple[int, ...], depth: int, spec: Any, graph: Any, taped: bool, base: Any = None
    ) -> None: ...
    def row_list(self) -> list[int]: ...

class Signatures:
    """The records of an open batch, as the fast path finds them."""

class Hook:
    """Stands in the place of a Python function, and calls it where the fast path ("call", "item", "numpy_item",
    "operator", "verify" or "numpy_verify") does not apply."""

    __wrapped__: Callable[..., Any]
    def __init__(self, path: str, function: Callable[..., Any]) -> None: ...
    def __call__(self, *args: Any, **kwargs: Any) -> Any: ...

class Door:
    """A method of lazy tensors: captures a call as one of `func`, with which PyTorch calls __torch_function__, and is
    PyTorch's own method else. Of a reflected sign `left` and `method` are the same for a tensor on the left."""

    __wrapped__: Callable[..., Any]
    def __init__(
        self, func: Callable[..., Any], original: Callable[..., Any], left: Any = None, method: Any = None
    ) -> None: ...
    def __call__(self, *args: Any, **kwargs: Any) -> Any: ...

class Signs:
    """A base of lazy tensors: signs such as `x + y`, in slots."""

class Celled:
    """A base of functions that are cells: binds as a function does, and tries the fast path first."""

    caches: dict[str, Any]

class Silent:
    """A base of lazy arrays: nothing is called when one ends."""

def configure(section: str, **named: Any) -> None:
    """Tell the fast path the classes and functions of a section ("package", "mxnet" or "torch") that it works with."""

def quicken(way: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """Let calls of a function of Python, which stays what it is, try the fast path first: "call" for one that stands
    for torch.nn.Module.__call__, "attribute" for torch.nn.Module.__getattr__."""

def quick_attributes(kind: type[Any], module: type[Any]) -> None:
    """Let a class derived from torch.nn.Module, `module`, find parts, parameters and buffers without an AttributeError
    before each. Does nothing where the class has its own __getattr__ or __getattribute__, or from Python 3.12 on."""

def watch_calls(notice: Callable[[Any, str, Any], None], known: dict[int, Any]) -> None:
    """As sys.setprofile, which ends it, for calls of Python's functions alone: notice(frame, "call", None)."""

def set_sign(name: str, func: Any, method: Any, reflected: Any, turned: Any) -> None:
    """Let a sign capture calls of `func`, or do what `method` does; turned round (`1 + x`) what follows."""

def quick_cells(cells: type) -> None:
    """Let calls of what is of this class, which derives from Celled, try the fast path first."""

def forget_doors() -> None:
    """Let doors be looked up anew: their table has changed."""

def tensor(value: Any) -> Any:
    """A lazy tensor of PyTorch's of a value."""

def capture(cell: Any, owner: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Captures a call of a cell as a node of the open batch; None where Python has to see to it."""

def keep(
    cell: Any, owner: Any, args: tuple[Any, ...], kwargs: dict[str, Any], key: tuple[Any, ...], record: Any
) -> None:
    """Let equal calls be nodes of a record, which Python finds by this key in the open batch; or, with a place for
    the record, give their argument at ~place, or with a Spec, the rows of their only array as they look then."""

def keep_operator(handle: int, arrays: Any, keys: Any, vals: Any, record: Any) -> None:
    """Let calls of an operator of MXNet's that are equal to this one, but for the values, be nodes of this record."""

def main_door() -> Callable[..., Any]:
    """Returns what stands in the place of __torch_function__ of lazy tensors."""

def find_modes(base: str, tensors: str, casting: int) -> bool:
    """Read PyTorch's modes in these two libraries from now on; tells whether they are there. `casting`: the dispatch
    keys of autocast, as bits."""

def modes() -> tuple[bool, bool, bool]:
    """Tells whether gradients are recorded, something is cast, and functions go somewhere else first."""

def keep_bodies(lazy: type) -> None:
    """Keep tensors of this class, that of lazy ones, when they end, to use them again."""

def spare_bodies() -> int:
    """The number of tensors that lie ready to be lazy ones."""

def address(array: Any) -> int | None:
    """The address of an array's numbers, when it is computed; None where Python has to ask, and -1 where MXNet has an
    error to tell, as it does once."""

def numbers(array: Any) -> list[int] | None:
    """The whole numbers of an array of one axis, cut where they are none and -1 where they are out of range; None where
    Python has to look."""

def look(array: Any) -> tuple[tuple[int, ...], int, int, int] | None:
    """Shape and codes of dtype, type of device and its number of an array, or None where Python has to look."""

def entry(record: Any) -> Any:
    """Returns what a capture needs of a record and its kind."""
