"""A trace of a real batch, planned anew, takes exactly what the flush of that batch took."""

from __future__ import annotations

import gc
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import mxnet as mx
import numpy as np
import pytest
from mxnet import autograd, nd
from support import Recurrent, assert_close

import gluonjit
from experiments.zoo.cli import NAMES
from experiments.zoo.mxnet import engine
from gluonjit.analysis.costs import CostModel
from gluonjit.analysis.schedulers import SCHEDULERS
from gluonjit.analysis.simulate.simulation import Simulated, simulated, simulated_flush
from gluonjit.analysis.simulate.trace_file import BatchTrace, read_trace
from gluonjit.analysis.simulate.trace_graph import restored
from gluonjit.errors import TraceError

QUICK = ("treelstm-cell", "treelstm-binary", "mv-rnn", "lattice-lstm", "mpnn", "shift-reduce")
Run = Callable[..., tuple[gluonjit.Report, BatchTrace]]

MODEL = CostModel()


def counts(found: gluonjit.Report | Simulated) -> tuple[int, ...]:
    size = found.gathered if isinstance(found, gluonjit.Report) else found.gathered_bytes
    return found.nodes, found.launches, found.lower_bound, found.gathers, size


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Run samples of a model of the zoo as one batch; gives its report and its trace, taken before it ran."""
    models: dict[str, tuple[Any, list[Any]]] = {}

    def batch(
        name: str, chosen: Sequence[int] = range(5), add: Callable[[list[Any]], Any] = sum, **options: Any
    ) -> tuple[gluonjit.Report, BatchTrace]:
        row = engine.ROWS[name]
        if name not in models:
            samples, net = engine.samples(row, 5, seed=0), engine.make_net(row, seed=0)
            for sample in samples:  # so that all shapes are known
                row.loss(net, sample)
            net.hybridize(dynamic_batch=True)
            for _ in range(4):  # until calls of other lengths have their kinds
                with autograd.record(), gluonjit.batching(granularity="cell"):
                    total = add([row.loss(net, sample) for sample in samples])
                total.wait_to_read()
            models[name] = net, samples
        net, samples = models[name]
        options = {"granularity": "cell", "scheduler": "depth", "sharing": True, **options}
        with autograd.record(), gluonjit.batching(**options) as open_batch:
            total = add([row.loss(net, samples[number]) for number in chosen])
            open_batch.save_trace(tmp_path / "trace.json.gz")
        assert np.isfinite(total.asscalar())
        assert open_batch.report.flushes == 1, "to save a trace runs nothing"
        return open_batch.report, read_trace(tmp_path / "trace.json.gz")

    return batch


@pytest.mark.parametrize("name", NAMES)
def test_a_trace_is_planned_as_the_batch_it_was_taken_from(name: str, run: Run) -> None:
    report, separate = run(name, sharing=False)
    assert counts(simulated_flush(separate, "depth", MODEL)) == counts(report)
    for scheduler in SCHEDULERS if name in QUICK else ("depth",):
        report, trace = run(name, sharing=True, scheduler=scheduler)
        assert (trace.granularity, trace.sharing, len(trace.samples)) == ("cell", True, 5)
        assert sum(kind.calls for kind in trace.kinds) == report.calls
        assert counts(simulated_flush(trace, scheduler, MODEL)) == counts(report)
        merged = simulated_flush(separate, scheduler, MODEL, sharing=True)
        assert counts(merged) == counts(report), "sharing, done to a trace without"


@pytest.mark.parametrize("name", ["treelstm-plain", "mpnn"])
def test_operators_are_traced_as_cells_are(name: str, run: Run) -> None:
    report, trace = run(name, granularity="op")
    assert trace.granularity == "op"
    assert counts(simulated_flush(trace, "depth", MODEL)) == counts(report)


@pytest.mark.parametrize(
    "name, add",
    [
        ("treelstm-cell", sum),
        ("treelstm-cell", gluonjit.add_n),
        ("lattice-lstm", sum),
        ("set-attention", gluonjit.add_n),
        ("mpnn", sum),
    ],
)
def test_other_batch_sizes_take_what_such_batches_take(name: str, add: Callable[[list[Any]], Any], run: Run) -> None:
    _, trace = run(name, add=add, sharing=False)
    for size in (1, 3, 9):
        chosen = [number % 5 for number in range(size)]
        report, _ = run(name, chosen, add, sharing=False)
        found = simulated_flush(trace, "depth", MODEL, chosen)
        assert found.batch_size == size
        assert counts(found)[:3] == counts(report)[:3]
        if size <= 5:
            report, _ = run(name, range(size), add, sharing=True)
            found = simulated_flush(trace, "depth", MODEL, range(size), sharing=True)
            assert counts(found)[:3] == counts(report)[:3]


def test_samples_that_come_again_are_shared_only_where_inputs_are(run: Run) -> None:
    _, trace = run("treelstm-cell", add=gluonjit.add_n, sharing=False)
    once = simulated_flush(trace, "depth", MODEL, sharing=True)
    twice = simulated_flush(trace, "depth", MODEL, [*range(5), *range(5)], sharing=True)
    assert once.launches == twice.launches
    assert once.nodes < twice.nodes < 2 * once.nodes, "words that several sentences have are the same words again"


def dense(size: int = 4) -> Recurrent:
    net = Recurrent(size)
    net.initialize(mx.init.One())
    net.hybridize(dynamic_batch=True)
    return net


@pytest.mark.usefixtures("as_written")
def test_what_nobody_can_read_is_not_live(tmp_path: Path) -> None:
    net, x = dense(), nd.ones((3, 4))
    with gluonjit.batching() as batch:
        kept, lost = net(x), net(x * 2)
        del lost
        gc.collect()
        batch.save_trace(tmp_path / "trace.json.gz")
        trace = read_trace(tmp_path / "trace.json.gz")
        assert sum(live for kind, _, live, _ in trace.events if kind >= 0) == 1
        again = net(x)  # the calls that were there are found as before
    assert_close(again.asnumpy(), kept.asnumpy(), "a repeated call")
    assert batch.report.nodes == 6 and batch.report.dropped == 6
    assert counts(simulated_flush(trace, "depth", MODEL)) == counts(batch.report)


@pytest.mark.usefixtures("as_written")
def test_a_trace_says_which_sample_a_node_is_of(tmp_path: Path) -> None:
    net = dense()
    with gluonjit.batching(sharing=False) as batch:
        results = [net(nd.ones((length, 4))) for length in (1, 2)]
        total = results[0] + results[1]
        batch.save_trace(tmp_path / "trace.json.gz")
    assert total.shape == (1, 4)
    trace = read_trace(tmp_path / "trace.json.gz")
    found = [[event[1] for event in trace.events if event[0] == kind] for kind in range(len(trace.kinds))]
    assert sorted(found) == [[0, 1, 1], [0, 1, 1, -1]], "the additions inside of samples, and the last"


def test_a_batch_size_needs_samples_that_stand_alone(tmp_path: Path) -> None:
    net = dense()
    with gluonjit.batching(sharing=False) as batch:
        first = net(nd.ones((2, 4)))
        second = net(first)
        batch.save_trace(tmp_path / "trace.json.gz")
    assert second.shape == (1, 4)
    trace = read_trace(tmp_path / "trace.json.gz")
    with pytest.raises(TraceError, match=r"in sample 1 .* uses a result of sample 0"):
        restored(trace, [0])


@pytest.mark.usefixtures("as_written")
def test_what_joins_samples_without_being_a_sum_is_left_out_of_other_sizes(tmp_path: Path) -> None:
    net = dense()
    with gluonjit.batching(sharing=False) as batch:
        outputs = nd.concat(*[net(nd.ones((2, 4))) for _ in range(3)], dim=1)
        batch.save_trace(tmp_path / "trace.json.gz")
    assert outputs.shape == (1, 12)
    trace = read_trace(tmp_path / "trace.json.gz")
    assert simulated_flush(trace, "depth", MODEL).nodes == 13
    assert simulated_flush(trace, "depth", MODEL, [0, 1]).nodes == 8


def test_a_trace_with_sharing_is_simulated_as_it_is(run: Run) -> None:
    _, trace = run("treelstm-cell", sharing=True)
    assert [row.sharing for row in simulated(trace, ["depth"], MODEL)] == [True]
    assert [row.batch_size for row in simulated(trace, ["depth"], MODEL, [5])] == [5]
    with pytest.raises(TraceError, match="2 samples of a trace of 5 captured with sharing=True"):
        list(simulated(trace, ["depth"], MODEL, [2]))
    with pytest.raises(TraceError, match=r"capture it with gluonjit.batching\(sharing=False\)"):
        restored(trace, sharing=False)
    with pytest.raises(TraceError, match=r"samples \[5\] of a trace that has 5"):
        restored(trace, samples=[5])


def test_there_has_to_be_something_to_save(tmp_path: Path) -> None:
    net = dense()
    with gluonjit.batching() as batch:
        with pytest.raises(TraceError, match="nothing is pending in this batch"):
            batch.save_trace(tmp_path / "trace.json.gz")
        net(nd.ones((1, 4))).asnumpy()
        with pytest.raises(TraceError, match="before reading any of their values"):
            batch.save_trace(tmp_path / "trace.json.gz")
        kept = net(nd.ones((1, 4)))
        with pytest.raises(TraceError, match=r"the folder .* does not exist"):
            batch.save_trace(tmp_path / "none" / "trace.json.gz")
        batch.save_trace(str(tmp_path / "trace.json.gz"))
    assert kept.shape == (1, 4)
    assert [path.name for path in tmp_path.iterdir()] == ["trace.json.gz"]
