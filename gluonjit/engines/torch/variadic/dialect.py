"""The dialect of ATen operators on children: which add, which join tensors, which treat each row alike."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from gluonjit.engines.torch.operators.binding import Writer
from gluonjit.engines.torch.operators.losses import SUM
from gluonjit.engines.torch.operators.table import batch_op
from gluonjit.hybrid.capture.variadic.reading import Domain, Known, Listed, Sum, Unlike, Value, terms_of
from gluonjit.program.axes.values import ROWS, Values
from gluonjit.program.trace import Attrs, NotBatchable, Operand, Shaped, Trace, TraceOp, placed

_SAME = {"clone.default", "alias.default", "contiguous.default"}
_SIZED = {"view.default": "size", "_unsafe_view.default": "size", "reshape.default": "shape", "expand.default": "size"}
_REPEATS = {"repeat.default": "repeats", "expand.default": "size"}
NLL = "nll_loss_forward.default"
_BY: Attrs = (("self", Operand(0)), ("other", Operand(1)))
_SQUEEZE: Attrs = (("self", Operand(0)), ("dim", 0))


class TorchDialect:
    """Implements `gluonjit.hybrid.capture.variadic.Dialect`."""

    def plain(self, op: TraceOp) -> tuple[str, Attrs]:
        """Name and attributes as they are."""
        return op.name, op.attrs

    def folded(
        self, op: TraceOp, trace: Trace, known: Mapping[int, Known], value: Value, domain: Domain
    ) -> list[Known] | None:
        """A longer sum, the same value, values side by side, or what is done to each of those."""
        shaped = trace.shapes[op.outputs[0]]
        attrs = dict(op.attrs)
        if op.name in _SAME:
            return [known[op.inputs[0]]]
        if op.name == "add.Tensor" and attrs.get("alpha", 1) == 1 and _alike(op, trace, shaped):
            added = _added(op, attrs, known, value)
            if added is not None:
                return [added]
        listed = [known[position] for position in op.inputs]
        if any(isinstance(item, Listed) for item in listed):
            return _each(op, attrs, trace, listed, value, domain)
        if op.name in _REPEATS:
            return _repeated(op, attrs, trace, known, value, domain)
        return _joined(op, attrs, trace, value, domain)


def _alike(op: TraceOp, trace: Trace, shaped: Shaped) -> bool:
    return shaped[1].startswith(("float", "bfloat")) and all(trace.shapes[k] == shaped for k in op.inputs)


def _added(op: TraceOp, attrs: Mapping[str, Any], known: Mapping[int, Known], value: Value) -> Known | None:
    """Terms of a sum; `x + 0`, with which the built-in `sum` begins, is x."""
    if any(isinstance(known[position], Listed) for position in op.inputs):
        return None
    if len(op.inputs) == 1:
        other = attrs["other"] if attrs["self"].__class__ is Operand else attrs["self"]
        return known[op.inputs[0]] if other == 0 else None
    return Sum(tuple([term for position in op.inputs for term in terms_of(known[position], position, value)]))


def _joined(op: TraceOp, attrs: Mapping[str, Any], trace: Trace, value: Value, domain: Domain) -> list[Known] | None:
    """Tensors of one shape put together along axis 0: rows, of which each has a first axis of 1."""
    if op.name not in ("stack.default", "cat.default") or attrs.get("dim", 0) != 0:
        return None
    shapes = {trace.shapes[position] for position in op.inputs}
    if len(shapes) != 1:
        return None
    ((shape, dtype),) = shapes
    values = [value(position) for position in op.inputs]
    if op.name == "cat.default":
        return [Listed(tuple(values))] if len(shape) >= 2 and shape[0] == 1 else None
    rows = [domain.apply("unsqueeze.default", _SQUEEZE, [item], [((1, *shape), dtype)])[0] for item in values]
    return [Listed(tuple(rows))]


def _repeated(
    op: TraceOp,
    attrs: Mapping[str, Any],
    trace: Trace,
    known: Mapping[int, Known],
    value: Value,
    domain: Domain,
) -> list[Known] | None:
    """A node's value, once for each child: as rows."""
    counts = {len(item.values) for item in known.values() if isinstance(item, Listed)}
    sizes = tuple(attrs[_REPEATS[op.name]])
    shape, dtype = trace.shapes[op.inputs[0]]
    before = (*(1,) * (len(sizes) - len(shape)), *shape)
    rest = set(sizes[1:]) <= {1} if op.name == "repeat.default" else sizes[1:] in (before[1:], (-1,) * len(before[1:]))
    if len(counts) != 1 or not sizes or sizes[0] not in counts or before[0] != 1 or not rest:
        return None
    row = value(op.inputs[0])
    if len(before) == len(shape) + 1:
        row = domain.apply("unsqueeze.default", _SQUEEZE, [row], [(before, dtype)])[0]
    elif len(before) != len(shape):
        return None
    return [Listed((row,) * sizes[0])]


def _each(
    op: TraceOp, attrs: Mapping[str, Any], trace: Trace, given: Sequence[Known], value: Value, domain: Domain
) -> list[Known]:
    """Tells what an operator does to rows, each a child's: the same to each, or their sum. Raises Unlike."""
    counts = {len(item.values) for item in given if isinstance(item, Listed)}
    if len(counts) > 1:
        raise Unlike(f"{op.name} takes rows of several kinds of children")
    (count,) = counts
    if op.name == "sum.dim_IntList" and attrs.get("dim") == (0,) and attrs.get("dtype") is None:
        return [Sum(_summed(op, attrs, trace, given[0], domain))]
    if op.name == "sum.default" and attrs.get("dtype") is None:
        number = trace.shapes[op.outputs[0]]
        return [Sum(tuple([domain.apply(op.name, op.attrs, [row], [number])[0] for row in _values(given[0])]))]
    if op.name == NLL and isinstance(given[0], Listed) and isinstance(given[1], Listed):
        return _losses(op, attrs, trace, given, value, domain)
    if op.name == "unbind.int" and attrs.get("dim", 0) == 0:
        return [_without_axis(item, trace.shapes[op.outputs[0]], domain) for item in _values(given[0])]
    if op.name == "select.int" and attrs.get("dim", 0) == 0:
        return [_without_axis(_values(given[0])[attrs["index"]], trace.shapes[op.outputs[0]], domain)]
    plain = _for_each(op, attrs, trace, given, count)
    outputs = [_first_row(trace.shapes[position], count, op.name) for position in op.outputs]
    rows: list[list[Any]] = [[] for _ in op.outputs]
    others = [None if isinstance(item, Listed) else value(k) for k, item in zip(op.inputs, given)]
    for child in range(count):
        inputs = [item.values[child] if isinstance(item, Listed) else other for item, other in zip(given, others)]
        for collected, result in zip(rows, domain.apply(op.name, plain, inputs, outputs)):
            collected.append(result)
    return [Listed(tuple(collected)) for collected in rows]


def _values(known: Known) -> tuple[Any, ...]:
    return known.values if isinstance(known, Listed) else ()


def _summed(op: TraceOp, attrs: Mapping[str, Any], trace: Trace, rows: Known, domain: Domain) -> tuple[Any, ...]:
    values = _values(rows)
    if attrs.get("keepdim", False):
        return values
    return tuple([_without_axis(item, trace.shapes[op.outputs[0]], domain) for item in values])


def _losses(
    op: TraceOp, attrs: Mapping[str, Any], trace: Trace, given: Sequence[Known], value: Value, domain: Domain
) -> list[Known]:
    """Losses of rows with a class each: one by one, their sum, or that by the sum of the weights."""
    reduction, shaped = attrs["reduction"], trace.shapes[op.outputs[1]]
    number: Shaped = ((), shaped[1])
    alone = tuple([(key, SUM if key == "reduction" and reduction else item) for key, item in op.attrs])
    outputs = [number if reduction else ((1,), shaped[1]), number]
    rest = [value(position) for position in op.inputs[2:]]
    found = [
        domain.apply(op.name, alone, [score, target, *rest], outputs)
        for score, target in zip(_values(given[0]), _values(given[1]))
    ]
    weights = Sum(tuple([weight for _, weight in found]))
    if not reduction:
        return [Listed(tuple([loss for loss, _ in found])), weights]
    total = Sum(tuple([loss for loss, _ in found]))
    if reduction == SUM:
        return [total, weights]
    both = [domain.add(terms.terms, number) for terms in (total, weights)]
    return [domain.apply("div.Tensor", _BY, both, [number])[0], weights]


def _without_axis(item: Any, shaped: Shaped, domain: Domain) -> Any:
    return domain.apply("squeeze.dim", _SQUEEZE, [item], [shaped])[0]


def _first_row(shaped: Shaped, count: int, name: str) -> Shaped:
    shape, dtype = shaped
    if not shape or shape[0] != count:
        raise Unlike(f"{name} joins the values of the children into one array, and does not sum it")
    return (1, *shape[1:]), dtype


def _for_each(op: TraceOp, attrs: Mapping[str, Any], trace: Trace, given: Sequence[Known], count: int) -> Attrs:
    """The operator's arguments for a single row, where it treats rows alike. Raises Unlike."""
    if op.name in _SIZED:
        key = _SIZED[op.name]
        sizes = attrs[key]
        if len(sizes) >= 2 and sizes[0] in (count, -1) and -1 not in sizes[1:]:
            return tuple([(name, (1, *sizes[1:]) if name == key else item) for name, item in op.attrs])
    elif _treats_alike(op, trace, given):
        return op.attrs
    raise Unlike(f"{op.name} joins the values of the children into one array, and does not treat its rows alike")


def _treats_alike(op: TraceOp, trace: Trace, given: Sequence[Known]) -> bool:
    """True if an operator's row says that it leaves rows of any number as they are."""
    vals: list[Values] = []
    for position, item in zip(op.inputs, given):
        shape, dtype = trace.shapes[position]
        listed = isinstance(item, Listed)
        vals.append(Values(len(vals), shape, dtype, ROWS if listed else None, shape[1:] if listed else shape))
    args = {name: placed(value, vals) for name, value in op.attrs}
    try:
        found = batch_op(op.name, args, [trace.shapes[position] for position in op.outputs], Writer(len(vals)))
    except NotBatchable:
        return False
    return all([val.lead == ROWS for val in found])
