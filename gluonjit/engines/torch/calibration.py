"""The programs by which `gluonjit.hybrid.run.calibration` measures PyTorch's costs on this machine."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import torch
from torch import nn

from gluonjit.engines.torch.arrays import VERSIONS
from gluonjit.engines.torch.dynamic import enable
from gluonjit.hybrid.run.calibration import WORDS, Bench, Nets


class _Gates(nn.Module):  # type: ignore[misc]
    """Two states become one, by gates."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.both = nn.Linear(2 * width, 3 * width)

    def forward(self, left: Any, right: Any) -> Any:
        """A weighted sum of the two states and a new one."""
        parts = self.both(torch.cat([left, right], -1)).chunk(3, -1)
        gate = torch.sigmoid(parts[0])
        return gate * left + (1 - gate) * right + torch.tanh(parts[1]) * torch.sigmoid(parts[2])


class _Trees(nn.Module):  # type: ignore[misc]
    """Folds a tree of words."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.embed = nn.Embedding(WORDS, width)
        self.cell = _Gates(width)
        self.head = nn.Linear(width, 4)

    def forward(self, sample: _Sample) -> Any:
        """Scores of a tree (words, nested pairs of positions)."""
        return self.head(self._fold(sample.shape, self.embed(sample.data)))

    def _fold(self, tree: Any, words: Any) -> Any:
        return words[tree] if isinstance(tree, int) else self.cell(*[self._fold(part, words) for part in tree])


class _Layer(nn.Module):  # type: ignore[misc]
    """A dense layer and what follows it."""

    def __init__(self, width: int, bounded: bool) -> None:
        super().__init__()
        self.linear = nn.Linear(width, width)
        self._bounded = bounded

    def forward(self, x: Any) -> Any:
        """One state of the next."""
        return torch.tanh(self.linear(x)) if self._bounded else self.linear(x)


class _Chains(nn.Module):  # type: ignore[misc]
    """Dense layers one after the other, from an array of features."""

    def __init__(self, width: int, bounded: bool = True) -> None:
        super().__init__()
        self.cell = _Layer(width, bounded)

    def forward(self, sample: _Sample) -> Any:
        """Gives what is left of the features after this many layers."""
        state = sample.data
        for _ in range(sample.shape):
            state = self.cell(state)
        return state


class _Operators(nn.Module):  # type: ignore[misc]
    """A program without cells: a node an operator."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(width, width))
        self.same = nn.Identity()

    def forward(self, sample: _Sample) -> Any:
        """Gives what is left of the features after this many rounds."""
        state = self.same(sample.data)
        for _ in range(sample.shape):
            state = torch.tanh(torch.mm(state, self.weight)) + 0.5 * state * torch.sigmoid(state)
        return state


class _Sample:
    """A tensor, and a tree or a number of turns: no plain constant, so that it is a program that decides."""

    def __init__(self, data: Any, shape: Any) -> None:
        self.data = data
        self.shape = shape


def _sample(numbers: Any, shape: Any) -> _Sample:
    return _Sample(torch.from_numpy(numbers), shape)


def _start(net: Any) -> None:
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.uniform_(-0.1, 0.1)
    enable(net, {"granularity": "batched"})


def _train(net: Any, samples: Sequence[Any]) -> None:
    sum([net(sample).sum() for sample in samples]).backward()


def _infer(net: Any, samples: Sequence[Any]) -> list[Any]:
    with torch.no_grad():
        return [net(sample) for sample in samples]


def _wait() -> None:
    if torch.cuda.is_available():
        torch.cuda.synchronize()


_NETS = Nets(_Trees, _Chains, partial(_Chains, bounded=False), _Operators)
BENCH = Bench("torch", VERSIONS, _NETS, _sample, _start, _train, _infer, _wait)
