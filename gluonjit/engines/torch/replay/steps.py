"""Plans whose steps run as static steps, on CUDA each as a graph, for plans that do not repeat as a whole."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any
from weakref import WeakSet

from gluonjit.analysis.plan import Plan
from gluonjit.engines.torch.fused_steps import FusedSteps
from gluonjit.engines.torch.program import Program, program_of
from gluonjit.engines.torch.replay.plans import MOST_BYTES, roomy
from gluonjit.engines.torch.replay.step import Sizes, StaticStep, StaticStepForm, StaticStepFunction, form_of
from gluonjit.engines.torch.session import Session
from gluonjit.errors import GluonJITError
from gluonjit.hybrid.explain.counts import Counts
from gluonjit.hybrid.options import Options

Runs = Callable[..., Any]
"""Called as a program is, with the same results."""

MOST_STEPS = 512
"""Static steps of one program: as many steps of it as there are before a backward pass comes."""
_held: WeakSet[StaticStep] = WeakSet()
_known: WeakSet[StaticSteps] = WeakSet()


class StaticSteps:
    """The static steps of one program. `unfit`: why there are none any more."""

    def __init__(self) -> None:
        self.unfit = ""
        self.steps: list[StaticStep] = []
        _known.add(self)

    def take(self, program: Any, form: StaticStepForm, sizes: Sizes) -> StaticStep | None:
        """Takes the smallest free one that fits, or a new one; None if there are too many."""
        self.steps = [step for step in self.steps if step.busy or step.form.consts == form.consts]
        free = [step for step in self.steps if step.form == form and step.fits(sizes) and not step.busy]
        if free:
            return min(free, key=lambda step: step.sizes)
        if self._full():
            self.steps = [step for step in self.steps if step.busy]
            if self._full():
                return None
        nodes, rows, children = sizes
        made = StaticStep(program, form, (roomy(nodes), roomy(rows), roomy(children)))
        self.steps.append(made)
        _held.add(made)
        return made

    def _full(self) -> bool:
        return len(self.steps) >= MOST_STEPS or sum([step.bytes for step in _held]) > MOST_BYTES


def static_steps(program: Program) -> StaticSteps:
    """Those of a program, which owns them, so that they go with its model."""
    found: StaticSteps = program.static_steps
    if found is None:
        found = program.static_steps = StaticSteps()
    return found


def step_count() -> int:
    """Static steps that are kept."""
    return sum([len(known.steps) for known in _known])


def clear_steps() -> None:
    """Forgets them."""
    for known in _known:
        known.steps.clear()


def _replayed(plan: Plan, report: Counts, number: int) -> Runs:
    """Returns what runs the program of a step."""
    kind = plan.steps[number].kind
    program = program_of(kind)
    if kind.lone or not kind.pure:
        report.executed.decline(f"{kind.name} {'runs sample by sample' if kind.lone else 'draws random numbers'}")
        return program
    if kind.apart:
        report.executed.decline(f"{kind.name} takes operands with different numbers of rows")
        return program
    known = static_steps(program)

    def run(operands: Sequence[Any], consts: Sequence[Any], count: int, besides: Sequence[Any] = ()) -> Any:
        form, sizes = form_of(kind, operands, count)
        static = None if known.unfit else known.take(program, form, sizes)
        if static is None:
            report.executed.decline(f"{kind.name} is not replayed: {known.unfit or 'too many of its steps wait'}")
            return program(operands, consts, count, besides)
        before = static.recorder.captures
        owners = besides[0] if besides else None
        try:
            if form.taped:
                results = list(StaticStepFunction.apply(static, sizes, owners, len(operands), *operands, *consts))
            else:
                results = static.forward(operands, sizes, owners, None)
        except (GluonJITError, RuntimeError, ValueError, TypeError, IndexError) as error:
            known.unfit = f"{type(error).__name__}: {error}"
            report.executed.decline(f"{kind.name} is not replayed: {known.unfit}")
            return program(operands, consts, count, besides)
        executed = report.executed
        executed.captures += static.recorder.captures - before
        executed.recordings += static.runs == 1
        executed.replays += static.runs > 1
        report.padded += static.sizes[0] - count
        return results

    return run


class ReplayedSteps(Session):
    """Runs each step by a static step of its program; none runs in C."""

    def _prepare(self, options: Options, samples: int) -> None:
        super()._prepare(options, samples)
        if self.tape is not None:
            # Not a method of this: the history of what can be read must not hold what holds that.
            self.tape.runs = partial(_replayed, self.plan, self.report)

    def _fusing(self, options: Options) -> FusedSteps:
        return FusedSteps(self.plan, self.arrays, ("fused",), self.report.unfused)

    def _runs(self, number: int) -> Runs:
        return _replayed(self.plan, self.report, number)
