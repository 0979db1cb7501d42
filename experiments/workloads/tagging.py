"""Named entities in Chinese resumes: a tag for each character, by a BiLSTM or a lattice LSTM (Zhang and Yang 2018)."""

from __future__ import annotations

from typing import Any, NamedTuple

import mxnet as mx
from mxnet import gluon

from experiments.data import ner
from experiments.data.reading import data_dir
from experiments.data.vectors import make_vocab
from experiments.workloads.bilstm import Tagger
from experiments.workloads.workload import Workload, initialize
from experiments.zoo.lattice_lstm import LatticeLSTM, Spans, loss

VECTOR_SIZE, HIDDEN_SIZE = 50, 128
NOTE = "ResumeNER, a tag for each character"


class Sentence(NamedTuple):
    """One sample of the BiLSTM: numbers of characters (n,), and of their tags (n,)."""

    characters: Any
    target: Any


class Lattice(NamedTuple):
    """One sample of the lattice LSTM: as above, with the numbers of its words and where they stand."""

    characters: Any
    words: Any
    spans: Spans
    target: Any


def load_bilstm(folder: str | None, seed: int, limit: int | None) -> Workload:
    """Return the training sentences as characters."""
    sentences = _read(folder)
    vocab, tags = make_vocab(sentence.characters for sentence in sentences), _tags(sentences)
    samples = [_sample(sentence, vocab, tags) for sentence in sentences[:limit]]
    return _workload("bilstm", NOTE, samples, Tagger(len(vocab), len(tags), VECTOR_SIZE, HIDDEN_SIZE), seed)


def load_lattice(folder: str | None, seed: int, limit: int | None) -> Workload:
    """Return the training sentences as characters, with the words of a lexicon that these sentences make."""
    sentences = _read(folder)
    vocab, tags = make_vocab(sentence.characters for sentence in sentences), _tags(sentences)
    words = {word: number for number, word in enumerate(ner.lexicon(sentences))}
    samples = []
    for sentence in sentences[:limit]:
        characters, target = _sample(sentence, vocab, tags)
        spans, numbers = lattice_of(sentence.characters, words)
        # Arrays of no numbers are none in MXNet: a sentence without words has one that is not looked at.
        samples.append(Lattice(characters, mx.nd.array(numbers or [0], dtype="int32"), spans, target))
    note = (
        f"{NOTE}, with {len(words)} words: strings of {ner.SHORTEST} to {ner.LONGEST} characters that occur at least "
        f"{ner.LEAST} times in the training sentences"
    )
    net = LatticeLSTM(len(vocab), max(len(words), 1), len(tags), VECTOR_SIZE, HIDDEN_SIZE)
    return _workload("lattice", note, samples, net, seed)


def lattice_of(characters: tuple[str, ...], words: dict[str, int]) -> tuple[Spans, list[int]]:
    """Return the words that end at each character, and the numbers of the sentence's words in that order."""
    spans: Spans = [[] for _ in characters]
    found = ner.matches(characters, words)
    for place, (first, last, _) in enumerate(found):
        spans[last].append((first, place))
    return spans, [words[word] for _, _, word in found]


def _read(folder: str | None) -> list[ner.Tagged]:
    found = data_dir(folder, "lattice", "the workload treelstm-builtin")
    return ner.read(found / "lattice" / "ResumeNER" / "train.char.bmes")


def _tags(sentences: list[ner.Tagged]) -> dict[str, int]:
    """Number the tags."""
    return {tag: number for number, tag in enumerate(sorted({tag for _, tags in sentences for tag in tags}))}


def _sample(sentence: ner.Tagged, vocab: Any, tags: dict[str, int]) -> Sentence:
    return Sentence(
        mx.nd.array(vocab[list(sentence.characters)], dtype="int32"),
        mx.nd.array([tags[tag] for tag in sentence.tags], dtype="int32"),
    )


def _workload(name: str, note: str, samples: list[Any], net: gluon.Block, seed: int) -> Workload:
    initialize(net, samples, loss, seed)
    return Workload(name, note, samples, net, loss, lambda net, sample: net(*sample[:-1]))  # the target is last
