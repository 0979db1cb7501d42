"""Parts of models in PyTorch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import nn
from torch.nn import functional


class Layer(nn.Module):
    """A Transformer's layer, with one head."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.asks, self.gives, self.out = nn.Linear(size, 2 * size), nn.Linear(size, size), nn.Linear(size, size)
        self.wide, self.narrow = nn.Linear(size, 2 * size), nn.Linear(2 * size, size)
        self.scale = size**-0.5

    def forward(self, h: Any, hidden: Any = None) -> Any:
        asked, keys = self.asks(h).chunk(2, -1)
        scores = asked @ keys.transpose(-1, -2) * self.scale
        if hidden is not None:
            scores = scores + hidden
        h = h + self.out(scores.softmax(-1) @ self.gives(h))
        return h + self.narrow(functional.relu(self.wide(h)))


class Base(nn.Module):
    """Layers of models, and functions that use them."""

    linear, gru, table, layer, several = nn.Linear, nn.GRUCell, nn.Embedding, Layer, nn.ModuleList

    def step(self, cell: Any, x: Any, h: Any) -> Any:
        """Return the next state."""
        return cell(x, h)

    def zeros(self, size: int, rows: int = 1) -> Any:
        """Return a first state."""
        return torch.zeros(rows, size)

    def token(self, number: int) -> Any:
        """Return a word, or a class."""
        return torch.tensor([number])

    def floats(self, rows: Sequence[Sequence[float]]) -> Any:
        """Return numbers as an array."""
        return torch.tensor(rows)

    def joined(self, *parts: Any) -> Any:
        """Return parts of a row as one."""
        return torch.cat(parts, -1)

    def rows(self, parts: Sequence[Any]) -> Any:
        """Return rows of several samples as one array."""
        return torch.cat(list(parts))

    def number(self, x: Any) -> float:
        """Read one number."""
        return float(x.item())

    def numbers(self, x: Any) -> list[float]:
        """Read a row."""
        return list(x.tolist()[0])

    def loss_of(self, scores: Any, label: Any) -> Any:
        """Return the loss of a row of scores."""
        return functional.cross_entropy(scores, label)

    def losses_of(self, scores: Any, labels: Any) -> Any:
        """Return the loss of each row."""
        return functional.cross_entropy(scores, labels, reduction="none")

    def shares(self, x: Any) -> Any:
        """Return what adds up to one."""
        return x.softmax(-1)

    def logs(self, x: Any) -> Any:
        """Return its logarithms."""
        return x.log_softmax(-1)

    def floats_of(self, true: Any) -> Any:
        """Return 1 where something is true, else 0."""
        return true.float()


def masked_exit(net: Any, samples: Sequence[Any]) -> Any:
    """Run all sentences through all layers, padded to the longest; each answers where it is sure enough."""
    lengths = torch.tensor([len(words) for words, _, _ in samples])
    padded = nn.utils.rnn.pad_sequence([words for words, _, _ in samples], batch_first=True)
    there = torch.arange(padded.shape[1])[None] < lengths[:, None]
    hidden = torch.zeros(there.shape).masked_fill(~there, float("-inf"))[:, None]
    sure, labels = torch.tensor([sure for _, sure, _ in samples]), torch.cat([label for _, _, label in samples])
    h, answers, done = net.inp(padded), None, torch.zeros(len(samples), dtype=torch.bool)
    for layer in net.layers:
        h = layer(h, hidden)
        scores = net.out((h * there[..., None]).sum(1) / lengths[:, None])
        answers = scores if answers is None else torch.where(done[:, None], answers, scores)
        done = done | (scores.softmax(-1).amax(-1) > sure)
    return functional.cross_entropy(answers, labels, reduction="none")


MASKED = {"early-exit": masked_exit}
