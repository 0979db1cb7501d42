"""TorchScript inside of samples: what was scripted or traced gives what it does eagerly, and keeps its gradients."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

import gluonjit

pytestmark = pytest.mark.filterwarnings("ignore")
WIDTH = 4


def swish(x):  # type: ignore[no-untyped-def]
    """Is one function of a tensor."""
    return x * torch.sigmoid(x)


def gated(x, y):  # type: ignore[no-untyped-def]
    """Is one of two tensors, with parts."""
    a, b = torch.cat([x, y], 1).chunk(2, 1)
    return a * torch.tanh(b) + y


def signed(x):  # type: ignore[no-untyped-def]
    """Goes another way for other numbers, which a trace does not see."""
    return x * 2 if bool(x.sum() > 0) else x * 3


class Step(torch.jit.ScriptModule):  # type: ignore[misc]
    """A cell that was scripted, as that of a recurrent layer of one's own."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(WIDTH, WIDTH))

    @torch.jit.script_method
    def forward(self, x, h):  # type: ignore[no-untyped-def]
        """Gives the next state."""
        return torch.tanh(torch.mm(x, self.weight.t()) + self.mixed(h))

    @torch.jit.script_method
    def mixed(self, h):  # type: ignore[no-untyped-def]
        """Takes the state."""
        return torch.mm(h, self.weight)


class Net(nn.Module):
    """A loop over rows, by a step of which nothing is known."""

    def __init__(self, part: Any, step: Any) -> None:
        super().__init__()
        self.layer = nn.Linear(WIDTH, WIDTH)
        self.part, self.step = part, step

    def forward(self, sample: dict[str, Any]) -> Any:
        h = torch.zeros(1, WIDTH)
        for row in sample["rows"]:
            h = self.step(self.part, self.layer(row[None]), h)
        return h


def scripted_step() -> Any:
    part = Step()
    return part, lambda part, x, h: part(x, h) + part.mixed(x)


def traced(function: Any) -> Any:
    return torch.jit.trace(function, torch.ones(1, WIDTH))


def called(function: Any, step: Any) -> Any:
    return None, lambda _, x, h: step(function, x, h)


WAYS: dict[str, Any] = {
    "function": lambda: called(torch.jit.script(swish), lambda f, x, h: f(x + h)),
    "function of two": lambda: called(torch.jit.script(gated), lambda f, x, h: f(x, h)),
    "function that was traced": lambda: called(traced(signed), lambda f, x, h: f(x + h)),
    "methods": scripted_step,
    "module": lambda: (torch.jit.script(nn.Sequential(nn.Linear(4, 4), nn.Tanh())), lambda m, x, h: m(x) + h),
    "module that was traced": lambda: (traced(nn.Linear(4, 4)), lambda m, x, h: torch.relu(m(x + h))),
}


def run(way: str, dynamic: bool) -> list[Any]:
    torch.manual_seed(0)
    net = Net(*WAYS[way]())
    if dynamic:
        gluonjit.hybridize(net, dynamic_batch=True)
    found = []
    for _ in range(4):  # TorchScript compiles anew what it has seen twice
        net.zero_grad()
        loss = sum(net({"rows": torch.randn(rows, WIDTH)}).square().sum() for rows in (2, 1, 3))
        loss.backward()
        found += [loss.detach(), *[each.grad.clone() for each in net.parameters()]]
    with torch.no_grad():
        found.append(net({"rows": torch.randn(3, WIDTH)}))
    return found


@pytest.mark.parametrize("way", WAYS)
def test_what_is_scripted_gives_what_it_does_eagerly(way: str) -> None:
    torch.testing.assert_close(run(way, True), run(way, False), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("way", WAYS)
def test_what_ran_eagerly_before_is_called_in_a_batch(way: str) -> None:
    """Programs that TorchScript has made for results without history are not those for results that learn."""
    torch.manual_seed(0)
    net = Net(*WAYS[way]())
    x = torch.randn(2, WIDTH)
    with torch.no_grad():
        for _ in range(3):
            net({"rows": x})
    results = []
    for dynamic in (False, True):
        gluonjit.hybridize(net, dynamic_batch=dynamic)
        net.zero_grad()
        sum(net({"rows": x * scale}).square().sum() for scale in (1, -1, 2)).backward()
        results.append([each.grad.clone() for each in net.parameters()])
    torch.testing.assert_close(results[1], results[0], rtol=1e-4, atol=1e-5)


def test_scripted_functions_batch() -> None:
    run("function", True)
    net = gluonjit.hybridize(Net(*WAYS["function"]()), dynamic_batch=True)
    sum(net({"rows": torch.randn(2, WIDTH)}).sum() for _ in range(6)).backward()
    assert gluonjit.explain().launches < 20


class Last(nn.Module):
    """What is scripted, and nothing before it."""

    def __init__(self, part: Any, step: Any) -> None:
        super().__init__()
        self.part, self.step = part, step

    def forward(self, h: torch.Tensor) -> Any:
        return self.step(self.part, h, h)


@pytest.mark.parametrize("way", WAYS)
def test_what_runs_eagerly_takes_results_of_a_batch(way: str) -> None:
    """As the rest of a sample does that began batched."""
    results = []
    for dynamic in (False, True):
        torch.manual_seed(0)
        first, last = nn.Linear(WIDTH, WIDTH), Last(*WAYS[way]())
        if dynamic:
            gluonjit.hybridize(first, dynamic_batch=True, granularity="batched")
            gluonjit.hybridize(last, dynamic_batch=True, granularity="eager")
        sum(last(first(torch.randn(1, WIDTH))).square().sum() for _ in range(3)).backward()
        results.append([each.grad.clone() for each in first.parameters()])
    torch.testing.assert_close(results[1], results[0], rtol=1e-4, atol=1e-5)
