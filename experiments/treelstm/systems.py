"""The ways of running the model that are compared: each from sample objects to gradients and new weights."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any

import mxnet as mx
import numpy as np
from mxnet import autograd, gluon

from experiments.data.trees import Pair
from experiments.treelstm import jit, optimizer
from experiments.treelstm.handbatched import HandBatched
from experiments.treelstm.model import HybridizedTreeLSTM, Relatedness, TreeLSTM
from experiments.treelstm.plain import PlainCellTreeLSTM, PlainRelatedness, PlainTreeLSTM
from experiments.treelstm.weights import initialize, named_parameters

LEARNING_RATE = 0.05
L2 = 1e-4


class System:
    """One way of running the model."""

    sharing: bool | None = None  # whether equal work is done once; None where there is no such choice

    def __init__(self, name: str, net: gluon.Block) -> None:
        self.name = name
        self.net = net
        self.loss = gluon.loss.KLDivLoss()
        self.parameters = named_parameters(net)
        self.trainer = gluon.Trainer(
            list(self.parameters.values()),
            optimizer.CoupledAdaGrad(learning_rate=LEARNING_RATE, wd=L2),
            kvstore=None,
        )

    @property
    def label(self) -> str:
        """The name in tables: `dynamic, no sharing` is a row of its own."""
        return f"{self.name}, no sharing" if self.sharing is False else self.name

    def differentiate(self, pairs: Sequence[Pair]) -> list[Any]:
        """Leave the gradient of the summed loss in the parameters; return the losses of the pairs."""
        with autograd.record():
            losses = [self.loss(self.net(pair), pair.target) for pair in pairs]
            total = jit.add_n(losses)
        total.backward()
        return losses

    def step(self, pairs: Sequence[Pair]) -> list[Any]:
        """Learn from one minibatch."""
        losses = self.differentiate(pairs)
        self.trainer.step(len(pairs))
        return losses

    def log_probabilities(self, pairs: Sequence[Pair]) -> Any:
        """Return the (n, 5) log-probabilities of a minibatch."""
        return mx.nd.concat(*[self.net(pair) for pair in pairs], dim=0)

    def scores(self, pairs: Sequence[Pair]) -> np.ndarray:
        """Return the expected relatedness of each pair."""
        probabilities = np.exp(self.log_probabilities(pairs).asnumpy())
        return probabilities @ np.arange(1, probabilities.shape[1] + 1)


class PairByPair(System):
    """A pair at a time, gradients added up: of the eager ways the faster one, as its graphs stay small."""

    def __init__(self, name: str, net: gluon.Block) -> None:
        super().__init__(name, net)
        for parameter in self.parameters.values():
            parameter.grad_req = "add"

    def differentiate(self, pairs: Sequence[Pair]) -> list[Any]:
        """Differentiate each pair's loss on its own."""
        for parameter in self.parameters.values():
            parameter.zero_grad()
        losses = []
        for pair in pairs:
            with autograd.record():
                losses.append(self.loss(self.net(pair), pair.target))
            losses[-1].backward()
        return losses


class Hybridized(PairByPair):
    """A pair at a time, each block compiled."""

    def __init__(self, name: str, net: gluon.Block) -> None:
        super().__init__(name, net)
        for block in (net.embed, net.head, self.loss):
            block.hybridize(static_alloc=True)


class ByHand(System):
    """The whole minibatch at once, by hand-written levels."""

    def differentiate(self, pairs: Sequence[Pair]) -> list[Any]:
        """Differentiate the losses of all pairs together."""
        targets = mx.nd.concat(*[pair.target for pair in pairs], dim=0)
        with autograd.record():
            losses = self.loss(self.net(pairs), targets)
        losses.backward()
        return [losses]

    def log_probabilities(self, pairs: Sequence[Pair]) -> Any:
        """Return the (n, 5) log-probabilities of a minibatch."""
        return self.net(pairs)


class Dynamic(System):
    """The program for one pair, unchanged, batched by gluonjit."""

    def __init__(self, name: str, net: gluon.Block, sharing: bool) -> None:
        super().__init__(name, net)
        self.sharing = sharing
        jit.batch_dynamically(net, sharing)

    def repeat(self) -> None:
        """Let equal runs give equal bits from here on."""
        jit.batch_repeatably(self.net)

    def figures(self) -> jit.Figures:
        """Return what the last minibatch took."""
        return jit.last_figures()

    def profiled(self) -> AbstractContextManager[Any]:
        """Return a region in which the parts of a minibatch are timed apart."""
        return jit.profiled(bool(self.sharing))


def make_system(name: str, vectors: np.ndarray, seed: int, sharing: bool = True) -> System:
    """Build a system by its name; equal seeds give equal weights in all of them."""
    words, width = vectors.shape
    kind, encoder = {
        "imperative": (PairByPair, TreeLSTM),
        "hybridized": (Hybridized, HybridizedTreeLSTM),
        "handbatched": (ByHand, None),
        "dynamic": (Dynamic, TreeLSTM),
        "plain-imperative": (PairByPair, PlainTreeLSTM),
        "plain": (Dynamic, PlainTreeLSTM),
        "plain-cell": (Dynamic, PlainCellTreeLSTM),
    }[name]
    if encoder is None:
        net = HandBatched(words, in_size=width)
    else:
        whole = PlainRelatedness if issubclass(encoder, PlainTreeLSTM) else Relatedness
        net = whole(words, encoder, in_size=width)
    initialize(net, vectors, seed)
    return kind(name, net, sharing) if kind is Dynamic else kind(name, net)


def make_systems(names: Sequence[str], vectors: np.ndarray, seed: int) -> list[System]:
    """Build systems; those that can share equal work come twice, with and without."""
    systems = []
    for name in names:
        systems.append(make_system(name, vectors, seed))
        if systems[-1].sharing:
            systems.append(make_system(name, vectors, seed, sharing=False))
    return systems
