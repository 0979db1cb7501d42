"""Checks, before a batch runs, that its weights and buffers are what they were when its calls were captured."""

from __future__ import annotations

from typing import Any

import numpy as np

from gluonjit.analysis.plan import LookupChunk, Place, Plan
from gluonjit.engines.torch.framework.buffers import note_written
from gluonjit.engines.torch.framework.exposed import end_use, kept
from gluonjit.engines.torch.framework.input_version import InputVersion, version_of
from gluonjit.engines.torch.run.program import program_of
from gluonjit.errors import CaptureError
from gluonjit.hybrid.explain.counts import Counts
from gluonjit.hybrid.run.failures import both
from gluonjit.hybrid.run.state import LOCAL


def check_constants(report: Counts, plan: Plan) -> tuple[list[InputVersion], list[tuple[Place, CaptureError]]]:
    """Buffers that were written to since calls of the batch that is run next were captured, as they were then.

    And the rows of tables that were written to, which no call that runs needs, with what is raised if one is read.
    Raises CaptureError of a weight that runs, and where it is not known what a buffer was.
    """
    found: list[InputVersion] = []
    lost: list[tuple[Place, CaptureError]] = []
    for own in _accounts(report):
        versions, snapshots, own.versions, own.snapshots = own.versions, own.snapshots, {}, {}
        exposed = own.exposed
        own.exposed = kept(exposed, [tensor for tensor, _, _ in versions.values()]) if exposed else exposed
        for number, (tensor, version, address) in versions.items():
            same = version_of(tensor) == version and tensor.data_ptr() == address
            unseen = bool(exposed) and end_use(exposed, tensor)
            if same and not unseen:
                continue
            held = None if unseen else snapshots.get(number)  # of what nobody saw, any call may be the first after
            users = [step for step in plan.steps if any(tensor is item for item in program_of(step.kind).consts)]
            known = held is not None and held.rows is not tensor and all(step.kind.operator for step in users)
            tables = [chunk for chunk in plan.inputs if isinstance(chunk, LookupChunk)]
            looked = [chunk.place for chunk in tables if chunk.table.weight is tensor]
            if held is not None and known and users and not looked:
                found.append(held)
            elif users or looked:
                error = _written_weight(tensor)
                if users or any(plan.reads(at.arena, np.arange(at.begin, at.end)) for at in looked):
                    raise error
                lost += [(place, error) for place in looked]
    return found, lost


def statistics_of(report: Counts) -> Any:
    """The running statistics that calls update of the batch that is run next; None where there are none."""
    for own in _accounts(report):
        if own.statistics.buffers:
            return own.statistics
    return None


def _accounts(report: Counts) -> list[Any]:
    """The account of the batch that is run next."""
    state = LOCAL.state
    return [batch.own for batch in (*state.explicit, state.batch) if batch is not None and batch.report is report]


def _written_weight(tensor: Any) -> CaptureError:
    """The error of calls that need what a weight was; the eager program's backward raises one of its class."""
    note_written(tensor)
    text = (
        f"a weight of shape {tuple(tensor.shape)} was written to after calls that use it were captured and before "
        "they ran. First read a result of these calls (or call batch.flush), which runs them."
    )
    return both(CaptureError, RuntimeError, text)
