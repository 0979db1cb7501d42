"""Blocks in batches whose nodes are operators: they run as they are, and nothing looks into their arguments."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import mxnet as mx
import pytest
from mxnet import autograd, gluon, nd
from mxnet.gluon import nn
from support import assert_close

import gluonjit
from gluonjit.hybrid.capture.outlining import outlines

SAMPLES = [nd.arange(4).reshape((1, 4)) * number for number in range(1, 6)]
ONES = nd.ones((1, 4))


class Inner(gluon.HybridBlock):
    def __init__(self) -> None:
        super().__init__()
        with self.name_scope():
            self.first, self.second = nn.Dense(4, in_units=4), nn.HybridSequential()
            self.second.add(nn.Dense(4, in_units=4), nn.Activation("tanh"))

    def hybrid_forward(self, F: Any, x: Any, given: Any = None) -> Any:
        x = self.second(self.first(x))
        if isinstance(given, dict):
            given = given["array"]
        return x if given is None else x + (given[0] if isinstance(given, (list, tuple)) else given)


class Net(gluon.Block):
    def __init__(self, given: Any = None) -> None:
        super().__init__()
        with self.name_scope():
            self.embed, self.inner = nn.Embedding(3, 4), Inner()
        self.given = given

    def forward(self, x: Any) -> Any:
        return self.inner(x, self.given) * self.inner(x) + self.embed(nd.array([1, 2])).sum(axis=0, keepdims=True)


@pytest.fixture
def net() -> Iterator[Net]:
    mx.random.seed(1)
    made = Net()
    made.initialize(mx.init.Uniform(0.5))
    yield made


def run(net: gluon.Block) -> list[Any]:
    """The results of the samples, and gradients."""
    with autograd.record():
        found = [net(x) for x in SAMPLES]
        total = nd.add_n(*[x.sum() for x in found])
    total.backward()
    return [x.asnumpy() for x in found] + [each.grad().asnumpy() for each in net.collect_params().values()]


def agree(net: gluon.Block, expected: list[Any]) -> gluonjit.Report:
    for one, two in zip(run(net), expected):
        assert_close(one, two, "a result")
    return gluonjit.explain()


@pytest.mark.parametrize("given", [None, ONES, (ONES,), [ONES * 2], {"array": ONES}])
def test_whatever_they_are_given(net: Net, given: Any) -> None:
    """A dictionary is no part of a node, which is no news where none was asked for."""
    net.given = given
    expected = run(net)
    net.hybridize(dynamic_batch=True, granularity="op")
    agree(net, expected)
    report = agree(net, expected)
    assert report.unbatched == {}
    assert report.kinds["FullyConnected"].launches == 2


def test_hooks_that_come_late_run_for_each_call(net: Net) -> None:
    seen: list[Any] = []
    expected = run(net)
    net.hybridize(dynamic_batch=True, granularity="op")
    agree(net, expected)
    with gluonjit.batching(granularity="op"):
        kept = [net(x) for x in SAMPLES]
        before = net.inner.second.register_forward_pre_hook(lambda block, given: seen.append(given))
        after = net.inner.second.register_forward_hook(lambda block, given, out: seen.append(out))
        kept += [net(x) for x in SAMPLES]
        before.detach()
        after.detach()
        kept += [net(x) for x in SAMPLES]
    assert len(seen) == 4 * len(SAMPLES)
    for one, two in zip(kept, expected[: len(SAMPLES)] * 3):
        assert_close(one.asnumpy(), two, "a result")


def test_a_hook_that_a_forward_registers_runs_for_this_call() -> None:
    seen: list[Any] = []

    class Late(gluon.HybridBlock):
        def hybrid_forward(self, F: Any, x: Any) -> Any:
            if not self._forward_hooks:
                self.register_forward_hook(lambda block, given, out: seen.append(out.shape))
            return F.tanh(x)

    class Around(gluon.Block):
        def __init__(self) -> None:
            super().__init__()
            self.late = Late()

        def forward(self, x: Any) -> Any:
            return self.late(x * 2)

    net = Around()
    net.hybridize(dynamic_batch=True, granularity="op")
    found = [net(x) for x in SAMPLES]
    assert seen == [(1, 4)] * len(SAMPLES)
    for one, x in zip(found, SAMPLES):
        assert_close(one.asnumpy(), nd.tanh(x * 2).asnumpy(), "a result")


@pytest.mark.parametrize("inside", [False, True])
def test_blocks_that_nobody_hybridized(net: Net, inside: bool) -> None:
    """A loss beside a model, or a model in a scope."""
    loss = gluon.loss.L2Loss()
    expected = [loss(net(x), nd.ones((1, 4))).asnumpy() for x in SAMPLES]
    if not inside:
        net.hybridize(dynamic_batch=True, granularity="op")
    with gluonjit.batching(granularity="op") as batch:
        found = [loss(net(x), nd.ones((1, 4))) for x in SAMPLES]
    for one, two in zip(found, expected):
        assert_close(one.asnumpy(), two, "a loss")
    assert batch.report.unbatched == {}
    assert batch.report.nodes > 4 * len(SAMPLES)


@mx.util.use_np
def test_arrays_of_the_other_kind_are_refused() -> None:
    class Wrong(gluon.HybridBlock):
        def hybrid_forward(self, F: Any, x: Any) -> Any:
            return (x * 2).as_nd_ndarray() if self.wrong else x * 2

        wrong = False

    class Around(gluon.Block):
        def __init__(self) -> None:
            super().__init__()
            self.part = Wrong()

        def forward(self, x: Any) -> Any:
            return self.part(x + 1) * 3

    net = Around()
    net.hybridize(dynamic_batch=True, granularity="op")
    assert_close(net(mx.np.ones((1, 4))).asnumpy(), 12 * mx.np.ones((1, 4)).asnumpy(), "a result")
    net.part.wrong = True
    with pytest.raises(TypeError, match=r"mxnet\.numpy\.ndarray"):
        net(mx.np.ones((1, 4)))


def test_no_cells_are_made_from_source(monkeypatch: pytest.MonkeyPatch) -> None:
    """No node would be one of these: the source is not read before batches have other nodes."""

    class Twice(gluon.Block):
        def forward(self, x: Any) -> Any:
            return nd.tanh(x * 2) * nd.sigmoid(x + 1)

    read: list[str] = []

    def noting(function: Any, *args: Any) -> Any:
        read.append(function.__qualname__)
        return outlined(function, *args)

    outlined = outlines.outlined
    monkeypatch.setattr(outlines, "outlined", noting)
    net = Twice()
    kept = []
    for granularity in ("op", "cell"):
        net.hybridize(dynamic_batch=True, granularity=granularity)
        kept.append([net(x).asnumpy() for x in SAMPLES])
        assert [name.split(".")[-1] for name in read] == {"op": [], "cell": ["forward"]}[granularity]
    for one, two, x in zip(*kept, SAMPLES):
        assert_close(one, (nd.tanh(x * 2) * nd.sigmoid(x + 1)).asnumpy(), "a result")
        assert_close(two, one, "a result")
