"""The programs by which `gluonjit.hybrid.run.calibration` measures MXNet's costs on this machine."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import mxnet as mx
from mxnet import autograd, gluon

from gluonjit.engines.mxnet.arrays import VERSIONS
from gluonjit.hybrid.run.calibration import WORDS, Bench, Nets


class _Gates(gluon.HybridBlock):  # type: ignore[misc]
    """Two states become one, by gates."""

    def __init__(self, width: int) -> None:
        super().__init__()
        with self.name_scope():
            self.both = gluon.nn.Dense(3 * width, in_units=2 * width)

    def hybrid_forward(self, F: Any, left: Any, right: Any) -> Any:
        """A weighted sum of the two states and a new one."""
        parts = F.split(self.both(F.concat(left, right, dim=1)), num_outputs=3, axis=1)
        gate = F.sigmoid(parts[0])
        return gate * left + (1 - gate) * right + F.tanh(parts[1]) * F.sigmoid(parts[2])


class _Trees(gluon.Block):  # type: ignore[misc]
    """Folds a tree of words."""

    def __init__(self, width: int) -> None:
        super().__init__()
        with self.name_scope():
            self.embed = gluon.nn.Embedding(WORDS, width)
            self.cell = _Gates(width)
            self.head = gluon.nn.Dense(4, in_units=width)

    def forward(self, sample: tuple[Any, Any]) -> Any:
        """Scores of a tree (words, nested pairs of positions)."""
        words, tree = sample
        return self.head(self._fold(tree, self.embed(words)))

    def _fold(self, tree: Any, words: Any) -> Any:
        if isinstance(tree, int):
            return words[tree : tree + 1]
        return self.cell(self._fold(tree[0], words), self._fold(tree[1], words))


class _Chains(gluon.Block):  # type: ignore[misc]
    """Dense layers one after the other, from an array of features."""

    def __init__(self, width: int, activation: str | None = "tanh") -> None:
        super().__init__()
        with self.name_scope():
            self.cell = gluon.nn.Dense(width, in_units=width, activation=activation)

    def forward(self, sample: tuple[Any, int]) -> Any:
        """Gives what is left of the features after this many layers."""
        state, length = sample
        for _ in range(length):
            state = self.cell(state)
        return state


class _Operators(gluon.Block):  # type: ignore[misc]
    """A program without cells: a node an operator."""

    def __init__(self, width: int) -> None:
        super().__init__()
        with self.name_scope():
            self.weight = self.params.get("weight", shape=(width, width))

    def forward(self, sample: tuple[Any, int]) -> Any:
        """Gives what is left of the features after this many rounds."""
        state, length = sample
        weight = self.weight.data()
        for _ in range(length):
            state = mx.nd.tanh(mx.nd.dot(state, weight)) + 0.5 * state * mx.nd.sigmoid(state)
        return state


def _sample(numbers: Any, shape: Any) -> tuple[Any, Any]:
    return mx.nd.array(numbers), shape


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
BENCH = Bench("mxnet", VERSIONS, _NETS, _sample, _start, _train, _infer, mx.nd.waitall)
