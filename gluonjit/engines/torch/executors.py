"""Executors of the plan of a flush (option `executor`): a static plan, static steps, or plain steps."""

from __future__ import annotations

from gluonjit.analysis.plan import Plan
from gluonjit.engines.torch.hooked import plain
from gluonjit.engines.torch.recorded import gradients_again
from gluonjit.engines.torch.replay.plans import new_often, skeleton_of, static_plan
from gluonjit.engines.torch.replay.session import ReplaySession, learned_inputs
from gluonjit.engines.torch.replay.skeleton import NotStatic, sized_skeleton
from gluonjit.engines.torch.replay.steps import ReplayedSteps
from gluonjit.engines.torch.session import Session
from gluonjit.hybrid.explain.counts import Counts
from gluonjit.hybrid.explain.provenance import Provenance
from gluonjit.hybrid.options import Options

SEEN = 3
"""The number of times that a skeleton has to come before executor="auto" makes a static plan for it, on CUDA."""

SESSIONS: dict[str, type[Session]] = {"stepwise": Session, "steps": ReplayedSteps}
"""The sessions that run steps one by one, by the executor's name."""


def session_for(plan: Plan, report: Counts, options: Options, samples: int, provenance: Provenance) -> Session:
    """The session of a flush; the report says what runs it, and why not what was asked for."""
    wanted = options.executor
    if wanted == "auto":
        wanted = "replay" if _on_cuda(plan) else "stepwise"
    if wanted in ("replay", "steps"):
        looks = _looks_at_steps(options)
        if looks:
            report.executed.decline(looks)
            wanted = "stepwise"
    if wanted == "replay":
        try:
            return _replayed(plan, report, options, samples, provenance)
        except NotStatic as unfit:
            report.executed.decline(str(unfit))
            wanted = unfit.instead
    report.executed.count(wanted)
    session = SESSIONS[wanted](plan, report, options, samples, provenance)
    if session.tape is not None:
        session.tape.again = gradients_again
    return session


def _on_cuda(plan: Plan) -> bool:
    found = plan.common.cuda
    if found is None:
        found = plan.common.cuda = any(arena.spec.device.startswith("cuda") for arena in plan.arenas)
    return found


def _looks_at_steps(options: Options) -> str:
    """Says why steps must be seen one by one, if they must."""
    if options.check_finite:
        return "check_finite checks the results of each step"
    return "a profiled flush waits after each step" if options.profile else ""


def _replayed(plan: Plan, report: Counts, options: Options, samples: int, provenance: Provenance) -> Session:
    """A session on a static plan. Raises NotStatic."""
    found = sized_skeleton(plan, learned_inputs(plan))
    skeleton = skeleton_of(found)
    if skeleton.unfit:
        raise NotStatic(f"its static plan failed: {skeleton.unfit}")
    if options.executor == "auto" and skeleton.seen < SEEN:
        raise NotStatic(
            f"its skeleton has occurred fewer than {SEEN} times", "steps" if new_often(found) else "stepwise"
        )
    with plain():  # what is made in inference mode could not be written to later
        static = static_plan(skeleton, plan, found, report)
    if static is None:
        raise NotStatic("all static plans of its skeleton have a pending backward pass")
    return ReplaySession(plan, report, options, samples, provenance, found, skeleton, static)
