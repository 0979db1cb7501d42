"""The sentiment of every phrase of a sentence, by a binary Tree-LSTM (Tai, Socher and Manning 2015)."""

from __future__ import annotations

from experiments.data import phrases, sst
from experiments.data.arrays import maker
from experiments.workloads.workload import Workload, initialize
from experiments.zoo.mxnet.treelstm_binary import BinaryTreeLSTM, loss

WORD_SIZE, MEMORY_SIZE = 300, 150


def load(folder: str | None, seed: int, limit: int | None) -> Workload:
    """Return the training sentences of the treebank."""
    samples, words = phrases.load(folder, limit, maker("mxnet"))
    net = BinaryTreeLSTM(words, sst.CLASSES, WORD_SIZE, MEMORY_SIZE)
    # A dense gradient of every word's vector would be the larger part of a step of one sentence.
    net.embed.weight.grad_req = "null"
    initialize(net, samples, loss, seed)
    return Workload(
        "treelstm-sst", phrases.NOTE, samples, net, loss, lambda net, sample: net(sample.tokens, sample.tree)
    )
