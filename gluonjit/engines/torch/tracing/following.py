"""A follower's knowledge of PyTorch's objects."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from types import MethodType
from typing import Any

import torch

from gluonjit.engines.torch.framework.originals import REQUIRES_GRAD
from gluonjit.engines.torch.framework.structure import RESULTS
from gluonjit.engines.torch.tracing.effects import PARTS
from gluonjit.engines.torch.tracing.recurrent import WHOLE
from gluonjit.engines.torch.tracing.traced_tensors import Positions, TraceTensor
from gluonjit.hybrid.capture.guards.facts import ABSENT, class_attribute, is_plain
from gluonjit.hybrid.capture.guards.follower import Follower, follow
from gluonjit.hybrid.capture.guards.objects import FrameworkObjects
from gluonjit.hybrid.capture.guards.variants import Noted
from gluonjit.hybrid.capture.structure import Kwargs, items_of

_LOOKS = frozenset(
    """shape dtype device ndim layout T mT H mH real imag data requires_grad itemsize nbytes is_cpu is_cuda is_meta
    is_sparse is_sparse_csr is_quantized is_nested is_mkldnn is_mps is_mtia is_xpu is_xla grad grad_fn is_leaf
    retains_grad names""".split()
)
"""Attributes of tensors that follow from shape, dtype and device, or that stand-ins answer by themselves."""
_MEMORY = frozenset(
    """stride is_contiguous storage_offset data_ptr storage untyped_storage storage_type is_set_to is_shared is_pinned
    is_conj is_neg has_names dim_order __dir__ __sizeof__ __class__ __dict__ __hash__ __reduce_ex__""".split()
)
"""What is asked of a tensor's memory, or of what is kept beside its numbers."""


class _TorchObjects(FrameworkObjects):
    """PyTorch's objects, while a call of a module is traced."""

    arrays, traced, blocks = torch.Tensor, TraceTensor, torch.nn.Module
    constants = (torch.dtype, torch.device, torch.layout, torch.memory_format, torch.finfo, torch.iinfo)
    framework, shape = "torch", torch.Size
    flags = {"requires_grad": REQUIRES_GRAD}
    modes = frozenset(
        (
            torch.is_grad_enabled,
            torch.is_inference_mode_enabled,
            torch.no_grad,
            torch.enable_grad,
            torch.set_grad_enabled,
            torch.inference_mode,
        )
    )
    instead = WHOLE

    def __init__(self, owner: Any) -> None:
        modules = owner.modules() if isinstance(owner, torch.nn.Module) else ()
        self._watched = {id(module) for module in modules}

    def writes(self, out: Any) -> list[int]:
        return [tensor.root.writes for tensor in items_of(out, TraceTensor)]

    def answers(self, item: Any, name: str) -> bool:
        if name in _LOOKS:
            return True
        found = class_attribute(torch.Tensor, name)
        return callable(found) and name not in _MEMORY and (not name.startswith("_") or name.endswith("__"))

    def watched(self, item: Any) -> bool:
        return id(item) in self._watched

    def settable(self, item: Any, name: str) -> bool:
        return (
            self.watched(item)
            and name != "training"
            and not name.startswith("__")
            and class_attribute(type(item), name) is ABSENT
            and type(item).__setattr__ is torch.nn.Module.__setattr__
            and not any(name in item.__dict__[space] for space in PARTS)
        )

    def is_result(self, item: Any, name: str) -> bool:
        return name in RESULTS.get(item, ())

    def spaces(self, item: Any) -> Sequence[dict[str, Any]]:
        return [item.__dict__[name] for name in PARTS] if isinstance(item, torch.nn.Module) else ()

    def state(self, item: Any) -> Iterator[tuple[dict[str, Any], str]]:
        for module in item.modules():
            for name in PARTS:
                yield from [(module.__dict__[name], key) for key in module.__dict__[name]]
            yield from [(module.__dict__, name) for name, value in module.__dict__.items() if is_plain(value)]


def followed(recorder: Positions, owner: Any, run: Callable[..., Any], args: Any, kwargs: Kwargs, noted: Noted) -> Any:
    """Records a call and returns its result and what it has read. Raises Refused if it is not a node."""
    follower = Follower(_TorchObjects(owner), (args, kwargs))
    if type(run) is MethodType and run.__self__ is owner:
        names = [name for name in (run.__name__, "forward") if getattr(owner, name, None) == run]
        run = follower.get(owner, names[0]) if names else run  # of other names, where it was assigned
    return follow(recorder, follower, run, args, kwargs, noted)
