"""In both engines rows picked and put by whole numbers that are inputs are references: one launch for any sizes."""

from __future__ import annotations

import importlib
import random
from typing import Any, Callable

import numpy as np
import pytest
from frameworks_support import INSTALLED

import gluonjit

SIZE, TAGS, WORDS = 6, 5, 20
FIXED = {"granularity": "cell", "scheduler": "depth"}
WEIGHTS = {"embed": (WORDS, SIZE), "message": (SIZE, 2 * SIZE), "update": (SIZE, 2 * SIZE), "out": (TAGS, SIZE)}
Body = Callable[..., Any]


class _Torch:
    """A net of PyTorch's, and the few functions that its programs need."""

    def __init__(self) -> None:
        self.torch = importlib.import_module("torch")

    def tensor(self, numbers: Any) -> Any:
        return self.torch.tensor(numbers)

    def cat(self, *parts: Any) -> Any:
        return self.torch.cat(parts, dim=1)

    def put(self, h: Any, index: Any, rows: Any) -> Any:
        return h.index_copy(0, index, rows)

    def select(self, h: Any, index: Any) -> Any:
        return h.index_select(0, index)

    def numbers(self, tensor: Any) -> Any:
        return tensor.detach().numpy().copy()

    def net(self, weights: Any, body: Body) -> Any:
        nn, torch = self.torch.nn, self.torch

        class Net(nn.Module):  # type: ignore[name-defined,misc]
            def __init__(self) -> None:
                super().__init__()
                self.embed = nn.Embedding(WORDS, SIZE)
                for name in ("message", "update", "out"):
                    setattr(self, name, nn.Linear(*reversed(WEIGHTS[name]), bias=False))

            def forward(self, *inputs: Any) -> Any:
                return body(self, *inputs)

        net = Net()
        with torch.no_grad():
            for name, numbers in weights.items():
                getattr(net, name).weight.copy_(torch.tensor(numbers))
        return net

    def hybridize(self, net: Any) -> None:
        gluonjit.hybridize(net, dynamic_batch=True, expand=("Net",), **FIXED)

    def trained(self, net: Any, samples: list[Any]) -> list[Any]:
        """Losses of samples, and gradients of all weights."""
        net.zero_grad()
        losses = [(net(*sample) ** 2).sum() for sample in samples]
        sum(losses).backward()
        gradients = [getattr(net, name).weight.grad for name in WEIGHTS]
        return [[loss.item() for loss in losses], *[None if g is None else self.numbers(g) for g in gradients]]


class _MXNet:
    """The same of MXNet's."""

    def __init__(self) -> None:
        self.mx = importlib.import_module("mxnet")

    def tensor(self, numbers: Any) -> Any:
        return self.mx.nd.array(numbers, dtype="int32")

    def cat(self, *parts: Any) -> Any:
        return self.mx.nd.concat(*parts, dim=1)

    def put(self, h: Any, index: Any, rows: Any) -> Any:
        return self.mx.nd.contrib.index_copy(h, index, rows)

    def select(self, h: Any, index: Any) -> Any:
        return self.mx.nd.take(h, index)

    def numbers(self, array: Any) -> Any:
        return array.asnumpy()

    def net(self, weights: Any, body: Body) -> Any:
        gluon, nd = self.mx.gluon, self.mx.nd

        class Net(gluon.Block):  # type: ignore[name-defined,misc]
            def __init__(self) -> None:
                super().__init__()
                self.embed = gluon.nn.Embedding(WORDS, SIZE)
                for name in ("message", "update", "out"):
                    units, given = WEIGHTS[name]
                    layer = gluon.nn.Dense(units, in_units=given, flatten=False, use_bias=False)
                    setattr(self, name, layer)

            def forward(self, *inputs: Any) -> Any:
                return body(self, *inputs)

        net = Net()
        net.initialize()
        for name, numbers in weights.items():
            getattr(net, name).weight.set_data(nd.array(numbers))
        return net

    def hybridize(self, net: Any) -> None:
        net.hybridize(dynamic_batch=True, **FIXED)

    def trained(self, net: Any, samples: list[Any]) -> list[Any]:
        """Losses of samples, and gradients of all weights."""
        net.collect_params().zero_grad()
        with self.mx.autograd.record():
            losses = [(net(*sample) ** 2).sum() for sample in samples]
        self.mx.autograd.backward(losses)
        gradients = [self.numbers(getattr(net, name).weight.grad()) for name in WEIGHTS]
        return [[loss.asscalar() for loss in losses], *[g if g.any() else None for g in gradients]]


@pytest.fixture(params=INSTALLED)
def engine(request: Any) -> Any:
    """Each framework that is installed."""
    return {"mxnet": _MXNet, "torch": _Torch}[request.param]()


def pair(engine: Any, body: Body) -> list[Any]:
    """A net, and one with the same weights that is batched."""
    choose = np.random.RandomState(0)
    weights = {name: choose.randn(*shape).astype("float32") / 2 for name, shape in WEIGHTS.items()}
    nets = [engine.net(weights, body) for _ in range(2)]
    engine.hybridize(nets[1])
    return nets


def assert_one_flush(engine: Any, body: Body, samples: list[Any]) -> Any:
    """Losses and gradients are eager's, two minibatches in a row, each run at once; the last one's report."""
    net, own = pair(engine, body)
    given = [tuple(engine.tensor(part) for part in sample) for sample in samples]
    for _ in range(2):
        wanted, actual = (engine.trained(model, given) for model in (net, own))
        report = gluonjit.explain()
        assert actual[0] == pytest.approx(wanted[0], rel=1e-4, abs=1e-4)
        for one, other in zip(actual[1:], wanted[1:]):
            assert (one is None) == (other is None)
            if one is not None:
                np.testing.assert_allclose(one, other, rtol=0, atol=1e-4 * np.abs(other).max())
        assert report.flushes == 1, report.reasons
    return report


def sentences(count: int = 8) -> list[Any]:
    """Words, and for each the number of a tag, and of another word, of which some come twice."""
    choose, found = random.Random(1), []
    for _ in range(count):
        n = choose.randint(2, 7)
        words = [choose.randrange(WORDS) for _ in range(n)]
        found.append((words, [choose.randrange(TAGS) for _ in words], [choose.randrange(n) for _ in words]))
    return found


INDEXING: dict[str, Callable[..., Any]] = {
    "rows": lambda h, lp, tags, other: h[other] * 2,
    "rows of a part": lambda h, lp, tags, other: h[other[1:]] * 2,
    "rows by a list": lambda h, lp, tags, other: h[[0, 1, 0]] * 2,
    "rows of rows": lambda h, lp, tags, other: h[other][other] * 2,
    "rows of all columns": lambda h, lp, tags, other: h[other, :] * 2,
    "one row twice": lambda h, lp, tags, other: h[[1, 1]] * 2,
    "entries of rows": lambda h, lp, tags, other: lp[other, tags] * 2,
}
NEGATIVE: dict[str, Callable[..., Any]] = {
    "rows": lambda h, lp, tags, other: h[other] * 2,
    "rows by a list": lambda h, lp, tags, other: h[[0, -1, 0]] * 2,
    "entries of rows": lambda h, lp, tags, other: lp[other, tags] * 2,
}


@pytest.mark.parametrize("name", INDEXING)
def test_indexing_runs_nothing(engine: Any, name: str) -> None:
    def body(net: Any, words: Any, tags: Any, other: Any) -> Any:
        h = net.embed(words)
        return INDEXING[name](h, net.out(h), tags, other)

    report = assert_one_flush(engine, body, sentences())
    assert not report.alone
    assert max(row.launches for name, row in report.kinds.items() if name != "sum") <= 2, report.kinds


@pytest.mark.parametrize("name", NEGATIVE)
def test_negative_numbers_count_from_the_end(engine: Any, name: str) -> None:
    """Of values: where a number is negative MXNet 1.9.1 writes gradients beside the array."""

    def body(net: Any, words: Any, tags: Any, other: Any) -> Any:
        h = net.embed(words)
        return NEGATIVE[name](h, net.out(h), tags, other)

    net, own = pair(engine, body)
    samples = [(words, [-1 - k for k in tags], [k - len(words) for k in other]) for words, tags, other in sentences()]
    given = [tuple(engine.tensor(part) for part in sample) for sample in samples]
    wanted = [engine.numbers(net(*sample)) for sample in given]
    for actual, expected in zip([own(*sample) for sample in given], wanted):
        np.testing.assert_allclose(engine.numbers(actual), expected, rtol=0, atol=1e-5 * np.abs(expected).max())
    assert not gluonjit.explain().alone


def graphs(count: int = 12) -> list[Any]:
    """Atoms, where edges begin, and where they end, of which no two are equal."""
    choose, found = random.Random(2), []
    for _ in range(count):
        n = choose.randint(2, 9)
        ends = choose.sample(range(n), choose.randint(1, n))
        found.append(([choose.randrange(WORDS) for _ in range(n)], [choose.randrange(n) for _ in ends], ends))
    return found


TIMES = {"cat": 2, "Concat": 2, "tanh": 2, "sum": 2}
"""Calls of an operator in a layer, where there are more than one."""


@pytest.mark.parametrize("by", ["index", "select"])
def test_messages_along_edges_are_a_launch_a_step(engine: Any, by: str) -> None:
    def body(net: Any, atoms: Any, src: Any, dst: Any) -> Any:
        h = net.embed(atoms)
        for _ in range(2):
            begin, end = (h[src], h[dst]) if by == "index" else (engine.select(h, src), engine.select(h, dst))
            message = net.message(engine.cat(begin, end)).tanh()
            h = net.update(engine.cat(h, engine.put(h * 0.5, dst, message))).tanh()
        return net.out(h.mean(0).reshape((1, -1)))

    report = assert_one_flush(engine, body, graphs())
    assert not report.alone
    assert not any(row.launches > 2 * TIMES.get(name, 1) for name, row in report.kinds.items()), report.kinds


def test_means_of_any_number_of_rows_run_at_once(engine: Any) -> None:
    def body(net: Any, words: Any, tags: Any, other: Any) -> Any:
        return net.out(net.embed(words)).mean(0)

    report = assert_one_flush(engine, body, sentences())
    assert all(row.launches <= 1 for name, row in report.kinds.items() if name != "sum"), report.kinds
