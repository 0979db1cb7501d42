"""Patches: what `import torch` gets when gluonjit is there, every patch of a function of PyTorch in one table."""

from __future__ import annotations

from typing import Any

import torch
from torch._functorch import eager_transforms, vmap
from torch.nn.parallel import distributed
from torch.nn.utils import stateless
from torch.optim.optimizer import register_optimizer_step_pre_hook

from gluonjit.engines.torch import aside, changes
from gluonjit.engines.torch.doors import handled
from gluonjit.engines.torch.engine import ENGINE
from gluonjit.engines.torch.fast import module_call
from gluonjit.engines.torch.reading import KEEPING, of_computed
from gluonjit.hybrid import register as register_engine

PATCHES: list[tuple[Any, str, Any]] = [
    (torch.nn.Module, "__call__", module_call()),
    (torch.nn.Module, "__setattr__", changes.setattr_),
    (torch.nn.Module, "_apply", changes.apply),
    (torch.nn.Module, "load_state_dict", changes.load_state_dict),
    (torch.nn.Module, "requires_grad_", changes.requires_grad_),
    (torch.autograd.Function, "apply", classmethod(changes.function_apply)),
    (torch.autograd, "backward", changes.backward),
    (torch.autograd, "grad", changes.grad),
    (torch, "compile", aside.compile_),
    (torch._C.ScriptFunction, "__call__", aside.script_function),
    (torch._C.ScriptMethod, "__call__", aside.script_method),
    *[(torch, name, of_computed(getattr(torch, name))) for name in KEEPING],
    *[(module, "handle_torch_function", handled) for module in (torch._tensor, torch.functional, torch.nn.functional)],
    (stateless, "_functional_call", changes.functional_call),
    (distributed, "_find_tensors", changes.find_tensors),
    (vmap, "_add_batch_dim", changes.wrapping(vmap._add_batch_dim)),
    (eager_transforms, "_wrap_for_grad", changes.wrapping(eager_transforms._wrap_for_grad)),
    *[(torch.nn.Module, name, changes.changing(name)) for name in changes.CHANGING],
]


def install(module: Any = None) -> None:
    """Patch PyTorch. Called when its import has finished."""
    if register_engine(ENGINE, PATCHES):
        register_optimizer_step_pre_hook(changes.before_step)
