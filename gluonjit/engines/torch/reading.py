"""Numbers of lazy tensors for functions without dispatch: functions that create tensors, and calls within C++."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from functools import wraps
from typing import Any

import torch

from gluonjit.engines.torch.hooked import above
from gluonjit.engines.torch.lazy import LazyTensor
from gluonjit.engines.torch.operands import share
from gluonjit.errors import CaptureError
from gluonjit.hybrid.capture.structure import map_structure
from gluonjit.hybrid.run.engine import engine_of
from gluonjit.hybrid.run.state import LOCAL

_SPARSE = [f"sparse_{name}_tensor" for name in ("coo", "csr", "csc", "bsr", "bsc", "compressed")]
KEEPING = ("as_tensor", "asarray", *_SPARSE)
"""Functions of torch that ask no class of their arguments, and whose results have the history of these."""
_COPIES = {torch.ops.aten.detach, torch.ops.aten._to_copy, torch.ops.aten.clone, torch.ops.aten.alias}
_COPIES |= {torch.ops.aten._local_scalar_dense, torch.ops.aten.copy_, torch.ops.aten.lift_fresh}


def computed(item: Any, lending: bool = False) -> Any:
    """Lazy tensors in nested arguments as computed ones; lending: with memory that is given to others."""

    def of(part: Any) -> Any:
        if part.__class__ is not LazyTensor:
            return part
        found = engine_of("torch").lent(part) if lending else share(part)  # type: ignore[attr-defined]
        if part.__dict__:
            found.__dict__ = part.__dict__  # what the program attaches to one is attached to the other
        return found

    return map_structure(item, of)


def of_computed(function: Callable[..., Any]) -> Callable[..., Any]:
    """Wraps a function so that it is given computed tensors, whose memory its result may have."""

    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        return function(*computed(args, True), **computed(kwargs, True))

    return call


def is_inference(input: Any) -> bool:
    """torch.is_inference, which PyTorch answers of a stand-in's own memory."""
    return bool(input.is_inference())


def read_by(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Runs an operator that C++ calls on lazy tensors, as `torch.tensor([x])` does, on their numbers.

    Autograd has been passed by then, and is begun again. Raises CaptureError if gradients would get lost: of views.
    """
    batch = LOCAL.state.batch
    if batch is not None:
        batch.caller = func.overloadpacket.__name__
    try:
        given, named = computed(args), computed(kwargs)
    finally:
        if batch is not None:
            batch.caller = ""
    tensors = [item for item in (*given, *named.values()) if isinstance(item, torch.Tensor)]
    learns = torch.is_grad_enabled() and func.overloadpacket not in _COPIES and any(t.requires_grad for t in tensors)
    if learns and (func.is_view or func._schema.is_mutable):
        raise CaptureError(
            f"{func} was called on a result whose gradient is recorded, and this function of PyTorch does not "
            "dispatch to tensor subclasses. Call it by its full name (torch.NAME) after `import gluonjit`, or on "
            "`tensor.detach()`."
        )
    if named.get("device") is not None and named["device"].type == "meta":  # that of the stand-ins
        named["device"] = tensors[0].device
    with above() if learns else nullcontext():
        return func(*given, **named)
