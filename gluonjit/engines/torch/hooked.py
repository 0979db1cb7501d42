"""PyTorch's own functions, as they were before this package wrapped them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import torch
from torch.nn.parallel import distributed
from torch.nn.utils import stateless

from gluonjit.hybrid import LOCAL

original_call: Any = torch.nn.Module.__call__
original_apply: Any = torch.nn.Module._apply
original_setattr: Any = torch.nn.Module.__setattr__
original_load_state_dict: Any = torch.nn.Module.load_state_dict
original_function_apply: Any = torch.autograd.Function.__dict__["apply"]
original_backward: Any = torch.autograd.backward
original_grad: Any = torch.autograd.grad
original_functional_call: Any = stateless._functional_call
original_find_tensors: Any = distributed._find_tensors
run_backward: Any = torch.autograd.Variable._execution_engine.run_backward
"""(results, gradients, keep_graph, create_graph, inputs, allow_unreachable, accumulate_grad): what both of them call;
`torch.autograd.grad` would import sympy, which takes a second."""
autocast: Any = torch._C._is_any_autocast_enabled
without_autocast: Any = torch._C._DisableAutocast
make_subclass: Any = torch.Tensor._make_subclass
make_wrapper: Any = torch.Tensor._make_wrapper_subclass


def current_mode() -> int:
    """2 where gradients are recorded on this thread, as PyTorch has it; whether it trains is each module's own."""
    return 2 if torch.is_grad_enabled() else 0


@contextmanager
def plain(learning: bool = False) -> Iterator[None]:
    """Operators inside run at once and are no part of the program; gradients are recorded where `learning`.

    Nothing is cast: what was captured under torch.autocast has its casts in it.
    """
    state = LOCAL.state
    state.paused += 1
    try:
        # Tensors made in inference mode could not be used to learn later.
        with torch.inference_mode(False), torch.set_grad_enabled(learning):
            with without_autocast() if autocast() else nullcontext():
                yield
    finally:
        state.paused -= 1
