"""The Tree-LSTM on MXNet: the ways of running it that are compared, by name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import mxnet as mx
import numpy as np
from mxnet import autograd, gluon

from experiments.bench.model import L2, LEARNING_RATE, MEMORY_SIZE
from experiments.bench.on_mxnet import Dynamic, Hybridized, PairByPair, Program, System
from experiments.treelstm import optimizer
from experiments.treelstm.handbatched import HandBatched
from experiments.treelstm.model import HybridizedTreeLSTM, Relatedness, TreeLSTM
from experiments.treelstm.plain import PlainCellTreeLSTM, PlainRelatedness, PlainTreeLSTM
from experiments.treelstm.weights import initialize, named_parameters


def relatedness() -> Program:
    """Return the program of the experiment."""
    divergence = gluon.loss.KLDivLoss()

    def compile_parts(net: gluon.Block) -> None:
        for block in (net.embed, net.head, divergence):
            block.hybridize(static_alloc=True)

    return Program(
        output=lambda net, pair: net(pair),
        loss=lambda net, pair: divergence(net(pair), pair.target),
        parameters=named_parameters,
        optimizer=lambda: optimizer.CoupledAdaGrad(learning_rate=LEARNING_RATE, wd=L2),
        compile=compile_parts,
    )


class ByHand(System):
    """The whole minibatch of pairs at once, by hand-written levels."""

    def __init__(self, name: str, net: gluon.Block, program: Program) -> None:
        super().__init__(name, net, program)
        self._loss = gluon.loss.KLDivLoss()

    def differentiate(self, samples: Sequence[Any]) -> list[Any]:
        """Differentiate the losses of all pairs together."""
        targets = mx.nd.concat(*[pair.target for pair in samples], dim=0)
        with autograd.record():
            losses = self._loss(self.net(samples), targets)
        losses.backward()
        return [losses]

    def outputs(self, samples: Sequence[Any]) -> Any:
        """Return the (n, 5) log-probabilities of a minibatch."""
        return self.net(samples)


KINDS: dict[str, tuple[type[System], type[gluon.Block] | None]] = {
    "imperative": (PairByPair, TreeLSTM),
    "hybridized": (Hybridized, HybridizedTreeLSTM),
    "handbatched": (ByHand, None),
    "dynamic": (Dynamic, TreeLSTM),
    "plain-imperative": (PairByPair, PlainTreeLSTM),
    "plain": (Dynamic, PlainTreeLSTM),
    "plain-cell": (Dynamic, PlainCellTreeLSTM),
}


def make_net(name: str, vectors: np.ndarray, seed: int, size: int = MEMORY_SIZE) -> gluon.Block:
    """Build the net of a system by its name; equal seeds give equal weights in all of them."""
    words, width = vectors.shape
    _, encoder = KINDS[name]
    if encoder is None:
        net = HandBatched(words, in_size=width, size=size)
    else:
        whole = PlainRelatedness if issubclass(encoder, PlainTreeLSTM) else Relatedness
        net = whole(words, encoder, in_size=width, size=size)
    initialize(net, vectors, seed)
    return net


def make_system(name: str, vectors: np.ndarray, seed: int, sharing: bool = True) -> System:
    """Build a system by its name; equal seeds give equal weights in all of them."""
    kind, net, program = KINDS[name][0], make_net(name, vectors, seed), relatedness()
    if issubclass(kind, Dynamic):
        return kind(name, net, sharing, program)
    return kind(name, net, program)
