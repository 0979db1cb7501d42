"""Named entities in Chinese resumes: a tag for each character, by a BiLSTM or a lattice LSTM (Zhang and Yang 2018)."""

from __future__ import annotations

from typing import Any, NamedTuple

import mxnet as mx
from mxnet import gluon

from experiments.data import ner, tagged
from experiments.data.arrays import maker
from experiments.data.tagged import NOTE
from experiments.workloads.bilstm import Tagger
from experiments.workloads.workload import Workload, initialize
from experiments.zoo.mxnet.lattice_lstm import LatticeLSTM, loss
from experiments.zoo.samples.sequences import Spans

VECTOR_SIZE, HIDDEN_SIZE = 50, 128


class Lattice(NamedTuple):
    """One sample of the lattice LSTM: as one of the BiLSTM, with the numbers of its words and where they stand."""

    characters: Any
    words: Any
    spans: Spans
    target: Any


def load_bilstm(folder: str | None, seed: int, limit: int | None) -> Workload:
    """Return the training sentences as characters."""
    sentences, numbers = tagged.read(folder)
    samples = [numbers.sample(sentence, maker("mxnet")) for sentence in sentences[:limit]]
    net = Tagger(len(numbers.vocab), len(numbers.tags), VECTOR_SIZE, HIDDEN_SIZE)
    return _workload("bilstm", NOTE, samples, net, seed)


def load_lattice(folder: str | None, seed: int, limit: int | None) -> Workload:
    """Return the training sentences as characters, with the words of a lexicon that these sentences make."""
    sentences, numbering = tagged.read(folder)
    words = {word: number for number, word in enumerate(ner.lexicon(sentences))}
    samples = []
    for sentence in sentences[:limit]:
        characters, target = numbering.sample(sentence, maker("mxnet"))
        spans, numbers = lattice_of(sentence.characters, words)
        # Arrays of no numbers are none in MXNet: a sentence without words has one that is not looked at.
        samples.append(Lattice(characters, mx.nd.array(numbers or [0], dtype="int32"), spans, target))
    note = (
        f"{NOTE}, with {len(words)} words: strings of {ner.SHORTEST} to {ner.LONGEST} characters that occur at least "
        f"{ner.LEAST} times in the training sentences"
    )
    net = LatticeLSTM(len(numbering.vocab), max(len(words), 1), len(numbering.tags), VECTOR_SIZE, HIDDEN_SIZE)
    return _workload("lattice", note, samples, net, seed)


def lattice_of(characters: tuple[str, ...], words: dict[str, int]) -> tuple[Spans, list[int]]:
    """Return the words that end at each character, and the numbers of the sentence's words in that order."""
    spans: Spans = [[] for _ in characters]
    found = ner.matches(characters, words)
    for place, (first, last, _) in enumerate(found):
        spans[last].append((first, place))
    return spans, [words[word] for _, _, word in found]


def _workload(name: str, note: str, samples: list[Any], net: gluon.Block, seed: int) -> Workload:
    initialize(net, samples, loss, seed)
    return Workload(name, note, samples, net, loss, lambda net, sample: net(*sample[:-1]))  # the target is last
