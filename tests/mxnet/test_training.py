"""Trainer, layers with states of their own, and parameters that change, each against the per-sample program."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import mxnet as mx
import numpy as np
import pytest
from mxnet import autograd, gluon, nd
from mxnet.gluon import nn
from support import assert_close, assert_same, gradients, rows
from training_support import SAMPLES, SIZE, Rows, assert_gradients, rows_net, square, zero

import gluonjit


@pytest.fixture
def net() -> Iterator[Rows]:
    with rows_net() as made:
        yield made


def test_trainer(net: Any) -> None:
    start = {name: value.data().asnumpy().copy() for name, value in net.collect_params().items()}
    ends = []
    for dynamic in (False, True):
        for name, parameter in net.collect_params().items():
            parameter.set_data(nd.array(start[name]))
        net.hybridize(dynamic_batch=dynamic)
        trainer = gluon.Trainer(net.collect_params(), "adam", {"learning_rate": 0.05})
        for _ in range(5):
            with autograd.record():
                total = gluonjit.add_n([square(net, sample) for sample in SAMPLES])
            total.backward()
            trainer.step(len(SAMPLES))
        ends.append({name: value.data().asnumpy().copy() for name, value in net.collect_params().items()})
    for name in start:
        assert_close(ends[1][name], ends[0][name], name, 1e-4)


def test_value_captured_before_a_step_is_the_old_one(net: Any) -> None:
    net.hybridize(dynamic_batch=False)
    with autograd.record():
        total = gluonjit.add_n([square(net, sample) for sample in SAMPLES])
    total.backward()
    expected = net(SAMPLES[0]).asnumpy()
    net.hybridize(dynamic_batch=True)
    before = net(SAMPLES[0])
    gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 1.0}).step(1)
    assert_close(before.asnumpy(), expected, "value from before the step")


def test_set_data_and_writes_run_what_waits_first(net: Any) -> None:
    net.hybridize(dynamic_batch=False)
    x = SAMPLES[2].copy()
    expected = net(x).asnumpy()
    net.hybridize(dynamic_batch=True)
    before = net(x)
    x[:] = 0
    assert_close(before.asnumpy(), expected, "value from before x[:] = 0")
    x = SAMPLES[2].copy()
    before = net(x)
    net.cell.weight.set_data(net.cell.weight.data() * 0)
    assert_close(before.asnumpy(), expected, "value from before set_data")
    net.cell.weight.data()[:] = 1
    after = net(x)
    net.hybridize(dynamic_batch=False)
    assert_close(after.asnumpy(), net(x).asnumpy(), "value from after")


def test_dropout(net: Any) -> None:
    dropping = Rows(dropout=0.5)
    dropping.initialize(mx.init.Uniform(0.7))
    x = rows(1, SIZE)
    dropping.hybridize(dynamic_batch=True)
    mx.random.seed(7)
    with autograd.record():
        first = [dropping(x) for _ in range(64)]
        values = np.array([value.asnumpy().item() for value in first])
    assert len(set(values.round(6))) > 4, "each call draws for itself"
    mx.random.seed(7)
    with autograd.record():
        again = [dropping(x) for _ in range(64)]
    assert_close([value.asnumpy().item() for value in again], values, "the same seed")
    assert len({round(dropping(x).asnumpy().item(), 6) for _ in range(4)}) == 1, "nothing drops in evaluation"
    still = Rows(dropout=0.0)
    still.initialize(mx.init.Uniform(0.7))
    assert_same(still, SAMPLES, square)


class Normed(gluon.Block):
    """Batch normalisation, whose statistics in training are those of one sample's call."""

    def __init__(self) -> None:
        super().__init__()
        with self.name_scope():
            self.norm = nn.BatchNorm(in_channels=SIZE)
            self.out = nn.Dense(1, in_units=SIZE)

    def forward(self, x: Any) -> Any:
        return self.out(self.norm(x))


def test_batch_norm_runs_alone_in_training_and_says_so() -> None:
    ends = []
    samples = [rows(4, SIZE, seed=k) for k in range(5)]
    start = None
    for dynamic in (False, True):
        net = Normed()
        net.initialize(mx.init.One())
        net.hybridize(dynamic_batch=dynamic)
        with autograd.record():
            total = gluonjit.add_n([(net(sample) ** 2).sum() for sample in samples])
        total.backward()
        start = total.asscalar()
        ends.append((start, net.norm.running_mean.data().asnumpy(), net.norm.running_var.data().asnumpy()))
        if dynamic:
            assert "BatchNorm" in gluonjit.explain().alone
            net(samples[0]).wait_to_read()
            assert not gluonjit.explain().alone, "evaluation batches"
    for actual, expected in zip(ends[1], ends[0]):
        assert_close(actual, expected, "loss or running statistics")


@pytest.mark.parametrize("granularity", ["cell", "op"])
@pytest.mark.parametrize("recorded", [True, False])
@pytest.mark.parametrize("backward", [(True,), (False,), (False, True)])
def test_batch_norm_goes_backward_in_the_mode_that_backward_says(
    recorded: bool, backward: tuple[bool, ...], granularity: str
) -> None:
    """In training with the statistics of the call itself, or else with the running ones, whatever mode it ran in."""
    samples = [rows(3, SIZE, seed=k) + k for k in range(4)]
    found: list[list[Any]] = []
    for batched in (False, True):
        mx.random.seed(1)
        net = nn.Sequential()
        net.add(nn.Dense(SIZE, in_units=SIZE), Normed())
        net.initialize(mx.init.Xavier())
        net[1].norm.running_mean.set_data(rows(1, SIZE, seed=8)[0])
        net[1].norm.running_var.set_data(rows(1, SIZE, seed=9)[0] ** 2 + 0.5)
        if batched:
            net.hybridize(dynamic_batch=True, granularity=granularity)
        with autograd.record(train_mode=recorded):
            total = gluonjit.add_n([(net(sample) ** 2).sum() for sample in samples])
        for number, training in enumerate(backward, 1):
            total.backward(retain_graph=number < len(backward), train_mode=training)
        parameters = net.collect_params().values()
        arrays = [one.grad() for one in parameters if one.grad_req != "null"] + [one.data() for one in parameters]
        found.append([array.asnumpy() for array in arrays])
        if batched:
            assert "BatchNorm" in gluonjit.explain().alone
    largest = max(abs(array).max() for array in found[0])
    for actual, expected in zip(found[1], found[0]):
        assert abs(actual - expected).max() <= 1e-5 * largest


class OfAnySize(gluon.Block):
    """Statistics of images of any size, of one layer once or twice in a sample, and of another one behind it."""

    def __init__(self) -> None:
        super().__init__()
        with self.name_scope():
            self.scale = nn.Conv2D(2, 1, in_channels=2)
            self.first, self.second = (nn.BatchNorm(momentum=momentum, in_channels=2) for momentum in (0.5, 0.7))

    def forward(self, image: Any, times: int) -> Any:
        image = self.scale(image)
        for _ in range(times):
            image = self.first(image * image + 3)
        return (self.second(image) ** 3).sum()


@pytest.mark.parametrize("way", ["sum", "list", "twice", "some"])
@pytest.mark.parametrize("granularity", ["cell", "op"])
def test_running_statistics_are_updated_in_the_order_of_eager_backward(way: str, granularity: str) -> None:
    """The last call first, whatever the sizes and depths; and those calls alone that backward comes to."""
    random = np.random.RandomState(0)
    sizes = [(3, 3), (2, 4), (3, 3), (5, 2), (2, 4), (6, 6), (3, 3)]
    samples = [(nd.array(random.randn(1, 2, *size) + k), 1 + k % 3) for k, size in enumerate(sizes)]
    found = []
    for batched in (False, True):
        net = OfAnySize()
        net.initialize(mx.init.Constant(0.3))
        net.hybridize(dynamic_batch=batched, **({"granularity": granularity} if batched else {}))
        for _ in range(2):
            with autograd.record():
                losses = [net(*sample) for sample in samples]
                total = gluonjit.add_n(losses[::2] if way == "some" else losses)
            if way == "list":
                autograd.backward(losses)
            else:
                total.backward(retain_graph=way == "twice")
            if way == "twice":
                total.backward()
        parameters = net._collect_params_with_prefix()
        found.append({name: one.data().asnumpy() for name, one in parameters.items() if "running" in name})
    for name, expected in found[0].items():
        assert_close(found[1][name], expected, name)


def test_running_statistics_of_calls_that_run_eagerly_afterwards() -> None:
    """As where a look at batching is given up: those of the later calls are updated first."""
    samples = [(nd.array(np.random.RandomState(k).randn(1, 2, 3, 3) + k), 1) for k in range(4)]
    found = []
    for batched in (False, True):
        net = OfAnySize()
        net.initialize(mx.init.Constant(0.3))
        net.hybridize(dynamic_batch=batched, **({"granularity": "cell"} if batched else {}))
        with autograd.record():
            losses = [net(*sample) for sample in samples[:2]]
            net.hybridize(dynamic_batch=False)
            losses += [net(*sample) for sample in samples[2:]]
            total = nd.add_n(*losses)
        total.backward()
        found.append(net.first.running_mean.data().asnumpy())
    assert_close(found[1], found[0], "running mean")


def test_deferred_initialisation() -> None:
    class Deferred(gluon.Block):
        def __init__(self) -> None:
            super().__init__()
            with self.name_scope():
                self.first = nn.Dense(4, activation="tanh")
                self.second = nn.Dense(2)

        def forward(self, x: Any) -> Any:
            return self.second(self.first(x))

    net = Deferred()
    net.initialize(mx.init.One())
    net.hybridize(dynamic_batch=True)
    batched = [net(rows(1, 3, seed=k)) for k in range(3)]
    values = [value.asnumpy() for value in batched]
    net.hybridize(dynamic_batch=False)
    for k in range(3):
        assert_close(values[k], net(rows(1, 3, seed=k)).asnumpy(), f"sample {k}")


class Drawn(mx.init.Initializer):  # type: ignore[misc]
    """An initializer of the program's own, which counts what it has drawn."""

    def __init__(self) -> None:
        super().__init__()
        self.drawn = 0

    def _init_weight(self, _: Any, array: Any) -> None:
        self.drawn += 1
        array[:] = nd.array(np.random.RandomState(self.drawn).uniform(size=array.shape))
        array *= array > 0.5


def test_initializers_of_the_programs_own_run_while_a_call_is_traced() -> None:
    """They run once for all calls, and are no part of what is traced."""
    found = []
    for batched in (False, True):
        net = nn.HybridSequential()
        net.add(nn.Dense(4, activation="tanh"), nn.Dense(2))
        initializer = Drawn()
        net.initialize(initializer)
        if batched:
            net.hybridize(dynamic_batch=True, granularity="cell")
        found.append([net(rows(1, 3, seed=k)).asnumpy() for k in range(3)])
        assert initializer.drawn == 2
        if batched:
            assert not gluonjit.explain().unbatched
    for actual, expected in zip(found[1], found[0]):
        assert_close(actual, expected, "sample")


def test_state_carried_to_the_next_minibatch(net: Any) -> None:
    """A state of one minibatch is an operand of the next; detached, no gradient goes back."""
    found = []
    for dynamic in (False, True):
        net.hybridize(dynamic_batch=dynamic)
        zero(net)
        state = nd.zeros((1, SIZE))
        for k in range(3):
            with autograd.record():
                state = net.cell(state + SAMPLES[k][0:1])
                total = (net.out(state) ** 2).sum()
            total.backward()
            state = state.detach()
        found.append((state.asnumpy(), gradients(net)))
    assert_close(found[1][0], found[0][0], "state")
    assert_gradients(net, found[0][1])


def test_trainable_embedding() -> None:
    class Words(gluon.Block):
        def __init__(self) -> None:
            super().__init__()
            with self.name_scope():
                self.embed = nn.Embedding(7, SIZE)
                self.out = nn.Dense(1, in_units=SIZE)

        def forward(self, tokens: Any) -> Any:
            words = self.embed(tokens)
            return self.out(words[0:1] * words[-1:] + words[0])

    net = Words()
    net.initialize(mx.init.Uniform(0.7))
    samples = [nd.array(tokens) for tokens in ([1, 2], [2, 1, 3], [6], [1, 2], [0, 0, 0])]
    report = assert_same(net, samples, square)
    assert report.shared > 0


def test_a_look_up_that_is_read_first_is_learned(net: Any) -> None:
    class Words(gluon.Block):
        def __init__(self) -> None:
            super().__init__()
            with self.name_scope():
                self.embed = nn.Embedding(7, SIZE)

        def forward(self, tokens: Any) -> Any:
            words = self.embed(tokens)
            words.wait_to_read()
            return (words**2).sum()

    words = Words()
    words.initialize(mx.init.Uniform(0.7))
    assert_same(words, [nd.array([1, 2]), nd.array([2, 3, 3])], lambda net, tokens: net(tokens))
