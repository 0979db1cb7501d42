"""Inputs that begin to learn, or of which a sample asks for the gradient itself: forces, saliency, adversaries."""

from __future__ import annotations

from typing import Any, Callable

import pytest
import torch
from torch import nn

import gluonjit

pytestmark = pytest.mark.filterwarnings("ignore")
LARGE = 9000
"""Numbers a row: inputs are not copied then."""


class Energy(nn.Module):
    """An energy of rows, and what a sample makes of it."""

    def __init__(self, width: int, then: Callable[..., Any]) -> None:
        super().__init__()
        self.layer, self.out, self.then = nn.Linear(width, 5), nn.Linear(5, 1), then

    def energy(self, x: Any) -> Any:
        return self.out(torch.tanh(self.layer(x))).sum()

    def forward(self, sample: Any) -> Any:
        return self.then(self, sample if isinstance(sample, torch.Tensor) else sample["x"])


def forces(net: Any, x: Any) -> Any:
    x.requires_grad_(True)
    energy = net.energy(x)
    return energy - torch.autograd.grad(energy, x, retain_graph=True)[0].square().sum()


def given(net: Any, x: Any) -> Any:
    energy = net.energy(x)
    return energy * torch.autograd.grad(energy, [x], retain_graph=True)[0].norm()


def adversary(net: Any, x: Any) -> Any:
    x.requires_grad = True
    before = net.energy(x)
    step = torch.autograd.grad(before, x)[0].sign()
    x.requires_grad_(False)
    return net.energy(x + 0.1 * step) + net.energy(x)


def half_way(net: Any, x: Any) -> Any:
    before = net.energy(x)
    x.requires_grad_(True)
    return before + 2 * net.energy(x)


WAYS = {"forces": forces, "given": given, "adversary": adversary, "half way": half_way}


def run(way: str, width: int, wrapped: bool, dynamic: bool) -> list[Any]:
    torch.manual_seed(0)
    net = Energy(width, WAYS[way])
    if dynamic:
        gluonjit.hybridize(net, dynamic_batch=True)
    found: list[Any] = []
    for _ in range(2):
        net.zero_grad()
        inputs = [torch.randn(rows, width, requires_grad=way == "given") for rows in (1, 3, 2)]
        loss = sum(net({"x": x} if wrapped else x) for x in inputs)
        loss.backward()
        found += [loss.detach(), *[each.grad.clone() for each in net.parameters()]]
        found += [x.new_zeros(()) if x.grad is None else x.grad for x in inputs]
        found.append(torch.tensor([x.requires_grad for x in inputs]))
    return found


@pytest.mark.parametrize("wrapped", [False, True])
@pytest.mark.parametrize("width", [4, LARGE])
@pytest.mark.parametrize("way", WAYS)
def test_inputs_learn_as_they_do_eagerly(way: str, width: int, wrapped: bool) -> None:
    expected, found = run(way, width, wrapped, False), run(way, width, wrapped, True)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("width", [4, LARGE])
def test_an_input_that_learns_between_two_samples_has_the_gradient_of_the_second(width: int) -> None:
    found = []
    for dynamic in (False, True):
        torch.manual_seed(0)
        net = Energy(width, Energy.energy)
        if dynamic:
            gluonjit.hybridize(net, dynamic_batch=True)
        x = torch.randn(2, width)
        first = net({"x": x})
        second = net({"x": x.requires_grad_()})
        (first + 2 * second).backward()
        found.append(x.grad)
    torch.testing.assert_close(found[1], found[0], rtol=1e-4, atol=1e-5)
