"""Hooks of results that captured calls of the same batch have used: they run as in eager execution."""

from __future__ import annotations

from typing import Any, Callable

import pytest
import torch
from torch import nn

import gluonjit
from gluonjit import CaptureError
from tests.common.torch_support import assert_close, gradients

Program = Callable[[Any, Any], Any]


class Observed(nn.Module):
    """A few layers of which a program is given."""

    def __init__(self, program: Program) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.one, self.other = nn.Linear(4, 4), nn.Linear(4, 4)
        self.program = program

    def forward(self, x: Any) -> Any:
        return self.program(self, x)


def alike(program: Program, granularity: str = "cell", times: int = 1, count: int = 3, **options: Any) -> None:
    """What a program returns besides its loss, and all gradients, after several backward passes."""
    found = []
    for dynamic in (False, True):
        net = Observed(program)
        if dynamic:
            gluonjit.hybridize(net, dynamic_batch=True, granularity=granularity, **options)
        xs = list(torch.randn(count, 2, 4, generator=torch.Generator().manual_seed(1)))
        results = [net(x) for x in xs]
        total = sum(loss for loss, _ in results)
        for k in range(times):
            total.backward(retain_graph=k + 1 < times)
        seen = [[t.grad if t.requires_grad else t for t in tensors] for _, tensors in results]
        found.append((seen, gradients(net)))
    (wanted, expected), (others, got) = found
    assert [len(part) for part in others] == [len(part) for part in wanted] and all(wanted)
    for known, parts in zip(wanted, others):
        for a, b in zip(known, parts):
            assert_close(b, a, "what the program has seen")
    for name, gradient in expected.items():
        assert (gradient is None) == (got[name] is None)
        if gradient is not None:
            assert_close(got[name], gradient, name)


def replaced(net: Any, x: Any) -> Any:
    h = torch.tanh(net.one(x))
    y = net.other(h) * h
    seen: list[Any] = []
    h.register_hook(lambda g: (seen.append(g.clone()), g * 2)[1])
    return (y + h).sum(), seen


def several(net: Any, x: Any) -> Any:
    h = torch.tanh(net.one(x))
    g = torch.sigmoid(net.other(h))
    y = net.other(g) * h
    seen: list[Any] = []
    h.register_hook(lambda gradient: seen.append(gradient.clone()))
    h.register_hook(lambda gradient: gradient.clamp(-0.1, 0.1))
    g.register_hook(lambda gradient: seen.append(gradient * 3) or -gradient)
    h.register_hook(lambda gradient: seen.append(gradient.clone()))
    return y.sum(), seen


def retained(net: Any, x: Any) -> Any:
    h = torch.tanh(net.one(x))
    y = net.other(h) * h
    h.retain_grad()
    h.register_hook(lambda gradient: gradient + 1)
    return (y + h.exp()).sum(), [h]


def removed(net: Any, x: Any) -> Any:
    h = torch.tanh(net.one(x))
    y = net.other(h) * h
    seen: list[Any] = [torch.zeros(1)]
    first, _ = (h.register_hook(lambda g, k=k: seen.append(g * k)) for k in (1, 2))
    first.remove()
    return y.sum(), seen


def of_a_sum(net: Any, x: Any) -> Any:
    a, b = net.one(x), net.other(x)
    c = a + b
    d = c + a
    seen: list[Any] = []
    c.register_hook(lambda g: (seen.append(g.clone()), g * 3)[1])
    return (d * d).sum() + torch.tanh(c).sum(), seen


def written(net: Any, x: Any) -> Any:
    h = net.one(x)
    h += 1
    y = net.other(h)
    seen: list[Any] = []
    h.register_hook(lambda g: (seen.append(g.clone()), g * 3)[1])
    return (y * y).sum(), seen


@pytest.mark.parametrize("granularity", ["cell", "op"])
@pytest.mark.parametrize("times", [1, 3])
@pytest.mark.parametrize("program", [replaced, several, retained, removed, of_a_sum, written])
def test_a_hook_of_a_used_result(program: Program, times: int, granularity: str) -> None:
    alike(program, granularity, times)


def test_steps_in_c_and_others() -> None:
    def program(net: Any, x: Any) -> Any:
        h = torch.tanh(net.one(x))
        y = torch.special.erfinv(torch.tanh(net.other(h)) * 0.5) + h  # which has no instruction
        z = net.one(y)
        seen: list[Any] = []
        for tensor in (h, y):
            tensor.register_hook(lambda g: (seen.append(g.clone()), g * 2)[1])
        return (z * z).sum(), seen

    alike(program)


def test_a_model_at_equilibrium() -> None:
    """The backward pass of its fixed point solves for the gradient, by another backward pass inside of a hook."""

    def program(net: Any, x: Any) -> Any:
        def step(z: Any) -> Any:
            return torch.tanh(net.one(z) * 0.3 + x)

        with torch.no_grad():
            z = torch.zeros_like(x)
            for _ in range(10):
                z = step(z)
        z = step(z)
        start = z.clone().detach().requires_grad_()
        again = step(start)
        seen: list[Any] = []

        def solve(gradient: Any) -> Any:
            found = gradient
            for _ in range(10):
                found = torch.autograd.grad(again, start, found, retain_graph=True)[0] + gradient
            seen.append(found.clone())
            return found

        z.register_hook(solve)
        return net.other(z).square().sum(), seen

    alike(program)


@pytest.mark.usefixtures("free")
@pytest.mark.parametrize("program", [replaced, retained])
def test_eager_programs_with_hooks_of_results_stay_eager(program: Program) -> None:
    net = gluonjit.hybridize(Observed(program), dynamic_batch=True)
    x = torch.randn(2, 4)
    for _ in range(60):
        found = [net(x)[0] for _ in range(4)]
        assert all(loss.__class__ is torch.Tensor for loss in found)
        sum(found).backward()


def test_a_result_that_its_own_call_goes_on_from() -> None:
    class Cell(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(4, 4)

        def forward(self, x: Any) -> Any:
            c = self.layer(x)
            return torch.tanh(c), c

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.cell = Cell()

        def forward(self, x: Any, which: int) -> Any:
            results = self.cell(x)
            results[which].register_hook(lambda gradient: gradient * 2)
            return (results[0] * results[1]).sum()

    net = gluonjit.hybridize(Net(), dynamic_batch=True, granularity="cell")
    x = torch.randn(2, 4)
    net(x, 0).backward()
    found = gradients(net)
    with pytest.raises(CaptureError, match="already used this result"):
        net(x, 1)
    gluonjit.hybridize(net, dynamic_batch=False)
    net.zero_grad()
    net(x, 0).backward()
    for name, gradient in gradients(net).items():
        assert_close(found[name], gradient, name)


def test_what_has_no_gradient_of_its_own_is_refused() -> None:
    def part(net: Any, x: Any) -> Any:
        h = torch.tanh(net.one(x))
        first = h[0]
        y = net.other(first) + h[1]
        first.register_hook(print)
        return y.sum(), []

    net = gluonjit.hybridize(Observed(part), dynamic_batch=True, granularity="cell")
    with pytest.raises(CaptureError, match="already used this result"):
        net(torch.randn(2, 4))


def test_gradients_of_gradients_through_a_hook_are_refused() -> None:
    net = gluonjit.hybridize(Observed(replaced), dynamic_batch=True, granularity="cell")
    total, _ = net(torch.randn(2, 4))
    with pytest.raises(CaptureError, match="hooks of results"):
        torch.autograd.grad(total, net.one.weight, create_graph=True)


@pytest.mark.parametrize(
    "view", [torch.Tensor.detach, lambda h: h.data, lambda h: h.view(-1)], ids="detach data view".split()
)
def test_a_gradient_is_retained_when_a_view_was_taken(view: Any) -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(3, 3)

        def forward(self, x: Any) -> Any:
            h = self.layer(x)
            h.retain_grad()
            return h, h.tanh()

    def gradients_of(net: Any) -> Any:
        results = [net(torch.arange(3.0) + k) for k in range(3)]
        seen = [view(h) + 0 for h, _ in results]
        sum([h.sum() + out.square().sum() for h, out in results]).backward()
        return [h.grad for h, _ in results], [h.retains_grad for h, _ in results], [each.detach() for each in seen]

    torch.manual_seed(0)
    net = Net()
    expected = gradients_of(net)
    gluonjit.hybridize(net, dynamic_batch=True, granularity="op")
    torch.testing.assert_close(gradients_of(net), expected)
