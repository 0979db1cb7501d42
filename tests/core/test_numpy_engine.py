"""The engine on numpy, which docs/extending.md is enough to make: models run batched as they do one by one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gluonjit
from gluonjit.analysis.schedulers import SCHEDULERS
from gluonjit.compiled import ROWS
from gluonjit.engines.numpy.array import LazyNumbers, Model, WeightArray, array, look_up
from gluonjit.engines.numpy.engine import gradients
from gluonjit.errors import CaptureError, EngineError, NotFiniteError, OptionError

pytestmark = pytest.mark.usefixtures("numpy_engine")
WORDS, WIDTH = 20, 6
Tree = Any
"""A word, or a list of trees."""


def weights(draw: np.random.RandomState, *shape: int) -> Any:
    return WeightArray(draw.uniform(-0.5, 0.5, shape).astype("float32"))


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
    assert all(isinstance(each, LazyNumbers) and each._v.graph is not None for each in flat(found)), (
        "it has run already"
    )
    same(found, expected)
    report = gluonjit.explain()
    assert report.flushes == 1 and not report.unbatched and not report.alone
    assert report.calls > 250
    assert report.lower_bound <= report.launches <= report.calls / 12
    assert report.shared > 20 and report.nodes + report.shared + report.dropped == report.calls
    assert all("test_numpy_engine.py" in row.line for row in report.steps), "a line of the engine's own"
    gluonjit.hybridize(net, dynamic_batch=False)
    assert not any(isinstance(each, LazyNumbers) for each in flat(net(given[0])))


@pytest.mark.skipif(ROWS is None, reason="the part in C is not built")
@pytest.mark.parametrize("profile", [False, True])
def test_steps_run_in_c_and_give_what_numpy_gives(profile: bool) -> None:
    net = BiLSTM(np.random.RandomState(0))
    found = []
    for without in ((), ("fused",)):
        with gluonjit.batching(granularity="cell", without=without, profile=profile) as batch:
            total = gluonjit.add_n([np.sum(np.square(np.stack(net.forward(each)))) for each in sentences(6)])
            found.append([np.asarray(total), *gradients(total, [net.ahead.hidden, net.embedding, net.tags])])
        assert bool(batch.report.fused) == (not without)
    same(*found)


INSTRUCTIONS: dict[str, Callable[[Any, Any], Any]] = {
    "numbers": lambda x, y: (2.0 - x) * 3.0 / (1.0 / y) + (x / 2.0 - 1.0) * (x - 0.5),
    "two operands": lambda x, y: np.maximum(x, y) - x / y,
    "one operand": lambda x, y: np.log(np.exp(-x)) + np.sqrt(np.square(y)) * np.abs(np.tanh(x)),
    "parts and sums": lambda x, y: np.concatenate([x[1:3], y[2:]]) * np.sum(x) + np.mean(y),
    "shapes": lambda x, y: np.maximum(x, 0.25) * np.reshape(np.reshape(y, (2, 2)), (4,)),
}


@pytest.mark.skipif(ROWS is None, reason="the part in C is not built")
@pytest.mark.parametrize("name", INSTRUCTIONS)
def test_each_instruction_gives_what_numpy_gives(name: str) -> None:
    draw = np.random.RandomState(0)
    samples = [(draw.rand(4).astype("float32") + 0.5, draw.rand(4).astype("float32") + 0.5) for _ in range(6)]
    run = gluonjit.cell(INSTRUCTIONS[name])
    with gluonjit.batching() as batch:
        found = [run(array(x), array(y)) for x, y in samples]
    same(found, [INSTRUCTIONS[name](x, y) for x, y in samples])
    assert batch.report.fused == batch.report.launches == 1 and not batch.report.unfused


def test_numbers_that_are_not_finite_name_their_call() -> None:
    run = gluonjit.cell(lambda x: np.log(x) * 2.0)
    with pytest.raises(NotFiniteError, match="test_numpy_engine"), gluonjit.batching(check_finite=True):
        np.asarray([run(array([1.0, number])) for number in (2.0, 0.0)][1])


def test_a_later_batch_takes_what_an_earlier_one_computed() -> None:
    weight = weights(np.random.RandomState(0), WIDTH, WIDTH)
    rows = weights(np.random.RandomState(1), 3, WIDTH).numbers
    with gluonjit.batching() as batch:
        x = array(rows)
        first = np.tanh(x @ weight)  # of three rows
        np.testing.assert_allclose(np.asarray(first), np.tanh(rows @ weight.numbers), rtol=1e-5)
        second = [first[k] * 2.0 + x[k] for k in range(3)]
    for k, each in enumerate(second):
        np.testing.assert_allclose(np.asarray(each), np.tanh(rows @ weight.numbers)[k] * 2.0 + rows[k], rtol=1e-5)
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
    assert "no row for cumsum" in gluonjit.explain().unbatched["Switched.scaled"]
    net.scale = -1.0
    same([net(each) for each in given], [-each for each in given])
    assert net.seen == [1.0, 2.0, 3.0]


def test_what_the_engine_has_not_is_refused() -> None:
    net = TreeLSTM(np.random.RandomState(0))
    with pytest.raises(OptionError, match="reuse"):
        gluonjit.hybridize(net, reuse=len)
    with pytest.raises(EngineError, match="the engine of numpy does not support verify"):
        gluonjit.verify(net, [[1]])
    with gluonjit.batching():
        with pytest.raises(CaptureError, match="add: captured arrays are not written to"):
            x = array([1.0])
            x += 1.0
        with pytest.raises(IndexError, match="has 20 rows"):
            look_up(net.embedding, [20])


def test_arguments_that_no_row_knows_run_eagerly_or_are_refused() -> None:
    places, out = np.array([2, 0]), np.zeros(3)
    with gluonjit.batching() as batch:
        x = array([1.0, 2.0, 4.0])
        found = [(x + x)[places], np.sum(x, axis=0, dtype="float32"), np.concatenate([x + x, x], axis=None)]
        np.add(x, 1.0, out=out)
    same(found, [np.array([8.0, 2.0]), np.array(7.0), np.array([2.0, 4.0, 8.0, 1.0, 2.0, 4.0])])
    assert out.tolist() == [2.0, 3.0, 5.0]
    assert set(batch.report.unbatched) == {"getitem", "sum", "concatenate", "add"}


def test_sums_are_made_in_pairs() -> None:
    numbers = np.arange(21, dtype="float32")
    with gluonjit.batching() as batch:
        total = gluonjit.add_n([array(each) for each in numbers])
    assert float(np.asarray(total)) == numbers.sum()
    assert batch.report.launches == 5 and batch.report.calls == 20


def slopes(
    loss: Callable[[], float], weight: WeightArray, count: int = 10, step: float = 1e-6
) -> list[tuple[int, float]]:
    """Places of some of a weight's numbers, and how much the loss changes with them."""
    step, flat = 1e-6, weight.numbers.reshape(-1)
    found = []
    for place in np.random.RandomState(0).permutation(flat.size)[:count]:
        before = flat[place]
        ends = []
        for flat[place] in (before + step, before - step):
            ends.append(loss())
        flat[place] = before
        found.append((int(place), (ends[0] - ends[1]) / (2 * step)))
    return found


def check_gradients(run: Callable[[Any], Any], used: list[WeightArray], samples: list[Any]) -> None:
    """Gradients of a batch are those of the program run sample by sample, by small differences."""
    for weight in used:
        weight.numbers = weight.numbers.astype("float64")
    with gluonjit.batching() as batch:
        total = gluonjit.add_n([run(sample) for sample in samples])
        found = gradients(total, used)
    assert batch.report.launches < batch.report.calls or len(samples) == 1

    def loss() -> float:
        return float(sum([np.sum(run(sample)) for sample in samples]))

    for weight, gradient in zip(used, found):
        assert gradient.shape == weight.shape
        for place, slope in slopes(loss, weight):
            assert abs(gradient.reshape(-1)[place] - slope) < 1e-6 * max(1.0, abs(gradient).max())


@pytest.mark.parametrize(("model", "samples"), [(TreeLSTM, trees), (BiLSTM, sentences)])
@pytest.mark.parametrize("cells", [True, False], ids=["cells", "operators"])
def test_gradients_of_models(model: Any, samples: Callable[[int], Any], cells: bool) -> None:
    net = model(np.random.RandomState(0))
    used = [weight for part in (net, *vars(net).values()) for weight in getattr(part, "__dict__", {}).values()]
    used = [weight for weight in used if isinstance(weight, WeightArray)]
    if cells:
        gluonjit.hybridize(net, granularity="cell")
    check_gradients(lambda sample: np.sum(np.square(np.stack(flat([net.forward(sample)])))), used, samples(4))


W, V = WeightArray(np.random.RandomState(1).rand(3, 4) + 0.5), WeightArray(np.random.RandomState(2).rand(4) + 0.5)

OPERATORS_OF: dict[str, Callable[[Any, Any], Any]] = {
    "row times matrix": lambda x, rows: (x @ W)[1:3],
    "matrix times column": lambda x, rows: W @ V * x[0],
    "rows times matrix": lambda x, rows: rows @ W @ V,
    "rows times rows": lambda x, rows: rows @ np.transpose(rows @ W @ np.transpose(W)),
    "scalar product": lambda x, rows: (x @ W) @ V,
    "elementwise": lambda x, rows: np.exp(-x) / np.sqrt(x) - np.log(np.abs(x @ W @ V)) * np.maximum(x, 0.5),
    "broadcast": lambda x, rows: np.square(rows @ W + V) - (x @ W)[None, :],
    "sums": lambda x, rows: np.sum(rows @ W, axis=0) * np.mean(rows @ W, axis=(0, 1)) + np.sum(V * (x @ W)),
    "kept": lambda x, rows: (rows @ W) / np.sum(rows @ W, axis=1, keepdims=True),
    "joined": lambda x, rows: np.tanh(np.concatenate([x @ W, V, np.stack([x, x + x], 1)[:, 0]])),
    "views": lambda x, rows: np.reshape(rows @ W, (4, 2))[1] * np.transpose(rows @ W)[1:3, 0] * V[0],
}


@pytest.mark.parametrize("cell", [True, False], ids=["one node", "operators"])
@pytest.mark.parametrize("name", OPERATORS_OF)
def test_gradients_of_operators(name: str, cell: bool) -> None:
    draw = np.random.RandomState(0)
    samples = [(draw.rand(3) + 0.5, draw.rand(2, 3) + 0.5) for _ in range(5)]
    run = gluonjit.cell(OPERATORS_OF[name]) if cell else OPERATORS_OF[name]
    check_gradients(lambda sample: np.sum(np.square(run(array(sample[0]), array(sample[1])))), [W, V], samples)


def test_what_has_no_gradient_is_refused() -> None:
    with gluonjit.batching():
        x = array([1.0, 2.0, 3.0])
        first = np.sum(x @ W)
        np.asarray(first)
        with pytest.raises(CaptureError, match="was computed before"):
            gradients(first * np.sum(x @ W), [W])
        with pytest.raises(CaptureError, match="was computed before"):
            gradients(np.sum(np.cumsum(x @ W)), [W])
        assert gradients(x[1] * np.sum(x @ W), [W])[0].shape == (3, 4)
        with pytest.raises(CaptureError, match="cumsum is no operator that weights are learned through"):
            np.cumsum(W)
