"""Look-ups of a whole minibatch. Samples are differentiated one by one as well as together: nothing is freed by one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from gluonjit.engines.torch.hooked import run_backward


class _LookedUp(torch.autograd.Function):  # type: ignore[misc]
    """Entries of a table."""

    @staticmethod
    def forward(ctx: Any, weight: Any, index: Any, attrs: Mapping[str, Any]) -> Any:
        """Look them up. Not saved by autograd, which would free it: the gradient needs no numbers of the weight."""
        ctx.given = weight.detach(), index, attrs
        return torch.embedding(weight, index, **attrs)

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        """The gradient of the table."""
        weight, index, attrs = ctx.given
        with torch.enable_grad():
            leaf = weight.detach().requires_grad_()
            rows = torch.embedding(leaf, index, **attrs)
        (found,) = run_backward((rows,), (gradient,), False, False, (leaf,), True, False)
        return found, None, None


def looked_up(weight: Any, index: Any, attrs: Mapping[str, Any]) -> Any:
    """Entries of a table, with their history where that is recorded."""
    if torch.is_grad_enabled() and weight.requires_grad:
        return _LookedUp.apply(weight, index, attrs)
    return torch.embedding(weight, index, **attrs)
