"""A corpus: three splits of pairs and a table of word vectors, read from files or generated."""

from __future__ import annotations

import gc
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from experiments.data import arrays, builtin, reading, sick
from experiments.data.trees import Pair
from experiments.data.vectors import attach_vectors, make_vocab, read_glove


@dataclass
class Corpus:
    """Pairs to learn from, to choose by and to test on; `note` says where they come from."""

    name: str
    train: list[Pair]
    dev: list[Pair]
    test: list[Pair]
    vectors: np.ndarray
    note: str


def load(
    name: str,
    data_dir: str | None = None,
    seed: int = 0,
    limit: int | None = None,
    engine: str = "mxnet",
    device: str | None = None,
) -> Corpus:
    """Load `sick` from files or generate `builtin`; with `limit`, the first pairs of each split alone.

    Targets and tokens are arrays of `engine`, in PyTorch on `device`.
    """
    corpus = (
        _generate(seed, engine)
        if name == "builtin"
        else _load_sick(reading.data_dir(data_dir, "sick", "--data builtin"), seed, engine)
    )
    for split in sick.SPLITS:
        setattr(corpus, split, getattr(corpus, split)[:limit])
    arrays.give([*corpus.train, *corpus.dev, *corpus.test], arrays.maker(engine, device))
    # A corpus is some hundred thousand objects that stay: Python's collector need not go through them ever again.
    gc.collect()
    gc.freeze()
    return corpus


def _load_sick(folder: Path, seed: int, engine: str) -> Corpus:
    """Read the parsed SICK files and the GloVe rows."""
    splits = {split: sick.read_split(folder / "sick" / split) for split in sick.SPLITS}
    words, rows = read_glove(folder / "glove")
    vectors = number(splits, words, rows, seed, engine)
    return Corpus(
        "sick",
        vectors=vectors,
        note="SICK (SemEval-2014 task 1), Stanford dependency parses, GloVe 840B 300-d vectors kept fixed",
        **splits,
    )


def _generate(seed: int, engine: str) -> Corpus:
    """Make the built-in corpus."""
    splits = builtin.generate(seed)
    words, rows = builtin.vectors(seed)
    return Corpus("builtin", vectors=number(splits, words, rows, seed, engine), note=builtin.NOTE, **splits)


def number(
    splits: dict[str, list[Pair]], words: list[str], rows: np.ndarray, seed: int, engine: str = "mxnet"
) -> np.ndarray:
    """Number the words of all sentences and return the table of their vectors."""
    sentences = [side for pairs in splits.values() for pair in pairs for side in (pair.left, pair.right)]
    vocab = make_vocab((sentence.words for sentence in sentences), plain=engine != "mxnet")
    for sentence in sentences:
        sentence.number(vocab[list(sentence.words)])
    return attach_vectors(vocab, words, rows, seed)
