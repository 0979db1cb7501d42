"""Calls that are reused in PyTorch: what is PyTorch's alone; the rest is in tests/core/test_reuse.py."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import nn
from torch_support import assert_close

import gluonjit


class Chain(nn.Module):
    """A cell along the rows of a sample, and what a test has it do to each state."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.cell = nn.Linear(4, 4)
        self.change = lambda h, x: h

    def forward(self, x: Any, *others: Any) -> Any:
        h = x[0]
        for k in range(len(x)):
            h = self.change(torch.tanh(self.cell(h + x[k])), x[k])
        return (h, *[h + other for other in others]) if others else h


@pytest.fixture
def net() -> Iterator[Chain]:
    made = Chain()
    yield made
    gluonjit.hybridize(made, dynamic_batch=False)


def use(net: Any, **options: Any) -> None:
    fixed = {"granularity": "cell", "sharing": True, "expand": ("Chain",), "reuse": lambda *args: "one"}
    gluonjit.hybridize(net, dynamic_batch=True, **{**fixed, **options})


def outcome(net: Any, xs: list[Any]) -> tuple[list[Any], list[Any]]:
    """Results, and the gradients of inputs and weights."""
    net.zero_grad()
    xs = [x.clone().requires_grad_() for x in xs]
    losses = [(net(x) * torch.arange(1.0, 5)).sum() for x in xs]
    sum(losses[1:], losses[0]).backward()
    return [float(each) for each in losses], [x.grad for x in xs] + [weight.grad.clone() for weight in net.parameters()]


def xs(count: int, rows: int = 3) -> list[Any]:
    torch.manual_seed(count)
    return [torch.randn(rows, 4) for _ in range(count)]


def added(h: Any, x: Any) -> Any:
    h += x
    return h


def put(h: Any, x: Any) -> Any:
    h[1:3] = x[0:2]
    return h * 1


def through_a_view(h: Any, x: Any) -> Any:
    h = h * 1
    h[1:].add_(x[1:])
    return h


@pytest.mark.parametrize("change", [added, put, through_a_view])
def test_writes_to_what_was_captured_are_captured_again(net: Any, change: Any) -> None:
    net.change = lambda h, x: change(h * 2, x)
    expected, wanted = outcome(net, xs(4))
    use(net)
    for hits in (3, 4):
        losses, gradients = outcome(net, xs(4))
        assert gluonjit.explain().reuse.hits == hits
        assert_close(torch.tensor(losses), torch.tensor(expected), "losses")
        for gradient, other in zip(gradients, wanted):
            assert_close(gradient, other, "a gradient")


def over_what_is_saved(h: Any, x: Any) -> Any:
    found = h * h.exp()
    h += 1
    return found


def at_once(h: Any, x: Any) -> Any:
    h.data.add_(1)
    return h * 1


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (at_once, "the batch ran in the middle"),
    ],
)
def test_other_writes_are_not_reused(net: Any, change: Any, why: str) -> None:
    net.change = change
    use(net)
    for x in xs(2):
        net(x.requires_grad_())
    refused = gluonjit.explain().reuse.refused
    assert sum(refused.values()) == 2 and any(why in reason for reason in refused), refused


def test_a_write_over_what_backward_needs_is_refused_of_reused_calls_too(net: Any) -> None:
    net.change = over_what_is_saved
    use(net)
    for hits in (0, 1):
        losses = [net(x.requires_grad_()) for x in xs(2)]
        assert gluonjit.explain().reuse.hits >= hits
        for loss in losses:
            with pytest.raises(RuntimeError, match="modified by an inplace operation"):
                loss.sum().backward(retain_graph=True)


def test_whole_numbers_among_the_arguments_are_part_of_the_key(net: Any) -> None:
    net.forward = lambda words, x: net.cell(x) if int(words[0]) > 2 else net.cell(x) * 2
    use(net)
    x = xs(1)[0]
    for first in (1, 5, 1, 5):
        found = net(torch.tensor([first, 3]), x)
        gluonjit.hybridize(net, dynamic_batch=False)
        assert_close(found.detach(), net.forward(torch.tensor([first, 3]), x).detach(), "value")
        use(net)
    for _ in range(2):
        results = [net(torch.tensor([first, 3]), x) for first in (1, 5)]
        assert_close(results[0].detach(), 2 * results[1].detach(), "one is twice the other")
    assert gluonjit.cache_info()["torch.reused"] == 2


def test_modes_are_told_apart(net: Any) -> None:
    net.drop = nn.Dropout(0.5)
    net.change = lambda h, x: net.drop(h)
    use(net)
    x = xs(1)[0]
    net.eval()
    first, again = net(x), net(x)
    assert gluonjit.explain().reuse.hits == 1
    assert_close(first.detach(), again.detach(), "without drops")
    net.train()
    found = [net(x) for _ in range(2)]
    assert not gluonjit.explain().reuse.hits
    assert (found[0] - found[1]).abs().max() > 1e-3
    with torch.no_grad():
        net.eval()
        assert not net(x).requires_grad
        assert not net(x).requires_grad


def test_a_buffer_in_a_cell_has_the_numbers_of_the_day(net: Any) -> None:
    net.norm = nn.BatchNorm1d(4).eval()
    net.change = lambda h, x: net.norm(h.unsqueeze(0))[0]
    use(net)
    x = xs(1)[0]
    for turn in range(4):
        with torch.no_grad():
            net.norm.running_mean.fill_(turn)
            found = net(x).clone()
        gluonjit.hybridize(net, dynamic_batch=False)
        with torch.no_grad():
            assert_close(found, net(x), "value")
        if not turn % 2:
            use(net)


def test_a_result_of_an_earlier_batch_is_not_reused(net: Any) -> None:
    use(net, reuse=lambda x, *others: "two" if others else None)
    x = xs(1)[0]
    before = net(x)
    value = before.detach().clone()
    both = net(x, value)
    assert_close((both[1] - both[0]).detach(), value, "the other argument")
    assert gluonjit.explain().reuse.refused == {"an argument is a captured value": 1}
    net.forward = lambda x, *others: net.cell(x) + before
    use(net, reuse=lambda x: "three")
    assert_close(net(x).detach(), net(x).detach(), "value")
    assert not gluonjit.explain().reuse.misses


class Pages(nn.Module):
    """Operators on arguments of any length along an axis that is not their first."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Linear(1, 1)

    def forward(self, x: Any) -> Any:
        return torch.tanh(x * x.sum(0)[None] * self.scale.weight).sum(1)


def test_an_argument_whose_rows_lie_otherwise_is_reused_as_it_lies() -> None:
    net, values = Pages(), torch.randn(4, 4, 4)
    gluonjit.hybridize(net, dynamic_batch=True, granularity="op")
    for lengths in ((2, 5), (3, 4), (2, 6)):  # operators on (n, n) that are met so are of any length from here on
        sum(net(torch.randn(n, n)).sum() for n in lengths).backward()
    gluonjit.hybridize(net, dynamic_batch=True, granularity="op", reuse=lambda x: "one")
    found = [net(x) for x in values]
    for x, out in zip(values, found):
        assert_close(out, torch.tanh(x * x.sum(0)[None] * net.scale.weight).sum(1), "value")
    assert gluonjit.explain().reuse.hits == len(values) - 1
