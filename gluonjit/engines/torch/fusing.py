"""From the operators of a traced program to a fused program (see `gluonjit.rows`), if each has an instruction."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from gluonjit.engines.torch.fusing_operators import OPERATORS, two
from gluonjit.engines.torch.fusing_values import Anything, Const, IntegerColumn, RowMatrix, rows_in
from gluonjit.engines.torch.program import program_of
from gluonjit.graph import Kind
from gluonjit.hybrid.capture.variadic.program import ADD_UP, GATHER_UP, SPREAD, Variadic
from gluonjit.hybrid.capture.variadic.program import CHILD as OF_CHILD
from gluonjit.hybrid.capture.variadic.roles import Roles
from gluonjit.program.trace import Operand, Trace
from gluonjit.rows.program import CHILD, NODE, Builder, NotFusable, RowProgram, View, Weight


def row_program(kind: Kind) -> RowProgram:
    """The program of the nodes of a kind. Raises NotFusable."""
    program = program_of(kind)
    if program.by_length:
        raise NotFusable("operands of any length")
    if any(spec.device != "cpu" for spec in kind.operands) or not all(map(_plain, program.consts)):
        raise NotFusable("tensors that are not float32, or not in the host's memory")
    if program.variadic is not None:
        variadic, roles = program.variadic
        return _fused_variadic(kind, variadic, roles, program.consts)
    return _fused_program(kind, program.trace, program.consts)


def _plain(tensor: Any) -> bool:
    return str(tensor.dtype) == "torch.float32" and tensor.device.type == "cpu" and bool(tensor.is_contiguous())


def _fused_program(kind: Kind, trace: Trace, consts: Sequence[Any]) -> RowProgram:
    """The program of a trace for the nodes of a kind. Raises NotFusable."""
    builder = Builder()
    if _sums_rows(kind, trace):
        return builder.finish([builder.gather_up(_operand(builder, kind.operands[0], CHILD))])
    values: dict[int, Anything] = {}
    for group in kind.groups:
        for (position,) in group:
            spec = trace.operands[position]
            lead = kind.poly and spec.mode == "rows"
            if not lead and spec.rows != 1:
                raise NotFusable("an operand of several rows")
            values[position] = RowMatrix(_operand(builder, spec, NODE), spec.shape, lead)
    for position, value in values.items():
        if trace.operands[position].dtype == "int64":
            values[position] = _whole(builder, value)
    for number, tensor in enumerate(consts):
        values[len(trace.operands) + number] = _constant(number, tensor)
    for op in trace.ops:
        found = _applied(builder, op, [values[position] for position in op.inputs], trace.shapes)
        values.update(zip(op.outputs, found))
    return _finished(builder, [values[position] for position in trace.results])


def _fused_variadic(kind: Kind, variadic: Variadic, roles: Roles, consts: Sequence[Any]) -> RowProgram:
    """The program of a variadic trace, for nodes with any number of children. Raises NotFusable."""
    builder = Builder()
    values: dict[int, Anything] = {}
    for number, spec in variadic.operands(kind.operands, roles._replace(roles=kind.children)):
        child = variadic.spaces[number] == OF_CHILD
        if not child and spec.rows != 1:
            raise NotFusable("an operand of several rows")
        values[number] = RowMatrix(_operand(builder, spec, CHILD if child else NODE), variadic.shapes[number][0])
    for number, value in values.items():
        if variadic.shapes[number][1] == "int64" and variadic.spaces[number] != OF_CHILD:
            values[number] = _whole(builder, value)
    for k, number in enumerate(variadic.constants()):
        values[number] = _constant(k, consts[k])
    for op in variadic.ops:
        inputs = [values[number] for number in op.inputs]
        if op.name in (SPREAD, GATHER_UP):
            (given,) = inputs
            if isinstance(given, Const):
                if op.name == GATHER_UP:
                    raise NotFusable("a sum of a constant over children")
                values[op.outputs[0]] = given
                continue
            view = builder.spread(given.view) if op.name == SPREAD else builder.gather_up(given.view)
            values[op.outputs[0]] = given._replace(view=view)
        elif op.name == ADD_UP:
            total = inputs[0]
            for other in inputs[1:]:
                total = two(builder, "ADD", total, other, variadic.shapes[op.outputs[0]][0])
            values[op.outputs[0]] = total
        else:
            values.update(zip(op.outputs, _applied(builder, op, inputs, variadic.shapes)))
    return _finished(builder, [values[number] for number in variadic.results])


def _sums_rows(kind: Kind, trace: Trace) -> bool:
    """Tells whether all that is done is to add up the rows of the one operand."""
    if len(kind.operands) != 1 or kind.poly:
        return False
    if [(output.spec.rows, output.spec.dtype) for output in kind.outputs] != [(1, kind.operands[0].dtype)]:
        return False  # the sum of tensors of several rows has as many
    if kind.sum_of or len(trace.ops) != 1:
        return kind.sum_of > 1
    (op,), (spec,) = trace.ops, kind.operands
    dims = dict(op.attrs).get("dim") or tuple(range(len(spec.shape)))
    return op.name in ("sum.default", "sum.dim_IntList") and spec.mode == "rows" and tuple(dims) == (0,)


def _operand(builder: Builder, spec: Any, space: int) -> View:
    if spec.dtype == "int64" and prod(spec.row_shape) == 1 and space == NODE:
        return builder.operand(space, 2)  # which has 64 bits
    if spec.dtype != "float32" or not prod(spec.row_shape):
        raise NotFusable(f"an operand of {spec.dtype}")
    return builder.operand(space, prod(spec.row_shape))


def _whole(builder: Builder, value: RowMatrix) -> IntegerColumn:
    """An integer of each node. Raises NotFusable if there are any number of them."""
    if value.lead:
        raise NotFusable("an operand of int64 with several rows")
    return IntegerColumn(builder.emit("WHOLE", value.view, width=1), value.shape, value.view.reg)


def _constant(number: int, tensor: Any) -> Const:
    shape = tuple(tensor.shape)
    if not 1 <= len(shape) <= 2 or not prod(shape) or not tensor.is_contiguous():
        raise NotFusable(f"a constant of shape {shape}")
    rows, columns = shape if len(shape) == 2 else (1, shape[0])
    return Const(Weight(number, 0, rows, 0, columns), shape)


def _applied(builder: Builder, op: Any, inputs: Sequence[Anything], shapes: Sequence[Any]) -> Sequence[Anything]:
    rule = OPERATORS.get(op.name)
    if rule is None:
        raise NotFusable(f"{op.name} has no instruction")
    args = {name: _placed(value, inputs) for name, value in op.attrs}
    found = rule(builder, args, [shapes[position][0] for position in op.outputs])
    return found if isinstance(found, list) else [found]


def _placed(value: Any, inputs: Sequence[Anything]) -> Any:
    if value.__class__ is Operand:
        return inputs[value]
    return tuple([_placed(item, inputs) for item in value]) if isinstance(value, tuple) else value


def _finished(builder: Builder, results: Sequence[Anything]) -> RowProgram:
    rows = [rows_in(value) for value in results]
    if any(builder.space(value.view) != NODE for value in rows):
        raise NotFusable("a result is per child")
    if any(value.view.width != prod(value.inner) for value in rows):
        raise NotFusable("a result does not have the width of its shape")
    return builder.finish([value.view for value in rows])
