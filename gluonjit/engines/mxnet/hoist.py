"""Products of a cell that depend on one operand from outside the recursion run before it.

The operand of such a product is a row of an input: a word's vector, say. Split from the cell it becomes a separate
node, one for equal rows, and all of them run in one step, for any depth in the recursion. (The first call of a cell
decides this. If a later call passes a computed value there, the product runs right after it: one launch more, the same
result.)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from gluonjit.engines.mxnet.program import build
from gluonjit.engines.mxnet.trace import Recorder
from gluonjit.engines.mxnet.work import work_of
from gluonjit.graph import Kind, intern_spec, natural_mode
from gluonjit.program.trace import TraceOp

_PRODUCTS = {"FullyConnected"}


class Cut(NamedTuple):
    """The rest of a trace, which of its operands that still needs, and the products cut out."""

    rest: Recorder
    results: list[int]
    kept: tuple[int, ...]
    products: tuple[tuple[int, TraceOp], ...]  # (operand, product of it with constants)

    @property
    def origins(self) -> tuple[tuple[int, int], ...]:
        """The source of each operand of the rest, which it is or is a product of, and how many such stand before it."""
        sources = [*self.kept, *[operand for operand, _ in self.products]]
        return tuple([(operand, sources[:number].count(operand)) for number, operand in enumerate(sources)])


def cut(trace: Recorder, results: Sequence[int], leaves: Sequence[bool]) -> Cut | None:
    """Cuts the products of leaf operands out of a trace; None if there are none, or nothing else.

    `leaves` says which operands are rows of inputs.
    """
    constants = {position for position, _ in trace.consts}
    products = []
    for operand, is_leaf in enumerate(leaves):
        users = [op for op in trace.ops if operand in op.inputs]
        plain = all(
            op.name in _PRODUCTS and op.inputs[0] == operand and constants.issuperset(op.inputs[1:]) for op in users
        )
        if is_leaf and users and plain and trace.operands[operand].rows == 1:
            products += [(operand, op) for op in users]
    cut_ops = {op.outputs for _, op in products}
    if not products or len(cut_ops) == len(trace.ops):
        return None
    gone = {operand for operand, _ in products}
    kept = tuple(operand for operand in range(len(leaves)) if operand not in gone)
    return _without(trace, results, kept, tuple(products))


def _without(
    trace: Recorder, results: Sequence[int], kept: tuple[int, ...], products: tuple[tuple[int, TraceOp], ...]
) -> Cut | None:
    """The trace with products as operands, its positions counted anew."""
    sources = [*kept, *(op.outputs[0] for _, op in products)]
    shapes = [trace.shapes[position] for position in sources]
    device = trace.device
    specs = [
        trace.operands[position]
        if position < len(trace.operands)
        else intern_spec(shape, dtype, device, natural_mode(shape))
        for position, (shape, dtype) in zip(sources, shapes)
    ]
    rest = Recorder(specs, trace.mode)
    place = {position: number for number, position in enumerate(sources)}
    ops = [op for op in trace.ops if op.outputs[0] not in place]
    used = {position for op in ops for position in op.inputs} | set(results)
    for position, array in trace.consts:
        if position in used:
            place[position] = len(rest.shapes)
            rest.consts.append((len(rest.shapes), array))
            rest.shapes.append(trace.shapes[position])
    for op in ops:
        first = len(rest.shapes)
        for number, position in enumerate(op.outputs):
            place[position] = first + number
            rest.shapes.append(trace.shapes[position])
        outputs = tuple(place[position] for position in op.outputs)
        rest.ops.append(TraceOp(op.name, op.attrs, tuple(place[position] for position in op.inputs), outputs))
    if any(position not in place for position in results):
        return None
    return Cut(rest, [place[position] for position in results], kept, products)


def product_kind(trace: Recorder, operand: int, op: TraceOp, name: str) -> Kind:
    """The kind of a product that was cut out. Raises rules.NotBatchable."""
    spec = trace.operands[operand]
    alone = Recorder([spec], trace.mode)
    inputs = [0]
    arrays: dict[int, Any] = dict(trace.consts)
    for position in op.inputs[1:]:
        inputs.append(len(alone.shapes))
        alone.consts.append((len(alone.shapes), arrays[position]))
        alone.shapes.append(trace.shapes[position])
    alone.shapes.append(trace.shapes[op.outputs[0]])
    result = len(alone.shapes) - 1
    alone.ops.append(TraceOp(op.name, op.attrs, tuple(inputs), (result,)))
    built = build(alone, [result])
    return Kind(
        f"{name}: {op.name} of leaves",
        (spec,),
        built.outputs,
        built.rows,
        built.program,
        work=work_of(alone, built.program.operators),
    )
