"""HybridBlocks that nobody hybridized, such as losses: nodes if kept, operators if a program makes them anew."""

from __future__ import annotations

from typing import Any

from mxnet import autograd, gluon
from mxnet.gluon import nn
from support import assert_close, gradients, rows

import gluonjit


class Distance(gluon.HybridBlock):
    def hybrid_forward(self, F: Any, x: Any, y: Any) -> Any:
        return F.square(x - y).sum(axis=1)


class Product(gluon.HybridBlock):
    def hybrid_forward(self, F: Any, x: Any, y: Any) -> Any:
        return F.broadcast_mul(x, y).sum(axis=1)


def trained(losses: list[gluon.HybridBlock], net: nn.Dense) -> tuple[list[Any], Any]:
    """The losses of so many samples and the gradients, and the report."""
    with autograd.record():
        found = [loss(net(rows(1, 3, seed=k)), rows(1, 2, seed=k + 9)) for k, loss in enumerate(losses)]
        total = gluonjit.add_n(found)
    total.backward()
    return [*[each.asnumpy() for each in found], *gradients(net).values()], gluonjit.explain()


def layer() -> nn.Dense:
    net = nn.Dense(2, in_units=3)
    net.initialize()
    net.weight.set_data(rows(2, 3, seed=5))
    return net


def test_blocks_made_anew_for_each_call_run_together() -> None:
    expected, _ = trained([Distance() for _ in range(12)], layer())
    net = layer()
    net.hybridize(dynamic_batch=True, granularity="cell", scheduler="depth")
    for minibatch in range(3):
        actual, report = trained([Distance() for _ in range(12)], net)
        for one, other in zip(actual, expected):
            assert_close(one, other, f"minibatch {minibatch}")
    assert report.kinds["square"].nodes == 12 and report.kinds["square"].launches == 1
    assert not [name for name in report.kinds if name.startswith("distance")]
    assert report.cache["misses"] == 0, "nothing is traced for them"


def test_blocks_that_are_kept_are_nodes() -> None:
    """From the first call on, where they are few; else from the second flush that has calls of them on."""
    net = layer()
    net.hybridize(dynamic_batch=True, granularity="cell", scheduler="depth")
    one = Product()
    _, report = trained([one] * 8, net)
    assert report.kinds[one.name].nodes == 8 and report.kinds[one.name].launches == 1
    many = [Product() for _ in range(8)]
    _, first = trained(many, net)
    assert sum(block.name in first.kinds for block in many) < len(many)
    _, second = trained(many, net)
    assert all(second.kinds[block.name].nodes == 1 for block in many)
    _, third = trained([Product()], net)
    assert any(name.startswith("product") for name in third.kinds)
