"""From a variadic program to one batched symbolic graph for all nodes of a step and all their children."""

from __future__ import annotations

from math import prod

import mxnet as mx

from gluonjit.engines.mxnet.operators.attributes import read
from gluonjit.engines.mxnet.operators.binding import Writer
from gluonjit.engines.mxnet.operators.table import batch_op
from gluonjit.engines.mxnet.operators.traits import NO_GRADIENT, acts, fails
from gluonjit.engines.mxnet.program import (
    ADDING,
    OWNERS,
    SEGMENTS,
    Batched,
    Built,
    segment_sum,
    split_group,
    stored,
)
from gluonjit.graph import operand_groups
from gluonjit.hybrid.capture.variadic.program import ADD_UP, GATHER_UP, SPREAD, Variadic
from gluonjit.hybrid.capture.variadic.roles import Roles
from gluonjit.program.axes.values import Values
from gluonjit.program.trace import NotBatchable, Trace, TraceOp


def build_variadic(variadic: Variadic, roles: Roles, trace: Trace) -> Built:
    """The program of a step: `trace` is one of those that it was made from. Raises NotBatchable."""
    if any(spec.rows != 1 for spec in trace.operands):
        raise NotBatchable("an operand has several rows")
    names: list[str] = []
    symbols: list[mx.sym.Symbol] = []
    for group in operand_groups(trace.operands, False, roles.roles):
        names.append(f"group{len(names)}")
        symbols += split_group(mx.sym.var(names[-1]), len(group), trace.operands[group[0][0]])
    writer = Writer(trace.training)
    values = {
        number: writer.value(symbol, spec.shape, spec.dtype, spec.mode)
        for (number, spec), symbol in zip(variadic.operands(trace.operands, roles), symbols)
    }
    numbers = variadic.constants()
    consts = [variadic.sources[number].constant for number in numbers]
    for k, number in enumerate(numbers):
        shape, dtype = variadic.shapes[number]
        values[number] = writer.value(mx.sym.var(f"const{k}"), shape, dtype, "shared")
    may_fail = False
    for op in variadic.ops:
        if op.name == SPREAD:
            values[op.outputs[0]] = _spread(writer, values[op.inputs[0]])
        elif op.name == GATHER_UP:
            values[op.outputs[0]] = _gathered(writer, values[op.inputs[0]])
        else:
            may_fail = _apply(variadic, op, values, writer) or may_fail
    finals, outputs, rows = stored(writer, [values[number] for number in variadic.results], trace.device)
    program = Batched(finals, names, consts, (OWNERS, SEGMENTS))
    program.may_fail, program.variadic = may_fail, (variadic, roles)
    program.adds = [all(op.name in ADDING for op in variadic.ops if number in op.inputs) for number in numbers]
    return Built(program, outputs, rows, True, False)


def _apply(variadic: Variadic, op: TraceOp, values: dict[int, Values], writer: Writer) -> bool:
    """Emits an operator; returns whether it may fail when it runs."""
    name, attrs = op.name, dict(op.attrs)
    if name == ADD_UP:
        name, attrs = "add_n", {"num_args": str(len(op.inputs))}
    if name in NO_GRADIENT:
        raise NotBatchable(f"{name} stops gradients")
    known = read(attrs)
    if acts(name, known, writer.learning):
        raise NotBatchable(f"{name} draws random numbers or has a state")
    outputs = [variadic.shapes[number] for number in op.outputs]
    inputs = [values[number] for number in op.inputs]
    values.update(zip(op.outputs, batch_op(name, attrs, inputs, outputs, writer)))
    return fails(name, known)


def _spread(writer: Writer, val: Values) -> Values:
    """A node's value for each of its children."""
    if val.shared:
        return val
    one = writer.whole(val)
    (slot,) = writer.add(_rows_of_owners, [one.slot], SPREAD)
    return one._replace(slot=slot)


def _rows_of_owners(symbol: mx.sym.Symbol) -> mx.sym.Symbol:
    return mx.sym.take(symbol, mx.sym.var(OWNERS), axis=0, mode="clip")


def _gathered(writer: Writer, val: Values) -> Values:
    """The sum of the children's values for each node."""
    if val.shared or val.dtype != "float32":
        raise NotBatchable(f"a sum of {val.dtype} over the children")
    one = writer.whole(val)
    flat = writer.form(one, 1, (prod(one.rest),))
    (slot,) = writer.add(segment_sum, [flat.slot], GATHER_UP)
    return flat._replace(slot=slot)
