"""Lattice LSTM (Zhang and Yang 2018): a chain over characters, with shortcuts for the words of a lexicon.

A word that spans characters b to e carries memory from b to e by a cell of its own. The character at e mixes what
comes over its words and over its own step, weighted by gates that are normalised against each other.
"""

from __future__ import annotations

from typing import Any

import mxnet as mx
from mxnet import gluon
from mxnet.gluon import nn

from experiments.zoo.row import Row
from experiments.zoo.samples.sequences import CHARACTER_TAGS, CHARACTERS, LEXICON, Spans, lattices

SIZE = 12


class WordCell(gluon.HybridBlock):
    """The memory at the end of a word, from the word and the state of its first character."""

    def __init__(self, size: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        with self.name_scope():
            self.from_word = nn.Dense(3 * size)
            self.from_state = nn.Dense(3 * size, use_bias=False)

    def hybrid_forward(self, F: Any, word: Any, state: Any) -> Any:
        """Return c of the word."""
        h, c = state
        i, f, u = F.split(self.from_word(word) + self.from_state(h), num_outputs=3, axis=1)
        return F.sigmoid(f) * c + F.sigmoid(i) * F.tanh(u)


class CharacterCell(gluon.HybridBlock):
    """The state at a character, from the one before and the memories of the words that end here."""

    def __init__(self, size: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        with self.name_scope():
            self.from_character = nn.Dense(3 * size)
            self.from_state = nn.Dense(3 * size, use_bias=False)
            self.word_gate = nn.Dense(size)
            self.from_word = nn.Dense(size, use_bias=False)

    def hybrid_forward(self, F: Any, character: Any, state: Any, words: list[Any]) -> Any:
        """Return (h, c)."""
        h, c = state
        i, o, u = F.split(self.from_character(character) + self.from_state(h), num_outputs=3, axis=1)
        i, u = F.sigmoid(i), F.tanh(u)
        if words:
            gate = self.word_gate(character)
            weights = [F.exp(i), *[F.exp(F.sigmoid(gate + self.from_word(word))) for word in words]]
            mixed = F.add_n(*[weight * memory for weight, memory in zip(weights, [u, *words])])
            c = mixed / F.add_n(*weights)
        else:
            c = (1 - i) * c + i * u
        return F.sigmoid(o) * F.tanh(c), c


class LatticeLSTM(gluon.Block):
    """Scores of the tags for each character of a sentence."""

    def __init__(
        self,
        characters: int = CHARACTERS,
        words: int = LEXICON,
        tags: int = CHARACTER_TAGS,
        in_size: int = SIZE,
        size: int = SIZE,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self._size = size
        with self.name_scope():
            self.characters = nn.Embedding(characters, in_size)
            self.words = nn.Embedding(words, in_size)
            self.character_cell = CharacterCell(size)
            self.word_cell = WordCell(size)
            self.out = nn.Dense(tags)

    def forward(self, characters: Any, words: Any, spans: Spans) -> Any:
        """Return (characters, tags)."""
        characters, words = self.characters(characters), self.words(words)
        state = mx.nd.zeros((1, self._size)), mx.nd.zeros((1, self._size))
        states: list[Any] = []
        for k, ending in enumerate(spans):
            memories = [self.word_cell(words[word : word + 1], states[first]) for first, word in ending]
            state = self.character_cell(characters[k : k + 1], state, memories)
            states.append(state)
        return self.out(mx.nd.concat(*[h for h, _ in states], dim=0))


_loss = gluon.loss.SoftmaxCrossEntropyLoss()


def loss(net: gluon.Block, sample: Any) -> Any:
    """Return the mean loss of a sentence's characters."""
    *sentence, tags = sample
    return _loss(net(*sentence), tags).mean()


ROW = Row("lattice-lstm", "lattice LSTM: characters, and words that span several", LatticeLSTM, lattices, loss)
