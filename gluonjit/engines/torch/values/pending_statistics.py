"""Buffers that are written when pending calls have run: by their class PyTorch tells of all that reads them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import torch
from torch.utils._python_dispatch import _disable_current_modes

from gluonjit.hybrid.run.state import LOCAL
from gluonjit.program.trace import NeedsValue

WAITING = "it reads running statistics that pending calls update"
"""Why a call is no node."""
_LOOKS = {
    getattr(torch.Tensor, name).__get__
    for name in (
        "_version device dtype grad_fn is_cpu is_cuda is_leaf is_meta is_nested is_quantized is_sparse layout ndim "
        "requires_grad shape"
    ).split()
} | {
    getattr(torch.Tensor, name)
    for name in "__len__ dim element_size is_complex is_floating_point is_inference nelement numel size stride".split()
}
"""Functions that tell what a tensor looks like, and no number."""
PENDING: list[Any] = []
"""The `statistics.RunningStatistics` of batches that have some to write."""


class PendingStatistic(torch.Tensor):  # type: ignore[misc]
    """The class of a running statistic while calls that update it wait."""

    @classmethod
    def __torch_function__(cls, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Runs what waits before anything is done with the numbers."""
        if func in _LOOKS:
            with torch._C.DisableTorchFunctionSubclass():
                return func(*args, **(kwargs or {}))
        if LOCAL.state.trace is not None:
            raise NeedsValue
        write_statistics()
        return func(*args, **(kwargs or {}))


def write_statistics() -> None:
    """Runs the calls that update running statistics, if any wait."""
    if PENDING:
        with _unwatched():
            while PENDING:
                PENDING[-1].run()


@contextmanager
def _unwatched() -> Iterator[None]:
    """A region that is no part of what a tracer or a mode of the program's sees, such as torch.jit.trace."""
    tracing = torch._C._get_tracing_state()
    torch._C._set_tracing_state(None)
    try:
        with _disable_current_modes() if torch._C._len_torch_dispatch_stack() else nullcontext():
            yield
    finally:
        torch._C._set_tracing_state(tracing)
