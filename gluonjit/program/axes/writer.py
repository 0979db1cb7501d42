"""A program under construction: instructions, and the forms in which values lie."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import isfinite, prod
from typing import Any, ClassVar

from gluonjit.program.axes.values import (
    COUNT,
    NODES,
    Instruction,
    NotBatchable,
    Shape,
    Size,
    Values,
    at_sizes,
    is_sized,
)

Function = Callable[..., Any]
"""What an instruction calls."""


class Writer:
    """Writes down the instructions of a batched program; `each` is called with every one, and may refuse it.

    An engine derives its own from it. prims: its functions reshape(x, rest) to (-1, *rest), shape(x, shape),
    permute(x, axes), expand(x, count, shape) with a new first axis of `count`, widen(x, rest), which expands all
    axes but the first, matrices(a, b, many), which multiplies, add, total(*values), divide, scale and cast. Of a
    program for nodes of any length (`sized`) also take(x, places), which gives each row at most once, put(x,
    places, clipped, count, number), rows at places among `count`, elsewhere a number, or as `clipped` has them, to
    which no gradient goes, rows(*values), one after the other, pick(x, places), spread(x, owners, begins), fill(x,
    hole, number) and begin(x, axis, size), the first entries along an axis. Such a program is given, in place of
    the number of nodes, the longest lengths by name, "#" for that number; and what it `needs` of the lengths. Where
    nodes have children, `owners` says whose each is: pick(x, owners), segments(x, owners, count, how), one for each
    number of the rows of x that have it.

    * `bound(name, attrs, outputs)`: an operator of the framework as a function of its tensors, and the text of its
      instruction.
    """

    bound: Callable[..., tuple[Function, str]]
    device = ""
    sized = padded = False  # whether it is for any length, and whether operands are padded now
    used: Sequence[bool] = ()  # which results of the operator that is written anything takes

    prims: ClassVar[Mapping[str, Function]]
    owners: tuple[Values, ...] = ()

    def __init__(self, slots: int, each: Callable[[Instruction], None] | None = None, shares: bool = True) -> None:
        self.slots = slots
        self._each = each
        self._known: dict[Any, int] | None = {} if shares else None
        self.needs: dict[Any, int] = {}
        self.sources: dict[int, Callable[[Any], Values]] = {}  # of padded values, the same with another fill
        self.count = NODES  # how many nodes, or children, what is written is for
        self.code: list[Instruction] = []

    def add(
        self, function: Function, inputs: Sequence[int], text: str, outputs: int = 1, counts: bool = False
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
        slots = tuple(val.slot for val in vals)
        key = (prim, slots, static, self.count)
        if self._known is not None and key in self._known:
            return self._known[key]
        counts = is_sized(static)
        if counts:
            function = (_with_sizes if self.sized else _with_count)(self.prims[prim], static)
        else:
            function = _with(self.prims[prim], static)
        (found,) = self.add(function, slots, f"{prim}{static!r}", 1, counts)
        if self._known is not None:
            self._known[key] = found
        return found

    def put(self, prim: str, val: Values, *static: Any) -> Values:
        """The value as one of the engine's primitives makes it."""
        return val._replace(slot=self.emit(prim, [val], *static))

    def apply(self, function: Function, vals: Sequence[Values], *static: Any, outputs: int = 1) -> Any:
        """Adds `function(*tensors, *static)`; returns its slot, or several."""
        text = f"{function.__name__}{static!r}"
        made = self.add(_with(function, static) if static else function, [val.slot for val in vals], text, outputs)
        return made[0] if outputs == 1 else made

    def call(self, name: str, attrs: Mapping[str, Any], vals: Sequence[Values], outputs: int = 1) -> tuple[int, ...]:
        """Adds an operator of the framework: operands in its arguments are `Operand`; returns the results' slots.

        Raises NotBatchable if a number differs by node.
        """
        if self.sized and any(map(is_sized, attrs.values())):
            raise NotBatchable(f"{name}: of numbers that differ")
        function, text = self.bound(name, attrs, outputs)
        return self.add(function, [val.slot for val in vals], text, outputs)

    def longest(self, name: str, attrs: Mapping[str, Any], vals: Sequence[Values]) -> int:
        """Adds an operator of the framework with the longest lengths in the place of sizes."""

        def run(lengths: Mapping[Any, int], *tensors: Any) -> Any:
            given = {key: at_sizes(value, lengths) for key, value in attrs.items()}
            return self.bound(name, given, 1)[0](*tensors)

        return self.add(run, [val.slot for val in vals], f"{name}{attrs!r}", 1, True)[0]

    def need(self, *key: Any) -> Values:
        """The slot of an array that follows from the lengths of the nodes: see `lengths.nodes`. Raises NotBatchable."""
        if not self.sized:
            raise NotBatchable("an operand of a fixed number of rows, where others vary")
        slot = self.needs.get(key)
        if slot is None:
            slot = self.needs[key] = self.slots
            self.slots += 1
        return Values(slot, (), "", None, ())

    def of_arrays(self, name: str, key: str) -> str:
        """The operator that takes an array where this one takes a number as this argument. Raises NotBatchable."""
        raise NotBatchable(f"{name}: of numbers that differ")

    def result(self, name: str, attrs: Mapping[str, Any], vals: Sequence[Values]) -> Values:
        """The first value as an operator of the framework makes it of several."""
        return vals[0]._replace(slot=self.call(name, attrs, vals)[0])

    def form(self, val: Values, lead: Any, rest: Shape) -> Values:
        """The value with `lead` rows of `rest` a node. Raises NotBatchable."""
        if (val.lead, val.rest) == (lead, rest):
            return val
        if val.lead is None:
            raise NotBatchable("an operand is the same for all samples")
        if val.packed or lead.__class__ is Size:
            fits = not is_sized(rest) and val.lead * prod(val.rest) == lead * prod(rest)
        else:
            fits = not val.padded or blocks((val.lead, *val.rest)) == blocks((lead, *rest))
        if not fits:
            raise NotBatchable("it mixes the rows of a sample")
        return self.put("reshape", val, rest)._replace(lead=lead, rest=rest)

    def folded(self, val: Values, axes: int) -> Values:
        """The value with this many of its first axes as rows: none is a stack, (nodes, *shape)."""
        lead = prod(val.shape[:axes])
        if val.packed and axes == 1 and not is_sized(lead):
            lead = val.lead  # of which the shape has that of one trace
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

    def gathered(self, val: Values, how: str) -> Values:
        """One value for each node of one row for each of its children."""
        return val._replace(slot=self.emit("segments", [val, *self.owners], COUNT, how))

    def cast(self, val: Values, dtype: str) -> Values:
        """The value with another dtype."""
        return val if val.dtype == dtype else self.put("cast", val, dtype)._replace(dtype=dtype)

    def filled(self, val: Values, axes: Sequence[int], number: Any) -> Values:
        """The value as a stack, with a number wherever padding is along these axes."""
        number = _of_dtype(number, val.dtype)
        if val.holds(number, axes):
            return val
        if val.slot in self.sources and val.sized(axes) == val.sized():
            return self.sources[val.slot](number)._replace(shape=val.shape)
        found = self.stack(self.spread(val))
        for axis in axes:
            hole = self.need("hole", val.shape[axis], axis, val.rank - axis - 1)
            found = found._replace(slot=self.emit("fill", [found, hole], number))
        return found._replace(fill=(number, val.sized(axes)))

    def rows_each(self, val: Values, lead: Any) -> Values:
        """The value of each node once for each of its rows, of which there are `lead`."""
        one = self.whole(val)
        slot = self.emit("spread", [one, self.need("owners", lead), self.need("begins", lead)])
        return one._replace(slot=slot, lead=lead)

    def rows_of(self, val: Values, axes: int) -> Values:
        """The rows along so many first axes of each node, be they the same for all. Raises NotBatchable."""
        front, back = val.shape[:axes], val.shape[axes:]
        if val.shared and is_sized(front):
            return self.each_row(val, front, back)
        return self.form(self.spread(val), prod(front), back)

    def each_row(self, val: Values, front: Shape, back: Shape) -> Values:
        """The rows of what is as long as the longest and the same for all nodes, as many as each has."""
        rows = self.put("reshape", val, back)
        slot = self.emit("pick", [rows, self.need("within", front)])
        return val._replace(slot=slot, lead=prod(front), rest=back)


def blocks(shape: Sequence[Any]) -> list[Any]:
    """The sizes of a shape, and how many elements lie between them."""
    found, between = [], 1
    for size in shape:
        if size.__class__ is Size:
            found += [between, size]
            between = 1
        else:
            between *= size
    return [*found, between]


def _of_dtype(number: Any, dtype: str) -> Any:
    """A number, of a dtype that has no infinity the largest or the smallest. Raises NotBatchable."""
    if dtype == "bool":
        return number > 0
    if dtype.startswith(("float", "bfloat")) or number == 0:
        return number
    bits = int("".join(filter(str.isdigit, dtype)))
    if dtype.startswith("complex"):
        raise NotBatchable(f"numbers of {dtype} have no order")
    if dtype.startswith("uint"):
        return 0 if number < 0 else 2**bits - 1
    if isfinite(number):
        return number
    return -(2 ** (bits - 1)) if number < 0 else 2 ** (bits - 1) - 1


def _with(function: Function, static: tuple[Any, ...]) -> Function:
    return lambda *tensors: function(*tensors, *static)


def _with_count(function: Function, static: tuple[Any, ...]) -> Function:
    place = static.index(COUNT)
    return lambda count, *tensors: function(*tensors, *static[:place], count, *static[place + 1 :])


def _with_sizes(function: Function, static: tuple[Any, ...]) -> Function:
    return lambda lengths, *tensors: function(*tensors, *at_sizes(static, lengths))


def compiled(code: Sequence[Instruction], inputs: Sequence[int], finals: Sequence[int]) -> Function:
    """The instructions as one function: (count, *inputs) gives the final slots."""
    used = {slot for step in code for slot in step.inputs} | set(finals)
    last = {slot: number for number, step in enumerate(code) for slot in step.inputs}
    scope: dict[str, Any] = {}
    lines = [f"def run(count, {', '.join(f'v{slot}' for slot in inputs)}):"]
    for number, step in enumerate(code):
        scope[f"f{number}"] = step.function
        targets = ", ".join(f"v{slot}" if slot in used else "_" for slot in step.outputs)
        given = [*([step.counts] if step.counts else []), *(f"v{slot}" for slot in step.inputs)]
        lines.append(f"    {targets} = f{number}({', '.join(given)})")
        gone = {slot for slot in step.inputs if last[slot] == number}.difference(inputs, finals)
        if gone:
            lines.append(f"    del {', '.join(f'v{slot}' for slot in sorted(gone))}")
    lines.append(f"    return [{', '.join(f'v{slot}' for slot in finals)}]")
    exec("\n".join(lines), scope)
    return scope["run"]  # type: ignore[no-any-return]
