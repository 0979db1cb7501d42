"""Modules in batches whose nodes are operators: they run as they are, and nothing looks into their arguments."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import gluonjit
from gluonjit.engines.torch.capture import records
from gluonjit.engines.torch.tracing.recorder import Tracer
from tests.common.torch_support import assert_close, outcome

SAMPLES = [torch.linspace(-1, 1, 4) * number for number in range(1, 6)]


class Inner(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(4, 4), nn.Sequential(nn.Linear(4, 4), nn.Tanh())

    def forward(self, x: Tensor, given: Any = None) -> Tensor:
        x = self.second(self.first(x))
        return x if given is None else x + (given if isinstance(given, Tensor) else given[0])


class Net(nn.Module):
    def __init__(self, given: Any = None) -> None:
        super().__init__()
        self.inner, self.given = Inner(), given

    def forward(self, x: Tensor) -> Tensor:
        return self.inner(x, self.given) * self.inner(x)


@pytest.fixture
def nets() -> Iterator[tuple[Net, Net]]:
    torch.manual_seed(1)
    eager, net = Net(), Net()
    net.load_state_dict(eager.state_dict())
    gluonjit.hybridize(net, dynamic_batch=True, granularity="op")
    yield eager, net


def agree(eager: nn.Module, net: nn.Module) -> None:
    (found, own), (wanted, other) = [outcome(each, SAMPLES, lambda net, x: net(x)) for each in (net, eager)]
    for one, two in zip(found, wanted):
        assert_close(one, two, "a result")
    assert own.keys() == other.keys()
    for name, gradient in other.items():
        assert_close(own[name], gradient, name)


@pytest.mark.parametrize("given", [None, torch.ones(4), (torch.ones(4),), [torch.full((4,), 2.0)]])
def test_whatever_they_are_given(nets: tuple[Net, Net], given: Any) -> None:
    for net in nets:
        net.given = given
    agree(*nets)
    agree(*nets)  # when the batch knows the modules


def test_hooks_that_come_late_run_for_each_call(nets: tuple[Net, Net]) -> None:
    agree(*nets)
    seen = []
    _, net = nets
    with gluonjit.batching(granularity="op"):
        before = [net(x) for x in SAMPLES]
        handle = net.inner.second.register_forward_hook(lambda module, given, out: seen.append(1) or out * 2)
        after = [net(x) for x in SAMPLES]
        handle.remove()
        again = [net(x) for x in SAMPLES]
    assert len(seen) == 2 * len(SAMPLES)
    for one, two, three in zip(before, after, again):
        assert_close(two, one * 4, "a result")
        assert_close(three, one, "a result")


def test_a_call_of_its_own_is_not_left_out() -> None:
    class Own(nn.Linear):
        def _call_impl(self, *args: Any, **kwargs: Any) -> Any:
            return super()._call_impl(*args, **kwargs) + 1

    class Around(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.own = Own(4, 4)

        def forward(self, x: Tensor) -> Tensor:
            return self.own(x)

    net = Around()
    expected = [net(x).detach() for x in SAMPLES]
    gluonjit.hybridize(net, dynamic_batch=True, granularity="op")
    for one, two in zip([net(x) for x in SAMPLES], expected):
        assert_close(one.detach(), two, "a result")


@pytest.mark.parametrize("caught", [ArithmeticError, Exception])
def test_the_trace_of_a_loop_ends_where_its_weight_comes_again(
    caught: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rest of a sequence need not be traced. Where the program catches what says so it is a loop all the same."""
    traced: list[int] = []
    close = Tracer.close

    def noting(self: Tracer) -> None:
        traced.append(len(self.trace.ops))
        close(self)

    class Loop(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.step = nn.Linear(4, 4)

        def forward(self, xs: Any) -> Tensor:
            h = xs[0]
            for x in xs[1:]:
                try:
                    h = torch.tanh(self.step(h)) + x
                except caught:
                    pass
            return h

    torch.manual_seed(1)
    net = Loop()
    samples = [[x * k for k in range(40)] for x in SAMPLES]
    expected = [net(sample).detach() for sample in samples]
    gluonjit.hybridize(net, dynamic_batch=True, granularity="cell", outline=False)
    monkeypatch.setattr(Tracer, "close", noting)
    with gluonjit.batching(granularity="cell", outline=False) as batch:
        found = [net(sample) for sample in samples]
    for one, two in zip(found, expected):
        assert_close(one, two, "a state")
    assert batch.report.nodes > 39
    assert 3 < max(traced) < 20 or caught is Exception


def test_lists_of_numbers_that_differ_in_each_call_are_traced_no_more_than_twice(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Neighbours(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed, self.own, self.other = nn.Embedding(9, 4), nn.Linear(4, 4), nn.Linear(4, 4)

        def forward(self, atoms: Any, neighbours: list[list[int]]) -> Any:
            h = self.embed(atoms)
            found = torch.stack([h[each].mean(0) for each in neighbours])
            return (torch.relu(self.own(h) + self.other(found)) + h).sum()

    traced: list[str] = []
    original = records.make_kind

    def make_kind(call: Any) -> Any:
        traced.append(call.cell.name)
        return original(call)

    monkeypatch.setattr(records, "make_kind", make_kind)
    rng = random.Random(3)
    samples = []
    for n in (3, 4, 5, 6, 7, 5, 6):
        lists = [[rng.randrange(n) for _ in range(rng.randint(1, 3))] for _ in range(n)]
        samples.append((torch.tensor([rng.randrange(9) for _ in range(n)]), lists))
    torch.manual_seed(4)
    net = Neighbours()
    expected = [net(*sample) for sample in samples]
    gluonjit.hybridize(net, dynamic_batch=True, granularity="cell")
    found = [net(*sample) for sample in samples]
    for one, other in zip(found, expected):
        torch.testing.assert_close(one.clone(), other, rtol=1e-5, atol=1e-6)
    assert traced.count("Neighbours") == 2
