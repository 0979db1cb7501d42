"""The form that traces have in common which differ in sizes alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from gluonjit.graph.values import intern_spec, mode_of
from gluonjit.program.axes.row import rows_before
from gluonjit.program.axes.values import Number, Operand, Shaped, Size
from gluonjit.program.sizes import Leaf, NamedSizes
from gluonjit.program.trace import Trace, TraceOp


class Form(NamedSizes):
    """Such a form: shapes and arguments with sizes in the place of what differs.

    shapes: shape and dtype of each position; ops: the operators.
    """

    def __init__(
        self, trace: Trace, other: Trace, equal: Callable[[Any, Any], bool], is_view: Callable[[str], bool]
    ) -> None:
        """Compares two traces; `is_view` says of operators that they only give another shape. Raises OtherForm."""
        super().__init__(trace, other, equal)
        for op in trace.ops:
            if is_view(op.name):
                self._relate(op.inputs[0], op.outputs[0])
        self.shapes: list[Shaped] = [(self.sized(position), dtype) for position, (_, dtype) in enumerate(trace.shapes)]
        self.ops = [op._replace(attrs=self._attrs(op)) if self.is_numbered(op) else op for op in trace.ops]

    def size(self, length: int) -> Any:
        """A length as the size that it is: a product of others, or itself."""
        return self.products.get(length, Size(length))

    def sized(self, position: int) -> tuple[Any, ...]:
        """The shape of a value, with sizes."""
        shape, sizes = self.trace.shapes[position][0], self.sizes
        return tuple(
            [self.size(sizes[position, axis]) if (position, axis) in sizes else size for axis, size in enumerate(shape)]
        )

    def laid(self, trace: Trace) -> Trace:
        """A trace of the form with operands that lie up to the last axis that differs as rows."""
        operands = list(self.trace.operands)
        for position, spec in enumerate(trace.operands):
            axes = rows_before(self.shapes[position][0])
            if axes:
                operands[position] = intern_spec(spec.shape, spec.dtype, spec.device, mode_of(axes))
        return replace(trace, operands=tuple(operands))

    def weights(self, trace: Trace) -> list[Any]:
        """The constants of a trace of the form that all members share."""
        return [array for position, array in trace.constants() if position not in self.own]

    def is_numbered(self, op: TraceOp) -> bool:
        """True if arguments of an operator differ."""
        return any([leaf[0] == op.outputs[0] for leaf in self.numbers])

    def _relate(self, given: int, made: int) -> None:
        """Finds a length that is a product of others, as one axis of a view is of several."""
        for one, other in ((given, made), (made, given)):
            mine = [self.sizes[one, axis] for axis in self.axes(one)]
            theirs = self.sized(other)
            known = {length for size in theirs if size.__class__ is Size for length in size.lengths}
            fresh = [length for length in mine if length not in known and length not in self.products]
            if len(fresh) == 1 and mine.count(fresh[0]) == 1:
                rest = [size for size in self.sized(one) if size != Size(fresh[0])]
                found = _quotient(theirs, rest)
                if found is not None:
                    self.products[fresh[0]] = found
                    self.products = {key: self._again(size) for key, size in self.products.items()}
                    return

    def _again(self, size: Size) -> Any:
        found: Any = size.times
        for length in size.lengths:
            found = found * self.size(length)
        return found

    def _attrs(self, op: TraceOp) -> tuple[tuple[str, Any], ...]:
        return tuple([(name, self._argument((op.outputs[0], name), value)) for name, value in op.attrs])

    def _argument(self, leaf: Leaf, value: Any) -> Any:
        if value.__class__ is tuple:
            return tuple([self._argument((*leaf, place), item) for place, item in enumerate(value)])
        if leaf not in self.numbers or value.__class__ is Operand:
            return value
        length = self.numbers[leaf]
        return Number(leaf) if length is None else self.size(length)


def number_of(trace: Trace, leaf: Leaf) -> Any:
    """The number that is this argument in a trace."""
    position, name, *places = leaf
    found = next(dict(op.attrs)[name] for op in trace.ops if op.outputs[0] == position)
    for place in places:
        found = found[place]
    return found


def _quotient(shape: tuple[Any, ...], rest: list[Any]) -> Any:
    """A size that makes `rest` as many elements as a shape has; None if there is none."""
    whole, part = _product(shape), _product(rest)
    lengths = list(whole.lengths)
    for length in part.lengths:
        if length not in lengths:
            return None
        lengths.remove(length)
    times, left = divmod(whole.times, part.times) if part.times else (0, 1)
    return Size(*lengths, times=times) if lengths and times and not left else None


def _product(shape: Any) -> Size:
    found = Size()
    for size in shape:
        found = found * size or Size(times=0)
    return found
