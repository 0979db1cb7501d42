"""Sparse gradients of embeddings, and sparse arrays as operands."""

from __future__ import annotations

from typing import Any

import mxnet as mx
import numpy as np
import pytest
from mxnet import autograd, gluon
from support import assert_close

import gluonjit

nd = mx.nd


class Sentence(gluon.Block):
    """A recurrence over the words of a sentence."""

    def __init__(self, sparse: bool) -> None:
        super().__init__()
        self.embed = gluon.nn.Embedding(10, 4, sparse_grad=sparse)
        self.out = gluon.nn.Dense(1, in_units=4)

    def forward(self, tokens: Any) -> Any:
        words = self.embed(tokens)
        state = words[0:1]
        for number in range(1, len(tokens)):
            state = nd.tanh(state + words[number : number + 1])
        return self.out(state).sum()


class Cell(gluon.HybridBlock):
    """A look-up inside a cell."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = gluon.nn.Embedding(10, 4, sparse_grad=True)
        self.dense = gluon.nn.Dense(4, in_units=4)

    def hybrid_forward(self, F: Any, tokens: Any, state: Any) -> Any:
        return F.tanh(self.dense(self.embed(tokens).sum(axis=1) + state))


class InCells(gluon.Block):
    def __init__(self) -> None:
        super().__init__()
        self.cell = Cell()

    def forward(self, tokens: Any) -> Any:
        state = nd.zeros((1, 4))
        for _ in range(3):
            state = self.cell(tokens.reshape((1, -1)), state)
        return state.sum()


class Computed(gluon.Block):
    """Looks up what it has computed: no gradient goes through the index."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = gluon.nn.Embedding(10, 4)
        self.dense = gluon.nn.Dense(10, in_units=4)

    def forward(self, tokens: Any) -> Any:
        scores = self.dense(self.embed(tokens)[0:1])
        return self.embed(scores.argmax(axis=1)).sum() + scores.sum()


class SparseOperand(gluon.Block):
    """A sparse feature matrix times a weight, and a sparse matrix times something learned."""

    def __init__(self) -> None:
        super().__init__()
        with self.name_scope():
            self.weight = self.params.get("weight", shape=(6, 4))
        self.dense = gluon.nn.Dense(1, in_units=4)

    def forward(self, features: Any) -> Any:
        hidden = nd.tanh(nd.sparse.dot(features, self.weight.data()))
        again = nd.sparse.dot(features, self.weight.data() * 2)
        return (self.dense(hidden) + self.dense(again)).sum()


class AfterCapture(gluon.Block):
    """A sparse matrix meets rows of a batch, twice, and what an operator has made of them by itself."""

    def __init__(self) -> None:
        super().__init__()
        self.dense = gluon.nn.Dense(4, in_units=3)

    def forward(self, features: Any) -> Any:
        rows = self.dense(nd.ones((6, 3))) * 2
        first = nd.sparse.dot(features, rows)
        return (first * nd.sparse.dot(features, rows.asnumpy().max() - rows)).sum()


def train(net: gluon.Block, minibatches: list[list[Any]], dynamic: bool, optimizer: str, **options: Any) -> list[Any]:
    """Losses, gradients with their storage types and rows, and the parameters in the end."""
    mx.random.seed(0)
    net.initialize(mx.init.Normal(0.5))
    net.hybridize(dynamic_batch=dynamic)
    trainer = gluon.Trainer(net.collect_params(), optimizer, {"learning_rate": 0.1, **options})
    found: list[Any] = []
    for minibatch in minibatches:
        with autograd.record():
            total = gluonjit.add_n([net(sample) for sample in minibatch])
        total.backward()
        found.append(total.asnumpy())
        for parameter in net.collect_params().values():
            gradient = parameter.grad()
            found += [gradient.stype, gradient.asnumpy()]
            found += [] if gradient.stype == "default" else [sorted(gradient.indices.asnumpy().tolist())]
        trainer.step(len(minibatch))
    return found + [parameter.data().asnumpy() for parameter in net.collect_params().values()]


def agree(make: Any, minibatches: list[list[Any]], optimizer: str = "sgd", **options: Any) -> list[Any]:
    expected = train(make(), minibatches, False, optimizer, **options)
    actual = train(make(), minibatches, True, optimizer, **options)
    for value, wanted in zip(actual, expected):
        if isinstance(wanted, np.ndarray):
            assert_close(value, wanted, "sparse")
        else:
            assert value == wanted
    return expected


def sentences(dtype: str = "float32") -> list[list[Any]]:
    random = np.random.RandomState(1)
    return [[nd.array(random.randint(0, 10, length), dtype=dtype) for length in (2, 3, 4)] for _ in range(3)]


@pytest.mark.parametrize("sparse", [True, False])
@pytest.mark.parametrize("dtype", ["float32", "int32"])
@pytest.mark.parametrize(
    ("optimizer", "options"),
    [
        ("sgd", {}),
        ("sgd", {"momentum": 0.9, "lazy_update": True}),
        ("adam", {"lazy_update": True}),
        ("adam", {"lazy_update": False}),
        ("adagrad", {}),
    ],
)
def test_embeddings_are_trained(sparse: bool, dtype: str, optimizer: str, options: dict[str, Any]) -> None:
    found = agree(lambda: Sentence(sparse), sentences(dtype), optimizer, **options)
    assert ("row_sparse" in [part for part in found if isinstance(part, str)]) == sparse


def test_a_look_up_inside_a_cell() -> None:
    assert "row_sparse" in agree(InCells, [[token[:2] for token in minibatch] for minibatch in sentences()])


def test_a_gradient_kept_as_rows_is_given_as_such(capfd: pytest.CaptureFixture[str]) -> None:
    """MXNet says, once for each shape, where it had to make a dense one for a while."""

    def make() -> Any:
        net = InCells()
        net.cell.embed = gluon.nn.Embedding(13, 4, sparse_grad=True)
        return net

    agree(make, [[token[:2] for token in minibatch] for minibatch in sentences()])
    nd.waitall()
    assert "fallback" not in capfd.readouterr().err


def test_a_look_up_of_what_was_computed() -> None:
    agree(Computed, sentences())


def features() -> list[Any]:
    random = np.random.RandomState(0)
    return [
        nd.array(random.uniform(size=(2, 6)) * (random.uniform(size=(2, 6)) > 0.5)).tostype("csr") for _ in range(3)
    ]


def test_sparse_operands_run_sample_by_sample() -> None:
    agree(SparseOperand, [features()])
    assert "CSRNDArray" in gluonjit.explain().alone["dot"]


def test_a_sparse_operand_beside_a_captured_one() -> None:
    """MXNet's gradient of what is captured has rows alone that the sparse operand has, and goes on as a dense one."""
    agree(AfterCapture, [features(), features()])


def test_a_sparse_argument_of_a_cell() -> None:
    random = np.random.RandomState(0)

    class Outer(gluon.Block):
        def __init__(self) -> None:
            super().__init__()
            self.dense = gluon.nn.Dense(1, in_units=6)

        def forward(self, features: Any) -> Any:
            return self.dense(features).sum()

    agree(Outer, [[nd.array(random.uniform(size=(2, 6))).tostype("csr") for _ in range(3)]])
