"""What runs the plan of a flush (option `executor`): step by step, with compiled programs, or as a static plan."""

from __future__ import annotations

from gluonjit.analysis import Plan
from gluonjit.engines.torch.compiling import CompiledSession
from gluonjit.engines.torch.hooked import plain
from gluonjit.engines.torch.replay.plans import skeleton_of, static_plan
from gluonjit.engines.torch.replay.session import ReplaySession, learned_inputs
from gluonjit.engines.torch.replay.skeleton import Unfit, outline
from gluonjit.engines.torch.session import Session
from gluonjit.hybrid import Options, Report
from gluonjit.hybrid.provenance import Provenance

SEEN = 3
"""How often a skeleton has to come before executor="auto" makes a static plan for it, on CUDA."""


def session_for(plan: Plan, report: Report, options: Options, samples: int, provenance: Provenance) -> Session:
    """The session of a flush; the report says what runs it, and why not what was asked for."""
    wanted = options.executor
    if wanted == "replay" or (wanted == "auto" and _on_cuda(plan)):
        try:
            return _replayed(plan, report, options, samples, provenance)
        except Unfit as unfit:
            report.executed.decline(str(unfit))
    if wanted == "compiled":
        report.executed.count("compiled")
        return CompiledSession(plan, report, options, samples, provenance)
    report.executed.count("eager")
    return Session(plan, report, options, samples, provenance)


def _on_cuda(plan: Plan) -> bool:
    return any(arena.spec.device.startswith("cuda") for arena in plan.arenas)


def _replayed(plan: Plan, report: Report, options: Options, samples: int, provenance: Provenance) -> Session:
    """A session on a static plan. Raises Unfit."""
    if options.check_finite:
        raise Unfit("check_finite looks at the results of each step")
    if options.profile:
        raise Unfit("a profiled flush waits after each step")
    found = outline(plan, learned_inputs(plan))
    skeleton = skeleton_of(found)
    if skeleton.unfit:
        raise Unfit(f"its static plan failed: {skeleton.unfit}")
    if options.executor == "auto" and skeleton.seen < SEEN:
        raise Unfit(f"its skeleton has come less than {SEEN} times")
    with plain():  # what is made in inference mode could not be written to later
        static = static_plan(skeleton, plan, found, report)
    if static is None:
        raise Unfit("all static plans of its skeleton wait for a backward pass")
    return ReplaySession(plan, report, options, samples, provenance, found, skeleton, static)
