"""Copies of inputs on a device, which cost no launch until the program writes to the input.

A loader may refill its buffers, so small inputs are copied at capture. On a device each copy is a launch. PyTorch can
copy when a storage is first written to instead: by any of its operators, through `.data`, or by who asks for
`data_ptr()`. The copy then moves the storage, and is made in the order of the default stream. So inputs are copied at
once if others may know their address or write to them in another order.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any
from weakref import WeakSet

import torch

from gluonjit.engines.torch.framework.originals import is_distributed
from gluonjit.hybrid.run.batch import Batch

DEVICES = {"cuda"}
_LARGEST = 1 << 26  # bytes of a storage, which a write copies whole
_exported: WeakSet[Any] = WeakSet()  # storages whose addresses other libraries know
_streams = [torch.cuda.is_initialized()]  # whether there may be streams besides the default one


def snapshot(batch: Batch, tensor: Any) -> Any:
    """Returns a tensor with the numbers that another has now, whatever is written to that one."""
    numbers = tensor.detach()
    if not tensor.requires_grad and tensor.device.type in DEVICES and _is_alone(batch, tensor):
        try:
            return torch._lazy_clone(numbers)
        except RuntimeError:  # of memory that is not PyTorch's
            pass
    return numbers.clone()


def _is_alone(batch: Batch, tensor: Any) -> bool:
    """True if nobody but PyTorch, in its default stream, writes to a tensor's storage; to a large one only once."""
    if tensor.__class__ is not torch.Tensor or _streams[0] or is_distributed():  # which has own streams
        return False
    storage = tensor.untyped_storage()
    if storage in _exported or storage.nbytes() > _LARGEST:
        return False
    if storage.nbytes() <= batch.options.copy_inputs:
        return True
    if ("storage", storage._cdata) in batch.created:
        return bool(torch._C._is_cow_tensor(tensor))  # until it is written to for the first time
    batch.created["storage", storage._cdata] = tensor  # no other one gets its address
    return True


def _make_stream(cls: Any, *args: Any, **kwargs: Any) -> Any:
    """Stands in for torch.cuda.Stream.__new__."""
    stream = _NEW_STREAM(cls, *args, **kwargs)
    if stream.cuda_stream:
        _streams[0] = True
    return stream


def exporting(original: Callable[..., Any]) -> Callable[..., Any]:
    """Wraps a function that gives a tensor's address to another library, which writes to it unseen."""

    @wraps(original)
    def export(tensor: Any, *args: Any, **kwargs: Any) -> Any:
        if tensor.__class__ is torch.Tensor and tensor.device.type in DEVICES:
            _exported.add(tensor.untyped_storage())
        return original(tensor, *args, **kwargs)

    return export


_NEW_STREAM = torch.cuda.Stream.__new__
_INTERFACE: Any = torch.Tensor.__dict__["__cuda_array_interface__"]
export_tensor = exporting(torch.Tensor.__dlpack__)
WATCHED = [
    (torch.cuda.Stream, "__new__", _make_stream),
    (torch.Tensor, "__dlpack__", export_tensor),
    (torch.Tensor, "__cuda_array_interface__", property(exporting(_INTERFACE.__get__), doc=_INTERFACE.__doc__)),
]
"""Replacements of functions by which an address becomes known, or there is another order."""
