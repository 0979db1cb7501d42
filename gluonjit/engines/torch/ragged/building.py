"""From a form to its program: stages that run once for the rows of all nodes, and stages for the nodes of each length.

A stage of rows writes its operators down once. A stage of a length is a batched program of its own for each member: a
part of that member's trace.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property, partial
from math import prod
from typing import Any

import torch

from gluonjit.engines.torch.arrays import device_named, dtype_named
from gluonjit.engines.torch.hooked import plain
from gluonjit.engines.torch.operators.binding import Writer
from gluonjit.engines.torch.program import build as build_batched
from gluonjit.engines.torch.program import compiled, interpret, stored
from gluonjit.engines.torch.ragged.form import Form
from gluonjit.engines.torch.ragged.packing import Packer, in_front
from gluonjit.engines.torch.ragged.padding import PaddedProgram
from gluonjit.engines.torch.ragged.stages import LengthStage, Packed, RowStage, Source
from gluonjit.graph import Checks, intern_spec, mode_of, operand_groups
from gluonjit.program.axes.values import ROWS, Instruction, Values
from gluonjit.program.trace import NotBatchable, Trace


class Stages:
    """The stages of a form, in order, and the slots of what they begin with.

    weights: the constants that all members share, by position; own: those of each member, with how they lie; owners,
    sizes: by length, the slots of the node of each row, and of the rows of each node; taken: operands that do not lie
    packed, with how they are to; finals: the slots of the results, or how they lie if they are put together of those of
    each node; wide: how many axes of each are counted as rows; pads: the numbers of the length stages that run for many
    lengths at once.
    """

    def __init__(self, form: Form) -> None:
        """Decides which operators run on the rows of all nodes. Raises NotBatchable."""
        self.form = form
        self.checks = Checks()
        self.stages: list[RowStage | LengthStage] = []
        trace = form.trace
        count = len(trace.operands)
        self.weights = [position for position, _ in trace.constants() if position not in form.own]
        self._writer = Writer(count + len(self.weights), shares=False)
        self._writer.device = trace.device
        self.owners: dict[int, int] = {}
        self.sizes: dict[int, int] = {}
        self.own: list[Source] = []
        self.taken: list[Source] = []
        self._values: dict[int, Packed] = {}
        self._levels: dict[int, int] = {}
        self._code: dict[int, list[Instruction]] = {}
        self._alone: dict[int, list[int]] = {}  # places of operators, by level
        self._shared: set[int] = set()
        self._begin(count)
        packer = Packer(form, self._writer, partial(self._slot_of, self.owners), partial(self._slot_of, self.sizes))
        for number in range(len(trace.ops)):
            self._place(packer, number)
        self.rows = sum(len(code) for code in self._code.values())
        self._finish()
        self._programs: dict[Any, LengthProgram] = {}
        self._padded: dict[tuple[int, ...], PaddedProgram | None] = {}
        first = [0] * form.lengths
        for (position, axis), length in form.sizes.items():
            first[length] = form.trace.shapes[position][0][axis]
        self.pads = frozenset(
            [
                stage.number
                for stage in self.stages
                if isinstance(stage, LengthStage) and self.padded(stage, first) is not None
            ]
        )

    def key(self, stage: LengthStage, trace: Trace, lengths: Sequence[int]) -> Any:
        """The key of the program of a stage for a member: members with equal ones run alike."""
        numbers = [repr(trace.ops[place].attrs) for place in stage.numbered]
        own = [id(tensor) for position, tensor in trace.constants() if position in stage.own]  # which the program keeps
        return (stage.number, *[lengths[length] for length in stage.lengths], *numbers, *own)

    def program(self, stage: LengthStage, trace: Trace, key: Any) -> LengthProgram:
        """The program of a stage for members of a key, one of which has this trace."""
        found = self._programs.get(key)
        if found is None:
            found = self._programs[key] = LengthProgram(stage, self, trace)
        return found

    def padded(self, stage: LengthStage, lengths: Sequence[int]) -> PaddedProgram | None:
        """The program of a stage for nodes of sizes up to these; None if there is none."""
        key = (stage.number, *lengths)
        if key not in self._padded:
            try:
                self._padded[key] = self._pad(stage, lengths)
            except NotBatchable:
                self._padded[key] = None
        return self._padded[key]

    def _pad(self, stage: LengthStage, lengths: Sequence[int]) -> PaddedProgram:
        sources = [source.position for source in (*stage.sources, *self.own_of(stage))]
        results = [result.position for result in stage.results]
        shared = {id(tensor): number for number, tensor in enumerate(self.weights_of(self.form.trace))}
        return PaddedProgram(self.form, self._with_shared(stage.places), sources, results, lengths, shared)

    def _with_shared(self, places: Sequence[int]) -> list[int]:
        """These operators, and those that make what they take that is the same for all nodes."""
        ops = self.form.trace.ops
        found = set(places)
        wanted = {position for place in places for position in ops[place].inputs} & self._shared
        for place in reversed(range(len(ops))):
            if wanted.intersection(ops[place].outputs):
                found.add(place)
                wanted.update(ops[place].inputs)
        return sorted(found)

    def weights_of(self, trace: Trace) -> list[Any]:
        """The constants of a trace that all members share."""
        return [tensor for position, tensor in trace.constants() if position not in self.form.own]

    def own_of(self, stage: LengthStage) -> list[Source]:
        """The constants that each member has for itself among what a stage takes."""
        return [source for source in self.own if source.position in stage.own]

    def _begin(self, count: int) -> None:
        trace = self.form.trace
        for position, spec in enumerate(self.laid(trace).operands):
            axes = self.form.axes(position)
            if not axes:
                self._values[position] = Packed(Values(position, spec.shape, spec.dtype, spec.rows, spec.row_shape))
            elif self._is_packed(position, axes):
                val = Values(position, in_front(spec.shape, axes[0]), spec.dtype, ROWS, spec.row_shape)
                self._values[position] = Packed(val, axes[0], self.form.sizes[position, axes[0]])
            else:
                self.taken.append(Source(position, self._new(position)))
        for number, position in enumerate(self.weights):
            shape, dtype = trace.shapes[position]
            self._values[position] = Packed(Values(count + number, shape, dtype, None, shape))
            self._shared.add(position)
        for position in sorted(self.form.own):
            found = self._new(position)
            self.own.append(Source(position, found))

    def laid(self, trace: Trace) -> Trace:
        """The trace of a member with operands that lie as those of the form: up to the last axis that differs, rows."""
        operands = list(self.form.trace.operands)
        for position, spec in enumerate(trace.operands):
            axes = self.form.axes(position)
            if axes:
                operands[position] = intern_spec(spec.shape, spec.dtype, spec.device, mode_of(axes[-1] + 1))
        return replace(trace, operands=tuple(operands), built={})

    def _is_packed(self, position: int, axes: Sequence[int]) -> bool:
        """Tells whether the rows of a value with these axes that differ lie packed, node by node."""
        return len(axes) == 1 and prod(self.form.trace.shapes[position][0][: axes[0]]) == 1

    def _slot_of(self, known: dict[int, int], length: int) -> int:
        slot = known.get(length)
        if slot is None:
            slot = known[length] = self._slot()
        return slot

    def _slot(self) -> int:
        self._writer.slots += 1
        return self._writer.slots - 1

    def _new(self, position: int) -> Packed | None:
        """The place of a value that is put together from those of each length; None if it has several such sizes."""
        shape, dtype = self.form.trace.shapes[position]
        axes = self.form.axes(position)
        if len(axes) > 1:
            return None
        if axes:
            moved = in_front(shape, axes[0])
            found = Packed(
                Values(self._slot(), moved, dtype, ROWS, moved[1:]), axes[0], self.form.sizes[position, axes[0]]
            )
        else:
            found = Packed(Values(self._slot(), shape, dtype, 1, shape))
        self._values[position] = found
        return found

    def _place(self, packer: Packer, number: int) -> None:
        """Lets an operator run on rows if that can be, else for each length."""
        op, code, levels = self.form.ops[number], self._writer.code, self._levels
        before = [levels.get(position, 0) for position in op.inputs]
        length = len(code)
        try:
            if any(position not in self._values for position in op.inputs):
                raise NotBatchable(f"{op.name}: of several lengths")
            found = packer.write(number, op, self._values)
        except NotBatchable:
            self._writer.undo(length)
            level = max([at if at % 2 else at + 1 for at in before], default=1)
            self._alone.setdefault(level, []).append(number)
            for position in op.outputs:
                self._new(position)
        else:
            level = max([at + at % 2 for at in before], default=0)
            self._code.setdefault(level, []).extend(code[length:])
            self._values.update(zip(op.outputs, found))
            if self._shared.issuperset(op.inputs):
                self._shared.update(op.outputs)
        levels.update(dict.fromkeys(op.outputs, level))

    def _finish(self) -> None:
        """Makes the stages, and sees what each of them gives."""
        writer = self._writer
        self.wide = tuple([max(self.form.axes(position), default=-1) + 1 for position in self.form.trace.results])
        finals: list[int | Source] = []
        for position in self.form.trace.results:
            value, axes = self._values.get(position), self.form.axes(position)
            if value is None or (axes and not self._is_packed(position, axes)):
                finals.append(Source(position, value))
                continue
            length = len(writer.code)
            if axes:
                rest = self.form.trace.shapes[position][0][axes[0] + 1 :]
                finals.append(writer.form(value.val, ROWS, rest).slot)
            else:
                finals.append(stored(value.val, writer).slot)
            level = self._levels.get(position, 0)
            self._code.setdefault(level + level % 2, []).extend(writer.code[length:])
        self.finals = tuple(finals)
        kept = {final if isinstance(final, int) else final.packed and final.packed.val.slot for final in finals}
        self._number = {level: number for number, level in enumerate(sorted(self._alone))}
        used = self._uses()
        for level in range(max([*self._code, *self._alone, 0]) + 1):
            if level % 2 == 0 and self._code.get(level):
                code = self._code[level]
                made = {slot for step in code for slot in step.outputs}
                inputs = tuple(sorted({slot for step in code for slot in step.inputs} - made))
                outputs = tuple([slot for slot in sorted(made) if used.get(slot, level) != level or slot in kept])
                self.stages.append(RowStage(compiled(code, inputs, outputs), inputs, outputs))
            elif level in self._alone:
                self.stages.append(self._length_stage(level))

    def _uses(self) -> dict[int, int]:
        """The last stage that takes each slot."""
        found: dict[int, int] = {}
        for level, code in self._code.items():
            for step in code:
                for slot in step.inputs:
                    found[slot] = max(found.get(slot, 0), level)
        for level, places in self._alone.items():
            for place in places:
                for position in self.form.trace.ops[place].inputs:
                    value = self._values.get(position)
                    if value is not None and position not in self._shared:
                        found[value.val.slot] = max(found.get(value.val.slot, 0), level)
        return found

    def _length_stage(self, level: int) -> LengthStage:
        ops = [self.form.trace.ops[place] for place in self._alone[level]]
        own = {position for op in ops for position in op.outputs}
        consts = {position for position, _ in self.form.trace.constants()}
        taken = sorted({position for op in ops for position in op.inputs} - own - consts - self._shared) or [0]
        others = [op for number, op in enumerate(self.form.trace.ops) if number not in set(self._alone[level])]
        wanted = {position for op in others for position in op.inputs}.union(self.form.trace.results)
        given = sorted(own & wanted)
        within = own.union(taken, *[op.inputs for op in ops])
        return LengthStage(
            self._number[level],
            tuple(self._alone[level]),
            tuple([Source(position, self._values.get(position)) for position in taken]),
            tuple([Source(position, self._values.get(position)) for position in given]),
            tuple(sorted({length for (position, _), length in self.form.sizes.items() if position in within})),
            tuple(sorted(self.form.numbered.intersection(self._alone[level]))),
            tuple(sorted(within & self.form.own)),
            self.form.grown(own),
        )


class LengthProgram:
    """The program of a stage for nodes of one length: `run` takes values of (nodes, *shape), and gives such."""

    def __init__(self, stage: LengthStage, stages: Stages, trace: Trace) -> None:
        sources, results = ([each.position for each in listed] for listed in (stage.sources, stage.results))
        self._specs = [intern_spec(*trace.shapes[position], trace.device, "stack") for position in sources]
        self._shapes = [trace.shapes[position][0] for position in results]
        self._trace = trace.part(sources, results, self._specs)
        numbers = {id(tensor): number for number, tensor in enumerate(stages.weights_of(trace))}
        self._consts = [numbers.get(id(tensor), tensor) for tensor in self._trace.consts]
        self._order = [place for group in operand_groups(self._specs, False) for (place,) in group]
        self._batched: Any = None

    @cached_property
    def fits(self) -> bool:
        """Tells whether operators on zeros give results of the shapes that they are to have."""
        device = device_named(self._trace.device)
        given = [torch.zeros(spec.shape, dtype=dtype_named(spec.dtype), device=device) for spec in self._specs]
        try:
            found = interpret(self._trace, given, self._trace.consts)
        except (RuntimeError, IndexError, ValueError):
            return False
        return [tuple(result.shape) for result in found] == self._shapes

    def run(self, count: int, given: Sequence[Any], weights: Sequence[Any]) -> list[Any]:
        """The results of `count` nodes; weights are the constants that all members share."""
        consts = [weights[item] if item.__class__ is int else item for item in self._consts]
        if count == 1:  # which is not worth a program
            whole = [tensor[0].contiguous() for tensor in given]  # as a view may need it
            single = interpret(self._trace, whole, consts)
            return [result.unsqueeze(0) for result in single]
        if self._batched is None:
            with plain():
                self._batched = build_batched(self._trace).program.function
        found = self._batched(count, *[given[place] for place in self._order], *consts)
        return [result.reshape(count, *shape) for result, shape in zip(found, self._shapes)]
