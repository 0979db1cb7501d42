"""From a variadic program to one batched symbolic graph for all nodes of a step and all their children."""

from __future__ import annotations

import mxnet as mx

from gluonjit.engines.mxnet.program import (
    ADDING,
    OWNERS,
    SEGMENTS,
    Batched,
    Built,
    lay_out,
    segment_sum,
    split_group,
    stored,
)
from gluonjit.engines.mxnet.rules.attributes import Attributes
from gluonjit.engines.mxnet.rules.gradients import NO_GRADIENT
from gluonjit.engines.mxnet.rules.symbols import apply
from gluonjit.engines.mxnet.rules.table import RULES, batch_op
from gluonjit.engines.mxnet.rules.values import NotBatchable, Val
from gluonjit.graph import operand_groups
from gluonjit.hybrid.capture.variadic.program import ADD_UP, GATHER_UP, SPREAD, Variadic
from gluonjit.hybrid.capture.variadic.roles import Roles
from gluonjit.program.trace import Trace, TraceOp


def build_variadic(variadic: Variadic, roles: Roles, trace: Trace) -> Built:
    """The program of a step: `trace` is one of those that it was made from. Raises NotBatchable."""
    if any(spec.rows != 1 for spec in trace.operands):
        raise NotBatchable("an operand has several rows")
    names: list[str] = []
    symbols: list[mx.sym.Symbol] = []
    for group in operand_groups(trace.operands, False, roles.roles):
        names.append(f"group{len(names)}")
        symbols += split_group(mx.sym.var(names[-1]), len(group), trace.operands[group[0][0]])
    values = {
        number: Val(symbol, spec.shape, spec.dtype, spec.mode)
        for (number, spec), symbol in zip(variadic.operands(trace.operands, roles), symbols)
    }
    numbers = variadic.constants()
    consts = [variadic.sources[number].constant for number in numbers]
    for k, number in enumerate(numbers):
        shape, dtype = variadic.shapes[number]
        values[number] = Val(mx.sym.var(f"const{k}"), shape, dtype, "shared")
    may_fail = False
    for op in variadic.ops:
        if op.name == SPREAD:
            values[op.outputs[0]] = _spread(values[op.inputs[0]])
        elif op.name == GATHER_UP:
            values[op.outputs[0]] = _gathered(values[op.inputs[0]])
        else:
            may_fail = _apply(variadic, op, values, trace.training) or may_fail
    finals = [stored(values[number]) for number in variadic.results]
    outputs, rows = lay_out([(final.shape, final.dtype, final.layout) for final in finals], trace.device)
    program = Batched([final.sym for final in finals], names, consts, (OWNERS, SEGMENTS))
    program.may_fail = may_fail
    program.adds = [all(op.name in ADDING for op in variadic.ops if number in op.inputs) for number in numbers]
    return Built(program, outputs, rows, True, False)


def _apply(variadic: Variadic, op: TraceOp, values: dict[int, Val], training: bool) -> bool:
    """Emits an operator; returns whether it may fail when it runs."""
    name, attrs = op.name, dict(op.attrs)
    if name == ADD_UP:
        name, attrs = "add_n", {"num_args": str(len(op.inputs))}
    if name in NO_GRADIENT:
        raise NotBatchable(f"{name} stops gradients")
    rule = RULES.get(name)
    known = Attributes(attrs)
    if rule is not None and (rule.stateful or rule.draws(known, training)):
        raise NotBatchable(f"{name} draws random numbers or has a state")
    outputs = [variadic.shapes[number] for number in op.outputs]
    inputs = [values[number] for number in op.inputs]
    values.update(zip(op.outputs, batch_op(name, attrs, inputs, outputs, training)))
    return rule is not None and rule.fails(known)


def _spread(value: Val) -> Val:
    """A node's value for each of its children."""
    if value.shared:
        return value
    if value.rows and value.shape[0] != 1:
        raise NotBatchable("a node's value for its children has several rows")
    return value._replace(sym=mx.sym.take(value.sym, mx.sym.var(OWNERS), axis=0, mode="clip"))


def _gathered(value: Val) -> Val:
    """The sum of the children's values for each node."""
    if value.shared or value.dtype != "float32":
        raise NotBatchable(f"a sum of {value.dtype} over the children")
    rest = value.shape[1:] if value.rows else value.shape
    if value.rows and value.shape[0] != 1:
        raise NotBatchable("a sum over the children has several rows")
    flat = value.sym if len(rest) == 1 else apply("Reshape", [value.sym], {"shape": (0, -1)})
    total = segment_sum(flat)
    if len(rest) != 1:
        total = apply("Reshape", [total], {"shape": (-1, *rest)})
    return value._replace(sym=total)
