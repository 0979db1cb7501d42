"""The open batch: how it comes and goes, what it refuses, where it ends, and whose it is."""

from __future__ import annotations

import copy
import pickle
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from mxnet import nd
from mxnet.gluon import nn
from support import assert_close, assert_same, rows
from training_support import SAMPLES, SIZE, Rows, rows_net, square

import gluonjit
from gluonjit.errors import BatchClosedError, CaptureError, OptionError


@pytest.fixture
def net() -> Iterator[Rows]:
    with rows_net() as made:
        yield made


def test_block_is_what_it_was_after_turning_it_off(net: Any) -> None:
    hybrid = nn.HybridSequential()
    hybrid.add(nn.Dense(3, in_units=2))
    hybrid.initialize()
    hybrid.hybridize()
    before = dict(hybrid.__dict__)
    hybrid.hybridize(dynamic_batch=True)
    assert type(hybrid) is nn.HybridSequential and not hybrid._active
    hybrid.hybridize(dynamic_batch=False)
    assert hybrid.__dict__ == before and hybrid._active
    hybrid.hybridize(dynamic_batch=True)
    hybrid.hybridize(False)
    assert not hybrid._active and hybrid.__dict__.keys() == before.keys()


def test_copies_and_pickles(net: Any, tmp_path: Any) -> None:
    net.hybridize(dynamic_batch=True)
    expected = net(SAMPLES[1]).asnumpy()
    twin = copy.deepcopy(net)
    twin.cell.weight.set_data(twin.cell.weight.data() * 0)
    assert_close(net(SAMPLES[1]).asnumpy(), expected, "the original")
    assert np.abs(twin(SAMPLES[1]).asnumpy() - expected).max() > 1e-3
    net.save_parameters(str(tmp_path / "net.params"))
    twin.load_parameters(str(tmp_path / "net.params"))
    assert_close(twin(SAMPLES[1]).asnumpy(), expected, "the copy with the original's parameters")
    lazy = net(SAMPLES[1])
    assert_close(pickle.loads(pickle.dumps(lazy)).asnumpy(), expected, "a pickled value")


def test_options_are_checked_before_anything_changes(net: Any) -> None:
    with pytest.raises(OptionError, match=r"unknown option 'sharin'.*sharing"):
        net.hybridize(dynamic_batch=True, sharin=True)
    with pytest.raises(OptionError, match="granularity='ops'"):
        net.hybridize(dynamic_batch=True, granularity="ops")
    with pytest.raises(OptionError, match="dynamic_batch='yes'"):
        net.hybridize(dynamic_batch="yes")
    with pytest.raises(OptionError, match="max_nodes=0"), gluonjit.batching(max_nodes=0):
        pass
    assert "_gluonjit" not in net.__dict__


def test_batching_scope(net: Any) -> None:
    """A scope batches blocks that were not hybridized, and runs at its end."""
    expected = [net.out(sample).asnumpy() for sample in SAMPLES]
    with gluonjit.batching() as batch:
        values = [net.out(sample) for sample in SAMPLES]
        assert batch.report.flushes == 0
    assert batch.report.flushes == 1 and batch.report.launches == 1
    for value, wanted in zip(values, expected):
        assert_close(value.asnumpy(), wanted, "value")


def test_exception_in_a_scope_leaves_nothing_behind(net: Any) -> None:
    net.hybridize(dynamic_batch=True)
    kept = None
    with pytest.raises(ZeroDivisionError), gluonjit.batching():
        kept = net(SAMPLES[0])
        raise ZeroDivisionError
    with pytest.raises(BatchClosedError, match="ZeroDivisionError"):
        kept.asnumpy()
    report = assert_same(net, SAMPLES, square)
    assert report.flushes == 1


def test_exception_in_a_sample_loses_only_that_sample(net: Any) -> None:
    net.hybridize(dynamic_batch=False)
    expected = [net(sample).asnumpy() for sample in SAMPLES]
    net.hybridize(dynamic_batch=True)
    values = [net(sample) for sample in SAMPLES[:4]]
    with pytest.raises(CaptureError) as caught:
        net(rows(2, SIZE + 1))
    message = str(caught.value)
    assert "FullyConnected" in message and f"(1, {SIZE + 1})" in message and f"({SIZE}, {SIZE})" in message
    values += [net(sample) for sample in SAMPLES[4:]]
    for value, wanted in zip(values, expected):
        assert_close(value.asnumpy(), wanted, "value")


def test_uninitialised_parameters_are_named() -> None:
    net = Rows()
    net.hybridize(dynamic_batch=True)
    with pytest.raises(RuntimeError, match="has not been initialized"):
        net(SAMPLES[0])


def test_index_out_of_range_is_found_at_capture() -> None:
    embed = nn.Embedding(4, 3)
    embed.initialize()
    embed.hybridize(dynamic_batch=True)
    embed(nd.array([1, 2])).wait_to_read()
    with pytest.raises(CaptureError, match=r"index 4 .* 4 rows"):
        embed(nd.array([0, 4]))
    with gluonjit.batching() as batch:  # a table of which no entry was asked for is none of the batch's
        with pytest.raises(CaptureError, match=r"index 5 .* 4 rows"):
            embed(nd.array([5]))
        assert not batch.graph.lookups


def test_a_value_needed_inside_runs_the_batch(net: Any) -> None:
    def branch(net: Any, sample: Any) -> Any:
        h = net(sample)
        return (h * 2).sum() if h.asscalar() > 0 else (h * 3).sum()

    report = assert_same(net, SAMPLES, branch)
    assert report.flushes >= 1


def test_an_open_batch_is_bounded(net: Any) -> None:
    report = assert_same(net, SAMPLES, square, max_nodes=10)
    assert report.flushes > 1
    report = assert_same(net, SAMPLES, square, max_bytes=100)
    assert report.flushes > 1


@pytest.mark.usefixtures("as_written")
def test_unread_work_is_dropped(net: Any) -> None:
    net.hybridize(dynamic_batch=True)
    for sample in SAMPLES:
        net(sample)
    kept = net(SAMPLES[0])
    kept.wait_to_read()
    report = gluonjit.explain()
    assert report.dropped > 0 and report.nodes == 4  # h + x, cell, dropout, out


def test_threads_capture_apart(net: Any) -> None:
    """Each thread has its own open batch; first calls at the same time are safe."""
    net.hybridize(dynamic_batch=False)
    expected = [net(sample).asnumpy() for sample in SAMPLES]
    net.hybridize(dynamic_batch=True)
    found: dict[int, list[np.ndarray]] = {}

    def work(number: int) -> None:
        for _ in range(5):
            values = [net(sample) for sample in SAMPLES]
            found[number] = [value.asnumpy() for value in values]

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(found) == [0, 1, 2, 3]
    for values in found.values():
        for value, wanted in zip(values, expected):
            assert_close(value, wanted, "value")


def test_a_value_of_another_thread_is_refused_until_it_has_run(net: Any) -> None:
    net.hybridize(dynamic_batch=True)
    value = net(SAMPLES[0])
    caught: list[BaseException] = []

    def read() -> None:
        try:
            value.asnumpy()
        except BatchClosedError as error:
            caught.append(error)

    thread = threading.Thread(target=read)
    thread.start()
    thread.join()
    assert "in the thread that captured it" in str(caught[0])
    assert value.asnumpy().shape == (1, 1)
