"""Sentences with binary trees and a class for each phrase, as samples of a model."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from experiments.data import sst
from experiments.data.arrays import Make
from experiments.data.reading import data_dir
from experiments.data.vectors import make_vocab

NOTE = (
    "Stanford Sentiment Treebank, one of five classes at each phrase, losses of a sentence's phrases added up; "
    "word vectors are random and kept fixed"
)


class Sentence(NamedTuple):
    """One sample: numbers of its words (n,), its tree, and the classes of its phrases (2n-1,)."""

    tokens: Any
    tree: sst.Tree
    target: Any


def load(folder: str | None, limit: int | None, make: Make, plain: bool = False) -> tuple[list[Sentence], int]:
    """Return the training sentences of the treebank with arrays that `make` makes, and the number of words.

    Raises DataError if files are missing or broken.
    """
    found = data_dir(folder, "sst", "the workload treelstm-builtin")
    parsed = sst.read(found / "sst" / "train.txt")
    vocab = make_vocab((sentence.words for sentence in parsed), plain)
    samples = [
        Sentence(
            make(np.array(vocab[sentence.words], dtype=np.int32)),
            sentence.tree,
            make(np.array(sentence.labels, dtype=np.int32)),
        )
        for sentence in parsed[:limit]
    ]
    return samples, len(vocab)
