"""Views of weights, and buffers, beside what is captured: constants of calls, as weights are."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import gluonjit

SIZE = 6


class Recurrent(nn.Module):
    """A recurrent net whose step a test gives."""

    def __init__(self, step: Callable[..., Any]) -> None:
        super().__init__()
        self.step = step
        self.w, self.b = nn.Parameter(torch.randn(2 * SIZE, SIZE) / SIZE), nn.Parameter(torch.randn(2 * SIZE))
        self.first, self.cell = nn.Parameter(torch.randn(SIZE)), nn.GRUCell(SIZE, SIZE)
        self.register_buffer("factor", torch.rand(SIZE))
        self.register_buffer("count", torch.zeros(()))

    def forward(self, xs: list[Any]) -> Any:
        h = self.first.unsqueeze(0)
        for k, x in enumerate(xs):
            h = self.step(self, x, h, k)
        return h.sum()


def taken_without_recording(net: Any, x: Any, h: Any, k: int) -> Any:
    with torch.no_grad():
        view = net.w[:SIZE]
    return torch.tanh(h @ view.t() + x @ net.w[:SIZE])


def taken_of_one_without_history(net: Any, x: Any, h: Any, k: int) -> Any:
    return torch.tanh(h @ net.w.detach()[:SIZE] + x @ net.w[SIZE:])


def with_its_own_gradient(net: Any, x: Any, h: Any, k: int) -> Any:
    view = net.w[:SIZE]
    if view.requires_grad:
        view.register_hook(lambda gradient: 2 * gradient)
    return torch.tanh(h @ view + x)


def of_a_buffer_that_is_written_to(net: Any, x: Any, h: Any, k: int) -> Any:
    with torch.no_grad():
        net.count += 1
    return torch.tanh(h @ net.w[:SIZE] + x) * net.count.clone() / 20


STEPS: dict[str, Callable[..., Any]] = {
    "rows": lambda net, x, h, k: torch.tanh(
        F.linear(x, net.w[:SIZE], net.b[SIZE:]) + h @ net.w[SIZE:].t() + net.factor
    ),
    "of a module": lambda net, x, h, k: net.cell(x, h) + net.b[:SIZE].view(1, -1) * net.factor[None],
    "many places": lambda net, x, h, k: torch.tanh(x @ net.w[(3 * k) % SIZE :][:SIZE].t() + h),
    "of other shapes": lambda net, x, h, k: torch.tanh(h @ net.w.view(2, SIZE, SIZE)[1]) * net.b.expand(1, -1)[:, :6],
    "joined": lambda net, x, h, k: torch.tanh(torch.cat([h, net.first[None]], 1)[:, :SIZE] @ net.w[:SIZE] + x),
    "without recording": taken_without_recording,
    "without history": taken_of_one_without_history,
    "with a hook": with_its_own_gradient,
    "a buffer": of_a_buffer_that_is_written_to,
}


def trained(net: Any, learns: bool, read: Callable[[Any], float]) -> list[float]:
    """The losses and the gradients of two minibatches."""
    numbers, found = torch.Generator().manual_seed(3), []
    for sizes in ((1, 4, 2, 5), (3, 3, 1, 2)):
        samples = [[torch.randn(1, SIZE, generator=numbers) for _ in range(size)] for size in sizes]
        with torch.set_grad_enabled(learns):
            loss = sum(net(xs) for xs in samples)
        if learns:
            net.zero_grad()
            loss.backward()  # type: ignore[attr-defined]
            found += [float(weight.grad.sum()) for weight in net.parameters() if weight.grad is not None]
            with torch.no_grad():
                net.w.mul_(0.9)
        found.append(read(loss))
    return found


@pytest.mark.parametrize("learns", [True, False])
@pytest.mark.parametrize("name", STEPS)
def test_they_have_the_values_and_gradients_of_eager(name: str, learns: bool) -> None:
    torch.manual_seed(0)
    eager = Recurrent(STEPS[name])
    net = gluonjit.hybridize(copy.deepcopy(eager), dynamic_batch=True, granularity="cell", scheduler="depth")
    expected, found = [trained(each, learns, lambda loss: float(loss.detach())) for each in (eager, net)]
    assert found == pytest.approx(expected, rel=2e-5, abs=2e-5)


def test_they_are_not_gathered() -> None:
    torch.manual_seed(0)
    net = Recurrent(STEPS["rows"])
    gluonjit.hybridize(net, dynamic_batch=True, granularity="cell", scheduler="depth")
    for _ in range(2):
        with torch.no_grad():
            float(sum(net([torch.randn(1, SIZE) for _ in range(3)]) for _ in range(8)))
    row = SIZE * 4
    assert gluonjit.explain().gathered <= 8 * 3 * 3 * row  # rows of each call, and no matrix


def test_a_write_to_one_runs_what_waits_for_the_weight() -> None:
    torch.manual_seed(0)

    def step(net: Any, x: Any, h: Any, k: int) -> Any:
        with torch.no_grad():
            net.w[:SIZE].mul_(1.5)
        return torch.tanh(h @ net.w[:SIZE] + x)

    eager = Recurrent(step)
    net = gluonjit.hybridize(copy.deepcopy(eager), dynamic_batch=True, granularity="cell", scheduler="depth")
    xs = [torch.randn(1, SIZE) for _ in range(3)]
    with torch.no_grad():
        torch.testing.assert_close(torch.stack([net(xs) for _ in range(2)]), torch.stack([eager(xs) for _ in range(2)]))
