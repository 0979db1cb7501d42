"""Tensors as operands of the open batch: lazy ones by their value, others as leaves."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch._C._functorch import is_functorch_wrapped_tensor
from torch.autograd import forward_ad

from gluonjit.engines.torch.arrays import FLOATS, spec_of
from gluonjit.engines.torch.hooked import plain
from gluonjit.engines.torch.lookups import host_rows
from gluonjit.engines.torch.recorder import TraceTensor
from gluonjit.engines.torch.trace import NeedsValue
from gluonjit.graph import Value
from gluonjit.hybrid import LOCAL, Batch, engine_of

_INTEGERS = {"int32", "int64", "int16", "int8", "uint8"}
_BY_NUMBERS = {"float32", "float64", "bool", "float16", *_INTEGERS}
_SMALL = 4096  # bytes: up to here equal tensors are told by their numbers


class Unfit(Exception):
    """A tensor that is no operand of a batch; the text says why."""


class Held(NamedTuple):
    """The payload of a leaf: a tensor of the program's, and how often it had been written to when it was captured."""

    tensor: Any
    version: int


def version_of(tensor: Any) -> int:
    """How often a tensor has been written to."""
    return 0 if tensor.is_inference() else int(tensor._version)


def value_of(batch: Batch, tensor: Any) -> Value:
    """The value of a tensor in the batch's graph. Raises Unfit."""
    if tensor.__class__ is torch.Tensor:
        return leaf(batch, tensor)
    value: Value | None = getattr(tensor, "_v", None)
    if value is None:
        return leaf(batch, tensor)
    if value.graph is batch.graph:
        return value
    batch.carried.add(batch.sample - 1)
    return leaf(batch, concrete(tensor))


def concrete(lazy: Any) -> Any:
    """The computed tensor of a lazy one, with its history; runs what is pending."""
    if lazy._c is None:
        if LOCAL.state.trace is not None:
            raise NeedsValue
        lazy._c = engine_of("torch").force(lazy._v)  # type: ignore[attr-defined]
    return lazy._c


def leaf(batch: Batch, tensor: Any) -> Value:
    """A concrete tensor: equal when it is the same object, or when it is small and has the same numbers."""
    known = batch.imports.get(id(tensor))
    if tensor.__class__ is torch.Tensor and not tensor.requires_grad and not torch.is_inference_mode_enabled():
        version = version_of(tensor)  # nothing here is captured or recorded
        if known is not None and known[0].version == version and not tensor.is_inference():
            return known[1]
        value = _new_leaf(batch, tensor, version)
        batch.imports[id(tensor)] = (Held(tensor, version), value)
        return value
    with plain():
        version = version_of(tensor)
        if known is not None and known[0].version == version and not tensor.is_inference():
            return known[1]
        value = _new_leaf(batch, tensor, version)
    batch.imports[id(tensor)] = (Held(tensor, version), value)
    return value


def _new_leaf(batch: Batch, tensor: Any, version: int) -> Value:
    if is_functorch_wrapped_tensor(tensor) or forward_ad._current_level >= 0:
        raise Unfit("an argument is a tensor of torch.func, or forward-mode differentiation is on")
    if tensor.__class__ is TraceTensor or tensor.layout is not torch.strided or tensor.is_quantized:
        raise Unfit(f"an argument is a {type(tensor).__name__}, of which a batch has no rows")
    spec = spec_of(tensor)
    if not spec.bytes or tensor.is_complex() or tensor.is_meta:
        raise Unfit(f"an argument of shape {spec.shape} and dtype {spec.dtype} has no rows of numbers")
    if spec.dtype in _INTEGERS and len(spec.shape) <= 1:
        return host_rows(batch, tensor, spec)
    taped = tensor.requires_grad and spec.dtype in FLOATS
    key: Any = (id(tensor), version)
    payload = Held(tensor, version)
    if not taped and spec.bytes <= _SMALL and spec.device == "cpu" and spec.dtype in _BY_NUMBERS:
        key = (spec, tensor.numpy().tobytes())
        if key not in batch.graph.leaves:  # a copy, so that the program may write to its own
            copy = tensor.clone()
            payload = Held(copy, version_of(copy))
    elif tensor.is_inference():
        payload = _copied(batch, tensor)
        key = (id(payload.tensor), payload.version)
    base = batch.graph.add_leaf(key, payload, spec, taped).base
    return Value(base, 0, spec, batch.graph, taped, tensor)


def _copied(batch: Batch, tensor: Any) -> Held:
    """A tensor as it is now: of one that was made in inference mode nobody counts how often it is written to."""
    place = ("copied", id(tensor))
    known: Held | None = batch.created.get(place)
    if known is None or not torch.equal(known.tensor, tensor):
        copy = tensor.clone()
        known = batch.created[place] = Held(copy, version_of(copy))
    return known
