"""Vocabulary and word vectors, on MXNet through gluonnlp if it is installed."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from experiments.data.arrays import maker
from experiments.data.errors import DataError

GLOVE_NAME = "glove.840B.300d.sick"
UNKNOWN = "<unk>"

log = logging.getLogger(__name__)


class PlainVocab:
    """The part of `gluonnlp.Vocab` that the experiment uses: frequent words first, the unknown word at 0."""

    def __init__(self, counter: dict[str, int], unknown_token: str = UNKNOWN) -> None:
        known = sorted(counter.items(), key=lambda item: (-item[1], item[0]))
        self.idx_to_token: list[str] = [unknown_token] + [token for token, _ in known if token != unknown_token]
        self._indices = {token: index for index, token in enumerate(self.idx_to_token)}

    def __len__(self) -> int:
        return len(self.idx_to_token)

    def __getitem__(self, tokens: Sequence[str]) -> list[int]:
        return [self._indices.get(token, 0) for token in tokens]


@cache
def _library() -> Any:
    """Return gluonnlp, which brings MXNet along, or None if it is not installed."""
    try:
        return import_module("gluonnlp")
    except ImportError:  # optional: the class above does what the experiment needs
        return None


def make_vocab(sentences: Iterable[Sequence[str]], plain: bool = False) -> Any:
    """Count the words of all sentences into a vocabulary; a `plain` one, with the same numbers, needs no gluonnlp."""
    counter = Counter(word for sentence in sentences for word in sentence)
    if plain or _library() is None:
        return PlainVocab(counter)
    return _library().Vocab(counter, unknown_token=UNKNOWN, padding_token=None, bos_token=None, eos_token=None)


def attach_vectors(vocab: Any, words: Sequence[str], rows: np.ndarray, seed: int) -> np.ndarray:
    """Return the (len(vocab), n) table of vectors; words without one get small random rows."""
    lost = [UNKNOWN, *sorted(set(vocab.idx_to_token) - {UNKNOWN, *words})]
    if len(lost) > 1:
        log.info("%d of %d words have no vector and get a random one", len(lost) - 1, len(vocab) - 1)
    rng = np.random.default_rng([seed, 2])
    words = [*lost, *words]
    rows = np.concatenate([rng.uniform(-0.05, 0.05, (len(lost), rows.shape[1])), rows]).astype(np.float32)
    if isinstance(vocab, PlainVocab):
        index = {word: row for row, word in enumerate(words)}
        return rows[[index[token] for token in vocab.idx_to_token]]
    vocab.set_embedding(_token_embedding(words, rows))
    return vocab.embedding.idx_to_vec.asnumpy()


def _token_embedding(words: Sequence[str], rows: np.ndarray) -> Any:
    """Wrap rows as a gluonnlp embedding; the unknown word is the first."""
    return _library().embedding.TokenEmbedding(
        unknown_token=UNKNOWN, idx_to_token=list(words), idx_to_vec=maker("mxnet")(rows)
    )


def read_glove(folder: Path) -> tuple[list[str], np.ndarray]:
    """Read `NAME.words`, one word a line, and `NAME.npy`, the vectors in the same order."""
    names, rows = folder / f"{GLOVE_NAME}.words", folder / f"{GLOVE_NAME}.npy"
    for path in (names, rows):
        if not path.is_file():
            raise DataError(path, None, "no such file; docs/data.md says how the GloVe rows are made")
    words = names.read_text(encoding="utf-8").split("\n")
    words = words[:-1] if words[-1] == "" else words
    try:
        vectors = np.load(rows, allow_pickle=False)
    except ValueError as error:
        raise DataError(rows, None, f"is not a .npy array: {error}") from error
    if vectors.ndim != 2 or len(vectors) != len(words):
        raise DataError(rows, None, f"has shape {vectors.shape}, but {names.name} has {len(words)} words")
    return words, vectors
