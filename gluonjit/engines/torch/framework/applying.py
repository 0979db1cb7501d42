"""Applies functions of this package's own for autograd."""

from __future__ import annotations

from typing import Any

import torch

_apply = torch._C._FunctionBase.__dict__["apply"]  # which that of torch.autograd.Function calls


def applied(function: Any, *args: Any) -> Any:
    """Applies a function of this package's own for autograd, without the checks for those of users."""
    if torch._C._are_functorch_transforms_active():
        return function.apply(*args)
    return _apply.__get__(None, function)(*args)
