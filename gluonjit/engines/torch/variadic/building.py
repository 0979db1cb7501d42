"""From a variadic program to one batched program for all nodes of a step and all their children."""

from __future__ import annotations

from typing import Any

from gluonjit.engines.torch.operators.binding import Writer, draws, operator_named
from gluonjit.engines.torch.operators.examples import Examples
from gluonjit.engines.torch.operators.table import batch_op
from gluonjit.engines.torch.program import Batched, Built, checking, lay_out, stored
from gluonjit.hybrid.capture.variadic.program import ADD_UP, CHILD, GATHER_UP, SPREAD, Variadic
from gluonjit.hybrid.capture.variadic.roles import Roles
from gluonjit.program.axes.values import NODES, Values
from gluonjit.program.trace import NotBatchable, Trace, TraceOp, placed


def build_variadic(variadic: Variadic, roles: Roles, trace: Trace) -> Built:
    """The program of a step: `trace` is one of those that it was made from. Raises NotBatchable.

    Besides operands and constants it is given whose child each is.
    """
    operands = trace.operands
    if any(spec.rows != 1 for position, spec in enumerate(operands) if position not in roles.positions()):
        raise NotBatchable("an operand has several rows")
    if not roles.of_rows and any(operands[role[0]].rows != 1 for role in roles.roles):
        raise NotBatchable("an operand of a child has several rows")
    listed, consts = variadic.operands(operands, roles), variadic.constants()
    groups = len(listed)
    owners = groups + len(consts)
    examples = Examples(trace.device, [size for shape, _ in variadic.shapes for size in shape], owners)
    used = {number for op in variadic.ops for number in op.inputs}.union(variadic.results)
    writer = Writer(owners + 1, examples.run)
    writer.device = trace.device
    with checking(trace.device):
        values: dict[int, Values] = {}
        for slot, (number, spec) in enumerate(listed):
            val = values[number] = Values(slot, *variadic.shapes[number], 1, spec.row_shape)
            examples.add(val, child=variadic.spaces[number] == CHILD)
        for k, number in enumerate(consts):
            shape, dtype = variadic.shapes[number]
            values[number] = Values(groups + k, shape, dtype, None, shape)
            examples.add(values[number], variadic.sources[number].constant)
        for op in variadic.ops:
            writer.count = f"len(v{owners})" if variadic.spaces[op.outputs[0]] == CHILD else NODES
            examples.operator = op.name
            found = _applied(variadic, op, values, writer, owners)
            shaped = [variadic.shapes[number] for number in op.outputs]
            examples.check(found, shaped, [number in used for number in op.outputs], writer.count)
            values.update(zip(op.outputs, found))
        writer.count = NODES
        examples.operator = "a result"
        finals = [stored(values[number], writer) for number in variadic.results]
    outputs, rows = lay_out([variadic.shapes[number] for number in variadic.results], trace.device)
    program = Batched(trace, writer, groups, [val.slot for val in finals], 1)
    program.variadic, program.results = (variadic, roles), ()
    program.consts = [variadic.sources[number].constant for number in consts]
    return Built(program, outputs, rows, False)


def _applied(variadic: Variadic, op: TraceOp, values: dict[int, Values], writer: Writer, owners: int) -> list[Values]:
    inputs = [values[number] for number in op.inputs]
    outputs = [variadic.shapes[number] for number in op.outputs]
    if op.name == SPREAD:
        return [_spread(inputs[0], writer, owners)]
    if op.name == GATHER_UP:
        return [_gathered(inputs[0], writer, owners)]
    if op.name == ADD_UP:
        return [_sum(inputs, outputs[0], writer)]
    if draws(operator_named(op.name), dict(op.attrs)):
        raise NotBatchable(f"{op.name} draws random numbers")
    args = {name: placed(value, inputs) for name, value in op.attrs}
    return batch_op(op.name, args, outputs, writer)


def _spread(val: Values, writer: Writer, owners: int) -> Values:
    """A node's value for each of its children."""
    if val.shared:
        return val
    one = writer.whole(val)
    (slot,) = writer.add(_rows_of, [one.slot, owners], SPREAD)
    return one._replace(slot=slot)


def _rows_of(tensor: Any, owners: Any) -> Any:
    return tensor.index_select(0, owners)


def _gathered(val: Values, writer: Writer, owners: int) -> Values:
    """The sum of the children's values for each node."""
    if val.shared:
        raise NotBatchable("a sum over children of a value that is the same for all of them")
    one = writer.whole(val)
    (slot,) = writer.add(_segment_sum, [one.slot, owners], GATHER_UP, 1, True)
    return one._replace(slot=slot)


def _segment_sum(count: int, tensor: Any, owners: Any) -> Any:
    return tensor.new_zeros((count, *tensor.shape[1:])).index_add(0, owners, tensor)


def _sum(vals: list[Values], shaped: Any, writer: Writer) -> Values:
    """Values of one shape added up."""
    total = vals[0]
    for val in vals[1:]:
        (total,) = batch_op("add.Tensor", {"self": total, "other": val}, [shaped], writer)
    return total
