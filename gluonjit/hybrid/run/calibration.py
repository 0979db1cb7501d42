"""Measures the costs of this machine, with synthetic programs that run as every program does."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np

from gluonjit.analysis.costs.measured import Measured, Progress
from gluonjit.analysis.table import TABLE
from gluonjit.hybrid.choose.costs import cost_model, use_model
from gluonjit.hybrid.run.engine import Engine
from gluonjit.hybrid.run.scope import batching

WORDS = 200
"""The number of words in the table of a net for trees."""

_SIZES = (1, 10, 100)  # samples of a minibatch


class CalibrationSample:
    """An array, and a tree or a number of turns: no plain constant, so that it is a program that decides."""

    def __init__(self, data: Any, shape: Any) -> None:
        self.data, self.shape = data, shape


class Trees:
    """Folds a tree of words: their numbers, nested pairs of positions. An engine has `embed`, `cell` and `head`."""

    embed: Any
    cell: Any
    head: Any

    def forward(self, sample: CalibrationSample) -> Any:
        """Scores of a tree."""
        return self.head(self._fold(sample.shape, self.embed(sample.data)))

    def _fold(self, tree: Any, words: Any) -> Any:
        if isinstance(tree, int):
            return words[tree : tree + 1]
        return self.cell(self._fold(tree[0], words), self._fold(tree[1], words))


def gated(parts: Any, left: Any, right: Any) -> Any:
    """Two states as one: a weighted sum of them and a new one."""
    gate = parts[0].sigmoid()
    return gate * left + (1 - gate) * right + parts[1].tanh() * parts[2].sigmoid()


class Chains:
    """Calls a `cell`, such as a dense layer, so many times, beginning with an array of features."""

    cell: Any

    def forward(self, sample: CalibrationSample) -> Any:
        """Returns the last state."""
        state = self.first(sample.data)
        for _ in range(sample.shape):
            state = self.cell(state)
        return state

    def first(self, state: Any) -> Any:
        """Returns the first state."""
        return state


class Nets(NamedTuple):
    """An engine's nets, by their width."""

    trees: Callable[[int], Any]
    chains: Callable[[int], Any]  # of dense layers and tanh
    linear: Callable[[int], Any]  # the same without tanh
    operators: Callable[[int], Any]  # much the same by operators, without cells


class Bench(NamedTuple):
    """The engine's own part of a calibration."""

    nets: Nets
    array: Callable[[Any], Any]  # of these numbers
    start: Callable[[Any], None]  # draw a net's weights, and batch it dynamically
    train: Callable[[Any, Sequence[Any]], None]  # a net over samples, forward and backward
    infer: Callable[[Any, Sequence[Any]], list[Any]]  # what the net gives for them


class _Workload(NamedTuple):
    """A net of these, and how the numbers and the shape of one sample of it are drawn."""

    net: str
    draw: Callable[[np.random.RandomState, int], tuple[Any, Any]]
    width: int


def _tree(random: np.random.RandomState, width: int) -> tuple[Any, Any]:
    length = random.randint(2, 12)
    trees: list[Any] = list(range(length))
    while len(trees) > 1:
        position = random.randint(len(trees) - 1)
        trees[position : position + 2] = [(trees[position], trees[position + 1])]
    return random.randint(0, WORDS, length), trees[0]


def _chain(random: np.random.RandomState, width: int) -> tuple[Any, Any]:
    return _features(random, random.randint(1, 4), width), random.randint(1, 8)


def _block(random: np.random.RandomState, width: int) -> tuple[Any, Any]:
    """Draws so much arithmetic that the time of its launches does not count."""
    return _features(random, random.randint(8, 40), width), random.randint(1, 5)


def _features(random: np.random.RandomState, rows: int, width: int) -> Any:
    return random.uniform(-1, 1, (rows, width)).astype(np.float32)


_PROGRAMS = (
    _Workload("trees", _tree, 16),
    _Workload("chains", _chain, 256),
    _Workload("operators", _chain, 32),
    _Workload("trees", _tree, 150),
    _Workload("linear", _block, 700),
    _Workload("chains", _chain, 32),
    _Workload("operators", _chain, 128),
    _Workload("trees", _tree, 300),
)


class _Run(NamedTuple):
    """One way to run one minibatch."""

    net: Any
    samples: Sequence[Any]
    training: bool
    options: dict[str, Any]


def measure(engine: Engine, bench: Bench, seconds: float, progress: Progress) -> Measured:
    """Runs programs for about so long, each of them at least once; `progress` is told the share that is over."""
    begin = perf_counter()
    measured = Measured()
    random = np.random.RandomState(0)
    runs = _runs(bench, random)
    with warnings.catch_warnings(), _taken_down_by(measured, engine):
        warnings.simplefilter("ignore")
        for run in runs:  # what they run has to be compiled
            _perform(engine, bench, run, False)
        done = 0
        while done < len(runs) or perf_counter() - begin < seconds:
            if done % len(runs) == 0:
                order = random.permutation(len(runs))
            _perform(engine, bench, runs[order[done % len(runs)]], True)
            measured.settle()
            done += 1
            progress(min((perf_counter() - begin) / seconds, done / len(runs), 1.0))
    return measured


@contextmanager
def _taken_down_by(measured: Measured, engine: Engine) -> Iterator[None]:
    known = cost_model(engine.name, engine.versions)
    use_model(engine.name, measured)
    try:
        yield
    finally:
        use_model(engine.name, known)


def _runs(bench: Bench, random: np.random.RandomState) -> list[_Run]:
    runs: list[_Run] = []
    schedulers = list(TABLE)
    for number, program in enumerate(_PROGRAMS):
        net = getattr(bench.nets, program.net)(program.width)
        bench.start(net)
        for size in _SIZES:
            pairs = [program.draw(random, program.width) for _ in range(max(size // 2, 1))]
            drawn = [CalibrationSample(bench.array(numbers), shape) for numbers, shape in pairs]
            samples = (drawn * 2)[:size]  # so that there is something to share
            for training in (False, True):
                scheduler = schedulers[(len(runs) + number) % len(schedulers)]
                options = {"granularity": "cell", "scheduler": scheduler, "sharing": bool(len(runs) // 2 % 2)}
                if number % 2:  # so that steps that cannot run in C are measured, too
                    options["without"] = ("fused",)
                runs.append(_Run(net, samples, training, options))
    return runs


def _perform(engine: Engine, bench: Bench, run: _Run, profile: bool) -> None:
    outputs = []  # alive until all has run: what nobody can read would not
    with batching(profile=profile, **run.options):
        if run.training:
            bench.train(run.net, run.samples)
        else:
            outputs += bench.infer(run.net, run.samples)
    engine.wait()
