"""What goes wrong when a batch runs: the error names the call, the sample and the line; the next minibatch works."""

from __future__ import annotations

from typing import Any

import mxnet as mx
import numpy as np
import pytest
from mxnet import autograd, gluon, nd

import gluonjit
from gluonjit.engines.mxnet.framework.arrays import address_of
from gluonjit.errors import BatchClosedError, CaptureError, FlushError, NotFiniteError


class Root(gluon.HybridBlock):
    """The Cholesky factor of a matrix: it fails for some numbers."""

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        return F.linalg.potrf(x)


class Net(gluon.Block):
    """One failing call per sample, in a cell or by itself."""

    def __init__(self, in_cell: bool) -> None:
        super().__init__()
        self.cell = Root() if in_cell else None

    def forward(self, x: Any) -> Any:
        if self.cell is not None:
            return self.cell(x).sum()  # the line in a cell
        return nd.linalg.potrf(x).sum()  # the line of an operator


def line_with(text: str) -> int:
    with open(__file__, encoding="utf-8") as source:
        return next(number for number, line in enumerate(source, 1) if text in line)


@pytest.mark.parametrize("in_cell", [True, False])
@pytest.mark.parametrize("recording", [True, False])
def test_a_failing_sample_is_named(in_cell: bool, recording: bool) -> None:
    net = Net(in_cell)
    net.hybridize(dynamic_batch=True)
    samples = [nd.array(np.eye(3) * (1 + k)) for k in range(5)]
    samples[3][1, 1] = -1.0
    with pytest.raises(FlushError) as caught:
        with autograd.record(recording):
            results = [net(sample) for sample in samples]
            gluonjit.add_n(results).asnumpy()
    number = line_with("# the line in a cell" if in_cell else "# the line of an operator")
    assert "in sample 3" in str(caught.value) and f"test_failures.py:{number} in " in str(caught.value)
    assert "potrf failed" in str(caught.value)
    assert isinstance(caught.value, mx.base.MXNetError)  # a program that expects MXNet's own error finds it
    with pytest.raises(BatchClosedError, match="in sample 3"):
        results[0].asnumpy()
    samples[3][1, 1] = 1.0
    assert [net(sample).asscalar() for sample in samples[:2]] == pytest.approx([3.0, 3 * 2**0.5])


def test_a_shape_that_does_not_fit_names_sample_and_line() -> None:
    class Adds(gluon.Block):
        def forward(self, x: Any) -> Any:
            return x + nd.ones((1, 3))  # the line that does not fit

    net = Adds()
    net.hybridize(dynamic_batch=True)
    good, bad = nd.ones((1, 3)), nd.ones((1, 2))
    with pytest.raises(CaptureError) as caught:
        for sample in (good, good, bad):
            net(sample)
    assert "sample 2" in str(caught.value)
    assert f"test_failures.py:{line_with('# the line that does not fit')} in " in str(caught.value)
    assert isinstance(caught.value, mx.base.MXNetError)
    assert net(good).asnumpy().tolist() == [[2.0, 2.0, 2.0]]


class Turns(gluon.Block):
    """Keeps what it has captured in a variable, as programs do."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = gluon.nn.Dense(3, in_units=3)

    def forward(self, x: Any) -> Any:
        state = self.layer(nd.ones((1, 3)))
        return state + x


def test_samples_are_numbered_within_their_minibatch() -> None:
    net = Turns()
    net.initialize()
    net.hybridize(dynamic_batch=True)
    good, bad = nd.ones((1, 3)), nd.ones((1, 2))

    def minibatch() -> None:
        results = []
        for sample in (good, good, bad):
            results.append(net(sample))

    for _ in range(3):
        with pytest.raises(CaptureError, match="In sample 2, at"):
            minibatch()
    for _ in range(2):  # what fails between samples ends a minibatch too
        with pytest.raises(CaptureError, match="broadcast_add"):
            [result + nd.ones((1, 5)) for result in [net(good), net(good)]]
    with pytest.raises(CaptureError, match="In sample 1, at"):
        [net(sample) for sample in (good, bad)]


def test_samples_that_are_skipped_count() -> None:
    net = Turns()
    net.initialize()
    net.hybridize(dynamic_batch=True)
    results, said = [], []
    for sample in [nd.ones((1, 3)), nd.ones((1, 2)), nd.ones((1, 3)), nd.ones((1, 4))]:
        try:
            results.append(net(sample))
        except CaptureError as error:
            said.append(str(error))
    assert "In sample 1, at" in said[0] and "In sample 3, at" in said[1]
    assert len({result.asnumpy().tobytes() for result in results}) == 1


def no_root() -> Any:
    """An array whose computing fails, which MXNet tells later."""
    return nd.linalg.potrf(nd.array(-np.eye(3)))


@pytest.mark.parametrize("where", ["input", "weight"])
@pytest.mark.parametrize("recording", [True, False])
def test_an_error_from_before_the_batch_is_not_blamed_on_it(where: str, recording: bool) -> None:
    net = Turns()
    net.initialize()
    net.hybridize(dynamic_batch=True)
    samples = [nd.ones((3, 3)), no_root() if where == "input" else nd.ones((3, 3)), nd.ones((3, 3))]
    if where == "weight":
        nd.linalg.potrf(nd.array(-np.eye(3)), out=net.layer.weight.data())
    with pytest.raises(mx.base.MXNetError, match="potrf failed in lapack") as caught:
        with autograd.record() if recording else autograd.pause():
            results = [net(sample) for sample in samples]
        gluonjit.add_n(results).asnumpy()
    assert not isinstance(caught.value, FlushError)
    if "No call of the batch" not in str(caught.value):  # MXNet told the one who read, after the batch
        assert "call of" not in str(caught.value)
    net.layer.weight.set_data(nd.ones((3, 3)))
    assert net(nd.ones((1, 3))).asnumpy().shape == (1, 3)


class Logs(gluon.Block):
    """Gives a NaN for some numbers, and an infinite gradient for others."""

    def __init__(self) -> None:
        super().__init__()
        self.dense = gluon.nn.Dense(2, in_units=2, weight_initializer="ones")

    def forward(self, x: Any) -> Any:
        y = self.dense(x) - x
        return nd.sqrt(y).sum()  # the line of the root


def checked(samples: list[Any]) -> None:
    net = Logs()
    net.initialize()
    net.hybridize(dynamic_batch=True, check_finite=True)
    with autograd.record():
        total = gluonjit.add_n([net(sample) for sample in samples])
    total.backward()


def test_the_first_nan_is_named() -> None:
    samples = [nd.array([[1.0, 2.0]]), nd.array([[1.0, -2.0]]), nd.array([[3.0, 4.0]])]
    with pytest.raises(NotFiniteError) as caught:
        checked(samples)
    message = str(caught.value)
    assert "result that is not finite is that of the call of sqrt in sample 1" in message
    assert f"test_failures.py:{line_with('# the line of the root')} in " in message


def test_a_nan_of_the_input_is_named() -> None:
    samples = [nd.array([[1.0, 2.0]]), nd.array([[1.0, 2.0]]), nd.array([[float("inf"), 4.0]])]
    with pytest.raises(NotFiniteError, match=r"An input is not finite: the call of .*dense.* in sample 2"):
        checked(samples)


def test_the_first_infinite_gradient_is_named() -> None:
    samples = [nd.array([[1.0, 2.0]]), nd.array([[0.0, 2.0]]), nd.array([[3.0, 4.0]])]  # the root of (0 + 2) - 2
    with pytest.raises(NotFiniteError, match=r"first gradient .* call of sqrt in sample 1"):
        checked(samples)


def test_a_weight_that_is_not_finite_is_named() -> None:
    net = Logs()
    net.initialize()
    net.dense.weight.set_data(nd.array([[1.0, float("nan")], [1.0, 1.0]]))
    net.hybridize(dynamic_batch=True, check_finite=True)
    with pytest.raises(NotFiniteError, match=r"A weight of shape \(2, 2\) is not finite: the call of .*dense"):
        net(nd.array([[1.0, 2.0]])).asnumpy()


def test_finite_numbers_pass() -> None:
    checked([nd.array([[1.0, 2.0]]), nd.array([[2.0, 2.0]])])


def test_an_error_that_is_still_to_be_told_is_told_where_an_address_is_asked() -> None:
    array = mx.nd.random.normal(0, -1, shape=(2, 2))
    with pytest.raises(mx.base.MXNetError):
        address_of(array)
