"""A toy engine on numpy, which docs/extending.md is enough to make: models run batched as they do one by one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from toy_engine import ENGINE, Lazy, Model, array, install, look_up

import gluonjit
from gluonjit.analysis.schedulers import SCHEDULERS
from gluonjit.errors import CaptureError, EngineError, OptionError
from gluonjit.hybrid.run.engine import ENGINES

WORDS, WIDTH = 20, 6
Tree = Any
"""A word, or a list of trees."""


def weights(draw: np.random.RandomState, *shape: int) -> Any:
    return draw.uniform(-0.5, 0.5, shape).astype("float32")


def sigmoid(x: Any) -> Any:
    return 1.0 / (1.0 + np.exp(-x))


class TreeLSTM(Model):
    """The child-sum Tree-LSTM: a node has any number of children, and a gate for each."""

    def __init__(self, draw: np.random.RandomState) -> None:
        self.embedding = weights(draw, WORDS, WIDTH)
        self.inputs, self.hidden = weights(draw, WIDTH, 3 * WIDTH), weights(draw, WIDTH, 3 * WIDTH)
        self.forget_input, self.forget_hidden = weights(draw, WIDTH, WIDTH), weights(draw, WIDTH, WIDTH)
        self.bias = weights(draw, 3 * WIDTH)

    def forward(self, tree: Tree) -> Any:
        words = iter(look_up(self.embedding, words_of(tree)))
        return self.encode(tree, words)[0]

    def encode(self, tree: Tree, words: Any) -> Any:
        x = next(words)
        children = [self.encode(child, words) for child in tree[1:]]
        return self.cell(x, [h for h, _ in children], [c for _, c in children])

    @gluonjit.cell
    def cell(self, x: Any, hidden: list[Any], cells: list[Any]) -> Any:
        gates = x @ self.inputs + self.bias
        if hidden:
            gates = gates + np.sum(np.stack(hidden), axis=0) @ self.hidden
        i, o, u = [gates[k * WIDTH : (k + 1) * WIDTH] for k in range(3)]
        c = sigmoid(i) * np.tanh(u)
        for h, below in zip(hidden, cells):
            c = c + sigmoid(x @ self.forget_input + h @ self.forget_hidden) * below
        return sigmoid(o) * np.tanh(c), c


def words_of(tree: Tree) -> list[int]:
    return [tree[0]] + [word for child in tree[1:] for word in words_of(child)]


class LSTM(Model):
    def __init__(self, draw: np.random.RandomState) -> None:
        self.inputs, self.hidden = weights(draw, WIDTH, 4 * WIDTH), weights(draw, WIDTH, 4 * WIDTH)
        self.bias = weights(draw, 4 * WIDTH)

    def forward(self, x: Any, h: Any, c: Any) -> Any:
        return self.step(x, h, c)

    @gluonjit.cell
    def step(self, x: Any, h: Any, c: Any) -> Any:
        gates = x @ self.inputs + h @ self.hidden + self.bias
        i, f, o, u = [gates[k * WIDTH : (k + 1) * WIDTH] for k in range(4)]
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(u)
        return sigmoid(o) * np.tanh(c), c


class BiLSTM(Model):
    """Two chains over a sentence; each word's tag of both their states, by numpy's functions outside of any cell."""

    def __init__(self, draw: np.random.RandomState) -> None:
        self.embedding, self.tags = weights(draw, WORDS, WIDTH), weights(draw, 2 * WIDTH, 5)
        self.ahead, self.back = LSTM(draw), LSTM(draw)
        self.start = np.zeros(WIDTH, "float32")

    def forward(self, sentence: list[int]) -> Any:
        words = look_up(self.embedding, sentence)
        ahead = self.chain(self.ahead, [words[k] for k in range(len(sentence))])
        back = self.chain(self.back, [words[k] for k in reversed(range(len(sentence)))])[::-1]
        return [np.tanh(np.concatenate([h, g]) @ self.tags) for h, g in zip(ahead, back)]

    def chain(self, cell: LSTM, words: list[Any]) -> list[Any]:
        h = c = array(self.start)
        found = []
        for x in words:
            h, c = cell(x, h, c)
            found.append(h)
        return found


def trees(count: int) -> list[Tree]:
    draw = np.random.RandomState(1)

    def tree(depth: int) -> Tree:
        children = draw.randint(0, 4) if depth else 0
        return [int(draw.randint(WORDS)), *[tree(depth - 1) for _ in range(children)]]

    return [tree(4) for _ in range(count)]


def sentences(count: int) -> list[list[int]]:
    draw = np.random.RandomState(2)
    return [draw.randint(0, WORDS, draw.randint(1, 12)).tolist() for _ in range(count)]


def flat(item: Any) -> list[Any]:
    return [part for each in item for part in flat(each)] if isinstance(item, list) else [item]


@pytest.fixture(autouse=True)
def installed() -> Iterator[None]:
    install()
    yield
    ENGINE.clear_caches()
    ENGINES.remove(ENGINE)


def same(found: Any, expected: Any) -> None:
    assert len(flat(found)) == len(flat(expected))
    for one, other in zip(flat(found), flat(expected)):
        np.testing.assert_allclose(np.asarray(one), other, rtol=0, atol=1e-5 * np.abs(other).max())


@pytest.mark.parametrize("scheduler", ["auto", *SCHEDULERS])
@pytest.mark.parametrize(("model", "samples"), [(TreeLSTM, trees), (BiLSTM, sentences)])
def test_models_run_batched(model: Any, samples: Callable[[int], Any], scheduler: str) -> None:
    net, given = model(np.random.RandomState(0)), samples(24)
    expected = [net(sample) for sample in given]
    gluonjit.hybridize(net, scheduler=scheduler, granularity="cell")
    found = [net(sample) for sample in given]
    assert all(isinstance(each, Lazy) and each._v.graph is not None for each in flat(found)), "it has run already"
    same(found, expected)
    report = gluonjit.explain()
    assert report.flushes == 1 and not report.unbatched and not report.alone
    assert report.calls > 250
    assert report.lower_bound <= report.launches <= report.calls / 12
    assert report.shared > 20 and report.nodes + report.shared + report.dropped == report.calls
    assert all("test_toy_engine.py" in row.line for row in report.steps), "a line of the engine's own"
    gluonjit.hybridize(net, dynamic_batch=False)
    assert not any(isinstance(each, Lazy) for each in flat(net(given[0])))


def test_a_later_batch_takes_what_an_earlier_one_computed() -> None:
    weight = weights(np.random.RandomState(0), WIDTH, WIDTH)
    rows = weights(np.random.RandomState(1), 3, WIDTH)
    with gluonjit.batching() as batch:
        x = array(rows)
        first = np.tanh(x @ weight)  # of three rows
        np.testing.assert_allclose(np.asarray(first), np.tanh(rows @ weight), rtol=1e-5)
        second = [first[k] * 2.0 + x[k] for k in range(3)]
    for k, each in enumerate(second):
        np.testing.assert_allclose(np.asarray(each), np.tanh(rows @ weight)[k] * 2.0 + rows[k], rtol=1e-5)
    assert batch.report.flushes == 2 and batch.report.launches == 4
    np.testing.assert_allclose(np.asarray(x[1:]), rows[1:])


class Switched(Model):
    """Does what an attribute says, and may be told to do what no node can."""

    def __init__(self) -> None:
        self.scale, self.seen = 2.0, []

    def forward(self, numbers: Any) -> Any:
        return self.scaled(array(numbers))

    @gluonjit.cell
    def scaled(self, x: Any) -> Any:
        if self.scale < 0:
            self.seen.append(float(np.asarray(x)[0]))
        return np.cumsum(x + x) if self.scale == 0 else x * self.scale


def test_what_a_cell_reads_is_guarded_and_what_is_no_node_runs_as_it_is() -> None:
    net = Switched()
    gluonjit.hybridize(net, granularity="cell")
    given = [np.array([k, 1.0], "float32") for k in range(1, 4)]
    for scale in (2.0, 3.0, 2.0):
        net.scale = scale
        same([net(each) for each in given], [scale * each for each in given])
    net.scale = 0
    same([net(each) for each in given], [np.cumsum(2 * each) for each in given])
    assert "no rule for cumsum" in gluonjit.explain().unbatched["Switched.scaled"]
    net.scale = -1.0
    same([net(each) for each in given], [-each for each in given])
    assert net.seen == [1.0, 2.0, 3.0]


def test_what_the_engine_has_not_is_refused() -> None:
    net = TreeLSTM(np.random.RandomState(0))
    with pytest.raises(OptionError, match="reuse"):
        gluonjit.hybridize(net, reuse=len)
    with pytest.raises(EngineError, match="the engine of toy does not support verify"):
        gluonjit.verify(net, [[1]])
    with gluonjit.batching():
        with pytest.raises(CaptureError, match="add: captured arrays are not written to"):
            x = array([1.0])
            x += 1.0
        with pytest.raises(IndexError, match="of 20 rows"):
            look_up(net.embedding, [20])


def test_sums_are_made_in_pairs() -> None:
    numbers = np.arange(21, dtype="float32")
    with gluonjit.batching() as batch:
        total = gluonjit.add_n([array(each) for each in numbers])
    assert float(np.asarray(total)) == numbers.sum()
    assert batch.report.launches == 5 and batch.report.calls == 20
