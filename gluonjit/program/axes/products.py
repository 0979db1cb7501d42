"""Products, summed over axes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any, NamedTuple

from gluonjit.program.axes.row import Application, Row
from gluonjit.program.axes.values import COUNT, Labels, Values
from gluonjit.program.axes.writer import Writer

_NODE = "#"
"""The label of the axis of nodes."""


class _Factor(NamedTuple):
    """An operand as it lies, with a label for each axis of the tensor."""

    val: Values
    labels: list[Any]
    shape: tuple[Any, ...]


class Contract(Row):
    """Two operands, multiplied and summed over axes, and one that is added to them.

    spec: labels of the operands and the result as einsum has them, "+" before what is added; scales: how much of the
    product counts, and of what is added; each: the operator itself takes two operands that differ by node; real: the
    operator conjugates.
    """

    said = "products with a weight on all rows of all samples, others as batched products"

    def __init__(
        self,
        spec: str,
        scales: Callable[[Application], tuple[Any, Any]] = lambda call: (1, 1),
        each: bool = False,
        real: bool = False,
        **common: Any,
    ) -> None:
        super().__init__(**common)
        before, self.out = spec.split("->")
        self.ins = before.split(",")
        self.scales = scales
        self.each, self.real = each, real

    @property
    def plus(self) -> int | None:
        """The place of what is added."""
        return next((k for k, labels in enumerate(self.ins) if labels[:1] == "+"), None)

    def labels(self, call: Application) -> Labels:
        """The labels of the specification; axes of one entry of what is added are broadcast."""
        ins: list[list[Any]] = [list(labels) for labels in self.ins]
        if self.plus is not None:
            shape = call.vals[self.plus].shape
            wanted = call.shape[len(call.shape) - len(shape) :]
            names = self.out[len(self.out) - len(shape) :] if shape else ""
            ins[self.plus] = [None if one == 1 != two else name for name, one, two in zip(names, shape, wanted)]
        return Labels(ins, [list(self.out)], set(self.out))

    def lift(self, call: Application) -> list[Values]:
        """Writes down the call: with a weight as one product of all rows."""
        if self.real and any(["complex" in val.dtype for val in call.vals]):
            raise call.refuse("of complex numbers")
        labels = self.labels(call)
        factors = [k for k in range(len(call.vals)) if k != self.plus]
        differ = [k for k in factors if not call.vals[k].shared]
        folds = [axes for axes in self.folds(call, labels) if axes]
        if folds and (len(differ) == 1 or (self.each and len(differ) == len(factors))):
            vals = [val if val.shared else call.writer.folded(val, 1) for val in call.vals]
            return call.made(call.again(vals), 1)
        if any([val.packed for val in call.vals]):
            raise call.refuse("it mixes the rows of a sample")
        total = self.product(call, [_factor(call.writer, call.vals[k], labels.ins[k]) for k in factors])
        return [self.added(call, total)]

    def added(self, call: Application, total: Values) -> Values:
        """The product, scaled, with what is added to it."""
        writer, (product, other) = call.writer, self.scales(call)
        if product != 1:
            total = total._replace(slot=writer.emit("scale", [total], product))
        if self.plus is None:
            return total
        plus = writer.aligned(call.vals[self.plus], len(self.out))
        if other != 1:
            plus = plus._replace(slot=writer.emit("scale", [plus], other))
        if not total.shared and not (plus.shared and plus.rank < 2):
            total = writer.stack(total)
        slot = writer.emit("add", [total, plus])
        return total._replace(slot=slot) if plus.shared else Values(slot, *call.outs[0], 1, call.shape)

    def product(self, call: Application, factors: list[_Factor]) -> Values:
        """Two operands as matrices, whatever their axes: one product of all nodes, or one for each node."""
        writer = call.writer
        differ = any([not factor.val.shared for factor in factors])
        whole = [*([_NODE] if differ else []), *self.out]
        names = [factor.labels for factor in factors]
        both = [label for label in whole if label in names[0] and label in names[1]]
        own = [[label for label in whole if label in each and label not in both] for each in names]
        gone = [label for label in names[0] if label in names[1] and label not in whole]
        if own[1] and (not own[0] or whole.index(own[1][0]) < whole.index(own[0][0])):
            factors, own = factors[::-1], own[::-1]
        sizes = {label: size for factor in factors for label, size in zip(factor.labels, factor.shape)}
        pair = [
            _matrix(writer, factors[0], [both, own[0], gone], sizes),
            _matrix(writer, factors[1], [both, gone, own[1]], sizes),
        ]
        slot = writer.emit("matrices", pair, bool(both))
        return _shaped(call, slot, [both, *own], whole, sizes)


def _factor(writer: Writer, val: Values, labels: Sequence[Any]) -> _Factor:
    if val.shared:
        return _Factor(val, list(labels), val.shape)
    return _Factor(writer.stack(val), [_NODE, *labels], (COUNT, *val.shape))


def _matrix(writer: Writer, factor: _Factor, groups: list[list[Any]], sizes: dict[Any, Any]) -> Values:
    """Axes in this order, each group as one axis; none for the first if it is empty."""
    val = factor.val
    order = [label for group in groups for label in group]
    if order != factor.labels:
        val = val._replace(slot=writer.emit("permute", [val], tuple(map(factor.labels.index, order))))
    kept = groups if groups[0] else groups[1:]
    if all([len(group) == 1 for group in kept]):
        return val
    return val._replace(slot=writer.emit("shape", [val], _sizes(kept, sizes)))


def _sizes(groups: list[list[Any]], sizes: dict[Any, Any]) -> tuple[Any, ...]:
    """The size of each group as one axis, -1 for that which has the nodes."""
    return tuple([-1 if _NODE in group else prod([sizes[label] for label in group]) for group in groups])


def _shaped(call: Application, slot: int, groups: list[list[Any]], whole: list[Any], sizes: dict[Any, Any]) -> Values:
    """The product of matrices as a value of the nodes: as rows where it has no axis of many matrices."""
    writer, (both, first, second) = call.writer, groups
    order = both + first + second
    shape, dtype = call.outs[0]
    split = all([len(group) == 1 for group in (groups if both else groups[1:])])
    found = Values(slot, shape, dtype, 1 if _NODE in whole else None, shape)
    if order == whole and not both and len(second) == 1 and not found.shared and not split:
        return found._replace(lead=prod(shape[:-1]), rest=shape[-1:])
    if not split:
        found = found._replace(slot=writer.emit("shape", [found], _sizes([[label] for label in order], sizes)))
    if order != whole:
        found = found._replace(slot=writer.emit("permute", [found], tuple(map(order.index, whole))))
    return found
