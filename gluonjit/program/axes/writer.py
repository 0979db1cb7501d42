"""A program under construction: instructions, and the forms in which values lie."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any, ClassVar

from gluonjit.program.arguments import NotBatchable
from gluonjit.program.axes.values import COUNT, NODES, ROWS, Instruction, Shape, Values


class Writer:
    """Writes down the instructions of a batched program; `each` is called with every one, and may refuse it.

    An engine derives its own from it. prims: its functions reshape(x, rest) to (-1, *rest), shape(x, shape), permute(x,
    axes), expand(x, count, shape) with a new first axis of `count`, widen(x, rest), which expands all axes but the
    first, matrices(a, b, many), which multiplies, add, scale and cast.
    """

    prims: ClassVar[Mapping[str, Callable[..., Any]]]

    def __init__(self, slots: int, each: Callable[[Instruction], None] | None = None, shares: bool = True) -> None:
        self.slots = slots
        self._each = each
        self._known: dict[Any, int] | None = {} if shares else None
        self.count = NODES  # how many nodes, or children, what is written is for
        self.code: list[Instruction] = []

    def bound(self, name: str, attrs: Mapping[str, Any], outputs: int) -> tuple[Callable[..., Any], str]:
        """An operator of the framework as a function of its tensors, and the text of its instruction."""
        raise NotImplementedError

    def add(
        self, function: Callable[..., Any], inputs: Sequence[int], text: str, outputs: int = 1, counts: bool = False
    ) -> tuple[int, ...]:
        """Adds an instruction; returns the slots of its results."""
        made = tuple(range(self.slots, self.slots + outputs))
        self.slots += outputs
        self.code.append(Instruction(function, tuple(inputs), made, text, self.count if counts else ""))
        if self._each is not None:
            self._each(self.code[-1])
        return made

    def undo(self, length: int) -> None:
        """Takes back all instructions but the first ones."""
        del self.code[length:]
        if self._known:
            self._known.clear()

    def emit(self, prim: str, vals: Sequence[Values], *static: Any) -> int:
        """Adds one of the engine's primitives, unless the same is there; returns its slot. `COUNT` is the number."""
        slots = tuple([val.slot for val in vals])
        key = (prim, slots, static, self.count)
        if self._known is not None and key in self._known:
            return self._known[key]
        counts = COUNT in static
        function = _with_count(self.prims[prim], static) if counts else _with(self.prims[prim], static)
        (found,) = self.add(function, slots, f"{prim}{static!r}", 1, counts)
        if self._known is not None:
            self._known[key] = found
        return found

    def put(self, prim: str, val: Values, *static: Any) -> Values:
        """The value as one of the engine's primitives makes it."""
        return val._replace(slot=self.emit(prim, [val], *static))

    def apply(self, function: Callable[..., Any], vals: Sequence[Values], *static: Any, outputs: int = 1) -> Any:
        """Adds `function(*tensors, *static)`; returns its slot, or several."""
        text = f"{function.__name__}{static!r}"
        made = self.add(_with(function, static) if static else function, [val.slot for val in vals], text, outputs)
        return made[0] if outputs == 1 else made

    def call(self, name: str, attrs: Mapping[str, Any], vals: Sequence[Values], outputs: int = 1) -> tuple[int, ...]:
        """Adds an operator of the framework: operands in its arguments are `Operand`; returns the results' slots."""
        function, text = self.bound(name, attrs, outputs)
        return self.add(function, [val.slot for val in vals], text, outputs)

    def result(self, name: str, attrs: Mapping[str, Any], vals: Sequence[Values]) -> Values:
        """The first value as an operator of the framework makes it of several."""
        return vals[0]._replace(slot=self.call(name, attrs, vals)[0])

    def form(self, val: Values, lead: Any, rest: Shape) -> Values:
        """The value with `lead` rows of `rest` a node. Raises NotBatchable."""
        if (val.lead, val.rest) == (lead, rest):
            return val
        if val.lead is None:
            raise NotBatchable("an operand is the same for all samples")
        if val.packed != (lead == ROWS):
            raise NotBatchable("it mixes the rows of a sample")
        return self.put("reshape", val, rest)._replace(lead=lead, rest=rest)

    def folded(self, val: Values, axes: int) -> Values:
        """The value with this many of its first axes as rows: none is a stack, (nodes, *shape)."""
        lead = ROWS if val.packed and axes == 1 else rows_of(val.shape, axes)
        return self.form(val, lead, val.shape[axes:])

    def whole(self, val: Values) -> Values:
        """The value as one row a node, whatever the shape of that is."""
        return self.form(val, 1, val.rest if val.lead == 1 else val.shape)

    def stack(self, val: Values) -> Values:
        """The value as (nodes, *shape)."""
        return self.form(val, 1, val.shape)

    def aligned(self, val: Values, rank: int) -> Values:
        """The value as (nodes, 1, ..., 1, *shape), of this many axes without that of nodes."""
        return val if val.shared else self.form(val, 1, (*(1,) * (rank - val.rank), *val.shape))

    def spread(self, val: Values) -> Values:
        """The value of each node, also where it is the same for all: as a stack then."""
        if not val.shared:
            return val
        return self.put("expand", val, COUNT, val.shape)._replace(lead=1, rest=val.shape)

    def each(self, val: Values) -> Values:
        """The value of each node as (nodes, *shape), also where it is the same for all."""
        return self.stack(self.spread(val))

    def cast(self, val: Values, dtype: str) -> Values:
        """The value with another dtype."""
        return val if val.dtype == dtype else self.put("cast", val, dtype)._replace(dtype=dtype)


def rows_of(shape: Shape, axes: int) -> Any:
    """The number of rows that the first axes of a shape are."""
    return ROWS if axes and shape[0] == ROWS else prod(shape[:axes])


def _with(function: Callable[..., Any], static: tuple[Any, ...]) -> Callable[..., Any]:
    return lambda *tensors: function(*tensors, *static)


def _with_count(function: Callable[..., Any], static: tuple[Any, ...]) -> Callable[..., Any]:
    return lambda count, *tensors: function(*tensors, *[count if each == COUNT else each for each in static])
