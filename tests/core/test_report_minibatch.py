"""What is one minibatch to the report: all its pieces, and nothing of the minibatches before it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

import gluonjit

SAMPLES = 4


class Way(NamedTuple):
    """A framework: a net, a sample for it, the loss of an output, a step back and forth, and a region to learn in."""

    net: Any
    sample: Callable[[], Any]
    learn: Callable[[list[Any]], None]
    recording: Callable[[], Any]
    read: Callable[[Any], float]
    calls: int  # of a sample


def mxnet_way() -> Way:
    import numpy as np
    from mxnet import autograd, gluon, nd

    class Net(gluon.Block):
        def __init__(self) -> None:
            super().__init__()
            self.dense = gluon.nn.Dense(3, in_units=3)

        def forward(self, x: Any) -> Any:
            return nd.tanh(self.dense(x)).sum()

    net = Net()
    net.initialize()
    trainer = gluon.Trainer(net.collect_params(), "sgd")

    def learn(losses: list[Any]) -> None:
        autograd.backward(losses)
        trainer.step(1)

    random = np.random.RandomState(0)
    make = lambda: nd.array(random.uniform(size=(1, 3)))  # noqa: E731
    return Way(net, make, learn, autograd.record, lambda value: float(value.asscalar()), 3)


def torch_way() -> Way:
    import torch

    class Sample:
        def __init__(self) -> None:
            self.x = torch.randn(3)

    class Net(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.dense = torch.nn.Linear(3, 3)

        def forward(self, sample: Sample) -> Any:
            return torch.tanh(self.dense(sample.x)).sum()

    net = Net()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)

    def learn(losses: list[Any]) -> None:
        torch.autograd.backward(losses)
        optimizer.step()

    return Way(net, Sample, learn, torch.enable_grad, lambda value: float(value.item()), 3)


@pytest.fixture
def way(engine: str) -> Way:
    made = mxnet_way() if engine == "mxnet" else torch_way()
    gluonjit.hybridize(made.net, dynamic_batch=True, granularity="cell", sharing=False)
    return made


def check(report: gluonjit.Report, way: Way, flushes: int, samples: int = SAMPLES) -> None:
    """The report is that of one minibatch: of so many samples, in so many pieces."""
    assert report.flushes == sum(report.reasons.values()) == flushes
    net = {name: row for name, row in report.kinds.items() if "add" not in name and "reshape" not in name}
    assert sum(row.calls for row in net.values()) == samples * way.calls
    assert report.launches == sum(row.launches for row in report.kinds.values()) >= report.lower_bound > 0
    assert report.calls == report.nodes == sum(row.calls for row in report.kinds.values())
    assert min(report.ms.values()) >= 0 and min(report.cache.values()) >= 0 and report.ms["compute"] > 0
    assert report.to_json() and str(report) and report.timeline and report.steps


def pieces(way: Way) -> list[Any]:
    """The losses of a minibatch, each of which is read before the next sample is captured."""
    losses = []
    for _ in range(SAMPLES):
        losses.append(way.net(way.sample()))
        assert abs(way.read(losses[-1])) < 1e9
    return losses


def test_pieces_of_a_minibatch_are_added_up(way: Way) -> None:
    for _ in range(3):
        with way.recording():
            losses = pieces(way)
        way.learn(losses)
        report = gluonjit.explain()
        check(report, way, SAMPLES)
        assert report.ms["backward"] > 0


def test_minibatches_of_a_scope_are_told_apart(way: Way) -> None:
    with gluonjit.batching(granularity="cell", sharing=False) as batch:
        for _ in range(3):
            with way.recording():
                losses = pieces(way)
            way.learn(losses)
            report = gluonjit.explain()
            check(report, way, SAMPLES)
            assert report.ms["backward"] > 0
    assert batch.report.flushes == 3 * SAMPLES, "its own report is that of the whole scope"


def test_a_scope_ends_a_minibatch(way: Way) -> None:
    for _ in range(2):
        with gluonjit.batching(granularity="cell", sharing=False):
            pieces(way)
        check(gluonjit.explain(), way, SAMPLES)


def test_what_is_computed_of_results_belongs_to_their_minibatch(way: Way) -> None:
    for _ in range(2):
        outputs = [way.net(way.sample()) for _ in range(SAMPLES)]
        total = sum(way.read(output) for output in outputs)
        check(gluonjit.explain(), way, 1)
        assert way.read(gluonjit.add_n(outputs)) == pytest.approx(total, abs=1e-5)
        report = gluonjit.explain()
        assert report.flushes in (1, 2), "an engine may add up at once what has been computed"
        check(report, way, report.flushes)


def test_minibatches_that_are_only_read_are_told_apart(way: Way) -> None:
    for _ in range(3):
        with way.recording():
            outputs = [way.net(way.sample()) for _ in range(SAMPLES)]
        assert sum(way.read(output) for output in outputs) < 1e9
        check(gluonjit.explain(), way, 1)


def test_what_was_only_read_is_no_part_of_the_minibatch_that_is_learned(way: Way) -> None:
    with way.recording():
        kept = [way.net(way.sample()) for _ in range(SAMPLES)]
        assert way.read(kept[0]) < 1e9
        losses = pieces(way)
    way.learn(losses)
    check(gluonjit.explain(), way, SAMPLES)
    del kept


def test_reads_in_the_middle_of_samples(way: Way) -> None:
    forward = way.net.forward

    def reading(sample: Any) -> Any:
        found = forward(sample)
        return found if way.read(found) < 1e9 else None

    way.net.forward = reading
    for _ in range(2):
        with way.recording():
            losses = [way.net(way.sample()) for _ in range(SAMPLES)]
        way.learn(losses)
        check(gluonjit.explain(), way, SAMPLES)


def test_backward_in_the_middle_of_a_sample_ends_nothing(way: Way) -> None:
    """A gradient that is a feature, as in a penalty."""
    forward = way.net.forward

    def differentiating(sample: Any) -> Any:
        found = forward(sample)
        found.backward(retain_graph=True)
        return found

    way.net.forward = differentiating
    with way.recording():
        losses = [way.net(way.sample()) for _ in range(SAMPLES)]
    way.learn(losses)
    report = gluonjit.explain()
    check(report, way, report.flushes)
    assert report.flushes in (SAMPLES, SAMPLES + 1), "losses may be added up by a flush of their own"


def test_a_count_that_was_removed_says_so() -> None:
    report = gluonjit.Report()
    with pytest.raises(AttributeError, match="'executed' was removed, as every plan runs step by step"):
        report.executed  # noqa: B018
    with pytest.raises(AttributeError, match="'launched'"):
        report.launched  # noqa: B018
