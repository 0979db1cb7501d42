"""Programs that stop half way, that interleave, that go deep, that fork: the batch stays right, and the next works."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import threading
import warnings
from typing import Any

import mxnet as mx
import numpy as np
import pytest
from mxnet import autograd, gluon, nd
from mxnet.gluon import nn
from mxnet.gluon.data import ArrayDataset, DataLoader
from support import assert_close, gradients, recurrent, rows

import gluonjit
from gluonjit.errors import BatchClosedError
from gluonjit.hybrid import LOCAL

SIZE = 4
SAMPLES = [rows(k % 4 + 1, SIZE, seed=k) for k in range(6)]


@pytest.fixture
def net() -> Any:
    mx.random.seed(0)
    yield from recurrent(SIZE)
    assert LOCAL.state.batch is None and not LOCAL.state.explicit


def values_of(net: Any) -> list[np.ndarray]:
    net.hybridize(dynamic_batch=False)
    return [net(sample).asnumpy() for sample in SAMPLES]


def assert_values(values: list[Any], expected: list[np.ndarray]) -> None:
    for value, wanted in zip(values, expected):
        assert_close(value.asnumpy(), wanted, "value")


def test_tasks_that_interleave(net: Any) -> None:
    expected = values_of(net)
    net.hybridize(dynamic_batch=True)

    async def one(sample: Any) -> Any:
        value = net(sample)
        await asyncio.sleep(0)
        return value + net(sample)

    async def all_of_them() -> Any:
        return await asyncio.gather(*[one(sample) for sample in SAMPLES])

    assert_values(asyncio.run(all_of_them()), [2 * value for value in expected])
    assert gluonjit.explain().flushes == 1


def test_scopes_held_across_await(net: Any) -> None:
    """They may end in any order: what a task has captured has run when its scope ends."""
    expected = values_of(net)

    async def one(number: int) -> Any:
        with gluonjit.batching():
            first = net(SAMPLES[number])
            for _ in range(1 + number * 7 % 4):
                await asyncio.sleep(0)
            second = net(SAMPLES[number - 1])
            for _ in range(1 + number * 5 % 3):
                await asyncio.sleep(0)
        assert first._v.result is not None and second._v.result is not None
        return first, second

    async def all_of_them() -> Any:
        return await asyncio.gather(*[one(number) for number in range(6)])

    for number, pair in enumerate(asyncio.run(all_of_them())):
        assert_values(list(pair), [expected[number], expected[number - 1]])


def test_a_task_that_raises_takes_nothing_from_the_others(net: Any) -> None:
    expected = values_of(net)

    async def bad() -> None:
        with gluonjit.batching():
            net(SAMPLES[0])
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            raise ZeroDivisionError

    async def good() -> Any:
        with gluonjit.batching():
            first = net(SAMPLES[1])
            await asyncio.sleep(0)
            second = net(SAMPLES[2])
            for _ in range(4):
                await asyncio.sleep(0)
        return first, second

    async def all_of_them() -> Any:
        return await asyncio.gather(good(), bad(), good(), return_exceptions=True)

    first, error, last = asyncio.run(all_of_them())
    assert isinstance(error, ZeroDivisionError)
    assert_values([*first, *last], expected[1:3] * 2)


def test_generators(net: Any) -> None:
    """Dropped half way: of an implicit batch values stay, of a scope's they say why they are gone."""
    expected = values_of(net)
    net.hybridize(dynamic_batch=True)
    plain = (net(sample) for sample in SAMPLES)
    kept = [next(plain), next(plain)]
    plain.close()
    assert_values(kept, expected)

    def scoped() -> Any:
        with gluonjit.batching():
            for sample in SAMPLES:
                yield net(sample)

    generator = scoped()
    value = next(generator)
    generator.close()
    with pytest.raises(BatchClosedError, match="GeneratorExit"):
        value.asnumpy()
    first, second = scoped(), scoped()
    next(first)
    value = next(second)
    first.close()
    assert_values([value, *second], expected)


def test_scopes_in_scopes(net: Any) -> None:
    """The inner one runs alone; `return` leaves it as its end does."""
    expected = values_of(net)

    def inner() -> Any:
        with gluonjit.batching() as batch:
            kept.append(batch)
            return net(SAMPLES[1])

    kept: list[Any] = []
    with gluonjit.batching() as outer:
        first = net(SAMPLES[0])
        second = inner()
        assert kept[0].report.flushes == 1 and outer.report.flushes == 0
        total = first + second
    assert_values([total], [expected[0] + expected[1]])


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="needs an interval timer")
def test_interrupts(net: Any) -> None:
    """Ctrl-C at any time, in capture, in a flush or in backward: the next minibatch works."""
    expected = values_of(net)
    net.hybridize(dynamic_batch=True)
    random, interrupted, inside = np.random.RandomState(0), 0, False

    def interrupt(*_: Any) -> None:
        if inside:  # else the signal comes when the minibatch is over, where no handler of the test's is
            raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        for _ in range(40):
            try:
                inside = True
                signal.setitimer(signal.ITIMER_REAL, random.uniform(0.0002, 0.006))
                with autograd.record():
                    total = gluonjit.add_n([net(sample).sum() for sample in SAMPLES * 2])
                total.backward()
                total.asnumpy()
                inside = False
            except KeyboardInterrupt:
                inside = False
                interrupted += 1
                autograd.set_recording(False)  # record() itself may be interrupted while it ends
                autograd.set_training(False)
            finally:
                signal.setitimer(signal.ITIMER_REAL, 0)
            assert_values([net(sample) for sample in SAMPLES], expected)
    finally:
        signal.signal(signal.SIGALRM, before)
    assert interrupted


class Deep(gluon.Block):
    """Recursion through the block's own call, or through a method."""

    def __init__(self, calls: bool) -> None:
        super().__init__()
        self.calls = calls
        with self.name_scope():
            self.cell = nn.Dense(SIZE, in_units=SIZE)

    def forward(self, x: Any, depth: int) -> Any:
        if self.calls:
            return self.cell(self(x, depth - 1) if depth else x)
        return self.encode(x, depth)

    def encode(self, x: Any, depth: int) -> Any:
        return self.cell(self.encode(x, depth - 1) if depth else x)


def deepest(net: Any, x: Any) -> int:
    """The greatest depth at which the program does not run into Python's limit."""
    low, high = 1, 1100
    while low < high - 1:
        middle = (low + high) // 2
        try:
            net(x, middle).asnumpy()
            low = middle
        except Exception as error:  # MXNet's ctypes calls wrap a RecursionError in an ArgumentError
            assert "recursion" in str(error).lower()
            high = middle
    return low


@pytest.mark.parametrize("calls", [True, False])
def test_depth_of_recursion(calls: bool) -> None:
    """No less deep than the eager program, and the batch is clean after a RecursionError."""
    net = Deep(calls)
    net.initialize(mx.init.Uniform(0.7))
    x = rows(1, SIZE)
    eager, expected = deepest(net, x), net(x, 5).asnumpy()
    net.hybridize(dynamic_batch=True)
    assert deepest(net, x) >= eager - 10
    assert_close(net(x, 5).asnumpy(), expected, "value after a RecursionError")
    assert not gluonjit.explain().unbatched


class Long(gluon.Block):
    """A loop of any length."""

    def __init__(self) -> None:
        super().__init__()
        with self.name_scope():
            self.cell = nn.Dense(SIZE, in_units=SIZE, activation="tanh")

    def forward(self, x: Any, length: int) -> Any:
        h = x
        for _ in range(length):
            h = self.cell(h) + x
        return h


@pytest.mark.usefixtures("as_written")
@pytest.mark.parametrize("sharing", [True, False])
def test_chains_of_thousands(sharing: bool) -> None:
    net = Long()
    net.initialize(mx.init.Uniform(0.5))
    x, counts = rows(1, SIZE), []
    lengths = (500, 2500) if sharing else (200, 1000)
    for length in lengths:
        found = []
        for dynamic in (False, True):
            net.hybridize(dynamic_batch=dynamic, **({"sharing": sharing} if dynamic else {}))
            with autograd.record():
                loss = (net(x, length) ** 2).sum()
            loss.backward()
            found.append([loss.asnumpy(), *gradients(net).values()])
        for actual, expected in zip(found[1], found[0]):
            assert_close(actual, expected, "loss or gradient")
        report = gluonjit.explain()
        counts.append((report.nodes - 2, report.launches - 2, report.gathers))
    for length, count in zip(lengths, counts):
        assert count[:2] == (2 * length, 2 * length)
    assert counts[1][2] <= 5 * counts[0][2] + 5


def test_what_a_kept_value_keeps(net: Any) -> None:
    """A read loss keeps no arena; neither does what nobody reads run."""
    net.hybridize(dynamic_batch=True)
    with autograd.record():
        losses = [(net(sample) ** 2).sum() for sample in SAMPLES]
        net(rows(3, SIZE, seed=99))
        total = gluonjit.add_n(losses)
    kept = losses[0]
    total.backward()
    del losses, total
    gc.collect()
    assert kept._v.graph is None and kept._v.result.tape.freed and kept._v.result.chunk.shape[0] <= 1 * len(SAMPLES)
    assert gluonjit.explain().dropped


def in_child(work: Any) -> str:
    """What `work` returns in a forked process."""
    receive, send = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if not child:
        signal.alarm(20)
        try:
            text = work()
        except BaseException as error:
            text = f"{type(error).__name__}: {error}"
        os.write(send, text.encode())
        os._exit(0)
    os.close(send)
    with os.fdopen(receive) as pipe:
        text = pipe.read()
    os.waitpid(child, 0)
    return text


@pytest.mark.usefixtures("as_written")
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_fork_with_an_open_batch(net: Any) -> None:
    """The child's calls go into a batch of its own; it can still read what the parent had captured."""
    expected = values_of(net)
    net.hybridize(dynamic_batch=True)
    values = [net(sample) for sample in SAMPLES]

    def work() -> str:
        assert LOCAL.state.batch is None
        assert_values([net(sample) for sample in SAMPLES[:3]], expected)
        calls = gluonjit.explain().calls
        assert_values(values, expected)
        return f"{calls} calls"

    held, release = threading.Event(), threading.Event()

    def hold() -> None:
        with gluonjit.hybrid.RUNNING:
            held.set()
            release.wait(20)

    thread = threading.Thread(target=hold)  # what this thread holds at the fork, nobody in the child will let go
    thread.start()
    held.wait(20)
    answer = in_child(work)
    release.set()
    thread.join()
    assert answer == f"{2 * sum(len(sample) for sample in SAMPLES[:3])} calls"
    assert_values(values, expected)


def double(row: Any) -> Any:
    return nd.array(row) * 2


def stacked(items: Any) -> Any:
    return nd.stack(*items)


@pytest.mark.parametrize("workers", [0, 1, 2])
def test_data_loader_with_an_open_batch(net: Any, workers: int) -> None:
    expected = values_of(net)
    data = np.arange(12 * SIZE, dtype="float32").reshape(12, SIZE)
    loader = DataLoader(
        ArrayDataset(data).transform(double), batch_size=5, num_workers=workers, timeout=30, batchify_fn=stacked
    )
    with gluonjit.batching():
        first = net(SAMPLES[0])
        found = [part.asnumpy() for part in loader]
        second = net(SAMPLES[1])
    assert_close(np.concatenate(found), data * 2, "what the loader gives")
    assert_values([first, second], expected)
