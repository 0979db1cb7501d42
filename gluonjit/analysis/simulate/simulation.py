"""Predictions of the flushes of a trace: each scheduler, with and without sharing, for batches of any size."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from time import perf_counter

from gluonjit.analysis.bound import critical_path, lower_bound
from gluonjit.analysis.costs.model import CostModel
from gluonjit.analysis.plan import arena_bytes, gathered_bytes, gathers, launches
from gluonjit.analysis.planner import make_plan
from gluonjit.analysis.simulate.trace_file import BatchTrace
from gluonjit.analysis.simulate.trace_graph import restored

_REPEATS, _SECONDS = 3, 0.5  # the analysis is measured so often, but not again after so long


@dataclass(frozen=True)
class Simulated:
    """One flush.

    batch_size: samples, 0 where the trace knows none; nodes: those that run; critical_path: the longest chain of
    nodes; gathers: launches that put operands together, which copy `gathered_bytes`; arena_bytes: all inputs and
    results, forward; analysis_ms: the least of a few, measured here; forward_ms, training_ms: predicted, with
    backward the latter, which is None if nothing was captured under recording.
    """

    granularity: str
    scheduler: str
    sharing: bool
    batch_size: int
    nodes: int
    launches: int
    lower_bound: int
    critical_path: int
    gathers: int
    gathered_bytes: int
    arena_bytes: int
    analysis_ms: float
    forward_ms: float
    training_ms: float | None


def simulated(
    trace: BatchTrace, schedulers: Sequence[str], model: CostModel, batch_sizes: Sequence[int] | None = None
) -> Iterator[Simulated]:
    """A row for each batch size (None: the whole trace), sharing and scheduler.

    Smaller batches are the first samples, larger ones repeat them. With sharing and without, if the trace was taken
    without. Raises TraceError for a batch size that cannot be had from this trace.
    """
    known = len(trace.samples)
    for batch_size in batch_sizes or [0]:
        samples = [number % max(known, 1) for number in range(batch_size)] or None
        for sharing in (True,) if trace.sharing else (False, True):
            for scheduler in schedulers:
                yield simulated_flush(trace, scheduler, model, samples, sharing)


def simulated_flush(
    trace: BatchTrace,
    scheduler: str,
    model: CostModel,
    samples: Sequence[int] | None = None,
    sharing: bool | None = None,
) -> Simulated:
    """Plans one flush of a trace, with samples and sharing as in `restored`."""
    times: list[float] = []
    while len(times) < _REPEATS and sum(times) < _SECONDS:
        graph = restored(trace, samples, sharing)  # anew, as to plan it folds sums in it
        begin = perf_counter()
        plan = make_plan(graph.graph, graph.sum_kind, scheduler)
        times.append(perf_counter() - begin)
    costs = model.predict(plan, graph.calls, scheduler, trace.granularity, any(plan.recorded))
    return Simulated(
        granularity=trace.granularity,
        scheduler=scheduler,
        sharing=trace.sharing or bool(sharing),
        batch_size=len(trace.samples if samples is None else samples),
        nodes=plan.nodes,
        launches=sum(launches(step) for step in plan.steps),
        lower_bound=lower_bound(plan),
        critical_path=critical_path(plan),
        gathers=sum(gathers(step) for step in plan.steps),
        gathered_bytes=sum(gathered_bytes(plan, step) for step in plan.steps),
        arena_bytes=arena_bytes(plan),
        analysis_ms=min(times) * 1e3,
        forward_ms=(costs.total - costs.backward) * 1e3,
        training_ms=costs.total * 1e3 if any(plan.recorded) else None,
    )
