"""Running statistics of BatchNorm whose calls wait: written in the order of the calls when these have run.

A buffer of which this is so is of another class meanwhile, by which PyTorch tells of all that a program does with it:
what waits runs before. It has to be the only tensor that has its memory, as no other one would tell.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Sequence
from functools import cache
from typing import Any, NamedTuple

import torch

from gluonjit.engines.torch.values.operands import concrete
from gluonjit.engines.torch.values.pending_statistics import PENDING, PendingStatistic, write_statistics
from gluonjit.graph import Value
from gluonjit.hybrid.run.batch import Batch


class Normalized(NamedTuple):
    """A call whose statistic is to be mixed into a running one, with a weight of `factor`."""

    running: Any
    factor: float
    statistic: Any


class RunningStatistics:
    """The running statistics that the pending calls of one batch update, in the order of these."""

    def __init__(self) -> None:
        self._calls: list[Normalized] = []
        self.buffers: dict[int, Any] = {}
        self.modules: dict[int, Any] = {}  # to which these belong, with what was found fit of each

    def add(self, calls: Sequence[Normalized]) -> None:
        """Adds calls on buffers that `may_wait` was asked of."""
        if not self._calls:
            PENDING.append(self)
        for call in calls:
            if id(call.running) not in self.buffers:
                self.buffers[id(call.running)] = call.running
                call.running.__class__ = PendingStatistic
        self._calls += calls

    def write(self) -> None:
        """Writes what the calls have computed, which have run; nothing where their batch has failed."""
        calls, self._calls = self._calls, []
        if calls:
            PENDING.remove(self)
        for buffer in self.buffers.values():
            buffer.__class__ = torch.Tensor
        self.buffers, self.modules = {}, {}
        found: dict[int, list[Normalized]] = {}
        for call in calls:
            if call.statistic._c is not None or not isinstance(_graph_of(call.statistic), str):
                found.setdefault(id(call.running), []).append(call)
        with torch.no_grad():
            for of in found.values():
                _mix(of)

    def run(self) -> None:
        """Runs the calls, at whose end they are written."""
        while self._calls:
            last = self._calls[-1].statistic
            if last._c is None and isinstance(_graph_of(last), Batch):
                concrete(last)
            else:
                self.write()


def _graph_of(lazy: Any) -> Any:
    """The batch that a lazy tensor waits for, why it has not run, or what has its results; None where it is known."""
    value: Value = lazy._v
    return None if value.graph is None else value.graph.owner


def _mix(calls: Sequence[Normalized]) -> None:
    """Writes to one running statistic what these calls would have written, one after the other."""
    left, weights = 1.0, []
    for call in reversed(calls):
        weights.append(call.factor * left)
        left *= 1 - call.factor
    running = calls[0].running
    rows = torch.stack([concrete(call.statistic) for call in calls])
    weight = torch.tensor(weights[::-1], dtype=rows.dtype, device=rows.device)
    running.mul_(left).add_(weight @ rows)


def may_wait(batch: Batch, running: Any) -> bool:
    """True if all that is done with a running statistic is seen from now on, while calls that update it wait."""
    if running.__class__ is PendingStatistic:
        if id(running) not in batch.own.statistics.buffers:
            write_statistics()  # calls of an outer batch
        else:
            return True
    if running.__class__ is not torch.Tensor or running.requires_grad or id(running) in batch.own.versions:
        return False
    if id(running) in batch.own.snapshots or id(running) in batch.imports or running.is_inference():
        return False
    main = threading.current_thread() is threading.main_thread()
    return main and _uses_alone() != () and _is_own(running) and _uses(running) == _uses_alone()


def _is_own(tensor: Any) -> bool:
    """True if neither another library nor another process has its memory."""
    storage = tensor.untyped_storage()
    return bool(storage.resizable() and not storage.is_shared())


def _uses(tensor: Any) -> tuple[int, ...]:
    """Counts what has a tensor, its storage, and that as an object of Python's."""
    storage = tensor.untyped_storage()
    return tensor._use_count(), torch._C._storage_Use_Count(storage._cdata), sys.getrefcount(storage)


@cache
def _uses_alone() -> tuple[int, ...]:
    """Counts the same of a tensor that only one variable has; nothing is like it if PyTorch does not count."""
    fresh = torch.zeros(1)
    return _uses(fresh) if hasattr(fresh, "_use_count") and hasattr(torch._C, "_storage_Use_Count") else ()
