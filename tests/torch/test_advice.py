"""Warnings that teach, on PyTorch: when a value is needed too early, and when that is no fault."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

import gluonjit
from gluonjit.errors import (
    BackwardWarning,
    CacheWarning,
    EarlyFlushWarning,
    GluonJITWarning,
    SmallBatchWarning,
)
from gluonjit.hybrid import LOCAL
from gluonjit.hybrid.explain import advice


@pytest.fixture(autouse=True)
def anew() -> None:
    torch.manual_seed(0)
    advice.forget()


def given(program: Callable[[], Any]) -> list[tuple[Any, int]]:
    """The library's warnings while a program runs: what they are, and on which line."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        program()
    return [(item.category, item.lineno) for item in caught if issubclass(item.category, GluonJITWarning)]


def line_with(text: str) -> int:
    with open(__file__, encoding="utf-8") as source:
        return next(number for number, line in enumerate(source, 1) if text in line)


class Sample:
    """No plain constant: a module that takes it is no single node."""

    def __init__(self) -> None:
        self.x = torch.randn(3)


class Net(nn.Module):
    """A layer, and between it and the end what a test does there."""

    def __init__(self, between: Callable[[Any], Any]) -> None:
        super().__init__()
        self.layer, self.between = nn.Linear(3, 3), between

    def forward(self, sample: Sample) -> Any:
        y = self.layer(sample.x).tanh()
        self.between(y)
        return (y * 2).sum()


BACKWARD: dict[str, Callable[[Any, Any], Any]] = {
    "of the sum": lambda net, losses: gluonjit.add_n(losses).backward(),
    "of all": lambda net, losses: torch.autograd.backward(losses),
    "grad": lambda net, losses: torch.autograd.grad(gluonjit.add_n(losses), list(net.parameters())),
}


@pytest.mark.parametrize("way", BACKWARD)
def test_backward_in_a_scope_is_no_fault(way: str) -> None:
    net, reports = Net(lambda y: None), []

    def program() -> None:
        with gluonjit.batching() as batch:
            for _ in range(2):
                losses = [net(Sample()) for _ in range(3)]
                BACKWARD[way](net, losses)
                assert losses[0].item() != 0
            reports.append(batch.report)

    assert not given(program)
    assert reports[0].flushes == 2 and "flushed 2 x: backward, " in str(reports[0])


def test_a_read_in_a_scope() -> None:
    net = Net(lambda y: None)

    def program() -> None:
        with gluonjit.batching():
            for _ in range(3):
                net(Sample()).item()  # read in a scope

    assert given(program) == [(EarlyFlushWarning, line_with("# read in a scope"))]


MIDDLE: dict[str, Callable[[Any], Any]] = {
    "a read": lambda y: y.sum().item(),  # a read in the middle
    "backward": lambda y: y.sum().backward(retain_graph=True),  # backward in the middle
}


@pytest.mark.parametrize("what", MIDDLE)
def test_what_is_needed_in_the_middle_of_a_sample(what: str) -> None:
    net = gluonjit.hybridize(Net(MIDDLE[what]), dynamic_batch=True)
    found = given(lambda: [loss.item() for loss in [net(Sample()) for _ in range(3)]])
    assert found == [(EarlyFlushWarning, line_with(f"# {what} in the middle"))]


@pytest.mark.parametrize("stepping", [True, False])
def test_samples_that_are_differentiated_one_at_a_time_are_noticed_where_nothing_comes_between(stepping: bool) -> None:
    net = gluonjit.hybridize(Net(lambda y: None), dynamic_batch=True)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)

    def program() -> None:
        LOCAL.state.singles = 0
        for _ in range(4):
            net(Sample()).backward()  # one at a time
            if stepping:
                optimizer.step()

    assert given(program) == ([] if stepping else [(BackwardWarning, line_with("# one at a time"))])


def test_batches_of_one_sample_that_are_differentiated_at_once_are_no_fault() -> None:
    net = gluonjit.hybridize(Net(lambda y: None), dynamic_batch=True, flush_at=1)

    def program() -> None:
        LOCAL.state.singles = 0
        for _ in range(3):
            sum(net(Sample()) for _ in range(3)).backward()

    assert BackwardWarning not in [category for category, _ in given(program)]


def test_minibatches_of_one_sample() -> None:
    net = gluonjit.hybridize(Net(lambda y: None), dynamic_batch=True)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)

    def program() -> None:
        LOCAL.state.singles = 0
        for _ in range(60):
            optimizer.zero_grad()
            net(Sample()).backward()  # a minibatch of one
            optimizer.step()

    assert given(program) == [(SmallBatchWarning, line_with("# a minibatch of one"))]


def test_reading_what_all_samples_have_reached_is_no_fault() -> None:
    net = Net(lambda y: None)

    def program() -> None:
        with gluonjit.batching():
            for _ in range(3):
                losses = [net(Sample()) for _ in range(3)]
                assert sum(loss.item() for loss in losses) == pytest.approx(sum(losses).item())
                sum(losses).backward()

    assert not given(program)


@pytest.mark.parametrize("layer", [nn.GRU, nn.LSTM, nn.RNN])
@pytest.mark.parametrize("batched", [False, True])
def test_recurrent_layers_are_no_fault(layer: Any, batched: bool) -> None:
    class Recurrent(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = layer(3, 3)

        def forward(self, sample: Sample) -> Any:
            x = torch.stack([sample.x] * 4)
            return self.layer(x.unsqueeze(1) if batched else x)[0].sum()

    net = gluonjit.hybridize(Recurrent(), dynamic_batch=True)
    assert not given(lambda: [sum(net(Sample()) for _ in range(3)).backward() for _ in range(3)])
    assert not gluonjit.explain().unbatched


def test_a_module_of_trees_or_with_a_loop_is_no_fault() -> None:
    class Outer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = Net(lambda y: None)

        def forward(self, sample: Sample) -> Any:
            return self.inner(sample) + 1

    net = gluonjit.hybridize(Outer(), dynamic_batch=True)
    assert not given(lambda: [sum(net(Sample()) for _ in range(3)).backward() for _ in range(3)])
    assert "a Sample" in gluonjit.explain().unbatched["inner"]


@pytest.mark.parametrize("inside", [False, True])
def test_checkpoints_are_no_fault(inside: bool) -> None:
    net = Net(lambda y: None)

    class Again(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = net

        def forward(self, sample: Sample) -> Any:
            return checkpoint(self.net.layer, sample.x, use_reentrant=True).sum()

    class Given(Sample):
        def __init__(self, x: Any) -> None:
            self.x = x

    def loss() -> Any:
        x = torch.randn(3, requires_grad=True)
        if inside:
            return again(Given(x))
        return checkpoint(lambda x: again.net(Given(x)), x, use_reentrant=True)

    again = gluonjit.hybridize(Again(), dynamic_batch=True)
    assert not given(lambda: [sum(loss() for _ in range(3)).backward() for _ in range(12)])


class OwnLoss(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.MSELoss()

    def forward(self, x: Any, y: Any) -> Any:
        return self.inner(x, y) * 2


@pytest.mark.parametrize("make", [nn.MSELoss, OwnLoss])
def test_a_loss_made_for_each_sample(make: Any) -> None:
    """One without parts is the same cell as another that looks alike, and costs nothing."""
    net = gluonjit.hybridize(nn.Linear(3, 3), dynamic_batch=True, granularity="cell")

    def program() -> None:
        for _ in range(25):
            sum(make()(net(torch.randn(3)), torch.ones(3)) for _ in range(3)).backward()  # losses made anew

    expected = [] if make is nn.MSELoss else [(CacheWarning, line_with("# losses made anew"))]
    assert given(program) == expected
