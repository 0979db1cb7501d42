"""BatchNorm in training, as one node whose running statistics are written when it has run."""

from __future__ import annotations

from operator import is_
from typing import Any
from weakref import WeakKeyDictionary

import torch

from gluonjit.engines.torch.capture.cells import capture, open_batch
from gluonjit.engines.torch.capture.records import NotOneNode
from gluonjit.engines.torch.framework.originals import autocast
from gluonjit.engines.torch.tracing.cell import Cell
from gluonjit.engines.torch.values.lazy import LazyTensor
from gluonjit.engines.torch.values.statistics import Normalized, may_wait
from gluonjit.hybrid.options import Options
from gluonjit.hybrid.run.batch import Batch
from gluonjit.hybrid.run.state import LOCAL

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
    several = torch.distributed.is_available() and torch.distributed.is_initialized()
    return bool(several or autocast() or torch.is_inference_mode_enabled())


_FLOATS = {torch.float32, torch.float64}
