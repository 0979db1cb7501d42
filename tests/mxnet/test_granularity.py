"""Graph granularity: samples of one structure run as one, call by call, with the per-sample results."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from mxnet import gluon, nd
from mxnet.gluon import nn
from support import assert_close, assert_same, recurrent, rows

import gluonjit
from gluonjit.analysis.trace_file import read_trace

SIZE = 4


@pytest.fixture
def net() -> Any:
    yield from recurrent(SIZE)


def loss(net: gluon.Block, x: Any) -> Any:
    return (net(x) ** 2).sum()


@pytest.mark.usefixtures("as_written")
def test_samples_of_one_length_run_as_one(net: gluon.Block) -> None:
    """Three samples of two rows and two of three: each call of a structure is one launch."""
    samples = [rows(length, SIZE, seed=k) for k, length in enumerate([2, 3, 2, 2, 3])]
    report = assert_same(net, samples, loss, granularity="graph")
    cells = report.kinds[net.cell.name]
    assert (cells.calls, cells.nodes, cells.launches) == (12, 12, 5)
    assert report.nodes > report.units >= 5
    assert report.gathers == 6  # a row of the inputs for each call, and the losses, which are no part of a sample


@pytest.mark.usefixtures("as_written")
def test_it_looks_at_samples_only(net: gluon.Block) -> None:
    net.hybridize(dynamic_batch=True, granularity="graph")
    kept = [net(rows(length, SIZE, seed=k)) for k, length in enumerate([2, 3, 2, 2, 3])]
    kept[0].asnumpy()
    report = gluonjit.explain()
    assert (report.units, report.groups) == (5, 2)
    assert report.launches == 2 * (2 + 3)  # an addition and a cell for each row


def test_equal_samples_are_not_shared(net: gluon.Block) -> None:
    x = rows(3, SIZE)
    net.hybridize(dynamic_batch=True, granularity="graph")
    values = [net(x) for _ in range(4)]
    net.hybridize(dynamic_batch=False)
    for value in values:
        assert_close(value.asnumpy(), net(x).asnumpy(), "value")
    assert gluonjit.explain().shared == 0


def test_samples_that_use_each_other_run_by_depth(net: gluon.Block) -> None:
    """A state that goes on from one sample to the next."""

    def run() -> Any:
        state = nd.zeros((1, SIZE))
        for k in range(4):
            state = net(nd.concat(state, rows(2, SIZE, seed=k), dim=0))
        return state.asnumpy()

    expected = run()
    net.hybridize(dynamic_batch=True, granularity="graph")
    assert_close(run(), expected, "state")


def test_a_cell_that_the_program_uses_between_samples(net: gluon.Block) -> None:
    other = nn.Dense(SIZE, in_units=SIZE)
    other.initialize()

    def run() -> list[Any]:
        with gluonjit.batching(granularity="graph"):
            found = [net(rows(2, SIZE, seed=1))]
            found += [net(other(found[0])), other(rows(1, SIZE))]
            found.append(net(rows(2, SIZE, seed=2)))
        return [value.asnumpy() for value in found]

    expected = run()
    for block in (net, other):
        block.hybridize(dynamic_batch=True)
    for actual, wanted in zip(run(), expected):
        assert_close(actual, wanted, "value")


@pytest.mark.parametrize("lengths", [[1], [2, 2, 2], [1, 2, 3, 4, 5], [5, 1, 5, 1]])
def test_any_lengths(net: gluon.Block, lengths: list[int]) -> None:
    assert_same(net, [rows(length, SIZE, seed=k) for k, length in enumerate(lengths)], loss, granularity="graph")


def test_a_trace_says_what_a_node_is(net: gluon.Block, tmp_path: Path) -> None:
    """Cells, also where samples of one structure run as one."""
    net.hybridize(dynamic_batch=True)
    with gluonjit.batching(granularity="graph") as batch:
        kept = [net(rows(2, SIZE, seed=k)) for k in range(2)]
        batch.save_trace(tmp_path / "trace.npz")
    assert read_trace(tmp_path / "trace.npz").granularity == "cell"
    assert len(kept) == 2
