"""BiLSTM tagger for one sentence: a cell for each direction, step by step, and scores for each token."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from experiments.data.tagged import Sentence


class Tagger(nn.Module):
    """Scores of the tags for each token of a sentence; the vectors stay fixed."""

    def __init__(self, tokens: int, tags: int, in_size: int = 50, size: int = 128) -> None:
        super().__init__()
        self.embed = nn.Embedding(tokens, in_size)
        self.ahead = nn.LSTMCell(in_size, size)
        self.back = nn.LSTMCell(in_size, size)
        self.out = nn.Linear(2 * size, tags)
        self.embed.weight.requires_grad_(False)

    def forward(self, sample: Sentence) -> Tensor:
        """Return (tokens, tags)."""
        words = self.embed(sample.characters)
        steps = [words[k] for k in range(len(words))]
        ahead, back = self.run(self.ahead, steps), self.run(self.back, steps[::-1])[::-1]
        return self.out(torch.cat([torch.stack(ahead), torch.stack(back)], 1))

    def run(self, cell: nn.Module, steps: list[Tensor]) -> list[Tensor]:
        """Return the outputs of a recurrent cell, one for each step."""
        state, outputs = None, []
        for step in steps:
            state = cell(step, state)
            outputs.append(state[0])
        return outputs


def loss(net: nn.Module, sample: Sentence) -> Tensor:
    """Return the mean loss of a sentence's tokens."""
    return functional.cross_entropy(net(sample), sample.target)
