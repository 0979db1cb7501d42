"""Recording, gradients and parameters in every combination a program may have them, against the per-sample program."""

from __future__ import annotations

import copy
import inspect
import pprint
import threading
from typing import Any

import mxnet as mx
import numpy as np
import pytest
from mxnet import autograd, gluon, nd
from mxnet.gluon import nn
from support import assert_close, assert_same, gradients, rows

import gluonjit
from gluonjit.errors import CaptureError

SIZE = 4
SAMPLES = [rows(k % 4 + 1, SIZE, seed=k) for k in range(6)]


class Shared(gluon.Block):
    """One weight in two layers and in a cell of two; the last layers are initialised when they are first called."""

    def __init__(self) -> None:
        super().__init__()
        with self.name_scope():
            self.first = nn.Dense(SIZE, in_units=SIZE, activation="tanh")
            self.second = nn.Dense(SIZE, in_units=SIZE, params=self.first.params)
            self.pair = nn.HybridSequential()
            self.pair.add(nn.Dense(SIZE, activation="relu"), nn.Dense(SIZE, params=self.first.params))
            self.out = nn.Dense(2)

    def forward(self, x: Any) -> Any:
        h = self.first(x)
        for _ in range(x.shape[0]):
            h = self.second(h) + self.pair(x)
        return self.out(h)


def square(net: gluon.Block, sample: Any) -> Any:
    return (net(sample) ** 2).sum()


@pytest.fixture
def net() -> Any:
    mx.random.seed(0)
    made = Shared()
    made.initialize(mx.init.Uniform(0.7))
    made(SAMPLES[0])
    yield made
    made.hybridize(dynamic_batch=False)


def assert_equal_ways(net: gluon.Block, way: Any) -> None:
    """`way(net)` gives the same list of numbers eagerly and batched."""
    found = []
    for dynamic in (False, True):
        net.hybridize(dynamic_batch=dynamic)
        net.collect_params().zero_grad()
        found.append([np.asarray(value) for value in way(net)])
    for number, (actual, expected) in enumerate(zip(found[1], found[0])):
        assert_close(actual, expected, f"number {number}")


@pytest.mark.parametrize("granularity", ["cell", "op"])
def test_one_weight_in_several_cells(net: Any, granularity: str) -> None:
    report = assert_same(net, SAMPLES, square, granularity=granularity)
    assert report.flushes == 1


def test_deferred_initialisation_in_the_middle_of_a_batch() -> None:
    found = []
    for dynamic in (False, True):
        plain, shared = nn.Dense(SIZE, in_units=SIZE), Shared()
        for block in (plain, shared):
            block.initialize(mx.init.One())
            block.hybridize(dynamic_batch=dynamic)
        with autograd.record():
            losses = [square(block, sample) for block in (plain, shared, plain) for sample in SAMPLES]
            total = gluonjit.add_n(losses)
        total.backward()
        found.append([total.asnumpy(), *gradients(plain).values(), *gradients(shared).values()])
    for actual, expected in zip(found[1], found[0]):
        assert_close(actual, expected, "total or gradient")


def test_threads_whose_first_calls_initialise() -> None:
    net = Shared()
    net.initialize(mx.init.One())
    net.hybridize(dynamic_batch=True)
    found: dict[int, list[np.ndarray]] = {}
    barrier = threading.Barrier(4)

    def work(number: int) -> None:
        barrier.wait(20)
        found[number] = [net(sample).asnumpy() for sample in SAMPLES]

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    net.hybridize(dynamic_batch=False)
    assert sorted(found) == [0, 1, 2, 3]
    for values in found.values():
        for value, sample in zip(values, SAMPLES):
            assert_close(value, net(sample).asnumpy(), "value")


def test_training_in_a_thread(net: Any) -> None:
    def way(net: Any) -> list[Any]:
        def work() -> None:
            with autograd.record():
                total = gluonjit.add_n([square(net, sample) for sample in SAMPLES])
            total.backward()

        thread = threading.Thread(target=work)
        thread.start()
        thread.join(60)
        return list(gradients(net).values())

    assert_equal_ways(net, way)


def way_attach(net: Any) -> list[Any]:
    """`attach_grad` on a value makes it a leaf."""
    x = SAMPLES[3].copy()
    x.attach_grad()
    with autograd.record():
        h = net.first(x)
        h.attach_grad()
        loss = (net.out(h) ** 2).sum()
    loss.backward()
    return [h.grad.asnumpy(), net.out.weight.grad().asnumpy(), x.grad.asnumpy()]


def way_grad(net: Any) -> list[Any]:
    x = SAMPLES[3].copy()
    x.attach_grad()
    with autograd.record():
        loss = square(net, x)
    found = [g.asnumpy() for g in autograd.grad(loss, [x, net.first.weight.data()], retain_graph=True)]
    loss.backward()
    return [*found, x.grad.asnumpy(), *gradients(net).values()]


def way_pause(net: Any) -> list[Any]:
    x = SAMPLES[3].copy()
    x.attach_grad()
    with autograd.record():
        with autograd.pause():
            constant = net(x)
        loss = (net(x) * constant).sum() + nd.BlockGrad(net.first(x)).sum()
        loss = loss + (net.first(x).detach() * net.first(x)).sum()
    loss.backward(train_mode=False)
    return [x.grad.asnumpy(), *gradients(net).values()]


def way_whole_numbers(net: Any) -> list[Any]:
    """MXNet's gradients go through whole numbers, and are whole numbers there."""
    with autograd.record():
        loss = ((net.first(SAMPLES[3]) * 5).astype("int32") * 3).astype("float32").sum() + square(net, SAMPLES[2])
    loss.backward()
    return [loss.asnumpy(), *gradients(net).values()]


def way_add(net: Any) -> list[Any]:
    x = SAMPLES[3].copy()
    x.attach_grad("add")
    for _ in range(3):
        with autograd.record():
            loss = square(net, x)
        loss.backward()
    return [x.grad.asnumpy()]


def way_head(net: Any) -> list[Any]:
    x = SAMPLES[2].copy()
    x.attach_grad()
    with autograd.record():
        y = net(x)
    y.backward(nd.ones_like(y) * 3)
    return [x.grad.asnumpy(), *gradients(net).values()]


@pytest.mark.parametrize("way", [way_attach, way_grad, way_pause, way_whole_numbers, way_add, way_head])
def test_ways_of_asking_for_gradients(net: Any, way: Any) -> None:
    assert_equal_ways(net, way)


READS = {
    "repr": repr,
    "str": str,
    "format": lambda value: f"{value}",
    "pprint": lambda value: pprint.pformat([value]),
    "dir": dir,
    "properties": lambda value: [getattr(value, name, None) for name in dir(value)],
    "getmembers": inspect.getmembers,
    "iteration": list,
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    "numpy": np.asarray,
    "truth": lambda value: bool(value.sum() > 0),
    "equality": lambda value: value == value,
}


@pytest.mark.parametrize("paused", [False, True])
@pytest.mark.parametrize("read", READS)
def test_looking_at_a_value_changes_nothing(net: Any, read: str, paused: bool) -> None:
    """Under recording and outside of it, on results, on states and on slices; then everything goes on."""

    def way(net: Any) -> list[Any]:
        with autograd.record():
            values = [net(sample) for sample in SAMPLES]
            state = net.first(SAMPLES[0])
            with autograd.pause() if paused else autograd.record():
                for value in (values[1], state, state[0:1], state[0]):
                    READS[read](value)
            total = gluonjit.add_n([(value**2).sum() for value in values])
            total = total + state.sum() + state[0:1].sum() + state[0].sum() + state.reshape((-1,))[1]
        total.backward()
        return [value.asnumpy() for value in values] + list(gradients(net).values())

    assert_equal_ways(net, way)


def test_the_same_minibatch_gives_the_same_bits(net: Any) -> None:
    net.hybridize(dynamic_batch=True, granularity="cell", scheduler="bound", sharing=True)
    found = []
    for _ in range(3):
        with autograd.record():
            losses = [square(net, sample) for sample in SAMPLES]
            total = gluonjit.add_n(losses)
        total.backward()
        found.append([loss.asnumpy() for loss in losses] + list(gradients(net).values()))
    for again in found[1:]:
        assert all((one == other).all() for one, other in zip(again, found[0]))
    for loss, sample in zip(found[0], SAMPLES):
        assert_close(loss, square(net, sample).asnumpy(), "a sample without its batch-mates", 1e-6)


def test_several_devices(net: Any) -> None:
    """One net on each, in one batch; values move between them; a Trainer over both."""
    devices = [mx.cpu(0), mx.cpu(1)]
    data, found = rows(6, 3, SIZE) * 0.1, []
    for dynamic in (False, True):
        net = Shared()
        net.initialize(mx.init.One(), ctx=devices)
        for k, parameter in enumerate(net.collect_params().values()):
            if parameter._data is not None:
                parameter.set_data(rows(*parameter.shape, seed=k))
        net.hybridize(dynamic_batch=dynamic)
        trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.001})
        for _ in range(3):
            parts = gluon.utils.split_and_load(data, devices)
            with autograd.record():
                losses = [gluonjit.add_n([square(net, part[k]) for k in range(len(part))]) for part in parts]
                moved = net.first(parts[0][0]).as_in_context(mx.cpu(1))
                losses.append(net.out(moved).sum())
            assert losses[2].context == mx.cpu(1)
            autograd.backward(losses)
            trainer.step(6)
        found.append([p.data(device).asnumpy() for p in net.collect_params().values() for device in devices])
        assert mx.context.current_context() == mx.cpu(0)
    for actual, expected in zip(found[1], found[0]):
        assert_close(actual, expected, "parameter")
    with pytest.raises(CaptureError, match=r"cpu\(0\), cpu\(1\)"):
        net.first(rows(1, SIZE)) + rows(1, SIZE).as_in_context(mx.cpu(1))


class Paused(gluon.Block):
    """Reads a number, uses an input while nothing is recorded, and then under recording."""

    def forward(self, x: Any, other: Any) -> Any:
        float(nd.sin(other).sum().asscalar())
        with autograd.pause():
            nd.sin(x)
        return x.squeeze()


def test_an_input_that_is_first_used_without_recording_gets_its_gradient() -> None:
    found = []
    for dynamic in (False, True):
        net = Paused()
        if dynamic:
            net.hybridize(dynamic_batch=True, granularity="cell")
        inputs = [nd.array([1.0 + k, 2.0, 3.0]) for k in range(2)]
        for x in inputs:
            x.attach_grad()
        with autograd.record():
            results = [net(x, nd.array([1.0, 2.0])) for x in inputs]
            total = sum([(out * nd.array([1.0, 2.0, 3.0])).sum() for out in results])
        total.backward()
        found.append([x.grad.asnumpy() for x in inputs])
    for one, other in zip(*found):
        assert_close(other, one, "a gradient")
