"""From a trace to one batched program of PyTorch operators."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any

import torch

from gluonjit.engines.torch.framework.arrays import LEARNABLE, device_named
from gluonjit.engines.torch.framework.originals import plain
from gluonjit.engines.torch.operators.binding import Writer, draws, may_draw, operator_named
from gluonjit.engines.torch.operators.examples import Examples
from gluonjit.engines.torch.operators.table import WITHOUT_HISTORY, batch_op
from gluonjit.graph import (
    Arrays,
    BatchedProgram,
    Checks,
    Group,
    Kind,
    Spec,
    natural_mode,
    operand_groups,
)
from gluonjit.program.axes.values import NODES, ROWS, Values, placed
from gluonjit.program.axes.writer import compiled
from gluonjit.program.children.table import RULES, ForChildren
from gluonjit.program.children.table import write as write_for_children
from gluonjit.program.trace import Built, Trace, TraceOp, for_any_rows


class Program(BatchedProgram):
    """A program that runs the nodes of a step: gives the results of so many, of the operands that `pieces` gives.

    One without `checks` runs nothing: its nodes run one by one, from their traces.

    trace: what it was made from; text: what it does: programs of one text and the same constants are one; learns:
    whether gradients can come to its results; wide: which results have any number of rows a node, none where empty;
    kept: what it saves for backward.
    """

    text: Any = None
    wide: tuple[int, ...] = ()

    def __init__(self, trace: Trace, operators: int) -> None:
        self.trace = trace
        self.consts = list(trace.consts)
        self.operators = operators
        self.learns = _learns(trace)
        self.kept: dict[Any, tuple[frozenset[int], frozenset[int]]] = {}  # by what learns


def _learns(trace: Trace) -> bool:
    """True if gradients can come to any result: not to what is detached, say."""
    quiet = {position for position, (_, dtype) in enumerate(trace.shapes) if dtype not in LEARNABLE}
    for op in trace.ops:
        if op.name in WITHOUT_HISTORY or quiet.issuperset(op.inputs):
            quiet.update(op.outputs)
    return not quiet.issuperset(trace.results)


def program_of(kind: Kind) -> Program:
    """The program of a kind that this engine has made."""
    found: Program = kind.program  # type: ignore[assignment]
    return found


class Batched(Program):
    """A program for any number of nodes, as a function of Python that calls operators."""

    def __init__(self, trace: Trace, writer: Writer, operands: int, finals: Sequence[int], besides: int = 0) -> None:
        super().__init__(trace, len(writer.code))
        self.checks = Checks()
        self.text = (tuple([(step.text, step.inputs, step.outputs) for step in writer.code]), tuple(finals))
        self.function = compiled(writer.code, range(operands + len(self.consts) + besides), finals)

    def __call__(self, operands: Arrays, consts: Arrays, count: int, besides: Arrays = ()) -> list[Any]:
        """The results of `count` nodes."""
        return self.function(count, *operands, *consts, *besides)  # type: ignore[no-any-return]


def interpret(trace: Trace, operands: Arrays, consts: Arrays) -> list[Any]:
    """Runs a trace, operator by operator, on one sample's tensors."""
    return trace.run(run_operator, operands, consts)  # type: ignore[no-any-return]


def run_operator(op: TraceOp, inputs: Arrays) -> Arrays:
    """The results of an operator of a trace on one sample's tensors."""
    found = operator_named(op.name)(**{name: placed(value, inputs, list) for name, value in op.attrs})
    return found if isinstance(found, (list, tuple)) else (found,)


def piece(chunk: Any, spec: Spec, row: int) -> Any:
    """The tensor of this spec that begins at a row of a chunk."""
    found = chunk[row : row + spec.rows]
    return found if spec.mode == "rows" else found.reshape(spec.shape)


def as_rows(tensor: Any, spec: Spec) -> Any:
    """The rows of a tensor of this spec."""
    return tensor if spec.mode == "rows" else tensor.reshape(-1, *spec.row_shape)


def join(spec: Spec, tensors: Arrays) -> Any:
    """Tensors of this spec as one chunk."""
    if spec.mode == "stack":
        return torch.stack(list(tensors))
    return joined([as_rows(tensor, spec) for tensor in tensors])


def joined(rows: Arrays) -> Any:
    """Rows one after the other; what is one piece is not copied."""
    return rows[0] if len(rows) == 1 else torch.cat(list(rows))


def build(trace: Trace, of_any_rows: bool = True) -> Built:
    """The batched program of a trace, for any number of rows if that is possible. Raises NotBatchable."""
    return for_any_rows(trace, _build, of_any_rows)


def build_for_children(of: ForChildren) -> Built:
    """The program of nodes with any number of children, which is given whose each is, too. Raises NotBatchable."""
    found = _build(of.trace, False, of)
    found.program.trace = of.call
    return found


def _build(trace: Trace, poly: bool, of: ForChildren | None = None) -> Built:
    count, several = len(trace.operands), of is not None
    owned, owners = (of.owned() if of else set()), count + len(trace.consts)
    examples = Examples(
        trace.device, [size for shape, _ in trace.shapes for size in shape], owners if several else None
    )
    used = trace.used()
    writer = Writer(owners + several, examples.run)
    writer.device = trace.device
    writer.owners = (Values(owners, (), "int64", 1, ()),)
    with checking(trace.device, trace.ops if of is None else ()):
        values = operand_values(trace, operand_groups(trace.operands, poly, of.roles if of else ()), poly)
        for position, val in values.items():
            examples.add(val, child=position in owned)
        for position, tensor in trace.constants():
            shape, dtype = trace.shapes[position]
            values[position] = Values(position, shape, dtype, None, shape)
            examples.add(values[position], tensor)
        for op in trace.ops:
            examples.operator = op.name
            writer.count = f"len(v{owners})" if op.outputs[0] in owned else NODES
            found = write(op, values, trace, writer)
            shaped = [trace.shapes[position] for position in op.outputs]
            examples.check(found, shaped, [position in used for position in op.outputs], writer.count)
        examples.operator, writer.count = "a result", NODES
        finals = [stored(values[position], writer) for position in trace.results]
    wide = tuple([val.lead == ROWS for val in finals])
    outputs, rows = trace.outputs(wide)
    program = Batched(trace, writer, count, [val.slot for val in finals], int(several))
    program.wide = wide
    return Built(program, outputs, rows, poly)


@contextmanager
def checking(device: str, ops: Iterable[TraceOp] = ()) -> Iterator[None]:
    """Returns a region in which operators are noted and run on examples; draws are undone."""
    drawn = any([may_draw(op.name) and draws(operator_named(op.name), dict(op.attrs)) for op in ops])
    devices = [] if device == "cpu" else [device_named(device)]
    with plain(), torch.random.fork_rng(devices) if drawn else nullcontext():
        yield


def operand_values(trace: Trace, groups: Sequence[Group], poly: bool) -> dict[int, Values]:
    """The operands in the order in which `pieces` gives them."""
    values: dict[int, Values] = {}
    for slot, (position,) in enumerate([role for group in groups for role in group]):
        spec = trace.operands[position]
        lead = ROWS if poly and spec.mode == "rows" else spec.rows
        values[position] = Values(slot, spec.shape, spec.dtype, lead, spec.row_shape)
    return values


def pieces(kind_groups: Sequence[Group], gathered: Arrays) -> list[Any]:
    """The operands, one after the other, of groups whose rows come one operand after the other."""
    found: list[Any] = []
    for group, rows in zip(kind_groups, gathered):
        if len(group) == 1:
            found.append(rows)
        else:
            found.extend(rows.view(len(group), -1, *rows.shape[1:]).unbind(0))
    return found


def write(op: TraceOp, values: dict[int, Values], trace: Trace, writer: Writer) -> list[Values]:
    """Writes down an operator, and notes its results, which are returned, among the values."""
    inputs = [values[position] for position in op.inputs]
    outputs = [trace.shapes[position] for position in op.outputs]
    if op.name in RULES:
        found = write_for_children(op, inputs, outputs, writer)
    else:
        found = batch_op(op.name, {name: placed(value, inputs) for name, value in op.attrs}, outputs, writer)
    values.update(zip(op.outputs, found))
    return found


def stored(val: Values, writer: Writer) -> Values:
    """A result in the form in which it is kept: from two dimensions on as rows, and (1,) too.

    And any number of numbers, one a row.
    """
    whole = writer.spread(val)
    if natural_mode(val.shape) == "stack" and (whole.lead != ROWS or not val.shape):
        return writer.stack(whole)
    return writer.folded(whole, 1)
