"""Pairs of sentences and how related they are, by a child-sum Tree-LSTM (Tai, Socher and Manning 2015)."""

from __future__ import annotations

from typing import Any

from mxnet import gluon

from experiments.data import corpus
from experiments.data.reading import data_dir
from experiments.data.trees import Pair
from experiments.treelstm.model import Relatedness
from experiments.treelstm.weights import initialize
from experiments.workloads.workload import Workload

_divergence = gluon.loss.KLDivLoss()


def loss(net: gluon.Block, pair: Pair) -> Any:
    """Return the loss of one pair."""
    return _divergence(net(pair), pair.target)


def load_sick(folder: str | None, seed: int, limit: int | None) -> Workload:
    """Return the SICK pairs."""
    found = data_dir(folder, "sick", "the workload treelstm-builtin")
    return _load("sick", str(found), seed, limit)


def load_builtin(folder: str | None, seed: int, limit: int | None) -> Workload:
    """Return the generated pairs; no files are read."""
    return _load("builtin", None, seed, limit)


def _load(name: str, folder: str | None, seed: int, limit: int | None) -> Workload:
    pairs = corpus.load(name, folder, seed, limit)
    words, width = pairs.vectors.shape
    net = Relatedness(words, in_size=width)
    initialize(net, pairs.vectors, seed)
    return Workload(f"treelstm-{name}", pairs.note, pairs.train, net, loss, lambda net, pair: net(pair))
