"""The sentiment of every phrase of a sentence, by a binary Tree-LSTM (Tai, Socher and Manning 2015)."""

from __future__ import annotations

from typing import Any, NamedTuple

import mxnet as mx

from experiments.data import sst
from experiments.data.reading import data_dir
from experiments.data.vectors import make_vocab
from experiments.workloads.workload import Workload, initialize
from experiments.zoo.treelstm_binary import BinaryTreeLSTM, loss

WORD_SIZE, MEMORY_SIZE = 300, 150
NOTE = (
    "Stanford Sentiment Treebank, one of five classes at each phrase, losses of a sentence's phrases added up; "
    "word vectors are random and kept fixed"
)


class Sentence(NamedTuple):
    """One sample: numbers of its words (n,), its tree, and the classes of its phrases (2n-1,)."""

    tokens: Any
    tree: sst.Tree
    target: Any


def load(folder: str | None, seed: int, limit: int | None) -> Workload:
    """Return the training sentences of the treebank."""
    found = data_dir(folder, "sst", "the workload treelstm-builtin")
    parsed = sst.read(found / "sst" / "train.txt")
    vocab = make_vocab(sentence.words for sentence in parsed)
    samples = [
        Sentence(
            mx.nd.array(vocab[sentence.words], dtype="int32"),
            sentence.tree,
            mx.nd.array(sentence.labels, dtype="int32"),
        )
        for sentence in parsed[:limit]
    ]
    net = BinaryTreeLSTM(len(vocab), sst.CLASSES, WORD_SIZE, MEMORY_SIZE)
    # A dense gradient of every word's vector would be the larger part of a step of one sentence.
    net.embed.weight.grad_req = "null"
    initialize(net, samples, loss, seed)
    return Workload("treelstm-sst", NOTE, samples, net, loss, lambda net, sample: net(sample.tokens, sample.tree))
