"""Hooks in PyTorch: of modules, of parameters, of what a forward computes."""

from __future__ import annotations

from typing import Any, Callable

import pytest
import torch
from torch import nn
from torch.nn.modules import module as modules
from torch_support import gradients
from torch_training import (
    VECTORS,
    Layers,
    assert_alike,
    learned,
    losses,
    weights,
)

SEEN: list[Any] = []


def doubled(module: Any, args: Any, out: Any) -> Any:
    SEEN.append(type(module).__name__)
    return (out[0] * 2, *out[1:]) if isinstance(out, tuple) else out * 2


def noted(module: Any, *others: Any) -> None:
    SEEN.append(type(module).__name__)


HOOKS: dict[str, Callable[[Any], Any]] = {
    "the net's forward": lambda net: net.register_forward_hook(doubled),
    "a cell's forward": lambda net: net.cell.register_forward_hook(doubled),
    "a part's forward": lambda net: net.cell.gates_x.register_forward_hook(doubled),
    "a part's arguments": lambda net: net.head.register_forward_pre_hook(lambda module, args: (args[0] * 3,)),
    "a part's named arguments": lambda net: net.head.register_forward_pre_hook(
        lambda module, args, kwargs: ((args[0] * 3,), kwargs), with_kwargs=True
    ),
    "the net's backward": lambda net: net.register_full_backward_hook(noted),
    "a cell's backward": lambda net: net.cell.register_full_backward_hook(noted),
    "a part's backward": lambda net: net.head.register_full_backward_hook(
        lambda module, inner, outer: (SEEN.append(float(outer[0].sum())), (inner[0] * 2,))[1]
    ),
    "before a part's backward": lambda net: net.head.register_full_backward_pre_hook(
        lambda module, outer: (outer[0] * 2,)
    ),
    "every forward": lambda net: modules.register_module_forward_hook(noted),
    "every call": lambda net: modules.register_module_forward_pre_hook(noted),
    "every backward": lambda net: modules.register_module_full_backward_hook(noted),
}


@pytest.mark.parametrize("where", HOOKS)
@pytest.mark.parametrize("meanwhile", [False, True])
def test_hooks_of_modules_run_for_each_call(where: str, meanwhile: bool) -> None:
    def run(net: Any) -> Any:
        SEEN.clear()
        before = losses(net) if meanwhile else []
        handle = HOOKS[where](net)
        try:
            hooked = losses(net)
        finally:
            if "backward" not in where:
                handle.remove()
        after = losses(net)
        sum([*before, *hooked, *after]).backward()
        handle.remove()
        counts = {what: SEEN.count(what) for what in SEEN if isinstance(what, str)}
        numbers = torch.tensor(sorted(what for what in SEEN if isinstance(what, float)))
        return sorted(counts.items()), numbers, before, hooked, after, gradients(net)

    assert_alike(run)


def test_hooks_of_parameters_run_once_a_backward() -> None:
    def run(net: Any) -> Any:
        seen: list[Any] = []
        after: list[Any] = []
        net.head.weight.register_hook(lambda gradient: seen.append(gradient.clone()) or gradient * 2)
        weight = net.cell.gates_x.weight
        weight.register_post_accumulate_grad_hook(lambda parameter: after.append(parameter.grad.clone()))
        return learned(net), seen, after

    assert_alike(run)


def test_an_optimizer_may_step_within_backward() -> None:
    def run(net: Any) -> Any:
        optimizers = {parameter: torch.optim.SGD([parameter], lr=0.1) for parameter in net.parameters()}

        def step(parameter: Any) -> None:
            optimizers[parameter].step()
            optimizers[parameter].zero_grad()

        for parameter in net.parameters():
            parameter.register_post_accumulate_grad_hook(step)
        for _ in range(2):
            sum(losses(net)).backward()
        return weights(net)

    assert_alike(run)


def test_a_forward_may_hook_what_it_computes() -> None:
    class Hooking(Layers):
        def forward(self, x: Any) -> Any:
            x = self.first(x).tanh()
            if x.requires_grad:
                x.register_hook(lambda gradient: gradient * 3)
            return self.last(x)

    assert_alike(lambda net: learned(net, VECTORS), Hooking)


def test_a_forward_may_ask_whether_gradients_go_through_a_tensor() -> None:
    class Asking(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.last = nn.Linear(4, 4), nn.Linear(4, 3)

        def forward(self, x: Any, y: Any) -> Any:
            inner = self.first(x)
            out = self.last(inner * 2 if inner.requires_grad else inner)
            return out * (3 if x.requires_grad else 1) * (5 if (x * y).requires_grad else 1)

    def run(net: Any) -> Any:
        found = []
        for first in (False, True):
            for second in (False, True):
                x, y = VECTORS[0].clone().requires_grad_(first), VECTORS[1].clone().requires_grad_(second)
                found.append(net(x, y))
        with torch.no_grad():
            found.append(net(VECTORS[0], VECTORS[1]))
        return found

    assert_alike(run, Asking)
