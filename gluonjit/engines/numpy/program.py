"""From a call to a program for all nodes of a step, and its gradient."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from gluonjit.engines.numpy.operators import OPERATORS, PRIMS, ArrayFunction
from gluonjit.graph import BatchedProgram, Spec
from gluonjit.program.axes.row import Application, lifted
from gluonjit.program.axes.values import Instruction, Operand, Values, at_sizes, is_sized
from gluonjit.program.axes.writer import Writer
from gluonjit.program.trace import Trace


class ProgramWriter(Writer):
    """Writes instructions that are `ArrayFunction`s, whose gradients are known."""

    def bound(self, name: str, attrs: Mapping[str, Any], outputs: int) -> tuple[ArrayFunction, str]:
        """Arguments by position are named "0", "1" and so on."""
        args = [attrs[key] for key in sorted(attrs) if key.isdigit()]
        return ArrayFunction(
            OPERATORS[name], tuple(args), {key: attrs[key] for key in attrs if not key.isdigit()}
        ), name

    def emit(self, prim: str, vals: Sequence[Values], *static: Any) -> int:
        """Adds a primitive."""
        call = ArrayFunction(PRIMS[prim], (*map(Operand, range(len(vals))), *static), {})
        return self.add(call, [val.slot for val in vals], prim, 1, is_sized(static))[0]


class TracedProgram(BatchedProgram):
    """The instructions of a trace; arrays of operands have all nodes' rows, one after the other."""

    def __init__(self, trace: Trace, results: Sequence[Spec]) -> None:
        """Raises NotBatchable."""
        self.consts = trace.consts
        first = len(trace.operands) + len(trace.consts)
        writer = ProgramWriter(first)
        values = [
            Values(
                k, spec.shape, spec.dtype, *((1, spec.shape) if spec.mode == "stack" else (spec.rows, spec.row_shape))
            )
            for k, spec in enumerate(trace.operands)
        ]
        values += [Values(k, *trace.shapes[k], None, trace.shapes[k][0]) for k in range(len(values), first)]
        for op in trace.ops:
            vals = [values[position] for position in op.inputs]
            call = Application(
                op.name, dict(op.attrs), vals, [trace.shapes[position] for position in op.outputs], writer
            )
            alike = all(val.shared for val in vals)
            values += call.once() if alike else lifted(call, OPERATORS[op.name].row)
        self.finals = [
            writer.form(writer.spread(values[position]), spec.rows, spec.row_shape).slot
            for position, spec in zip(trace.results, results)
        ]
        self.code = writer.code
        self.operators = max(len(self.code), 1)

    def __call__(self, operands: Sequence[Any], count: int) -> list[Any]:
        known = self._known(operands, count)
        return [known[slot] for slot in self.finals]

    def _known(self, operands: Sequence[Any], count: int) -> list[Any]:
        known = [*operands, *[weight.numbers for weight in self.consts]]
        for step in self.code:
            known.append(_call(step, count)(*[known[slot] for slot in step.inputs]))
        return known

    def gradients(self, operands: Sequence[Any], count: int, heads: Sequence[Any]) -> list[Any]:
        """Gradients of operands and constants, None of one that nothing depends on. The program runs once more."""
        known = self._known(operands, count)
        found: list[Any] = [None] * len(known)
        for slot, head in zip(self.finals, heads):
            _add(found, slot, head)
        for slot, step in reversed([(step.outputs[0], step) for step in self.code]):
            if found[slot] is not None:
                given = [known[each] for each in step.inputs]
                for each, part in zip(step.inputs, _call(step, count).gradients(found[slot], known[slot], given)):
                    _add(found, each, part)
        return found[: len(operands) + len(self.consts)]


def _call(step: Instruction, count: int) -> ArrayFunction:
    call: Any = step.function
    return ArrayFunction(call.of, at_sizes(call.args, {"#": count}), call.named) if step.counts else call


def _add(found: list[Any], slot: int, part: Any) -> None:
    found[slot] = part if found[slot] is None else found[slot] + part
