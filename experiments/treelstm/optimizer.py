"""AdaGrad as in Tai et al.: the L2 term is part of the gradient, so it is scaled with it."""

from __future__ import annotations

from typing import Any

import mxnet as mx


@mx.optimizer.Optimizer.register
class CoupledAdaGrad(mx.optimizer.AdaGrad):
    """Adds `wd * weight` to the gradient first, where MXNet's AdaGrad shrinks the weights apart from it."""

    def update(self, index: int, weight: Any, grad: Any, state: Any) -> None:
        """Update one weight in place; `state` is its history of squared gradients."""
        self._update_count(index)
        grad = grad * self.rescale_grad + self._get_wd(index) * weight
        state[:] += mx.nd.square(grad)
        weight[:] -= self._get_lr(index) * grad / mx.nd.sqrt(state + self.float_stable_eps)
