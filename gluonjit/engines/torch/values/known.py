"""Known integers and booleans: inputs, views of them, and values computed from these, on the host.

They are never pending: requests for numbers are answered from the program's own memory, and cheap functions of known
values alone run at the call, as in eager execution. Their results are lazy only so that operators that combine them
with pending tensors are captured.
"""

from __future__ import annotations

from typing import Any

import torch
from torch._C._functorch import is_functorch_wrapped_tensor

from gluonjit.engines.torch.framework.arrays import WHOLE
from gluonjit.engines.torch.framework.originals import functions_named
from gluonjit.engines.torch.values.lazy import LazyTensor, as_known, waits
from gluonjit.engines.torch.values.operands import concrete, current, in_memory

WHOLE_TYPES = frozenset(getattr(torch, name) for name in WHOLE)
_CPU = torch.device("cpu")

_NAMES = """
    eq ne lt le gt ge greater greater_equal less less_equal not_equal isin equal
    add sub subtract mul multiply floor_divide remainder fmod neg negative abs square sign bitwise_not
    bitwise_and bitwise_or bitwise_xor bitwise_left_shift bitwise_right_shift
    logical_and logical_or logical_xor logical_not minimum maximum clamp clip where
    any all sum prod max min amax amin argmax argmin aminmax cumsum cumprod sort argsort unique unique_consecutive
    nonzero count_nonzero argwhere bincount diff flip roll searchsorted bucketize tril triu outer
    __getitem__ index_select masked_select take take_along_dim gather select narrow unbind split chunk tensor_split
    view view_as reshape reshape_as flatten unflatten ravel squeeze unsqueeze transpose t permute movedim swapaxes
    expand expand_as broadcast_to repeat repeat_interleave tile diagonal cat concat concatenate stack hstack vstack
    clone contiguous detach to type cpu long int bool short zeros_like ones_like full_like new_zeros new_ones new_full
    new_tensor new_empty empty_like tolist
    __eq__ __ne__ __lt__ __le__ __gt__ __ge__ __add__ __radd__ __sub__ __rsub__ __mul__ __rmul__ __floordiv__
    __rfloordiv__ __mod__ __rmod__ __and__ __rand__ __or__ __ror__ __xor__ __rxor__ __invert__ __neg__ __abs__
    __lshift__ __rshift__ __reversed__ __contains__ pad_sequence
"""
LIKE: dict[Any, Any] = {
    torch.Tensor.view_as: torch.Tensor.view,
    torch.Tensor.reshape_as: torch.Tensor.reshape,
    torch.Tensor.expand_as: torch.Tensor.expand,
}
"""Functions that take nothing but the shape of their second argument, and those that take that."""
CHEAP = functions_named(_NAMES, (torch, torch.Tensor, torch._C._nn)) | {
    getattr(torch.Tensor, name).__get__ for name in ("T", "mT", "data")
}
"""Functions that run at the call where all their tensors are known."""


def is_whole(tensor: Any) -> bool:
    """True if a computed tensor holds integers or truth values, on the host."""
    return tensor.dtype in WHOLE_TYPES and tensor.device == _CPU and tensor.layout is torch.strided


def may_be_known(tensor: Any) -> bool:
    """True if an argument of a program that is captured is of integers that may be read at any time."""
    return tensor.dtype in WHOLE_TYPES and is_whole(tensor) and not is_functorch_wrapped_tensor(tensor)


def known(item: Any) -> Any:
    """Returns the tensor of integers behind an argument if nothing must run for it; else None."""
    if item.__class__ is not LazyTensor:
        return item if item.__class__ is torch.Tensor and is_whole(item) else None
    spec = current(item).spec
    if spec.dtype not in WHOLE or spec.device != "cpu":
        return None
    if item._c is None:
        item._c = in_memory(item)
        if item._c is None:
            return None if waits(item) else concrete(item)
    return item._c


class _Waits(Exception):
    """An argument is not known."""


def computed(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Runs a cheap function of known tensors; None if one of its arguments is not known."""
    if func in LIKE and len(args) == 2 and isinstance(args[1], torch.Tensor):
        func, args = LIKE[func], (args[0], args[1].shape)
    try:
        given = [_opened(arg) for arg in args]
        named = {name: _opened(arg) for name, arg in kwargs.items()} if kwargs else kwargs
    except _Waits:
        return None
    found = func(*given, **named)
    if found.__class__ is torch.Tensor:
        return as_known(found) if is_whole(found) else None
    if isinstance(found, (tuple, list)):
        if not all(part.__class__ is torch.Tensor and is_whole(part) for part in found):
            return None
        return found.__class__([as_known(part) for part in found])
    return found


def _opened(arg: Any) -> Any:
    kind = arg.__class__
    if kind is LazyTensor:
        found = known(arg)
        if found is None:
            raise _Waits
        return found
    if isinstance(arg, torch.Tensor):
        if not is_whole(arg) or kind is not torch.Tensor:
            raise _Waits
        return arg
    if kind is tuple or kind is list:
        return kind([_opened(item) for item in arg])
    if kind is slice:
        return slice(_opened(arg.start), _opened(arg.stop), _opened(arg.step))
    return arg
