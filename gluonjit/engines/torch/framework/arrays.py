"""Shape, dtype and device of tensors, as specs of the graph."""

from __future__ import annotations

from collections.abc import Callable
from ctypes import c_char
from functools import cache, lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from gluonjit.graph.values import Spec, intern_spec, natural_mode

VERSIONS = {"costs": "2", "torch": str(torch.__version__)}
"""The versions that measured costs belong to; the first number grows when what is timed changes."""
FLOATS = {"float16", "bfloat16", "float32", "float64"}
LEARNABLE = FLOATS | {"complex32", "complex64", "complex128"}
"""Dtypes of tensors that gradients may go through."""
INTEGERS = {"int32", "int64", "int16", "int8", "uint8"}
INDICES = {getattr(torch, name) for name in INTEGERS}
"""Dtypes of numbers that may be indices. In traces 0 stands for them all, a place that every dimension has."""
WHOLE = INTEGERS | {"bool"}
"""Dtypes of tensors whose numbers are known where they are on the host."""
_SMALL = 4096  # bytes: up to here equal tensors are told by their numbers
_MOST_LOOKS = 10_000
LOOKS: dict[Any, TensorTraits] = {}
"""Traits of tensors by shape, dtype and device."""


@cache
def name_of_dtype(dtype: Any) -> str:
    """The dtype by name, such as "float32"."""
    return str(dtype).removeprefix("torch.")


@cache
def dtype_named(name: str) -> Any:
    """The dtype of this name."""
    return getattr(torch, name)


@cache
def name_of_device(device: Any) -> str:
    """The device by name, such as "cpu" or "cuda:0"."""
    return str(device)


@cache
def device_named(name: str) -> Any:
    """The device of this name."""
    return torch.device(name)


class TensorTraits:
    """Knows what free-standing tensors of one shape, dtype and device have in common.

    unfit: they are no operands of a batch; number: the look of each one, of integers of at most one dimension;
    bytes_at: reads the bytes of a small one at an address, None if a batch does not tell them by their numbers.
    """

    __slots__ = ("bytes_at", "learns", "number", "spec", "unfit")

    def __init__(self, tensor: Any) -> None:
        shape = tuple(tensor.shape)
        dtype, device = name_of_dtype(tensor.dtype), name_of_device(tensor.device)
        self.spec = spec = intern_spec(shape, dtype, device, natural_mode(shape))
        self.unfit = not spec.bytes or tensor.is_quantized or device == "meta"
        whole = dtype in INTEGERS and len(shape) <= 1
        self.number = intern_spec((), dtype, device, "stack") if whole else None
        self.learns = dtype in LEARNABLE
        self.bytes_at: Callable[[int], Any] | None = None
        if spec.bytes <= _SMALL and device == "cpu" and dtype in FLOATS | WHOLE:
            self.bytes_at = (c_char * spec.bytes).from_address


def look_of(tensor: Any) -> TensorTraits:
    """The look of a free-standing tensor."""
    key = (tensor.shape, tensor.dtype, tensor.device)
    found = LOOKS.get(key)
    if found is None:
        if len(LOOKS) >= _MOST_LOOKS:
            LOOKS.clear()
        found = LOOKS[key] = TensorTraits(tensor)
    return found


def clear_looks() -> None:
    """Forgets all traits, whose specs no longer equal new ones."""
    LOOKS.clear()


def bytes_of(look: TensorTraits, tensor: Any) -> bytes:
    """Returns the current numbers of a small tensor as bytes, in order."""
    # PyTorch's own `numpy` would let others write to its memory, for all that PyTorch knows from then on.
    if look.bytes_at is not None and tensor.is_contiguous() and not tensor.is_neg():
        address = tensor.data_ptr()
        if address:
            return look.bytes_at(address).raw  # type: ignore[no-any-return]
    return tensor.clone().flatten().view(torch.uint8).numpy().tobytes()  # type: ignore[no-any-return]


def of_bytes(raw: bytes, spec: Spec) -> Any:
    """Makes a tensor of rows like those of `spec`, with its own memory, from these bytes."""
    return torch.frombuffer(bytearray(raw), dtype=dtype_named(spec.dtype)).reshape(-1, *spec.row_shape)


def spec_of(tensor: Any) -> Spec:
    """The spec of a free-standing tensor."""
    return look_of(tensor).spec


def with_memory(gradient: Any) -> Any:
    """A gradient, or None; zeros that PyTorch only tells of, as where `sign` is differentiated, in memory."""
    if gradient is None or not gradient._is_zerotensor():
        return gradient
    return torch.zeros(gradient.shape, dtype=gradient.dtype, device=gradient.device)


def on_host(tensor: Any) -> Any:
    """A tensor on the host that looks like this one: itself, or of other numbers, as reading them would be a wait."""
    if tensor.device.type == "cpu":
        return tensor.detach()
    like = torch.empty_like if tensor.is_floating_point() else torch.zeros_like  # zeros are indices of anything
    return like(tensor, device="cpu", requires_grad=False)


def room_for(spec: Spec, rows: int) -> Any:
    """A tensor, not yet filled, of this many rows like those of `spec`."""
    return torch.empty((rows, *spec.row_shape), dtype=dtype_named(spec.dtype), device=device_named(spec.device))


def by_one_thread(function: Callable[..., Any], *given: Any, **named: Any) -> Any:
    """Calls something short, after which PyTorch's other threads would look for more for milliseconds, on cores that
    steps in C want."""
    threads = torch.get_num_threads()
    if threads == 1:
        return function(*given, **named)
    torch.set_num_threads(1)
    try:
        return function(*given, **named)
    finally:
        torch.set_num_threads(threads)


def sent(numbers: npt.NDArray[np.int64], device: Any) -> Any:
    """Sends integers of the host to a device as a tensor, without waiting for the copy."""
    found = torch.from_numpy(numbers)
    if device.type != "cuda":
        return found if device.type == "cpu" else found.to(device)
    return found.pin_memory().to(device, non_blocking=True)


def zeros_of(spec: Spec) -> Any:
    """A tensor of zeros of this shape and dtype, on the host."""
    return torch.zeros(spec.shape, dtype=dtype_named(spec.dtype))


@lru_cache(maxsize=10_000)
def meta_of(spec: Spec) -> Any:
    """A tensor without memory of this shape and dtype: the body of lazy ones."""
    return torch.empty(spec.shape, dtype=dtype_named(spec.dtype), device="meta")


def host_numbers(tensor: Any) -> Any:
    """The numbers of a tensor on the host, as an array of numpy, which does not know bfloat16."""
    plain = tensor.detach()
    return (plain.float() if plain.dtype is torch.bfloat16 else plain).cpu().numpy()
