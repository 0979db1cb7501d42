"""The programs by which `gluonjit.hybrid.run.calibration` measures MXNet's costs on this machine."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import mxnet as mx
from mxnet import autograd, gluon

from gluonjit.hybrid.run.calibration import WORDS, Bench, Chains, Nets, Trees, gated


class _Gates(gluon.HybridBlock):  # type: ignore[misc]
    """Two states become one, by gates."""

    def __init__(self, width: int) -> None:
        super().__init__()
        with self.name_scope():
            self.both = gluon.nn.Dense(3 * width, in_units=2 * width)

    def hybrid_forward(self, F: Any, left: Any, right: Any) -> Any:
        """A weighted sum of the two states and a new one."""
        return gated(F.split(self.both(F.concat(left, right, dim=1)), num_outputs=3, axis=1), left, right)


class _Trees(Trees, gluon.Block):  # type: ignore[misc]
    def __init__(self, width: int) -> None:
        gluon.Block.__init__(self)
        with self.name_scope():
            self.embed = gluon.nn.Embedding(WORDS, width)
            self.cell = _Gates(width)
            self.head = gluon.nn.Dense(4, in_units=width)


class _Chains(Chains, gluon.Block):  # type: ignore[misc]
    def __init__(self, width: int, activation: str | None = "tanh") -> None:
        gluon.Block.__init__(self)
        with self.name_scope():
            self.cell = gluon.nn.Dense(width, in_units=width, activation=activation)


class _Operators(Chains, gluon.Block):  # type: ignore[misc]
    def __init__(self, width: int) -> None:
        gluon.Block.__init__(self)
        with self.name_scope():
            self.weight = self.params.get("weight", shape=(width, width))

    def cell(self, state: Any) -> Any:
        return mx.nd.tanh(mx.nd.dot(state, self.weight.data())) + 0.5 * state * mx.nd.sigmoid(state)


def _start(net: gluon.Block) -> None:
    net.initialize(mx.init.Uniform(0.1))
    net.hybridize(dynamic_batch=True, granularity="batched")


def _train(net: gluon.Block, samples: Sequence[Any]) -> None:
    with autograd.record():
        total = mx.nd.add_n(*[net(sample).sum() for sample in samples])
    total.backward()


def _infer(net: gluon.Block, samples: Sequence[Any]) -> list[Any]:
    return [net(sample) for sample in samples]


_NETS = Nets(_Trees, _Chains, partial(_Chains, activation=None), _Operators)
BENCH = Bench(_NETS, mx.nd.array, _start, _train, _infer)
