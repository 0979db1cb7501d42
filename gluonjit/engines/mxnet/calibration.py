"""Measures what MXNet takes on this machine, by programs made up for it that run the way every program does."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from time import perf_counter
from typing import Any, NamedTuple

import mxnet as mx
import numpy as np
from mxnet import autograd, gluon

from gluonjit.analysis.costs.measured import Measured, Progress
from gluonjit.engines.mxnet.arrays import VERSIONS
from gluonjit.hybrid.costs import cost_model, use_model
from gluonjit.hybrid.state import batching

_WORDS = 200
_SIZES = (1, 10, 100)  # samples of a minibatch
_SCHEDULERS = ("depth", "agenda", "greedy")


class _Gates(gluon.HybridBlock):  # type: ignore[misc]
    """Two states become one, by gates."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self._width = width
        with self.name_scope():
            self.both = gluon.nn.Dense(3 * width, in_units=2 * width)

    def hybrid_forward(self, F: Any, left: Any, right: Any) -> Any:
        """A weighted sum of the two states and a new one."""
        parts = F.split(self.both(F.concat(left, right, dim=1)), num_outputs=3, axis=1)
        gate = F.sigmoid(parts[0])
        return gate * left + (1 - gate) * right + F.tanh(parts[1]) * F.sigmoid(parts[2])


class _Trees(gluon.Block):  # type: ignore[misc]
    """Folds a tree of words."""

    def __init__(self, width: int) -> None:
        super().__init__()
        with self.name_scope():
            self.embed = gluon.nn.Embedding(_WORDS, width)
            self.cell = _Gates(width)
            self.head = gluon.nn.Dense(4, in_units=width)

    def forward(self, sample: tuple[Any, Any]) -> Any:
        """Scores of a tree (words, nested pairs of positions)."""
        words, tree = sample
        return self.head(self._fold(tree, self.embed(words)))

    def _fold(self, tree: Any, words: Any) -> Any:
        if isinstance(tree, int):
            return words[tree : tree + 1]
        return self.cell(self._fold(tree[0], words), self._fold(tree[1], words))


class _Chains(gluon.Block):  # type: ignore[misc]
    """Dense layers one after the other, from an array of features."""

    def __init__(self, width: int, activation: str | None = "tanh") -> None:
        super().__init__()
        with self.name_scope():
            self.cell = gluon.nn.Dense(width, in_units=width, activation=activation)

    def forward(self, sample: tuple[Any, int]) -> Any:
        """What is left of the features after so many layers."""
        state, length = sample
        for _ in range(length):
            state = self.cell(state)
        return state


class _Operators(gluon.Block):  # type: ignore[misc]
    """A program without cells: a node an operator."""

    def __init__(self, width: int) -> None:
        super().__init__()
        with self.name_scope():
            self.weight = self.params.get("weight", shape=(width, width))

    def forward(self, sample: tuple[Any, int]) -> Any:
        """What is left of the features after so many rounds."""
        state, length = sample
        weight = self.weight.data()
        for _ in range(length):
            state = mx.nd.tanh(mx.nd.dot(state, weight)) + 0.5 * state * mx.nd.sigmoid(state)
        return state


class _Program(NamedTuple):
    """A net and how one sample of it is drawn."""

    make_net: Callable[[int], gluon.Block]
    draw: Callable[[np.random.RandomState, int], Any]
    width: int


def _tree(random: np.random.RandomState, width: int) -> Any:
    length = random.randint(2, 12)
    trees: list[Any] = list(range(length))
    while len(trees) > 1:
        position = random.randint(len(trees) - 1)
        trees[position : position + 2] = [(trees[position], trees[position + 1])]
    return mx.nd.array(random.randint(0, _WORDS, length)), trees[0]


def _chain(random: np.random.RandomState, width: int) -> Any:
    return mx.nd.array(random.uniform(-1, 1, (random.randint(1, 4), width))), random.randint(1, 8)


def _block(random: np.random.RandomState, width: int) -> Any:
    """So much arithmetic that launching it does not count."""
    return mx.nd.array(random.uniform(-1, 1, (random.randint(8, 40), width))), random.randint(1, 5)


_PROGRAMS = (
    _Program(_Trees, _tree, 16),
    _Program(_Chains, _chain, 256),
    _Program(_Operators, _chain, 32),
    _Program(_Trees, _tree, 150),
    _Program(partial(_Chains, activation=None), _block, 700),
    _Program(_Chains, _chain, 32),
    _Program(_Operators, _chain, 128),
    _Program(_Trees, _tree, 300),
)


class _Run(NamedTuple):
    """One way to run one minibatch."""

    net: gluon.Block
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
    known = cost_model("mxnet", VERSIONS)
    use_model("mxnet", measured)
    try:
        yield
    finally:
        use_model("mxnet", known)


def _runs(random: np.random.RandomState) -> list[_Run]:
    runs: list[_Run] = []
    for number, program in enumerate(_PROGRAMS):
        net = program.make_net(program.width)
        net.initialize(mx.init.Uniform(0.1))
        net.hybridize(dynamic_batch=True)
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
            with autograd.record():
                total = mx.nd.add_n(*[run.net(sample).sum() for sample in run.samples])
            total.backward()
        else:
            outputs += [run.net(sample) for sample in run.samples]
    mx.nd.waitall()
