"""Writes to weights through `weight.data` between calls, of which PyTorch tells nobody."""

from __future__ import annotations

import copy
import random
from typing import Any, Callable

import pytest
import torch
from torch import nn
from torch_support import assert_close

import gluonjit
from gluonjit.errors import CaptureError

SIZE = 3


class Net(nn.Module):
    def __init__(self, does: Callable[[Any, Any], Any]) -> None:
        super().__init__()
        self.dense, self.does = nn.Linear(SIZE, SIZE), does

    def forward(self, x: Any) -> Any:
        return self.does(self, x)


def doubled_for_a_while(net: Any, x: Any) -> Any:
    before = net.dense.weight.data.clone()
    net.dense.weight.data.mul_(2)
    with torch.no_grad():
        first = net.dense(x)
    net.dense.weight.data.copy_(before)
    return net.dense(x) * first


def doubled_and_back(net: Any, x: Any) -> Any:
    net.dense.weight.data.mul_(2)
    found = net.dense(x)
    net.dense.weight.data[:] = net.dense.weight.data * 0.5
    return found


def clamped(net: Any, x: Any) -> Any:
    net.dense.weight.data.clamp_(-0.3, 0.3)
    return net.dense(x)


def shrinking(net: Any, x: Any) -> Any:
    found = net.dense(x)
    net.dense.weight.data.mul_(0.9)
    return found


def begun_by_a_weight(net: Any, x: Any) -> Any:
    h = next(net.parameters()).data.new(SIZE).fill_(random.random())  # which makes it no node
    return net.dense(x + h)


def kept_and_written(net: Any, x: Any) -> Any:
    weight = net.dense.weight.data
    weight.mul_(2)
    found = net.dense(x)
    weight.mul_(0.5)
    return found


def both(does: Callable[[Any, Any], Any]) -> tuple[Any, Any]:
    torch.manual_seed(0)
    eager = Net(does)
    return eager, gluonjit.hybridize(copy.deepcopy(eager), dynamic_batch=True, granularity="cell")


@pytest.mark.parametrize("does", [doubled_for_a_while, doubled_and_back, clamped, shrinking, begun_by_a_weight])
@pytest.mark.parametrize("recording", [True, False])
def test_each_call_has_the_weight_of_its_time(does: Any, recording: bool) -> None:
    eager, net = both(does)
    for _ in range(3):
        samples, results = [torch.randn(SIZE) for _ in range(4)], []
        with torch.set_grad_enabled(recording):
            for each in (eager, net):
                random.seed(0)
                results.append([each(x) for x in samples])
        wanted, found = results
        for a, b in zip(wanted, found):
            assert_close(b, a, does.__name__)
        assert_close(net.dense.weight.detach(), eager.dense.weight.detach(), "the weight")


def test_reads_by_data_run_nothing_once_they_are_seen_to_be_reads() -> None:
    _, net = both(begun_by_a_weight)
    for wanted in (3, 1, 1):
        with torch.no_grad(), gluonjit.batching() as batch:
            found = [net(torch.randn(SIZE)) for _ in range(8)]
        assert batch.report.flushes == wanted and len(found) == 8


def test_reads_between_batches_count_as_well() -> None:
    _, net = both(lambda net, x: net.dense(x))
    for _ in range(3):
        states = (next(net.parameters()).data.new(SIZE).fill_(k) for k in range(8))
        sum(net(state).sum() for state in states).backward()
    assert gluonjit.explain().flushes == 1


def test_a_write_to_what_was_given_between_batches_is_refused() -> None:
    _, net = both(lambda net, x: net.dense(x))
    with torch.no_grad():
        net(torch.ones(SIZE))
        weight = net.dense.weight.data  # the call before runs first
        found = net(torch.ones(SIZE))
        weight.mul_(2)
        with pytest.raises(CaptureError, match=r"a weight of shape .* was written to"):
            found.sum().item()


def test_a_write_that_nothing_announces_is_refused() -> None:
    _, net = both(kept_and_written)
    with torch.no_grad():
        found = net(torch.ones(SIZE))
        with pytest.raises(CaptureError, match=r"a weight of shape .* was written to"):
            found.sum().item()
