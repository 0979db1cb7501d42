"""What options leave open: how a batch is captured and scheduled, and how many samples it waits for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from mxnet import autograd, gluon, nd
from support import assert_close, recurrent, rows

import gluonjit
from gluonjit.analysis.ways import Setting
from gluonjit.errors import OptionError
from gluonjit.hybrid.choose import waiting
from gluonjit.hybrid.choose.waiting import samples_that_pay
from gluonjit.hybrid.options import Options

SIZE = 4


@pytest.fixture(autouse=True)
def anew() -> None:
    waiting.forget()


@pytest.fixture
def net() -> Any:
    yield from recurrent(SIZE)


def minibatch(count: int, seed: int = 0) -> list[Any]:
    return [rows(k % 4 + 1, SIZE, seed=seed + k) for k in range(count)]


def steps(net: gluon.Block, samples: list[Any]) -> gluonjit.Report:
    """A step of training without an update."""
    with autograd.record():
        total = gluonjit.add_n([(net(x) ** 2).sum() for x in samples])
    total.backward()
    total.asnumpy()
    return gluonjit.explain()


def test_what_options_leave_open_is_as_it_is_fastest(net: gluon.Block) -> None:
    net.hybridize(dynamic_batch=True)
    for k in range(3):
        report = steps(net, minibatch(8, seed=10 * k))
        assert report.setting == Setting("cell", True, "bound")
    assert report.to_dict()["setting"] == {"granularity": "cell", "sharing": True, "scheduler": "bound"}
    with pytest.raises(AttributeError, match="'choice' was removed, as all flushes run in the same way: read setting"):
        report.choice  # noqa: B018


@pytest.mark.parametrize("name, value", [("granularity", "op"), ("scheduler", "bound"), ("sharing", False)])
def test_what_is_given_is_kept(net: gluon.Block, name: str, value: Any) -> None:
    net.hybridize(dynamic_batch=True, **{name: value})
    for k in range(6):
        assert getattr(steps(net, minibatch(5, seed=k)).setting, name) == value


@pytest.mark.parametrize(
    "fixed, marginal, latency, expected",
    [
        (0.001, 0.001, None, 21),
        (0.0, 0.001, None, 1),
        (0.001, 0.001, 0.0055, 4),
        (0.001, 0.001, 0.0005, 1),
    ],
)
def test_how_many_samples_pay(fixed: float, marginal: float, latency: float | None, expected: int) -> None:
    """Up to 5 % above an endless batch, and within the latency."""
    assert samples_that_pay(fixed, marginal, latency=latency) == expected


def test_a_batch_runs_itself_at_a_number_of_samples(net: gluon.Block) -> None:
    samples = minibatch(10)
    expected = [net(x).asnumpy() for x in samples]
    with gluonjit.batching(flush_at=4) as batch:
        net.hybridize(dynamic_batch=True)
        values = [net(x) for x in samples]
        assert batch.report.flushes == 2
    assert batch.report.flushes == 3
    assert "4 samples, as flush_at=4 says" in next(iter(batch.report.reasons))
    for value, wanted in zip(values, expected):
        assert_close(value.asnumpy(), wanted, "value")


def test_a_stream_finds_its_number(net: gluon.Block) -> None:
    """After the first flush, which waits for the end of the scope, batches run themselves."""
    net.hybridize(dynamic_batch=True)
    flushes = []
    for k in range(3):
        with gluonjit.batching(flush_at="auto", max_latency=1e-7) as batch:
            values = [net(x) for x in minibatch(6, seed=k)]
        flushes.append(batch.report.flushes)
        assert all(isinstance(value, nd.NDArray) for value in values)
    assert flushes == [1, 6, 6]  # with so little time a sample cannot wait for another


@pytest.mark.parametrize(
    "options, message",
    [
        ({"flush_at": 0}, "flush_at=0, but it must be an integer of at least 1, 'auto' or None"),
        (
            {"max_latency": -1.0, "flush_at": "auto"},
            "max_latency=-1.0, but it must be a positive number of seconds or None",
        ),
        ({"max_latency": 0.1}, "max_latency=0.1 with flush_at=None"),
        ({"sharing": "yes"}, "sharing='yes', but it must be True, False or 'auto'"),
        ({"expand": "Dense"}, "expand='Dense', but it must be a tuple of names"),
    ],
)
def test_wrong_options(options: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionError) as caught:
        Options().updated("batching()", options)
    assert message in str(caught.value)


class Outer(gluon.HybridBlock):
    """A cell with a cell inside."""

    def __init__(self) -> None:
        super().__init__()
        with self.name_scope():
            self.inner = gluon.nn.Dense(SIZE, in_units=SIZE)

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        return F.tanh(self.inner(x)) + x


@pytest.mark.parametrize("by", ["class", "name"])
def test_a_mixed_cut(by: str) -> None:
    """The outer block is no node, what it calls is: a cell and two operators."""
    outer = Outer()
    outer.initialize()
    samples = [rows(1, SIZE, seed=k) for k in range(5)]
    expected = [outer(x).asnumpy() for x in samples]
    call: Callable[[Any], Any] = outer
    with gluonjit.batching(expand=("Outer" if by == "class" else outer.name,)) as batch:
        outer.hybridize(dynamic_batch=True)
        values = [call(x) for x in samples]
    for value, wanted in zip(values, expected):
        assert_close(value.asnumpy(), wanted, "value")
    assert batch.report.kinds[outer.inner.name].nodes == 5
    assert outer.name not in batch.report.kinds and not batch.report.unbatched
