"""Models that use MXNet's numpy interface: trees, recurrent cells, Gluon's layers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import nullcontext
from typing import Any

import mxnet as mx
import numpy as onp
import pytest
from mxnet import autograd, gluon, np, npx
from mxnet.gluon import nn
from numpy_support import Outcome, Plain, agree, numpy_program, uniform
from support import assert_close

import gluonjit


@pytest.fixture(autouse=True)
def numpy_semantics() -> Iterator[None]:
    with numpy_program():
        yield


class NodeCell(gluon.HybridBlock):
    """A node of a tree: its word, and any number of children."""

    def __init__(self) -> None:
        super().__init__()
        with self.name_scope():
            self.word = nn.Dense(6, flatten=False)
            self.child = nn.Dense(6, use_bias=False, in_units=6, flatten=False)
            self.norm = nn.LayerNorm(in_channels=6)
            self.scale = self.params.get("scale", shape=(1,))

    def hybrid_forward(self, F: Any, word: Any, *children: Any, scale: Any) -> Any:
        total = self.word(word)
        if children:
            total = total + self.child(sum(children)) * scale
        return F.np.tanh(self.norm(total))


class TreeNet(gluon.Block):
    """An encoder of trees."""

    def __init__(self) -> None:
        super().__init__()
        with self.name_scope():
            self.embed = nn.Embedding(20, 5)
            self.cell = NodeCell()
            self.head = nn.Dense(2)

    def forward(self, tokens: Any, tree: Any) -> Any:
        return self.head(self.encode(tree, self.embed(tokens)))

    def encode(self, node: Any, words: Any) -> Any:
        index, children = node
        return self.cell(words[index : index + 1], *[self.encode(child, words) for child in children])


TREES = [(1, [(0, []), (3, [(2, [])])]), (0, [(1, []), (2, [])]), (2, [])]


def trees(count: int, seed: int = 0) -> list[Any]:
    random = onp.random.RandomState(seed)
    return [
        (np.array(random.randint(0, 20, 4), dtype="int32"), TREES[k % 3], np.array([[k % 2]])) for k in range(count)
    ]


def test_a_tree_model_with_gluons_layers_and_losses() -> None:
    net, loss = TreeNet(), gluon.loss.SoftmaxCrossEntropyLoss()
    net.initialize(mx.init.Uniform(0.5))
    samples = trees(9)

    def run() -> Outcome:
        with autograd.record():
            losses = [loss(net(tokens, tree), label).mean() for tokens, tree, label in samples]
            total = sum(losses)
        assert losses[0].shape == total.shape == ()
        assert all(isinstance(value, np.ndarray) for value in losses)
        total.backward()
        found = {f"gradient of {name}": p.grad().asnumpy().copy() for name, p in net.collect_params().items()}
        return {**found, "losses": onp.array([float(value) for value in losses])}

    run()
    expected = run()
    net.hybridize(dynamic_batch=True)
    agree(run(), expected)
    report = gluonjit.explain()
    assert not report.alone
    assert not report.unbatched
    assert report.launches < 15


@pytest.mark.parametrize("way", ["add_n", "sum", "list", "one by one"])
def test_every_way_of_differentiating(way: str) -> None:
    net, loss = TreeNet(), gluon.loss.L2Loss()
    net.initialize(mx.init.Uniform(0.5))
    for parameter in net.collect_params().values():
        parameter.grad_req = "add"
    samples = trees(5)

    def run() -> Outcome:
        for parameter in net.collect_params().values():
            if parameter._grad is not None:
                parameter.grad()[:] = 0
        with autograd.record():
            losses = [loss(net(tokens, tree), np.ones((1, 2))).sum() for tokens, tree, _ in samples]
            total = gluonjit.add_n(losses) if way == "add_n" else sum(losses)
        assert isinstance(total, np.ndarray)
        assert total.shape == ()
        if way == "list":
            autograd.backward(losses)
        elif way == "one by one":
            for value in losses:
                value.backward(retain_graph=True)
        else:
            total.backward()
        return {f"gradient of {name}": p.grad().asnumpy().copy() for name, p in net.collect_params().items()}

    run()
    expected = run()
    net.hybridize(dynamic_batch=True)
    with pytest.warns(gluonjit.errors.BackwardWarning) if way == "one by one" else nullcontext():
        agree(run(), expected)


class Recurrent(gluon.Block):
    """A gated cell in plain functions of mx.np, declared as a cell, over sequences of any length."""

    def __init__(self) -> None:
        super().__init__()
        with self.name_scope():
            self.into = self.params.get("into", shape=(6, 3))
            self.over = self.params.get("over", shape=(6, 3))
            self.heat = self.params.get("heat", shape=())  # a parameter without axes

    @gluonjit.cell
    def step(self, x: Any, states: Any) -> Any:
        hidden, memory = states
        gates = x @ self.into.data().T + np.dot(hidden, self.over.data().T)
        gate, value = np.split(gates, 2, axis=-1)
        memory = npx.sigmoid(gate) * memory + np.tanh(value) * self.heat.data()
        return np.tanh(memory), [np.tanh(memory), memory]

    def forward(self, sequence: Any) -> Any:
        states = [np.zeros((1, 3)), np.zeros((1, 3))]
        outputs = []
        for k in range(len(sequence)):
            out, states = self.step(np.expand_dims(sequence[k], 0), states)
            outputs.append(out)
        return np.concatenate(outputs, axis=0).mean(axis=0)


def test_a_recurrent_cell_over_sequences_of_any_length() -> None:
    net = Recurrent()
    net.initialize(mx.init.Uniform(0.9))
    net.heat.data()[()] = 0.7
    samples = [uniform(length, 3, seed=length) for length in (3, 5, 1, 4)]

    def run() -> Outcome:
        with autograd.record():
            outputs = [net(sample) for sample in samples]
            total = sum([(out * out).sum() for out in outputs])
        total.backward()
        found = {f"gradient of {name}": p.grad().asnumpy().copy() for name, p in net.collect_params().items()}
        return {**found, **{f"output {k}": out.asnumpy() for k, out in enumerate(outputs)}}

    expected = run()
    net.hybridize(dynamic_batch=True)
    agree(run(), expected)
    report = gluonjit.explain()
    assert not report.alone
    assert not report.unbatched


def test_training_follows_the_same_path() -> None:
    def train(dynamic: bool) -> list[float]:
        mx.random.seed(5)
        net, loss = TreeNet(), gluon.loss.SoftmaxCrossEntropyLoss()
        net.initialize(mx.init.Uniform(0.5))
        samples = trees(8)
        with autograd.pause():
            net(*samples[0][:2])
        if dynamic:
            net.hybridize(dynamic_batch=True)
        trainer = gluon.Trainer(net.collect_params(), "adam", {"learning_rate": 0.05})
        totals = []
        for _ in range(4):
            with autograd.record():
                total = gluonjit.add_n([loss(net(tokens, tree), label).mean() for tokens, tree, label in samples])
            total.backward()
            trainer.step(len(samples))
            totals.append(total.item())
        return totals

    assert_close(train(True), train(False), "losses", 1e-4)
    assert train(True)[-1] < train(True)[0]


class Attention(gluon.HybridBlock):
    """Each row looks at all rows of its sample."""

    def __init__(self) -> None:
        super().__init__()
        with self.name_scope():
            self.ask = nn.Dense(4, flatten=False, in_units=4)
            self.key = nn.Dense(4, flatten=False, in_units=4, use_bias=False)

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        weights = F.npx.softmax(F.np.matmul(self.ask(x), F.np.transpose(self.key(x), (1, 0))), axis=-1)
        return F.np.matmul(weights, x)


def sequential(*layers: gluon.HybridBlock) -> gluon.HybridBlock:
    net = nn.HybridSequential()
    net.add(*layers)
    return net


LAYERS: dict[str, Callable[[], tuple[gluon.Block, Callable[[int], Any]]]] = {
    "dense": lambda: (
        sequential(nn.Dense(5, activation="tanh"), nn.LayerNorm(), nn.Dense(2)),
        lambda k: uniform(1, 4, seed=k),
    ),
    "activations": lambda: (
        sequential(nn.LeakyReLU(0.1), nn.ELU(), nn.SELU(), nn.GELU(), nn.Swish(), nn.PReLU()),
        lambda k: uniform(1, 4, seed=k),
    ),
    "convolution": lambda: (
        sequential(nn.Conv2D(3, 3, padding=1), nn.MaxPool2D(), nn.Flatten(), nn.Dense(2)),
        lambda k: uniform(1, 2, 6, 6, seed=k),
    ),
    "attention": lambda: (Attention(), lambda k: uniform(2 + k % 2, 4, seed=k)),
    "recurrent layer": lambda: (gluon.rnn.GRU(4), lambda k: uniform(3, 1, 2, seed=k)),
    "no dropout": lambda: (sequential(nn.Dense(4), nn.Dropout(0.0)), lambda k: uniform(1, 4, seed=k)),
}


@pytest.mark.parametrize("name", LAYERS)
def test_gluons_layers(name: str) -> None:
    layer, sample = LAYERS[name]()
    net = Plain(lambda x: layer(x * 2))
    net.register_child(layer)
    net.initialize(mx.init.Uniform(0.7))
    samples = [sample(k) for k in range(5)]

    def run() -> Outcome:
        for array in samples:
            array.attach_grad()
        with autograd.record():
            results = [net(array) for array in samples]
            total = sum([(result * result).mean() + result.sum() for result in results])
        total.backward()
        found = {f"result {k}": result.asnumpy() for k, result in enumerate(results)}
        found.update({f"gradient of input {k}": array.grad.asnumpy() for k, array in enumerate(samples)})
        return {**found, **{f"gradient of {name}": p.grad().asnumpy().copy() for name, p in parameters.items()}}

    with autograd.pause():
        net(samples[0])
    parameters = net.collect_params()
    expected = run()
    net.hybridize(dynamic_batch=True)
    agree(run(), expected)
    report = gluonjit.explain()
    assert not report.alone
    assert not report.unbatched
