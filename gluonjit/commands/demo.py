"""``python -m gluonjit demo``: a tree model on numpy, run sample by sample and batched."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from time import perf_counter
from typing import Any

import numpy as np

from gluonjit.engines.numpy.array import Model, WeightArray, array, look_up
from gluonjit.engines.numpy.engine import gradients, install
from gluonjit.hybrid.run.scope import batching
from gluonjit.public import add_n, cell

_WORDS, _SIZE = 300, 512
Tree = Any
"""A word, then trees."""


class TreeLSTM(Model):
    """The squared error of a child-sum Tree-LSTM (Tai, Socher and Manning 2015) on one tree."""

    def __init__(self, draw: np.random.RandomState) -> None:
        def weight(*shape: int) -> WeightArray:
            return WeightArray(draw.uniform(-0.1, 0.1, shape).astype("float32"))

        self.words, self.head = weight(_WORDS, _SIZE), weight(_SIZE)
        self.word, self.child = weight(_SIZE, 4 * _SIZE), weight(_SIZE, 3 * _SIZE)
        self.forget = weight(_SIZE, _SIZE)

    def forward(self, tree: Tree, target: Any) -> Any:
        """Returns the error of one sample."""
        words = iter(look_up(self.words, _words(tree)))
        return np.square(self.encode(tree, words)[0] @ self.head - array(target))

    def encode(self, tree: Tree, words: Iterator[Any]) -> tuple[Any, Any]:
        """Returns the state of a node."""
        word = next(words)
        state: tuple[Any, Any] = self.cell(word, [self.encode(child, words) for child in tree[1:]])
        return state

    @cell
    def cell(self, word: Any, children: list[tuple[Any, Any]]) -> tuple[Any, Any]:
        """Computes a node from those below: the calls of all nodes whose children are there run together."""
        gates = word @ self.word
        f, gates = gates[:_SIZE], gates[_SIZE:]
        if children:
            gates = gates + sum([h for h, _ in children]) @ self.child
        i, o, u = gates[:_SIZE], gates[_SIZE : 2 * _SIZE], gates[2 * _SIZE :]
        state = _sigmoid(i) * np.tanh(u)
        for h, c in children:
            state = state + _sigmoid(f + h @ self.forget) * c
        return _sigmoid(o) * np.tanh(state), state


def _sigmoid(x: Any) -> Any:
    return 0.5 + 0.5 * np.tanh(0.5 * x)


def main(count: int, figure: str) -> int:
    """Runs a minibatch of so many trees, and prints; returns the exit code."""
    install()
    draw = np.random.RandomState(0)
    net, samples = TreeLSTM(draw), [(_drawn(draw, 4), np.float32(draw.normal())) for _ in range(count)]
    plain = copy.copy(net)
    vars(plain).update({name: weight.numbers for name, weight in vars(net).items()})

    def batched(part: list[Any], learns: bool) -> tuple[float, int, int]:
        with batching() as batch:
            total = add_n([net.forward(*sample) for sample in part])
            if learns:
                gradients(total, list(vars(net).values()))
            return float(np.asarray(total)), batch.report.launches, batch.report.calls

    def one_by_one() -> tuple[float, int]:
        return float(sum([plain.forward(*sample) for sample in samples])), calls

    def learned_one_by_one() -> tuple[float, int]:
        loss, launches, _ = zip(*[batched([sample], True) for sample in samples])
        return sum(loss), sum(launches)

    calls = batched(samples, False)[2]
    runs: dict[str, Callable[[], Any]] = {
        "losses, one by one": one_by_one,
        "losses, batched": lambda: batched(samples, False),
        "losses and gradients, one by one": learned_one_by_one,
        "losses and gradients, batched": lambda: batched(samples, True),
    }
    rows = []
    print(f"{count} trees of different shapes, one program for one tree\n")
    print(f"{'':32}{'launches':>10}{'ms':>10}{'loss':>14}")
    for what, run in runs.items():
        run()  # which traces
        begin = perf_counter()
        loss, launches = run()[:2]
        rows.append((what, launches, 1e3 * (perf_counter() - begin)))
        print(f"{what:32}{launches:10,}{rows[-1][2]:10.1f}{loss:14.6f}")
    try:
        _draw(rows[::-1], figure)
        print(f"\n{figure} shows the same")
    except ImportError:
        print("\nmatplotlib is not installed: no figure")
    return 0


def _drawn(draw: np.random.RandomState, depth: int) -> Tree:
    return [draw.randint(_WORDS), *[_drawn(draw, depth - 1) for _ in range(draw.randint(4) if depth else 0)]]


def _words(tree: Tree) -> list[int]:
    return [tree[0], *[word for child in tree[1:] for word in _words(child)]]


def _draw(rows: list[tuple[str, int, float]], path: str) -> None:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 3), layout="constrained")
    names, *columns = zip(*rows)
    for axes, title, values in zip(figure.subplots(1, 2, sharey=True), ("launches", "milliseconds"), columns):
        axes.bar_label(axes.barh(names, values), fmt="{:,.0f}")
        axes.margins(x=0.15)
        axes.set_title(title)
    figure.savefig(path)
