"""BiLSTM tagger: frequent words are looked up, rare ones spelled by a BiLSTM over their letters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from experiments.zoo.row import Row
from experiments.zoo.samples.sequences import LETTERS, TAGS, WORDS, spelled

SIZE = 12


class Tagger(nn.Module):
    """Scores of the tags for each word of a sentence."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(WORDS, 2 * SIZE)
        self.letters = nn.Embedding(LETTERS, SIZE)
        self.letters_ahead, self.letters_back = nn.LSTMCell(SIZE, SIZE), nn.LSTMCell(SIZE, SIZE)
        self.ahead, self.back = nn.LSTMCell(2 * SIZE, SIZE), nn.LSTMCell(2 * SIZE, SIZE)
        self.out = nn.Linear(2 * SIZE, TAGS)

    def forward(self, sentence: list[tuple[bool, Tensor]]) -> Tensor:
        """Return (words, TAGS). A word is (whether it is rare, its letters or its number)."""
        vectors = [self.spell(numbers) if rare else self.words(numbers)[0] for rare, numbers in sentence]
        ahead = run(self.ahead, vectors)
        back = run(self.back, vectors[::-1])[::-1]
        return self.out(torch.stack([torch.cat(states) for states in zip(ahead, back)]))

    def spell(self, numbers: Tensor) -> Tensor:
        """Return the vector of a rare word, (2 * SIZE,): the last state of either direction."""
        letters = self.letters(numbers).unbind()
        return torch.cat([run(self.letters_ahead, letters)[-1], run(self.letters_back, letters[::-1])[-1]])


def run(cell: nn.Module, steps: Sequence[Tensor]) -> list[Tensor]:
    """Return the state of a recurrent cell after each step."""
    h, c = torch.zeros(SIZE), torch.zeros(SIZE)
    states = []
    for step in steps:
        h, c = cell(step, (h, c))
        states.append(h)
    return states


def loss(net: nn.Module, sample: Any) -> Tensor:
    """Return the mean loss of a sentence's words."""
    sentence, tags = sample
    return functional.cross_entropy(net(sentence), tags)


ROW = Row("bilstm-char", "BiLSTM tagger, rare words by a BiLSTM over letters", Tagger, spelled, loss)
