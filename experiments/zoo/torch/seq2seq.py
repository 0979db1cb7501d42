"""Sequence to sequence with attention and input feeding (Luong et al. 2015), with teacher forcing."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from experiments.zoo.row import Row
from experiments.zoo.samples.sequences import SOURCE, TARGET, translations

SIZE = 12


class Attend(nn.Module):
    """Computes what the decoder says, from its state and what it reads from the source."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.query = nn.Linear(size, size, bias=False)
        self.combine = nn.Linear(2 * size, size)

    def forward(self, state: Tensor, memory: Tensor) -> Tensor:
        """Return (size,)."""
        weights = torch.softmax(memory @ self.query(state), -1)
        return torch.tanh(self.combine(torch.cat([weights @ memory, state])))


class Translator(nn.Module):
    """Scores of the target's words, each after those before it."""

    def __init__(self) -> None:
        super().__init__()
        self.source, self.target = nn.Embedding(SOURCE, SIZE), nn.Embedding(TARGET, SIZE)
        self.encoder = nn.ModuleList([nn.LSTMCell(SIZE, SIZE), nn.LSTMCell(SIZE, SIZE)])
        self.decoder = nn.LSTMCell(2 * SIZE, SIZE)
        self.attend = Attend(SIZE)
        self.out = nn.Linear(SIZE, TARGET)

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        """Return (length of the target, TARGET)."""
        encoded = self.source(source).unbind()
        for cell in self.encoder:
            state, outputs = (torch.zeros(SIZE), torch.zeros(SIZE)), []
            for step in encoded:
                state = cell(step, state)
                outputs.append(state[0])
            encoded = outputs
        memory, said, answers = torch.stack(encoded), torch.zeros(SIZE), []
        for previous in self.target(target):
            state = self.decoder(torch.cat([previous, said]), state)
            said = self.attend(state[0], memory)
            answers.append(said)
        return self.out(torch.stack(answers))


def loss(net: nn.Module, sample: Any) -> Tensor:
    """Return the mean loss of the target's words."""
    source, given, target = sample
    return functional.cross_entropy(net(source, given), target)


ROW = Row("seq2seq", "sequence to sequence with attention and teacher forcing", Translator, translations, loss)
