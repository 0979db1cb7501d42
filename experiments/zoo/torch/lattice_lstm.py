"""Lattice LSTM (Zhang and Yang 2018): a chain over characters, with shortcuts for the words of a lexicon.

A word that spans characters b to e carries memory from b to e by a cell of its own. The character at e mixes what
comes over its words and over its own step, weighted by gates that are normalised against each other.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from experiments.zoo.row import Row
from experiments.zoo.samples.sequences import CHARACTER_TAGS, CHARACTERS, LEXICON, Spans, lattices

SIZE = 12

State = tuple[Tensor, Tensor]


class WordCell(nn.Module):
    """The memory at the end of a word, from the word and the state of its first character."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.from_word = nn.Linear(size, 3 * size)
        self.from_state = nn.Linear(size, 3 * size, bias=False)

    def forward(self, word: Tensor, state: State) -> Tensor:
        """Return c of the word."""
        h, c = state
        i, f, u = (self.from_word(word) + self.from_state(h)).chunk(3, -1)
        return torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(u)


class CharacterCell(nn.Module):
    """The state at a character, from the one before and the memories of the words that end here."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.from_character = nn.Linear(size, 3 * size)
        self.from_state = nn.Linear(size, 3 * size, bias=False)
        self.word_gate = nn.Linear(size, size)
        self.from_word = nn.Linear(size, size, bias=False)

    def forward(self, character: Tensor, state: State, words: list[Tensor]) -> State:
        """Return (h, c)."""
        h, c = state
        i, o, u = (self.from_character(character) + self.from_state(h)).chunk(3, -1)
        i, u = torch.sigmoid(i), torch.tanh(u)
        if words:
            memories = torch.stack(words)
            gates = torch.sigmoid(self.word_gate(character) + self.from_word(memories))
            weights = torch.softmax(torch.cat([i.unsqueeze(0), gates]), 0)
            c = (weights * torch.cat([u.unsqueeze(0), memories])).sum(0)
        else:
            c = (1 - i) * c + i * u
        return torch.sigmoid(o) * torch.tanh(c), c


class LatticeLSTM(nn.Module):
    """Scores of the tags for each character of a sentence."""

    def __init__(self) -> None:
        super().__init__()
        self.characters = nn.Embedding(CHARACTERS, SIZE)
        self.words = nn.Embedding(LEXICON, SIZE)
        self.character_cell = CharacterCell(SIZE)
        self.word_cell = WordCell(SIZE)
        self.out = nn.Linear(SIZE, CHARACTER_TAGS)

    def forward(self, characters: Tensor, words: Tensor, spans: Spans) -> Tensor:
        """Return (characters, CHARACTER_TAGS)."""
        characters, words = self.characters(characters), self.words(words)
        state = torch.zeros(SIZE), torch.zeros(SIZE)
        states: list[State] = []
        for character, ending in zip(characters, spans):
            memories = [self.word_cell(words[word], states[first]) for first, word in ending]
            state = self.character_cell(character, state, memories)
            states.append(state)
        return self.out(torch.stack([h for h, _ in states]))


def loss(net: nn.Module, sample: Any) -> Tensor:
    """Return the mean loss of a sentence's characters."""
    *sentence, tags = sample
    return functional.cross_entropy(net(*sentence), tags)


ROW = Row("lattice-lstm", "lattice LSTM: characters, and words that span several", LatticeLSTM, lattices, loss)
