"""The hooks of an engine for reused calls, and the parts of templates of such calls. See `reusing`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from gluonjit.graph import Kind, Record, Value
from gluonjit.hybrid.capture.reuse.cache import NotReusable
from gluonjit.hybrid.run.batch import Batch


@dataclass(frozen=True)
class PlainResult:
    """A part of a call's result that is not an array."""

    value: Any


@dataclass(frozen=True)
class Returned:
    """An array that a call returns: its number among them, and which of the engine's lazy arrays it is."""

    number: int
    kind: type


class ArraySource(NamedTuple):
    """The source of an array that a call reads, as it lies: the arguments (by place), an operator without operands (by
    what it was called with), or itself."""

    what: Any
    way: str
    mode: str = ""


class TemplateSignature(NamedTuple):
    """A signature of template nodes, as the engine finds it again, and the layout that the templates assume."""

    signature: Any
    layout: tuple[Any, ...]
    mode: int
    name: str


def layout_of(kind: Kind) -> tuple[Any, ...]:
    """The layout of a kind: what a template depends on."""
    return kind.operands, kind.outputs, kind.rows, kind.pure


class Reusing:
    """The hooks of an engine for calls that are reused; what has a default here it may leave out.

    array: the class of the framework's arrays; lazy: that of captured ones, which have a value `_v`, what they are
    views of as `_b`, which view as `_k`, and what they were computed to as `_c`, each None if there is none.
    weight_table: the batch's table of a weight; learns: whether an array does.

    * `modes()`: the framework's modes that capture depends on.
    * `why_not(net)`: returns why no call of this model can be reused; "" if calls can.
    * `key_of(array)`: returns everything about an array that distinguishes calls.
    * `watched(batch, net, arrays)`: returns a context in which a call with these arrays runs to be recorded; it
      passes reasons to `refuse`.
    * `wrapped(value, kind)`: a captured array of this class.
    * `link(view, base, key)`: makes an array this view of another.
    * `record(batch, known)`: the record of such a signature; None if it is stale.
    * `source(batch, payload)`: returns the source of a leaf, argument or not. Raises NotReusable if later calls
      could not find it.
    * `leaf(batch, source)`: the value of an array in the batch, as a call would read it.
    * `alike(one, other)`: true if two arrays have the same numbers.
    """

    modes: Callable[..., Any]
    why_not: Callable[..., str]
    key_of: Callable[..., Any]
    watched: Callable[..., Any]
    wrapped: Callable[..., Any]
    link: Callable[..., None]
    record: Callable[..., Record | None]
    source: Callable[..., ArraySource]
    leaf: Callable[..., Value]
    alike: Callable[..., bool]
    array: type
    lazy: type
    weight_table: Callable[..., Any]
    learns: Callable[..., bool]

    def flags(self, net: Any) -> Any:
        """The flags of a model's parts that capture depends on: which train, or learn. Asked as seldom as `parts`."""
        return ()

    def parts(self, net: Any) -> list[Any]:
        """Returns the objects that a model consists of, if their changes are not reported."""
        return []

    def value_of(self, array: Any, batch: Batch) -> Value | None:
        """The value of a captured array that a call returns, if it is one of the batch's and has not been computed."""
        value: Value = array._v
        return value if value.graph is batch.graph and array._c is None else None

    def signature(self, batch: Batch, key: Any, record: Record) -> Any:
        """Returns the key of a record in any batch. Raises NotReusable if its calls must not be reused."""
        return key

    def found_table(self, batch: Batch, known: tuple[Any, ...]) -> Any:
        """The batch's table."""
        weight, *rest = known
        return batch.host_table(*rest) if weight is None else self.weight_table(batch, weight, *rest)

    def keeps(self, batch: Batch, array: Any) -> None:
        """Raises NotReusable for an array, not an argument, that later calls must not read instead of their own."""
        if self.learns(array) and id(array) not in batch.parameters:
            raise NotReusable("it uses an array with a gradient that is neither an argument nor a parameter")
