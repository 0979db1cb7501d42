"""Inputs: what a minibatch reads from tensors that existed before, as autograd functions.

Samples may be differentiated one by one as well as together, so none of them frees anything.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from gluonjit.engines.torch.applying import applied
from gluonjit.engines.torch.arrays import by_one_thread

_MANY = 1 << 21  # numbers that are looked up at once by as many threads as PyTorch takes


class _LookedUp(torch.autograd.Function):  # type: ignore[misc]
    """Entries of a table."""

    @staticmethod
    def forward(ctx: Any, weight: Any, index: Any, attrs: Mapping[str, Any]) -> Any:
        """Looks them up. What autograd saved it would free."""
        ctx.set_materialize_grads(False)
        ctx.given = index, weight.shape[0], attrs
        return torch.embedding(weight, index, **attrs)

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        """The gradient of the table."""
        if gradient is None:  # backward does not come from any of them
            return None, None, None
        index, size, attrs = ctx.given
        options = attrs.get("padding_idx", -1), attrs.get("scale_grad_by_freq", False), attrs.get("sparse", False)
        return torch.ops.aten.embedding_backward(gradient, index, size, *options), None, None


def looked_up(weight: Any, index: Any, attrs: Mapping[str, Any]) -> Any:
    """Entries of a table, with their history where that is recorded."""
    if index.numel() * weight.shape[-1] <= _MANY:
        return by_one_thread(_look_up, weight, index, attrs)
    return _look_up(weight, index, attrs)


def _look_up(weight: Any, index: Any, attrs: Mapping[str, Any]) -> Any:
    if torch.is_grad_enabled() and weight.requires_grad:
        return applied(_LookedUp, weight, index, attrs)
    return torch.embedding(weight, index, **attrs)


class AsItWas(torch.autograd.Function):  # type: ignore[misc]
    """Rows of a tensor as they were before it was written to, with the history that they had."""

    @staticmethod
    def forward(ctx: Any, tensor: Any, index: Any, rows: Any) -> Any:
        """These rows, that lay at these places."""
        ctx.shape, ctx.index = tensor.shape, index
        return rows

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        """Puts their gradient into one of the tensor."""
        return gradient.new_zeros(ctx.shape).index_add_(0, ctx.index, gradient), None, None
