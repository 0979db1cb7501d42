"""The programs by which `gluonjit.hybrid.run.calibration` measures PyTorch's costs on this machine."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import torch
from torch import nn

from gluonjit.engines.torch.dynamic import enable
from gluonjit.hybrid.run.calibration import WORDS, Bench, Chains, Nets, Trees, gated


class _Gates(nn.Module):  # type: ignore[misc]
    """Two states become one, by gates."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.both = nn.Linear(2 * width, 3 * width)

    def forward(self, left: Any, right: Any) -> Any:
        """A weighted sum of the two states and a new one."""
        return gated(self.both(torch.cat([left, right], -1)).chunk(3, -1), left, right)


class _Trees(Trees, nn.Module):  # type: ignore[misc]
    def __init__(self, width: int) -> None:
        nn.Module.__init__(self)
        self.embed, self.cell, self.head = nn.Embedding(WORDS, width), _Gates(width), nn.Linear(width, 4)


class _Layer(nn.Module):  # type: ignore[misc]
    """A dense layer and what follows it."""

    def __init__(self, width: int, bounded: bool) -> None:
        super().__init__()
        self.linear = nn.Linear(width, width)
        self._bounded = bounded

    def forward(self, x: Any) -> Any:
        """One state of the next."""
        return torch.tanh(self.linear(x)) if self._bounded else self.linear(x)


class _Chains(Chains, nn.Module):  # type: ignore[misc]
    def __init__(self, width: int, bounded: bool = True) -> None:
        nn.Module.__init__(self)
        self.cell = _Layer(width, bounded)


class _Operators(Chains, nn.Module):  # type: ignore[misc]
    def __init__(self, width: int) -> None:
        nn.Module.__init__(self)
        self.weight = nn.Parameter(torch.empty(width, width))
        self.same = nn.Identity()

    def first(self, state: Any) -> Any:
        return self.same(state)

    def cell(self, state: Any) -> Any:
        return torch.tanh(torch.mm(state, self.weight)) + 0.5 * state * torch.sigmoid(state)


def _start(net: Any) -> None:
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.uniform_(-0.1, 0.1)
    enable(net, {"granularity": "batched"})


def _train(net: Any, samples: Sequence[Any]) -> None:
    sum(net(sample).sum() for sample in samples).backward()


def _infer(net: Any, samples: Sequence[Any]) -> list[Any]:
    with torch.no_grad():
        return [net(sample) for sample in samples]


_NETS = Nets(_Trees, _Chains, partial(_Chains, bounded=False), _Operators)
BENCH = Bench(_NETS, torch.from_numpy, _start, _train, _infer)
