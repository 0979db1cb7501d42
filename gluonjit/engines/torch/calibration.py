"""Measures what PyTorch takes on this machine, by programs made up for it that run the way every program does."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import nn

from gluonjit.analysis.costs.measured import Measured, Progress
from gluonjit.engines.torch.arrays import VERSIONS
from gluonjit.engines.torch.dynamic import enable
from gluonjit.hybrid.costs import cost_model, use_model
from gluonjit.hybrid.state import batching

_WORDS = 200
_SIZES = (1, 10, 100)  # samples of a minibatch
_SCHEDULERS = ("depth", "agenda", "greedy")


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
        self.embed = nn.Embedding(_WORDS, width)
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
        """What is left of the features after so many layers."""
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
        """What is left of the features after so many rounds."""
        state = self.same(sample.data)
        for _ in range(sample.shape):
            state = torch.tanh(torch.mm(state, self.weight)) + 0.5 * state * torch.sigmoid(state)
        return state


class _Sample:
    """A tensor, and a tree or a number of turns: no plain constant, so that it is a program that decides."""

    def __init__(self, data: Any, shape: Any) -> None:
        self.data = data
        self.shape = shape


class _Program(NamedTuple):
    """A net and how one sample of it is drawn."""

    make_net: Callable[[int], Any]
    draw: Callable[[np.random.RandomState, int], Any]
    width: int


def _tree(random: np.random.RandomState, width: int) -> Any:
    length = random.randint(2, 12)
    trees: list[Any] = list(range(length))
    while len(trees) > 1:
        position = random.randint(len(trees) - 1)
        trees[position : position + 2] = [(trees[position], trees[position + 1])]
    return _Sample(torch.from_numpy(random.randint(0, _WORDS, length)), trees[0])


def _chain(random: np.random.RandomState, width: int) -> Any:
    return _Sample(_features(random, random.randint(1, 4), width), random.randint(1, 8))


def _block(random: np.random.RandomState, width: int) -> Any:
    """So much arithmetic that launching it does not count."""
    return _Sample(_features(random, random.randint(8, 40), width), random.randint(1, 5))


def _features(random: np.random.RandomState, rows: int, width: int) -> Any:
    return torch.from_numpy(random.uniform(-1, 1, (rows, width)).astype(np.float32))


_PROGRAMS = (
    _Program(_Trees, _tree, 16),
    _Program(_Chains, _chain, 256),
    _Program(_Operators, _chain, 32),
    _Program(_Trees, _tree, 150),
    _Program(partial(_Chains, bounded=False), _block, 700),
    _Program(_Chains, _chain, 32),
    _Program(_Operators, _chain, 128),
    _Program(_Trees, _tree, 300),
)


class _Run(NamedTuple):
    """One way to run one minibatch."""

    net: Any
    samples: Sequence[Any]
    training: bool
    options: dict[str, Any]


def measure(seconds: float, progress: Progress) -> Measured:
    """Run programs for about so long, each of them at least once; `progress` is told the share that is over."""
    begin = perf_counter()
    measured = Measured()
    random = np.random.RandomState(0)
    runs = _runs(random)
    with warnings.catch_warnings(), _taken_down_by(measured):
        warnings.simplefilter("ignore")
        for run in runs:  # what they run has to be compiled
            _perform(run, False)
        done = 0
        while done < len(runs) or perf_counter() - begin < seconds:
            if done % len(runs) == 0:
                order = random.permutation(len(runs))
            _compare(runs[order[done % len(runs)]], measured)
            done += 1
            progress(min((perf_counter() - begin) / seconds, done / len(runs), 1.0))
    return measured


@contextmanager
def _taken_down_by(measured: Measured) -> Iterator[None]:
    known = cost_model("torch", VERSIONS)
    use_model("torch", measured)
    try:
        yield
    finally:
        use_model("torch", known)


def _runs(random: np.random.RandomState) -> list[_Run]:
    runs: list[_Run] = []
    for number, program in enumerate(_PROGRAMS):
        net = program.make_net(program.width)
        with torch.no_grad():
            for parameter in net.parameters():
                parameter.uniform_(-0.1, 0.1)
        enable(net, {})
        for size in _SIZES:
            drawn = [program.draw(random, program.width) for _ in range(max(size // 2, 1))]
            samples = (drawn * 2)[:size]  # so that there is something to share
            for training in (False, True):
                scheduler = _SCHEDULERS[(len(runs) + number) % len(_SCHEDULERS)]
                options = {"granularity": "cell", "scheduler": scheduler, "sharing": bool(len(runs) // 2 % 2)}
                runs.append(_Run(net, samples, training, options))
    return runs


def _compare(run: _Run, measured: Measured) -> None:
    """Run it profiled, with caches as cold as those of a new minibatch; then once more, with waits and without."""
    _perform(run, True)
    waits = measured.waits()
    measured.settle()
    begin = perf_counter()
    _perform(run, False)
    middle = perf_counter()
    _perform(run, True)
    measured.pairs.append((perf_counter() - middle, middle - begin, waits))
    measured.drop()


def _perform(run: _Run, profile: bool) -> None:
    outputs = []  # alive until all has run: what nobody can read would not
    with batching(profile=profile, **run.options):
        if run.training:
            sum([run.net(sample).sum() for sample in run.samples]).backward()
        else:
            with torch.no_grad():
                outputs += [run.net(sample) for sample in run.samples]
    if torch.cuda.is_available():
        torch.cuda.synchronize()
