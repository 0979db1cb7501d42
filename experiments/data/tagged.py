"""Sentences with a tag for each character, as samples of a model."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from experiments.data import ner
from experiments.data.arrays import Make
from experiments.data.reading import data_dir
from experiments.data.vectors import make_vocab

NOTE = "ResumeNER, a tag for each character"


class Sentence(NamedTuple):
    """One sample: numbers of characters (n,), and of their tags (n,)."""

    characters: Any
    target: Any


class Numbering(NamedTuple):
    """The numbers of characters and of tags."""

    vocab: Any
    tags: dict[str, int]

    def sample(self, sentence: ner.Tagged, make: Make) -> Sentence:
        """Return a sentence as arrays that `make` makes."""
        return Sentence(
            make(np.array(self.vocab[list(sentence.characters)], dtype=np.int32)),
            make(np.array([self.tags[tag] for tag in sentence.tags], dtype=np.int32)),
        )


def read(folder: str | None, plain: bool = False) -> tuple[list[ner.Tagged], Numbering]:
    """Return the training sentences of ResumeNER, and how they are numbered; raises DataError where they are not."""
    found = data_dir(folder, "lattice", "the workload treelstm-builtin")
    sentences = ner.read(found / "lattice" / "ResumeNER" / "train.char.bmes")
    tags = sorted({tag for _, tags in sentences for tag in tags})
    numbers = {tag: number for number, tag in enumerate(tags)}
    return sentences, Numbering(make_vocab((sentence.characters for sentence in sentences), plain), numbers)
