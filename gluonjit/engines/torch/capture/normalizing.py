"""BatchNorm in training, as one node whose running statistics are written when it has run."""

from __future__ import annotations

import sys
import threading
from collections.abc import Sequence
from functools import cache
from operator import is_
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import torch

from gluonjit.engines.torch.capture.cells import capture, open_batch
from gluonjit.engines.torch.capture.records import NotOneNode
from gluonjit.engines.torch.framework.originals import autocast, is_distributed
from gluonjit.engines.torch.tracing.cell import Cell
from gluonjit.engines.torch.values.lazy import LazyTensor
from gluonjit.engines.torch.values.operands import concrete
from gluonjit.engines.torch.values.pending_statistics import PENDING, PendingStatistic, write_statistics
from gluonjit.graph import Value
from gluonjit.hybrid.options import Options
from gluonjit.hybrid.run.batch import Batch
from gluonjit.hybrid.run.state import LOCAL


class Normalized(NamedTuple):
    """A call whose statistic is to be mixed into a running one, with a weight of `factor`."""

    running: Any
    factor: float
    statistic: Any


class RunningStatistics:
    """The running statistics that the pending calls of one batch update, in the order of these, when they have run.

    A buffer of which this is so is of another class meanwhile, by which PyTorch tells of all that a program does with
    it: what waits runs before. It has to be the only tensor that has its memory, as no other one would tell.
    """

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


_cells: WeakKeyDictionary[Any, Cell] = WeakKeyDictionary()


def normalized(module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Captures a call of a module that keeps statistics, inside of a sample; None where it has to run as it is."""
    batch = open_batch()
    if any([id(buffer) in batch.own.versions for buffer in module._buffers.values()]):
        batch.flush("running statistics are written to", "sample")  # of which PyTorch keeps no count
    if kwargs or len(args) != 1 or args[0].__class__ is not LazyTensor or LOCAL.state.recorded is not None:
        return None
    return _captured(module, args[0])


def batch_norm_by_itself(given: Any, weight: Any, bias: Any, eps: float) -> tuple[Any, Any, Any]:
    """Normalizes by the statistics of this call; returns that, means and unbiased variances of channels."""
    found = torch.nn.functional.batch_norm(given, None, None, weight, bias, True, 0.0, eps)
    variance, mean = torch.var_mean(given.detach(), [0, *range(2, given.dim())])
    return found, mean, variance


def _captured(module: Any, given: Any) -> Any:
    """A call as one node; None where it has to run as it is."""
    module._check_input_dim(given)
    batch = open_batch()
    shape = given.shape
    if _otherwise() or shape.numel() <= shape[1] or module.num_batches_tracked.__class__ is not torch.Tensor:
        return None
    parts = (module.running_mean, module.running_var, module.weight, module.bias)
    look = (given.dtype, given.device, shape[1])
    statistics = batch.own.statistics
    known = statistics.modules.get(id(module))
    if known is None or known[1] != look or not all(map(is_, known[0], parts)):
        if look[0] not in _FLOATS or not _fit(parts, look):
            return None
        if parts[0] is parts[1] or not (may_wait(batch, parts[0]) and may_wait(batch, parts[1])):
            return None
        known = parts, look
    return _node(module, given, batch, known)


def _fit(parts: tuple[Any, ...], look: tuple[Any, ...]) -> bool:
    """True if buffers and weights are of an input's dtype, device, and number of channels."""
    *running, weight, bias = parts
    if any([tensor is None for tensor in running]):
        return False
    if any([tensor is not None and tensor.__class__ is not torch.nn.Parameter for tensor in (weight, bias)]):
        return False
    return all([(tensor.dtype, tensor.device, *tensor.shape) == look for tensor in parts if tensor is not None])


def _cell_of(module: Any) -> Cell:
    """The cell of such calls of a module: those of any length run together."""
    found = _cells.get(module)
    if found is None:
        found = _cells[module] = Cell("batch_norm", Options(), stateless=True)
        found.whole = True
    return found


def _node(module: Any, given: Any, batch: Batch, known: tuple[Any, ...]) -> Any:
    mean, variance, weight, bias = known[0]
    args = (given, weight, bias, module.eps)
    try:
        found, *own = capture(_cell_of(module), None, batch_norm_by_itself, args, {}, batch)
    except NotOneNode:
        return None
    with torch.no_grad():
        module.num_batches_tracked.add_(1)
    momentum = module.momentum
    factor = 1.0 / float(module.num_batches_tracked) if momentum is None else float(momentum)
    statistics = batch.own.statistics
    statistics.add([Normalized(running, factor, statistic) for running, statistic in zip((mean, variance), own)])
    statistics.modules[id(module)] = known
    return found


def _otherwise() -> bool:
    """True if PyTorch does something else than usual."""
    return bool(is_distributed() or autocast() or torch.is_inference_mode_enabled())


_FLOATS = {torch.float32, torch.float64}
