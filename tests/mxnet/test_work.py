"""What is known of the work of one node, from the shapes of its trace."""

from __future__ import annotations

from typing import Any

import pytest
from mxnet import gluon, nd

import gluonjit
from gluonjit.graph import Work
from gluonjit.hybrid import LOCAL


class Cell(gluon.HybridBlock):
    """tanh(x W + b): one product and one element-wise operator."""

    def __init__(self, inner: int, width: int) -> None:
        super().__init__()
        with self.name_scope():
            self.dense = gluon.nn.Dense(width, in_units=inner, activation="tanh")

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        return self.dense(x)


class Net(gluon.Block):
    """The cell alone."""

    def __init__(self, cell: gluon.HybridBlock) -> None:
        super().__init__()
        self.cell = cell

    def forward(self, x: Any) -> Any:
        return self.cell(x)


def works() -> dict[str, Work]:
    """By name those of what has been captured."""
    batch = LOCAL.state.batch
    assert batch is not None
    return {record.kind.name: record.kind.work for record in batch.records.values()}


@pytest.mark.parametrize("rows", [1, 3])
def test_work_of_a_cell_grows_with_its_rows_and_its_weights_do_not(rows: int) -> None:
    net = Net(Cell(4, 8))
    net.initialize()
    net.hybridize(dynamic_batch=True)
    with gluonjit.batching():
        net(nd.ones((rows, 4)))
        (work,) = works().values()
    # FullyConnected (4 -> 8), tanh, and the copy by which the result is written.
    assert work == Work(
        ops=3, flops=rows * (2 * 4 * 8 + 8), bytes=rows * 4 * ((4 + 8) + (8 + 8)), weights=4 * (4 * 8 + 8)
    )


def test_work_of_operators_is_that_of_one_node() -> None:
    net = Net(Cell(4, 4))
    net.initialize()
    with gluonjit.batching():
        net.hybridize(dynamic_batch=True)
        y = net(nd.ones((2, 4)))
        nd.dot(y, y, transpose_b=True)
        nd.exp(y)
        found = works()
    assert found["dot"].flops == pytest.approx(2 * 2 * 2 * 4)
    assert found["dot"].bytes == 4 * (8 + 8 + 4)
    assert (found["exp"].flops, found["exp"].bytes, found["exp"].weights) == (8, 4 * 16, 0)


def test_work_of_convolutions_and_products_of_batches() -> None:
    net = Net(Cell(4, 4))
    net.initialize()
    with gluonjit.batching():
        net.hybridize(dynamic_batch=True)
        y = net(nd.ones((6, 4))).reshape((2, 3, 4))
        nd.batch_dot(y, y, transpose_b=True)
        image = y.reshape((1, 2, 3, 4))
        nd.Convolution(image, nd.ones((5, 2, 3, 3)), nd.ones((5,)), kernel=(3, 3), num_filter=5)
        found = works()
    assert found["batch_dot"].flops == pytest.approx(2 * 2 * 3 * 3 * 4)
    assert found["Convolution"].flops == 2 * (5 * 1 * 2) * (2 * 3 * 3)


def test_work_of_a_sum_counts_all_its_terms() -> None:
    from gluonjit.engines.mxnet.tracing.opkinds import sum_kind
    from gluonjit.graph import intern_spec

    work = sum_kind(intern_spec((2, 5), "float32", "cpu(0)", "rows"), 9).work
    assert (work.flops, work.bytes) == (9 * 10, 4 * 10 * 10)
    assert work.weights == 0
