"""PyTorch's own layers: unmodified modules that compute from their arguments and weights alone."""

from __future__ import annotations

from typing import Any

import torch

_NEVER = (torch.nn.RNNBase, torch.nn.Embedding, torch.nn.EmbeddingBag, torch.nn.modules.batchnorm._NormBase)
WHOLE = (torch.nn.Embedding, torch.nn.RNNBase)
"""Modules whose calls are one node at every granularity."""
NORM = torch.nn.modules.batchnorm._BatchNorm
"""Modules that keep running statistics in training."""
_HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")


def keeps_statistics(module: Any) -> bool:
    """True if a call of a module updates running statistics: what is captured is inside of its `forward`."""
    if not isinstance(module, NORM) or type(module).forward is not NORM.forward:
        return False
    return bool(module.training and module.track_running_stats) and is_plain(module)


def is_layer(module: Any) -> bool:
    """True if a call of a module is sure to be computed from its arguments and weights alone."""
    if type(module) is torch.nn.Sequential:
        return is_plain(module) and all(map(is_layer, module))
    if not type(module).__module__.startswith("torch.nn.modules.") or isinstance(module, _NEVER):
        return False
    return not module._modules and not getattr(module, "inplace", False) and is_plain(module)


def has_hooks(module: Any) -> bool:
    """True if a call of a module, or going back through it, calls hooks."""
    return any(getattr(module, name) for name in _HOOKS)


def is_plain(module: Any) -> bool:
    """True if a call of a module does what its class says: nothing was replaced."""
    space = module.__dict__
    return not has_hooks(module) and "forward" not in space and (space.get("_compiled_call_impl") is None)
