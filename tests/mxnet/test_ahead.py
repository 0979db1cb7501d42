"""`batch.flush(wait=False)` on MXNet, which waits for steps in C as ever."""

from __future__ import annotations

import mxnet as mx

import gluonjit


def test_it_is_a_flush_that_waits() -> None:
    layer = mx.gluon.nn.Dense(4, in_units=4)
    layer.initialize()
    inputs = [mx.nd.random.normal(shape=(1, 4)) for _ in range(5)]
    wanted = [layer(x).asnumpy() for x in inputs]
    with gluonjit.batching(granularity="cell") as batch:
        found = [layer(x) for x in inputs]
        batch.flush(wait=False)
        assert not batch.ahead
        layer.weight.set_data(mx.nd.zeros((4, 4)))
    for mine, other in zip(found, wanted):
        assert abs(mine.asnumpy() - other).max() < 1e-6
    assert batch.report.flushes == 1
