"""Warnings that teach: each names the user's line, says what to do, and comes once."""

from __future__ import annotations

import copy
import warnings
from typing import Any, Callable

import mxnet as mx
import numpy as np
import pytest
from mxnet import autograd, gluon, nd

import gluonjit
from gluonjit.errors import (
    AloneWarning,
    BackwardWarning,
    CacheWarning,
    CellWarning,
    EarlyFlushWarning,
    GluonJITWarning,
    SmallBatchWarning,
)
from gluonjit.hybrid.explain import advice


@pytest.fixture(autouse=True)
def anew() -> None:
    advice.forget()


def given(program: Callable[[], Any]) -> list[warnings.WarningMessage]:
    """The library's warnings while a program runs."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        program()
    return [warning for warning in caught if issubclass(warning.category, GluonJITWarning)]


def line_with(text: str) -> int:
    with open(__file__, encoding="utf-8") as source:
        return next(number for number, line in enumerate(source, 1) if text in line)


def only(found: list[warnings.WarningMessage], category: type[Warning], marker: str | None = None) -> str:
    """The text of the one warning there is, which has to come from the line with the marker."""
    assert [warning.category for warning in found] == [category], [str(warning.message) for warning in found]
    assert found[0].filename == __file__
    if marker is not None:
        assert found[0].lineno == line_with(marker)
    return str(found[0].message)


class Forwards(gluon.Block):
    """A block with the forward of the test."""

    def __init__(self, forward: Callable[..., Any]) -> None:
        super().__init__()
        self.dense = gluon.nn.Dense(3, in_units=3, flatten=False)
        self.norm = gluon.nn.BatchNorm(in_channels=3)
        self.body = forward
        self.initialize()
        self.hybridize(dynamic_batch=True)

    def forward(self, x: Any) -> Any:
        return self.body(self, x)


def samples(count: int, rows: int = 1) -> list[Any]:
    random = np.random.RandomState(0)
    return [nd.array(random.uniform(size=(rows, 3))) for _ in range(count)]


def test_a_read_in_the_middle() -> None:
    def forward(net: Any, x: Any) -> Any:
        y = net.dense(x)
        if y.sum().asscalar() > 0:  # read in the middle
            y = y * 2
        return y

    net = Forwards(forward)

    def program() -> None:
        for _ in range(2):
            gluonjit.add_n([net(x) for x in samples(3)]).asnumpy()

    text = only(given(program), EarlyFlushWarning, "# read in the middle")
    assert "read it after the minibatch" in text


def test_a_read_in_a_scope() -> None:
    net = Forwards(lambda net, x: net.dense(x))

    def program() -> None:
        with gluonjit.batching():
            for x in samples(3):
                net(x).asnumpy()  # read in a scope

    only(given(program), EarlyFlushWarning, "# read in a scope")


def test_backward_in_a_scope_is_no_fault() -> None:
    net = Forwards(lambda net, x: net.dense(x))
    reports = []

    def program() -> None:
        with gluonjit.batching() as batch:
            for _ in range(2):
                with autograd.record():
                    total = gluonjit.add_n([net(x).sum() for x in samples(3)])
                total.backward()
                assert total.asscalar() != 0
            reports.append(batch.report)

    assert not given(program)
    assert reports[0].flushes == 2 and "flushed 2 x: backward, " in str(reports[0])


def test_backward_in_the_middle_of_a_sample() -> None:
    def forward(net: Any, x: Any) -> Any:
        y = net.dense(x).sum()
        y.backward(retain_graph=True)  # backward in the middle
        return y * 2

    net = Forwards(forward)

    def program() -> None:
        with autograd.record():
            found = [net(x) for x in samples(3)]
        nd.concat(*[y.reshape((1, 1)) for y in found], dim=0).asnumpy()

    categories = [(warning.category, warning.lineno) for warning in given(program)]
    assert (EarlyFlushWarning, line_with("# backward in the middle")) in categories


def test_reading_at_the_end_is_no_fault() -> None:
    net = Forwards(lambda net, x: net.dense(x))

    def program() -> None:
        for _ in range(30):
            gluonjit.add_n([net(x) for x in samples(3)]).asnumpy()

    assert not given(program)


def test_reading_what_all_samples_have_reached_is_no_fault() -> None:
    net = Forwards(lambda net, x: net.dense(x))
    many = Forwards(lambda net, xs: [value.sum().asscalar() for value in [net.dense(x) for x in xs]])

    def program() -> None:
        with gluonjit.batching():
            for _ in range(3):
                outputs = [net(x) for x in samples(3)]
                assert gluonjit.add_n(outputs).sum().asscalar() == pytest.approx(
                    sum(output.sum().asscalar() for output in outputs)
                )
        many(samples(3))

    assert not given(program)


def test_going_on_with_what_was_read_is_no_fault() -> None:
    net = Forwards(lambda net, x: net.dense(x))

    def program() -> None:
        with gluonjit.batching():
            state = samples(1)[0]
            for _ in range(12):
                state = net(state)
                assert abs(state.sum().asscalar()) < 1e9

    assert EarlyFlushWarning not in {warning.category for warning in given(program)}


def test_a_read_in_a_function_of_the_framework_or_of_python() -> None:
    net, metric = Forwards(lambda net, x: net.dense(x)), mx.metric.MSE()

    def program() -> None:
        with gluonjit.batching():
            for x in samples(3):
                metric.update(x, net(x))  # read by a metric

    only(given(program), EarlyFlushWarning, "# read by a metric")

    def copying() -> None:
        with gluonjit.batching():
            for x in samples(3):
                np.testing.assert_allclose(net(x).asnumpy(), copy.deepcopy(net(x)).asnumpy())  # read by Python

    only(given(copying), EarlyFlushWarning, "# read by Python")


def test_what_runs_alone() -> None:
    net = Forwards(lambda net, x: net.norm(x))  # a line that runs alone

    def program() -> None:
        for _ in range(2):
            with autograd.record():
                total = gluonjit.add_n([net(x) for x in samples(3)])
            total.backward()

    text = only(given(program), AloneWarning, "# a line that runs alone")
    assert "BatchNorm runs once per sample (3 times in this batch): in training its statistics" in text


def test_a_cell_that_is_not_one_node() -> None:
    class Reads(gluon.HybridBlock):
        def hybrid_forward(self, F: Any, x: Any) -> Any:
            return x * 2 if x.sum().asscalar() > 0 else x

    reads = Reads()
    reads.hybridize(dynamic_batch=True)
    found = given(lambda: [reads(x).asnumpy() for x in samples(2)])
    texts = [str(warning.message) for warning in found if warning.category is CellWarning]
    assert len(texts) == 1 and "is not one node" in texts[0] and "reads an array's numbers" in texts[0]


def test_one_sample_at_a_time() -> None:
    net = Forwards(lambda net, x: net.dense(x))

    def program() -> None:
        for _ in range(3):
            for x in samples(9):
                net(x).asnumpy()  # read after each

    text = only(given(program), SmallBatchWarning, "# read after each")
    assert "call the block for all samples" in text


def test_one_sample_at_a_time_in_training() -> None:
    net = Forwards(lambda net, x: net.dense(x))

    def program() -> None:
        for x in samples(30):
            with autograd.record():
                loss = net(x).sum()
            loss.backward()

    assert {warning.category for warning in given(program)} == {BackwardWarning}


def test_minibatches_of_one_sample() -> None:
    net = Forwards(lambda net, x: net.dense(x))
    trainer = gluon.Trainer(net.dense.collect_params(), "sgd")

    def program() -> None:
        for x in samples(60):
            with autograd.record():
                loss = net(x).sum()
            loss.backward()  # a minibatch of one
            trainer.step(1)

    text = only(given(program), SmallBatchWarning, "# a minibatch of one")
    assert "because backward was called after each" in text


def test_one_call_that_is_a_minibatch_is_no_fault() -> None:
    net = Forwards(lambda net, xs: gluonjit.add_n([nd.tanh(net.dense(x)) for x in xs]))
    assert not given(lambda: [net(samples(30)).asnumpy() for _ in range(20)])


class OwnLoss(gluon.loss.Loss):
    def __init__(self) -> None:
        super().__init__(1.0, 0)

    def hybrid_forward(self, F: Any, x: Any, y: Any) -> Any:
        return F.abs(x - y)


@pytest.mark.parametrize("make", [gluon.loss.L2Loss, OwnLoss])
def test_a_loss_made_for_each_sample(make: Any) -> None:
    net, kept = Forwards(lambda net, x: net.dense(x)), make()

    def program(anew: bool) -> None:
        for _ in range(25):
            losses = [(make() if anew else kept)(net(x), x) for x in samples(3)]
            gluonjit.add_n(losses).asnumpy()  # losses made for each sample

    text = only(given(lambda: program(True)), CacheWarning, "# losses made for each sample")
    assert f"Make the {make.__name__} once, outside of the loop" in text
    assert not given(lambda: program(False))


def test_batches_that_do_not_pay() -> None:
    def forward(net: Any, x: Any) -> Any:
        for _ in range(4 * len(x)):
            x = net.dense(x).sort(axis=0)
        return x

    net = Forwards(forward)

    def program() -> None:
        for _ in range(12):
            outputs = [net(x) for x in samples(1, rows=1) + samples(1, rows=2)]
            nd.concat(*outputs, dim=0).asnumpy()

    text = only(given(program), SmallBatchWarning)
    assert "fewer than 1.5 nodes per launch" in text


def test_numbers_that_change() -> None:
    calls = iter(range(3, 1000))  # a new number for each minibatch
    net = Forwards(lambda net, x: nd.clip(net.dense(x), -1.0, 1.0 / (next(calls) // 3)))

    def program() -> None:
        for _ in range(22):
            gluonjit.add_n([net(x) for x in samples(3)]).asnumpy()

    text = only(given(program), CacheWarning)
    assert "clip" in text and "as an array" in text


def cell_by_hand(net: Any, x: Any) -> Any:  # many operators
    y = nd.tanh(net.dense(x))
    y = nd.sigmoid(y * x + y) * nd.tanh(x - y)
    return nd.relu(y * y) + x


def test_a_function_that_should_be_a_cell() -> None:
    net = Forwards(cell_by_hand)
    program = lambda: gluonjit.add_n([net(x) for x in samples(40)]).asnumpy()  # noqa: E731
    text = only(given(program), CellWarning, "# many operators")
    assert text.startswith("cell_by_hand captures 9 operators per call") and "@gluonjit.cell" in text
    assert not given(program), "once"


def test_a_cell_is_good() -> None:
    net = Forwards(gluonjit.cell(cell_by_hand))
    assert not given(lambda: gluonjit.add_n([net(x) for x in samples(40)]).asnumpy())
