"""Numbers, places and weights in which calls of an operator differ are operands, which C finds without Python."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import nn

import gluonjit
from gluonjit.compiled import FAST
from gluonjit.engines.torch.engine import ENGINE

Body = Callable[[Any, Any, Any], Any]
C, STEPS = 6, 5


class Net(nn.Module):
    """A program for one input, and what differs from sample to sample."""

    def __init__(self, body: Body, dtype: Any) -> None:
        super().__init__()
        self.layer, self.body = nn.Linear(C, C, dtype=dtype), body
        self.weights = nn.ParameterList([nn.Parameter(0.4 * torch.randn(C, C, dtype=dtype)) for _ in range(12)])

    def forward(self, x: Any, given: Any) -> Any:
        return self.body(self, x, given)


def pair(body: Body, dtype: Any = torch.float32) -> tuple[Any, Any]:
    gluonjit.clear_caches()  # by other tests functions may have had many numbers
    torch.manual_seed(0)
    eager = Net(body, dtype)
    options = {"dynamic_batch": True, "granularity": "op", "scheduler": "depth"}
    return eager, gluonjit.hybridize(copy.deepcopy(eager), **options)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The functions that come to Python."""
    found: list[str] = []
    original = type(ENGINE).call_operator

    def call_operator(self: Any, func: Any, args: Any, kwargs: Any) -> Any:
        found.append(func.__name__)
        return original(self, func, args, kwargs)

    monkeypatch.setattr(type(ENGINE), "call_operator", call_operator)
    yield found


def assert_agree(eager: Any, net: Any, samples: list[Any]) -> None:
    """Equal values and gradients in a minibatch."""
    found = []
    for each in (eager, net):
        each.zero_grad()
        results = [each(*sample) for sample in samples]
        torch.stack([one.sum() for one in results]).square().sum().backward()
        found.append([*results, *[one.grad for one in each.parameters()]])
    for own, other in zip(*found):
        assert (own is None) == (other is None)
        if own is not None:
            torch.testing.assert_close(own, other, rtol=1e-3, atol=1e-4)


def by_steps(body: Body) -> Body:
    def run(net: Any, x: Any, given: Any) -> Any:
        for number in given:
            x = torch.tanh(body(net, net.layer(x), number))
        return x

    return run


NUMBERS: dict[str, Body] = {
    "x * n": lambda net, x, n: x * n,
    "n * x": lambda net, x, n: n * x,
    "x.add(n)": lambda net, x, n: x.add(n),
    "x - n": lambda net, x, n: x - n,
    "n - x": lambda net, x, n: n - x,
    "x / n": lambda net, x, n: x / n,
    "n / x": lambda net, x, n: n / (x * x + 1),
    "torch.mul(n, x)": lambda net, x, n: torch.mul(n, x),
    "of no axes": lambda net, x, n: x * (x.sum() * n),
    "with alpha": lambda net, x, n: torch.add(x, n, alpha=2),
    "whole ones": lambda net, x, n: x * int(100 * n + 1) / 64.0,
    "with constants": lambda net, x, n: (2.0 * x + 1) * n,
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", NUMBERS)
def test_numbers_that_differ_are_operands(name: str, dtype: Any, asked: list[str]) -> None:
    eager, net = pair(by_steps(NUMBERS[name]), dtype)
    for _ in range(4):
        samples = [(torch.randn(2, C, dtype=dtype), (torch.rand(STEPS) + 0.1).tolist()) for _ in range(8)]
        asked.clear()
        assert_agree(eager, net, samples)
    assert FAST is None or len(asked) < 40
    assert max(row.launches for row in gluonjit.explain().kinds.values()) <= 2 * STEPS + 2


WEIGHTS: dict[str, Body] = {
    "x @ w": lambda net, x, k: x @ net.weights[k],
    "w @ x": lambda net, x, k: (net.weights[k] @ x.t()).t(),
    "torch.mm": lambda net, x, k: torch.mm(x, net.weights[k]),
    "w.matmul": lambda net, x, k: net.weights[k].matmul(x.t()).t(),
}


@pytest.mark.parametrize("name", WEIGHTS)
def test_weights_that_samples_choose_are_operands(name: str, asked: list[str]) -> None:
    eager, net = pair(by_steps(WEIGHTS[name]))
    for number in range(4):
        samples = [(torch.randn(2, C), [(k * 5 + step + number) % 12 for step in range(STEPS)]) for k in range(16)]
        asked.clear()
        assert_agree(eager, net, samples)
    assert FAST is None or len([one for one in asked if one in ("mm", "matmul", "__matmul__")]) <= 12  # once for each
    for each in (eager, net):
        each.weights[3].requires_grad_(False)
    assert_agree(eager, net, samples)


@pytest.mark.parametrize("change", ["freeze", "write", "write its data"])
def test_a_weight_that_changes_while_calls_wait(change: str) -> None:
    eager, net = pair(by_steps(WEIGHTS["x @ w"]))
    samples = [(torch.randn(2, C), [(k * 5 + step) % 12 for step in range(STEPS)]) for k in range(16)]
    for _ in range(2):
        assert_agree(eager, net, samples)
    found = []
    for each in (eager, net):
        each.zero_grad()
        first = [each(*sample) for sample in samples]
        if change == "freeze":
            each.weights[3].requires_grad_(False)
        else:
            with torch.no_grad():
                (each.weights[3] if change == "write" else each.weights[3].data).mul_(0.5)
        second = [each(*sample) for sample in samples]
        if change == "freeze":  # autograd refuses to go back to what was written over
            torch.stack([*first, *second]).sum().backward()
        found.append([*first, *second, *[one.grad for one in each.parameters() if one.grad is not None]])
    assert len(found[0]) == len(found[1])
    for own, other in zip(*found):
        torch.testing.assert_close(own, other, rtol=1e-3, atol=1e-4)


PLACES: dict[str, Body] = {
    "x[0, k]": lambda net, x, k: x * x[0, k],
    "x[-1, -k - 1]": lambda net, x, k: x * x[-1, -k - 1],
    "x[0][k]": lambda net, x, k: x * x[0][k],
    "of three axes": lambda net, x, k: x * x.reshape(2, 2, 3)[1, k % 2, k % 3] + x.reshape(2, 3, 2)[k % 2, k % 3].sum(),
}


@pytest.mark.parametrize("name", PLACES)
def test_places_that_differ_are_operands(name: str, asked: list[str]) -> None:
    eager, net = pair(by_steps(PLACES[name]))
    for number in range(4):
        samples = [(torch.randn(2, C), [(k * 5 + step + number) % C for step in range(STEPS)]) for k in range(8)]
        asked.clear()
        assert_agree(eager, net, samples)
    assert FAST is None or asked.count("__getitem__") <= 4
    if name != "of three axes":
        with pytest.raises(IndexError):
            net(torch.randn(2, C), [0, 1, 2, 99])


def test_an_entry_of_many_is_a_view() -> None:
    def body(net: Any, x: Any, given: Any) -> Any:
        h = net.layer(x) * 1.0
        entries = [h[0, k] for k in given]
        h.mul_(2.0)
        entries[0].add_(1.0)
        return torch.stack([*entries, *[h[0, k] for k in given]])

    eager, net = pair(body)
    for number in range(3):
        assert_agree(eager, net, [(torch.randn(2, C), [(k + number) % C, (k + 2) % C]) for k in range(8)])


GIVEN = [0.5 + 0.37 * k for k in range(40)]
GIVEN += [0.0, -0.0, 0, 1, True, False, -1.5, float("inf"), -float("inf"), float("nan"), 1e-46, -1e-46, 1e-40]
GIVEN += [2**24 + 1, 2**53 + 1, 2**63 - 1, 1e300, 3.5, 3, 16777217.0]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("name", ["x * n", "n - x", "x.add(n)", "x / n"])
def test_numbers_are_told_apart_beside_many(name: str, dtype: Any) -> None:
    numbers = [n for n in GIVEN if name != "n - x" or n.__class__ is not bool]  # which PyTorch refuses

    def body(net: Any, x: Any, given: Any) -> Any:
        h = net.layer(x)
        return [NUMBERS[name](net, part, n) for part in (h, h[0, 0]) for n in given]

    eager, net = pair(body, dtype)
    x = torch.randn(2, C).to(dtype)
    with torch.no_grad():
        for _ in range(2):
            for own, other, number in zip(net(x, numbers), eager(x, numbers), 2 * numbers):
                assert own.dtype is other.dtype
                assert torch.allclose(own, other, rtol=1e-6, atol=1e-6, equal_nan=True), (number, own, other)
                assert torch.equal(own.signbit(), other.signbit()) or other.isnan().all(), number
