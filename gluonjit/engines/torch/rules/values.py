"""Values of all nodes of a step, which a rule works on, and a program under construction."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from math import prod
from typing import Any, NamedTuple

import torch

from gluonjit.engines.torch.arrays import dtype_named
from gluonjit.program.trace import NotBatchable as NotBatchable

Shape = tuple[int, ...]
Shaped = tuple[Shape, str]
ANY = -1
"""As `Val.lead`: a node has any number of rows, which a rule has to leave as they are."""
NODES = "count"
"""As `Instruction.counts`: the number of nodes."""


class Val(NamedTuple):
    """A value of every node, or one that is the same for all (lead None).

    shape: of one node's value; slot: its place in the program. The tensor there has `lead` rows of shape `rest` for
    each node, one node after the other: (nodes * lead, *rest) holds the elements of (nodes, *shape) in their order.
    """

    slot: int
    shape: Shape
    dtype: str
    lead: int | None
    rest: Shape

    @property
    def rank(self) -> int:
        """The number of axes of one node's value."""
        return len(self.shape)

    @property
    def shared(self) -> bool:
        """Tells whether it is the same for all nodes."""
        return self.lead is None


class Instruction(NamedTuple):
    """One call of the program. `text` says what it does: equal programs have equal texts and slots."""

    function: Callable[..., Any]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    text: str
    counts: str = ""  # an expression for the number of nodes, or of children, which is passed first


class Writer:
    """Writes down the instructions of a batched program; `each` is called with every one, and may refuse it."""

    def __init__(self, slots: int, each: Callable[[Instruction], None] | None = None) -> None:
        self.slots = slots
        self._each = each
        self.count = NODES  # how many nodes, or children, what is written is for
        self.code: list[Instruction] = []

    def emit(
        self, function: Callable[..., Any], inputs: Sequence[int], text: str, outputs: int = 1, counts: bool = False
    ) -> tuple[int, ...]:
        """Adds an instruction; returns the slots of its results."""
        made = tuple(range(self.slots, self.slots + outputs))
        self.slots += outputs
        self.code.append(Instruction(function, tuple(inputs), made, text, self.count if counts else ""))
        if self._each is not None:
            self._each(self.code[-1])
        return made


class OperatorCall:
    """One operator of a trace on batched values.

    args: its arguments by name, tensors as Val; outputs: shapes and dtypes of one node's results.
    """

    def __init__(
        self, name: str, func: Any, args: Mapping[str, Any], outputs: Sequence[Shaped], writer: Writer
    ) -> None:
        self.name = name
        self.func = func
        self.args = args
        self.outputs = outputs
        self.writer = writer

    @property
    def shape(self) -> Shape:
        """The shape of one node's first result."""
        return self.outputs[0][0]

    def __getitem__(self, name: str) -> Any:
        return self.args[name]

    def get(self, name: str, default: Any = None) -> Any:
        """An argument, or its default where it was not given."""
        return self.args.get(name, default)

    def vals(self) -> list[Val]:
        """All values among the arguments."""
        found: list[Val] = []
        for value in self.args.values():
            if isinstance(value, Val):
                found.append(value)
            elif isinstance(value, tuple):
                found += [item for item in value if isinstance(item, Val)]
        return found

    def emit(self, function: Callable[..., Any], inputs: Sequence[Val], *static: Any, outputs: int = 1) -> Any:
        """Adds `function(*inputs, *static)`; returns its slot, or several."""
        text = f"{_name_of(function)}{static!r}"
        if static:
            made = self.writer.emit(_with(function, static), [val.slot for val in inputs], text, outputs)
        else:
            made = self.writer.emit(function, [val.slot for val in inputs], text, outputs)
        return made[0] if outputs == 1 else made

    def again(self, change: Mapping[str, Any], outputs: int = 1) -> Any:
        """Adds the operator itself with some arguments changed; tensors are Val, and are passed as they lie."""
        return call_operator(self.writer, self.func, {**self.args, **change}, outputs)

    def form(self, val: Val, lead: int, rest: Shape) -> Val:
        """The value with `lead` rows of `rest` a node."""
        if val.lead == lead and val.rest == rest:
            return val
        if val.lead is None:
            raise NotBatchable(f"{self.name}: an operand that is the same for all samples")
        if (val.lead == ANY) != (lead == ANY):
            raise NotBatchable(f"{self.name}: it mixes the rows of a sample")
        slot = self.emit(_reshape, [val], rest)
        return val._replace(slot=slot, lead=lead, rest=rest)

    def aligned(self, val: Val, rank: int) -> Val:
        """The value as (nodes, 1, ..., 1, *shape), of this many axes without that of nodes."""
        return self.form(val, 1, (*(1,) * (rank - val.rank), *val.shape))

    def stack(self, val: Val) -> Val:
        """The value as (nodes, *shape)."""
        return self.form(val, 1, val.shape)

    def rows(self, val: Val) -> Val:
        """The value with its first axis as rows: those of all nodes."""
        return self.form(val, ANY if val.lead == ANY else val.shape[0], val.shape[1:])

    def ending(self, val: Val, axes: int) -> Val:
        """The value so that its last axes are those of one node's value; the first one may stay the rows."""
        shape = val.shape
        if val.lead == ANY:
            if axes >= len(shape):
                raise NotBatchable(f"{self.name}: it mixes the rows of a sample")
            return val if _ends(val.rest, shape, axes) else self.form(val, ANY, shape[1:])
        return val if _ends(val.rest, shape, axes) else self.stack(val)

    def spread(self, val: Val) -> Val:
        """The value as (nodes, *shape), also where it is the same for all."""
        if not val.shared:
            return self.stack(val)
        text = f"spread{val.shape}"
        (slot,) = self.writer.emit(_spread(val.shape), [val.slot], text, 1, True)
        return val._replace(slot=slot, lead=1, rest=val.shape)

    def cast(self, val: Val, dtype: str) -> Val:
        """The value with another dtype."""
        if val.dtype == dtype:
            return val
        return val._replace(slot=self.emit(_to, [val], dtype_named(dtype)), dtype=dtype)

    def result(self, slot: int, lead: int | None, rest: Shape, number: int = 0) -> Val:
        """A result of the operator."""
        shape, dtype = self.outputs[number]
        if lead is not None and lead != ANY and lead * prod(rest) != prod(shape):
            raise NotBatchable(f"{self.name}: {lead} rows of {rest} are not {shape}")
        return Val(slot, shape, dtype, lead, rest)

    def stacked(self, slot: int, number: int = 0) -> Val:
        """A result as (nodes, *shape)."""
        return self.result(slot, 1, self.outputs[number][0], number)

    def results(self, change: Mapping[str, Any], lead: int | None, rest: Shape) -> list[Val]:
        """All results, by the operator itself with some arguments changed, each as `lead` rows of `rest` a node."""
        count = len(self.outputs)
        slots = self.again(change, count)
        return [self.result(slot, lead, rest, k) for k, slot in enumerate((slots,) if count == 1 else slots)]

    def emitted(self, function: Callable[..., Any], inputs: Sequence[Val], *static: Any) -> list[Val]:
        """The only result, by a function of the nodes' values, as (nodes, *shape)."""
        return [self.stacked(self.emit(function, inputs, *static))]

    def rerun(self, change: Mapping[str, Any]) -> list[Val]:
        """The only result, by the operator itself with some arguments changed, as (nodes, *shape)."""
        return [self.stacked(self.again(change))]


def call_operator(writer: Writer, func: Any, args: Mapping[str, Any], outputs: int = 1) -> Any:
    """Adds an operator of ATen with these arguments, tensors as Val."""
    slots: list[int] = []
    template: dict[str, Any] = {}
    for name, value in args.items():
        if isinstance(value, Val):
            template[name] = _Slot(len(slots))
            slots.append(value.slot)
        elif isinstance(value, tuple) and any(isinstance(item, Val) for item in value):
            template[name] = [_Slot(len(slots) + k) if isinstance(item, Val) else item for k, item in enumerate(value)]
            if not all(isinstance(item, Val) for item in value):
                raise NotBatchable(f"{func}: a list that mixes tensors with other values")
            slots += [item.slot for item in value]
        else:
            template[name] = list(value) if isinstance(value, tuple) else value
    name, arguments, lists = _schema_of(func)
    text = f"{name}{template!r}"
    bound = _bound(func, arguments, template)
    if outputs == 1 and lists:
        bound, text = _first_of(bound), f"{text}[0]"
    made = writer.emit(bound, slots, text, outputs)
    return made[0] if outputs == 1 else made


def _first_of(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *tensors: function(*tensors)[0]


class _Slot(int):
    def __repr__(self) -> str:
        return f"[{int(self)}]"


@cache
def _schema_of(func: Any) -> tuple[str, list[str], bool]:
    """The name of an operator of ATen, those of its arguments, and whether it gives a list."""
    schema = func._schema
    lists = bool(schema.returns) and str(schema.returns[0].type) == "List[Tensor]"
    return str(func), [argument.name for argument in schema.arguments], lists


def _bound(func: Any, arguments: Sequence[str], template: Mapping[str, Any]) -> Callable[..., Any]:
    """The operator as a function of its tensors alone."""
    plain = list(template.values())
    if list(template) == arguments[: len(plain)] and all(
        isinstance(value, _Slot) and value == k for k, value in enumerate(plain)
    ):
        found: Callable[..., Any] = FAST.get(func, func)
        return found

    def call(*tensors: Any) -> Any:
        given = {
            name: tensors[value]
            if value.__class__ is _Slot
            else [tensors[item] for item in value]
            if value.__class__ is list and value and value[0].__class__ is _Slot
            else value
            for name, value in template.items()
        }
        return func(**given)

    return call


def regular(tensor: Any) -> Any:
    """A tensor of the same shape, of square matrices identities: numbers that linear algebra has no error for."""
    square = tensor.dim() > 1 and tensor.shape[-1] == tensor.shape[-2] and tensor.dtype.is_floating_point
    return torch.eye(tensor.shape[-1], dtype=tensor.dtype, device=tensor.device).expand_as(tensor) if square else tensor


FAST: dict[Any, Callable[..., Any]] = {}
"""Functions of torch that do the same as an operator of ATen in less time, for tensors alone."""


def _with(function: Callable[..., Any], static: tuple[Any, ...]) -> Callable[..., Any]:
    return lambda *tensors: function(*tensors, *static)


def _name_of(function: Any) -> str:
    return getattr(function, "__name__", None) or str(function)


def _reshape(tensor: Any, rest: Shape) -> Any:
    return tensor.reshape(-1, *rest)


def _to(tensor: Any, dtype: Any) -> Any:
    return tensor.to(dtype)


def _spread(shape: Shape) -> Callable[..., Any]:
    return lambda count, tensor: tensor.expand(count, *shape)


def _ends(rest: Shape, shape: Shape, axes: int) -> bool:
    return axes == 0 or (len(rest) >= axes and rest[len(rest) - axes :] == shape[len(shape) - axes :])
