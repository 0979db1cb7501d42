"""What draws and what keeps statistics: the documented rules."""

from __future__ import annotations

from typing import Any, Callable

import mxnet as mx
import numpy as np
import pytest
from mxnet import autograd, gluon, nd
from mxnet.gluon import nn
from support import assert_close, assert_same, rows

import gluonjit

SIZE = 4


class Apply(gluon.Block):
    """A function of one sample."""

    def __init__(self, function: Callable[[Any], Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Any) -> Any:
        return self.function(x)


DRAWS: dict[str, Callable[[Any], Any]] = {
    "normal of lazy parameters": lambda x: nd.random.normal(x * 0 + 3, x * 0 + 0.5, shape=(40,)),
    "uniform of lazy parameters": lambda x: nd.random.uniform(x * 0, x * 0 + 1, shape=(40,)),
    "gamma of lazy parameters": lambda x: nd.random.gamma(x * 0 + 2, x * 0 + 1, shape=(40,)),
    "poisson of lazy parameters": lambda x: nd.random.poisson(x * 0 + 2, shape=(40,)),
    "sample_normal": lambda x: nd.sample_normal(mu=x * 0 + 3, sigma=x * 0 + 0.5, shape=(40,)),
    "normal_like": lambda x: nd.random.normal_like(nd.tile(x, (1, 40))),
    "multinomial": lambda x: nd.random.multinomial(nd.softmax(x * 0), shape=(160,)).astype("float32"),
    "scalar parameters": lambda x: x * 0 + nd.random.normal(3, 0.5, shape=(1, SIZE)),
    "Dropout, always": lambda x: nd.Dropout(nd.ones_like(nd.tile(x, (1, 40))), p=0.3, mode="always"),
}


@pytest.mark.parametrize("sharing", [True, False])
@pytest.mark.parametrize("draw", DRAWS)
def test_every_call_draws_for_itself(draw: str, sharing: bool) -> None:
    """Equal calls are different draws, of eager's distribution, and the same again with the same seed."""
    net, x = Apply(DRAWS[draw]), rows(1, SIZE)
    mx.random.seed(5)
    expected = np.stack([net(x).asnumpy() for _ in range(60)])
    net.hybridize(dynamic_batch=True, sharing=sharing)
    runs = []
    for _ in range(2):
        mx.random.seed(5)
        values = [net(x) for _ in range(60)]
        runs.append(np.stack([value.asnumpy() for value in values]))
    actual = runs[0]
    assert (runs[1] == actual).all()
    assert actual.shape == expected.shape and actual.dtype == expected.dtype
    assert len({sample.tobytes() for sample in actual}) == 60
    error = 5 * expected.std() / np.sqrt(expected.size)
    assert abs(actual.mean() - expected.mean()) < 2 * error
    assert abs(actual.std() / expected.std() - 1) < 0.2


def test_shuffle() -> None:
    net = Apply(nd.random.shuffle)
    net.hybridize(dynamic_batch=True)
    x = nd.array(np.arange(20).reshape(20, 1))
    mx.random.seed(1)
    values = [net(x) for _ in range(8)]
    found = [value.asnumpy().ravel() for value in values]
    assert all(sorted(value) == list(range(20)) for value in found)
    assert len({value.tobytes() for value in found}) == 8


@pytest.mark.parametrize("hybrid", [False, True])
def test_dropout_draws_for_each_sample_with_its_own_rate(hybrid: bool) -> None:
    net: Any = nn.Dropout(0.3) if hybrid else Apply(lambda x: nd.Dropout(x, p=0.3))
    net.hybridize(dynamic_batch=True)
    x = nd.ones((1, 50))
    mx.random.seed(3)
    with autograd.record():
        values = [net(x) for _ in range(200)]
    drawn = np.concatenate([value.asnumpy() for value in values])
    assert gluonjit.explain().launches == 1
    assert abs((drawn == 0).mean() - 0.3) < 0.02
    assert abs(drawn.mean() - 1) < 0.03 and abs(drawn.var() - 0.3 / 0.7) < 0.03
    assert abs(np.corrcoef(drawn[::2].ravel(), drawn[1::2].ravel())[0, 1]) < 0.05


def test_the_mode_at_the_call_counts() -> None:
    net = nn.Dropout(0.5)
    net.hybridize(dynamic_batch=True)
    x = nd.ones((1, 50))
    with autograd.train_mode():
        values = [net(x)]
    values.append(net(x))
    with autograd.record(train_mode=False):
        values.append(net(x))
    with autograd.record():
        values.append(net(x))
        with autograd.predict_mode():
            values.append(net(x))
            with autograd.train_mode():
                values.append(net(x))
    assert [bool((value.asnumpy() == 0).any()) for value in values] == [True, False, False, True, False, True]


class Normed(gluon.Block):
    """Batch normalisation by itself and inside a cell."""

    def __init__(self) -> None:
        super().__init__()
        with self.name_scope():
            self.norm = nn.BatchNorm(in_channels=SIZE)
            self.cell = nn.HybridSequential()
            self.cell.add(nn.Dense(SIZE, in_units=SIZE, use_bias=False), nn.BatchNorm(in_channels=SIZE))
            self.out = nn.Dense(1, in_units=SIZE)

    def forward(self, x: Any) -> Any:
        return self.out(self.cell(self.norm(x)))


@pytest.mark.parametrize("adder", [gluonjit.add_n, sum])
def test_batch_norm_in_training(adder: Any) -> None:
    """Each call has its own statistics; the running ones are those of the eager program."""
    found = []
    for dynamic in (False, True):
        net = Normed()
        net.initialize(mx.init.One())
        net.cell[0].weight.set_data(rows(SIZE, SIZE))
        net.hybridize(dynamic_batch=dynamic)
        for step in range(2):
            with autograd.record():
                losses = [(net(rows(4, SIZE, seed=10 * step + k)) ** 2).sum() for k in range(5)]
                total = adder(losses)
            total.backward()
        if dynamic:
            assert "BatchNorm" in gluonjit.explain().alone
        running = [p.data().asnumpy() for name, p in net.collect_params().items() if "running" in name]
        found.append([total.asnumpy(), *running])
    for actual, expected in zip(found[1], found[0]):
        assert_close(np.append(actual, 1), np.append(expected, 1), "loss or running statistics")


def test_other_norms() -> None:
    class Norms(gluon.Block):
        def __init__(self) -> None:
            super().__init__()
            with self.name_scope():
                self.instance = nn.InstanceNorm(in_channels=SIZE)
                self.layer = nn.LayerNorm(in_channels=5)
                self.group = nn.GroupNorm(2)
                self.cell = nn.HybridSequential()
                self.cell.add(nn.Dense(5, in_units=5 * SIZE, activation="tanh"), nn.LayerNorm(in_channels=5))

        def forward(self, x: Any) -> Any:
            return self.cell(self.group(nd.tanh(self.instance(self.layer(x)))))

    net = Norms()
    net.initialize(mx.init.Uniform(0.7))
    samples = [rows(1, SIZE, 5, seed=k) for k in range(4)]
    report = assert_same(net, samples, lambda net, x: (net(x) * x[0, 0]).sum(), tolerance=5e-5)
    assert not report.alone
