"""BiLSTM tagger: frequent words are looked up, rare ones spelled by a BiLSTM over their letters."""

from __future__ import annotations

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
        self.spell = nn.LSTM(SIZE, SIZE, bidirectional=True)
        self.read = nn.LSTM(2 * SIZE, SIZE, bidirectional=True)
        self.out = nn.Linear(2 * SIZE, TAGS)

    def forward(self, sentence: list[tuple[bool, Tensor]]) -> Tensor:
        """Return (words, TAGS). A word is (whether it is rare, its letters or its number)."""
        vectors = [self.spelled(numbers) if rare else self.words(numbers)[0] for rare, numbers in sentence]
        states, _ = self.read(torch.stack(vectors))
        return self.out(states)

    def spelled(self, numbers: Tensor) -> Tensor:
        """Return the vector of a rare word, (2 * SIZE,): the last state of either direction."""
        _, (last, _) = self.spell(self.letters(numbers))
        return torch.cat([last[0], last[1]])


def loss(net: nn.Module, sample: Any) -> Tensor:
    """Return the mean loss of a sentence's words."""
    sentence, tags = sample
    return functional.cross_entropy(net(sentence), tags)


ROW = Row("bilstm-char", "BiLSTM tagger, rare words by a BiLSTM over letters", Tagger, spelled, loss)
