"""Bad input: an error that names the call, both values and the next step; the next minibatch works."""

from __future__ import annotations

from typing import Any

import mxnet as mx
import pytest
from mxnet import gluon, nd
from mxnet.gluon import nn
from support import assert_close, rows

import gluonjit
from gluonjit.errors import CaptureError, OptionError


class Net(gluon.Block):
    """A cell, and an operator outside of it."""

    def __init__(self) -> None:
        super().__init__()
        with self.name_scope():
            self.cell = nn.Dense(4, in_units=3)

    def forward(self, x: Any, y: Any) -> Any:
        return self.cell(x) + y


@pytest.fixture
def net() -> Any:
    made = Net()
    made.initialize()
    made.hybridize(dynamic_batch=True)
    yield made
    made.hybridize(dynamic_batch=False)


def assert_works(net: Net) -> None:
    x, y = rows(1, 3), rows(1, 4)
    batched = net(x, y).asnumpy()
    net.hybridize(dynamic_batch=False)
    assert_close(batched, net(x, y).asnumpy(), "value after the error")


def test_wrong_shape(net: Net) -> None:
    with pytest.raises(CaptureError) as caught:
        net(rows(1, 5), rows(1, 4))
    assert "FullyConnected" in str(caught.value) and "(1, 5)" in str(caught.value)
    assert "dynamic_batch=False" in str(caught.value)
    assert_works(net)


def test_operands_that_do_not_fit_each_other(net: Net) -> None:
    with pytest.raises(CaptureError) as caught:
        net(rows(1, 3), rows(1, 7))
    assert "broadcast_add" in str(caught.value) and "(1, 4)" in str(caught.value) and "(1, 7)" in str(caught.value)
    assert_works(net)


def test_wrong_dtype(net: Net) -> None:
    with pytest.raises(CaptureError) as caught:
        net(rows(1, 3).astype("float64"), rows(1, 4))
    assert "float64" in str(caught.value) and "float32" in str(caught.value)
    assert_works(net)


def test_mixed_devices(net: Net) -> None:
    with pytest.raises(CaptureError, match=r"cpu\(0\), cpu\(1\).*as_in_context"):
        net(rows(1, 3), rows(1, 4).as_in_context(mx.cpu(1)))
    assert_works(net)


def test_nothing_to_add() -> None:
    with pytest.raises(ValueError, match="at least one"):
        gluonjit.add_n([])


def test_a_cell_that_is_no_function() -> None:
    with pytest.raises(TypeError, match="decorator"):
        gluonjit.cell(3)  # type: ignore[arg-type]


def test_a_scope_left_open_does_not_hold_values_back(net: Net) -> None:
    scope = gluonjit.batching()
    scope.__enter__()
    value = net(rows(1, 3), nd.zeros((1, 4)))
    assert value.asnumpy().shape == (1, 4)
    scope.__exit__(None, None, None)
    assert_works(net)


@pytest.mark.parametrize("executor", ["replay", "compiled"])
def test_executors_of_pytorch(net: Net, executor: str) -> None:
    said = f"executor='{executor}', but that is for PyTorch; on MXNet it can be 'auto' or 'stepwise'"
    with pytest.raises(OptionError) as caught:
        net.hybridize(dynamic_batch=True, executor=executor)
    assert str(caught.value) == f"hybridize(dynamic_batch=True): {said}"
    with pytest.raises(OptionError) as caught, gluonjit.batching(executor=executor):
        net(rows(1, 3), rows(1, 4)).asnumpy()
    assert str(caught.value) == f"batching(): {said}"
    net.hybridize(dynamic_batch=True, executor="stepwise")
    assert_works(net)
