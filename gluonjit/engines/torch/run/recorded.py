"""Gradients of a flush that will be differentiated again: it runs once more, and PyTorch records its steps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from gluonjit.analysis.plan import Gather, Place
from gluonjit.engines.torch.framework.input_version import modified, version_of
from gluonjit.engines.torch.framework.originals import LEARNING, plain, run_backward
from gluonjit.engines.torch.operators.binding import draws, operator_named
from gluonjit.engines.torch.run.gradients import Tape
from gluonjit.engines.torch.run.memory import Session
from gluonjit.engines.torch.run.one_by_one import run_step
from gluonjit.engines.torch.run.program import pieces, program_of
from gluonjit.errors import CaptureError
from gluonjit.graph.modes import is_recorded
from gluonjit.hybrid.choose.pacing import turn_eager
from gluonjit.hybrid.explain.provenance import Provenance
from gluonjit.hybrid.explain.report import Report
from gluonjit.hybrid.options import Options


class RecordedSession(Session):
    """A flush without a tape. An arena that is read is joined of what learns in it, which is slow and rarely needed.

    What it is made of takes part as views, with respect to which it is differentiated: a weight's gradient is not to
    have in it what reaches the weight through another source, whose own gradient goes on to there.
    """

    def set_up(self, options: Options, samples: int) -> None:
        self._weights: dict[int, Any] = {}  # views of the weights that learn
        self._learned: dict[int, dict[int, Any]] = {}  # rows with a history, by arena and first row
        self.prepare(range(len(self.plan.steps)))

    def learned(self, place: Place) -> Any:
        """The rows of a place with their history; None if they have none."""
        return self._learned.get(place.arena, {}).get(place.begin)

    def weight(self, tensor: Any) -> Any:
        """The view of a weight that takes part."""
        if not tensor.requires_grad:
            return tensor
        found = self._weights.get(id(tensor))
        if found is None:
            found = self._weights[id(tensor)] = _view(tensor)
        return found

    def _note_inputs(self, place: Place, tensors: Sequence[Any]) -> None:
        super()._note_inputs(place, tensors)
        for item in self._inputs[place]:
            self._note(item.place, _view(item.tensor))

    def _note(self, place: Place, rows: Any) -> None:
        if rows.requires_grad:
            self._learned.setdefault(place.arena, {})[place.begin] = rows

    def error_of(self, number: int, error: Exception, again: Any = None) -> Exception:
        """The error that was raised."""
        return error

    def run_graph(self, number: int) -> None:
        """Runs a step, recorded."""
        step = self.plan.steps[number]
        program = program_of(step.kind)
        with torch.set_grad_enabled(is_recorded(step.mode)):
            operands = [self.operand(*each) for each in zip(step.gathers, self.indices.gathers[number])]
            given = pieces(step.kind.groups, operands)
            weights = [self.weight(tensor) for tensor in program.consts]
            results = run_step(step, given, weights, self.indices.besides.get(number, ()))
        for place, rows in zip(step.places, results):
            self.write_result(place, rows)
            self._note(place, rows)

    def operand(self, gather: Gather, index: Any, tape: Any = None) -> Any:
        rows = self._joined(gather.place.arena)
        return rows[gather.place.begin : gather.place.end] if index is None else rows.index_select(0, index)

    def _joined(self, arena: int) -> Any:
        """All rows of an arena, apart from its memory, which is written to after this."""
        array, parts, end = self.arrays[arena], [], 0
        for begin, rows in sorted(self._learned.get(arena, {}).items(), key=lambda item: item[0]):
            parts += [array[end:begin], rows]
            end = begin + len(rows)
        return torch.cat([*parts, array[end:]])


def _view(tensor: Any) -> Any:
    with torch.enable_grad():
        return tensor.view_as(tensor)


def gradients_again(tape: Tape, heads: Sequence[Any], asked: Sequence[bool]) -> list[Any]:
    """Gradients of what a flush was made of, as `Tape.gradients`, which can be differentiated themselves.

    Those are computed first: they say which of them there are. In a program for all samples others would be zeros.
    """
    plan = tape.plan
    programs = {id(step.kind.program): program_of(step.kind) for step in plan.steps}.values()
    if any(draws(operator_named(op.name), dict(op.attrs)) for program in programs for op in program.trace.ops):
        turn_eager()
        raise CaptureError(_DRAWN)
    for weight, version in tape.versions():
        if version_of(weight) != version:
            raise modified("a weight", weight)
    with plain():
        once = tape.gradients(tuple([None if head is None else head.detach() for head in heads]), True, asked)
        session = _run_again(tape)
        results, given = zip(*[(session.learned(place), head) for place, head in tape.heads(heads)])
        sources = [session.weight(weight) for weight, _ in tape.versions()] + [
            session.learned(place) for place in tape.places()
        ]
        wanted = [source for source, gradient in zip(sources, once) if gradient is not None]
        with LEARNING:
            found = iter(run_backward(results, given, True, True, tuple(wanted), True, False) if wanted else ())
    return [None if gradient is None else next(found) for gradient in once]


def _run_again(tape: Tape) -> RecordedSession:
    plan = tape.plan
    session = RecordedSession(plan, Report(), Options(), tape.samples, Provenance(plan, []))
    session.fill()
    for number in range(len(plan.steps)):
        session.run(number)
    return session


_DRAWN = (
    "gradients of gradients of a dynamically batched value that was drawn at random, as by dropout: the values "
    "would be drawn again. A model for which no option names a way to batch runs eagerly from now on; for another call "
    "gluonjit.hybridize(net, dynamic_batch=False)."
)
