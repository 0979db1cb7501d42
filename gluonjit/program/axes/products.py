"""Products, summed over axes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any, NamedTuple

from gluonjit.program.axes.row import Application, Row, mixed_axes
from gluonjit.program.axes.values import COUNT, Labels, Values, is_sized
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

    spec: labels of the operands and the result as einsum has them, "+" before what is added, or a function that gives
    them; scales: how much of the product counts, and of what is added; each: the operator itself takes two operands
    that differ by node; rows: it takes the rows of all nodes; real: it conjugates.
    """

    kind, said = "product", "products with a weight on all rows of all samples, others as batched products"

    spec: str | Callable[[Application], str]
    scales: Callable[[Application], tuple[Any, Any]] = staticmethod(lambda call: (1, 1))
    each: bool = False
    rows: bool = True
    real: bool = False

    def labels(self, call: Application) -> Labels:
        """The labels of the specification; axes of one entry of what is added are broadcast."""
        terms, out = self.terms(call)
        ins: list[list[Any]] = [list(labels) for labels in terms]
        plus = _plus(terms)
        if plus is not None:
            shape = call.vals[plus].shape
            wanted = call.shape[len(call.shape) - len(shape) :]
            names = out[len(out) - len(shape) :] if shape else ""
            ins[plus] = [None if one == 1 != two else name for name, one, two in zip(names, shape, wanted)]
        return Labels(ins, [list(out)], set(out))

    def terms(self, call: Application) -> tuple[list[str], str]:
        """The labels of the operands, and of the result."""
        before, out = (self.spec if isinstance(self.spec, str) else self.spec(call)).split("->")
        return before.split(","), out

    def lift(self, call: Application) -> list[Values]:
        """Writes down the call: with a weight as one product of all rows."""
        if self.real and any("complex" in val.dtype for val in call.vals):
            raise call.refuse("of complex numbers")
        labels = self.labels(call)
        plus = _plus(self.terms(call)[0])
        factors = [k for k in range(len(call.vals)) if k != plus]
        differ = [k for k in factors if not call.vals[k].shared]
        if call.writer.padded:
            self.clean(call, labels, factors)
        folds = self.rows and 1 in self.folds(call, labels)
        if folds and (len(differ) == 1 or (self.each and len(differ) == len(factors))):
            vals = [val if val.shared else call.writer.folded(val, 1) for val in call.vals]
            return call.made(call.again(vals), 1)
        if any(val.packed for val in call.vals):
            raise call.mixed_rows
        found = [_factor(call.writer, call.vals[k], labels.ins[k]) for k in factors]
        return [self.added(call, self.product(call, found, labels.outs[0]), plus)]

    def clean(self, call: Application, labels: Labels, factors: Sequence[int]) -> None:
        """Puts zeros where padding is along axes that are summed over, into one factor, and into others for nothing."""
        writer, vals = call.writer, call.vals
        mixed = {k: mixed_axes(vals[k], labels.ins[k], labels) for k in factors}
        held = any(mixed[k] and vals[k].holds(0, mixed[k]) for k in factors)
        for k in sorted(factors, key=lambda k: vals[k].slot not in writer.sources):
            if mixed[k] and (not held or vals[k].slot in writer.sources):
                vals[k] = writer.filled(vals[k], mixed[k], 0)
                held = True

    def added(self, call: Application, total: Values, place: int | None) -> Values:
        """The product, scaled, with the operand at this place added to it."""
        writer, (product, other) = call.writer, self.scales(call)
        if product != 1:
            total = writer.put("scale", total, product)
        if place is None:
            return total
        plus = writer.aligned(call.vals[place], len(call.shape))
        if other != 1:
            plus = writer.put("scale", plus, other)
        if not total.shared and not (plus.shared and plus.rank < 2):
            total = writer.stack(total)
        slot = writer.emit("add", [total, plus])
        return total._replace(slot=slot) if plus.shared else Values(slot, *call.outs[0], 1, call.shape)

    def product(self, call: Application, factors: list[_Factor], out: list[Any]) -> Values:
        """Two operands as matrices, whatever their axes: one product of all nodes, or one for each node."""
        writer = call.writer
        differ = any(not factor.val.shared for factor in factors)
        whole = [*([_NODE] if differ else []), *out]
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


def _plus(terms: Sequence[str]) -> int | None:
    """The place of what is added."""
    return next((k for k, labels in enumerate(terms) if labels[:1] == "+"), None)


def _factor(writer: Writer, val: Values, labels: Sequence[Any]) -> _Factor:
    if val.shared:
        return _Factor(val, list(labels), val.shape)
    return _Factor(writer.stack(val), [_NODE, *labels], (COUNT, *val.shape))


def _matrix(writer: Writer, factor: _Factor, groups: list[list[Any]], sizes: dict[Any, Any]) -> Values:
    """Axes in this order, each group as one axis; none for the first if it is empty."""
    val = factor.val
    order = [label for group in groups for label in group]
    if order != factor.labels:
        val = writer.put("permute", val, tuple(map(factor.labels.index, order)))
    kept = groups if groups[0] else groups[1:]
    if all(len(group) == 1 for group in kept):
        return val
    return writer.put("shape", val, _sizes(kept, sizes))


def _sizes(groups: list[list[Any]], sizes: dict[Any, Any]) -> tuple[Any, ...]:
    """The size of each group as one axis, -1 for that which has the nodes."""
    return tuple(-1 if _NODE in group else prod([sizes[label] for label in group]) for group in groups)


def _shaped(call: Application, slot: int, groups: list[list[Any]], whole: list[Any], sizes: dict[Any, Any]) -> Values:
    """The product of matrices as a value of the nodes: as rows where it has no axis of many matrices."""
    writer, (both, first, second) = call.writer, groups
    order = both + first + second
    shape, dtype = call.outs[0]
    split = all(len(group) == 1 for group in (groups if both else groups[1:]))
    rest = shape if len(whole) > 1 else ()  # whatever the framework says the shape of a number is
    found = Values(slot, shape, dtype, 1, rest) if _NODE in whole else Values(slot, shape, dtype, None, shape)
    if order == whole and not both and len(second) == 1 and not found.shared and not split and not is_sized(shape):
        return found._replace(lead=prod(shape[:-1]), rest=shape[-1:])
    if not split:
        found = writer.put("shape", found, _sizes([[label] for label in order], sizes))
    if order != whole:
        found = writer.put("permute", found, tuple(map(order.index, whole)))
    return found
