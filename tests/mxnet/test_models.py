"""Models written for one sample equal themselves batched, and need few launches."""

from __future__ import annotations

from typing import Any

import mxnet as mx
import numpy as np
import pytest
from mxnet import gluon, nd
from mxnet.gluon import nn
from support import assert_same, rows

import gluonjit

SIZE = 6


class ChildSum(gluon.HybridBlock):
    """A node with any number of children."""

    def __init__(self) -> None:
        super().__init__()
        with self.name_scope():
            self.w = self.params.get("w", shape=(2 * SIZE, SIZE))
            self.b = self.params.get("b", shape=(2 * SIZE,), init="uniform")
            self.u = self.params.get("u", shape=(SIZE, SIZE))

    def hybrid_forward(self, F: Any, x: Any, *states: Any, w: Any, b: Any, u: Any) -> Any:
        gates = F.FullyConnected(x, w, b, num_hidden=2 * SIZE)
        i, f = F.split(gates, num_outputs=2, axis=1)
        c = F.sigmoid(i)
        for h, memory in states:
            c = c + F.sigmoid(f + F.FullyConnected(h, u, no_bias=True, num_hidden=SIZE)) * memory
        return F.tanh(c), c


class Tree(gluon.Block):
    """Trees as (word, children)."""

    def __init__(self, cell: gluon.Block) -> None:
        super().__init__()
        with self.name_scope():
            self.embed = nn.Embedding(12, SIZE)
            self.cell = cell
            self.out = nn.Dense(3, in_units=SIZE)

    def forward(self, sample: Any) -> Any:
        tree, tokens = sample
        return self.out(self.encode(tree, self.embed(tokens))[0])

    def encode(self, node: Any, words: Any) -> Any:
        position, children = node
        return self.cell(words[position : position + 1], *[self.encode(child, words) for child in children])


def random_tree(random: np.random.RandomState, size: int) -> tuple[Any, list[int]]:
    """A tree over `size` words, and the words."""
    count = iter(range(size))

    def grow(budget: int) -> Any:
        position, children, left = next(count), [], budget - 1
        while left:
            part = random.randint(1, left + 1)
            children.append(grow(part))
            left -= part
        return position, children

    return grow(size), random.randint(0, 12, size).tolist()


def tree_samples(count: int, seed: int = 0) -> list[Any]:
    random = np.random.RandomState(seed)
    trees = [random_tree(random, random.randint(1, 9)) for _ in range(count)]
    return [(tree, nd.array(words, dtype="int32")) for tree, words in trees]


def total(net: gluon.Block, sample: Any) -> Any:
    return (net(sample) ** 2).sum()


def longest_path(node: Any) -> int:
    return 1 + max([longest_path(child) for child in node[1]], default=0)


@pytest.mark.parametrize("granularity", ["cell", "op"])
@pytest.mark.parametrize("sharing", [True, False])
def test_tree(granularity: str, sharing: bool) -> None:
    net = Tree(ChildSum())
    net.initialize(mx.init.Uniform(0.5))
    report = assert_same(net, tree_samples(20), total, granularity=granularity, sharing=sharing)
    assert report.flushes == 1 and not report.alone
    assert (report.shared > 0) == sharing


@pytest.mark.parametrize("without", [(), ("arity",)])
def test_tree_launches(without: tuple[str, ...]) -> None:
    """Every depth runs once, or each number of children; words' products, the output layer and the loss run once."""
    net = Tree(ChildSum())
    net.initialize(mx.init.Uniform(0.5))
    samples = tree_samples(30)
    report = assert_same(net, samples, total, without=without)
    depths: set[tuple[int, int]] = set()

    def visit(node: Any) -> int:
        depth = 1 + max([visit(child) for child in node[1]], default=0)
        depths.add((depth, len(node[1]) if without else 0))
        return depth

    for tree, _ in samples:
        visit(tree)
    assert report.launches == len(depths) + len(["words", "dense", "square", "sum", "sum again", "add_n"])
    assert report.lower_bound <= report.launches


class Chain(gluon.Block):
    """A recurrent cell along rows of any number."""

    def __init__(self) -> None:
        super().__init__()
        with self.name_scope():
            self.cell = nn.Dense(SIZE, in_units=2 * SIZE, activation="tanh")

    def forward(self, x: Any) -> Any:
        h = nd.zeros((1, SIZE))
        for step in range(x.shape[0]):
            h = self.cell(nd.concat(x[step : step + 1], h, dim=1))
        return h


@pytest.mark.usefixtures("as_written")
def test_chain() -> None:
    net = Chain()
    net.initialize(mx.init.Uniform(0.5))
    samples = [rows(length, SIZE, seed=length) for length in (3, 5, 1, 5, 2, 8)]
    report = assert_same(net, samples, total)
    assert report.launches == 8 * len(["concat", "cell"]) + len(["square", "sum", "sum again", "add_n"])


class SharedDag(gluon.Block):
    """Each node's state goes to several parents."""

    def __init__(self) -> None:
        super().__init__()
        with self.name_scope():
            self.cell = nn.Dense(SIZE, in_units=SIZE, activation="tanh")

    def forward(self, sample: Any) -> Any:
        x, edges = sample
        states: list[Any] = []
        for node, sources in enumerate(edges):
            total = x[node : node + 1]
            for source in sources:
                total = total + states[source]
            states.append(self.cell(total))
        return nd.concat(*states, dim=0)


def test_shared_dag() -> None:
    net = SharedDag()
    net.initialize(mx.init.Uniform(0.5))
    diamond = [[], [0], [0], [1, 2]]
    samples = [(rows(4, SIZE, seed=k), diamond) for k in range(6)]
    report = assert_same(net, samples, total)
    cells = [step for step in report.steps if "dense" in step.name]
    assert [step.nodes for step in cells] == [6, 12, 6]


class Recurrent(gluon.HybridBlock):
    """A cell of a word and a state, either of which may be an input or computed."""

    def __init__(self) -> None:
        super().__init__()
        with self.name_scope():
            self.w = self.params.get("w", shape=(SIZE, SIZE))
            self.u = self.params.get("u", shape=(SIZE, SIZE))

    def hybrid_forward(self, F: Any, x: Any, h: Any, w: Any, u: Any) -> Any:
        from_x = F.FullyConnected(x, w, no_bias=True, num_hidden=SIZE)
        return F.tanh(from_x + F.FullyConnected(h, u, no_bias=True, num_hidden=SIZE))


class TwoLayers(gluon.Block):
    """The same cell over words, and over its own states."""

    def __init__(self) -> None:
        super().__init__()
        with self.name_scope():
            self.cell = Recurrent()

    def forward(self, x: Any) -> Any:
        h = nd.zeros((1, SIZE))
        states = []
        for step in range(x.shape[0]):
            h = self.cell(x[step : step + 1], h)
            states.append(h)
        for state in states:
            h = self.cell(state, h)
        return h


@pytest.mark.parametrize("sharing", [True, False])
def test_products_of_inputs_run_before_the_recursion(sharing: bool) -> None:
    net = TwoLayers()
    net.initialize(mx.init.Uniform(0.5))
    samples = [rows(length, SIZE, seed=length % 3) for length in (3, 5, 1, 5, 2, 8)]
    report = assert_same(net, samples, total, sharing=sharing)
    products = [step for step in report.steps if "of leaves" in step.name]
    assert products[0].nodes == 24  # every word of every sample, in one launch


def test_hoisting_can_be_left_out() -> None:
    net = TwoLayers()
    net.initialize(mx.init.Uniform(0.5))
    report = assert_same(net, [rows(length, SIZE, seed=length) for length in (3, 5, 1)], total, without=("hoisting",))
    assert not [step for step in report.steps if "of leaves" in step.name]


class NAry(gluon.HybridBlock):
    """A weight of its own for each child position."""

    def __init__(self, children: int) -> None:
        super().__init__()
        with self.name_scope():
            self.w = self.params.get("w", shape=(SIZE, SIZE))
            self.u = [self.params.get(f"u{k}", shape=(SIZE, SIZE)) for k in range(children)]
            for k, weight in enumerate(self.u):
                setattr(self, f"u{k}", weight)

    def hybrid_forward(self, F: Any, x: Any, *states: Any, w: Any, **weights: Any) -> Any:
        h = F.FullyConnected(x, w, no_bias=True, num_hidden=SIZE)
        for k, (state, _) in enumerate(states):
            h = h + F.FullyConnected(state, weights[f"u{k}"], no_bias=True, num_hidden=SIZE)
        h = F.tanh(h)
        return h, h


def test_weight_for_each_position() -> None:
    net = Tree(NAry(9))
    net.initialize(mx.init.Uniform(0.5))
    report = assert_same(net, tree_samples(15, seed=3), total)
    assert report.flushes == 1 and not report.unbatched


class PlainTree(gluon.Block):
    """Own parameters, operators called by hand, recursion through forward."""

    def __init__(self) -> None:
        super().__init__()
        with self.name_scope():
            self.w = self.params.get("w", shape=(2 * SIZE, SIZE))
            self.b = self.params.get("b", shape=(2 * SIZE,), init="uniform")
            self.u = self.params.get("u", shape=(2 * SIZE, SIZE))

    def forward(self, F: Any, inputs: Any, tree: Any) -> Any:
        position, children = tree
        states = [self.forward(F, inputs, child) for child in children]
        return self.node(F, F.expand_dims(inputs[position], axis=0), states)

    def node(self, F: Any, x: Any, states: Any) -> Any:
        gates = F.FullyConnected(x, self.w.data(), self.b.data(), num_hidden=2 * SIZE)
        if states:
            h = F.add_n(*[state[0] for state in states])
            gates = gates + F.FullyConnected(h, self.u.data(), no_bias=True, num_hidden=2 * SIZE)
        i, o = F.split(gates, num_outputs=2, axis=1)
        c = F.sigmoid(i)
        if states:
            c = F.add_n(c, *[state[1] for state in states])
        return F.sigmoid(o) * F.tanh(c), c


class PlainCellTree(PlainTree):
    """The same with its node function as a cell."""

    @gluonjit.cell
    def node(self, F: Any, x: Any, states: Any) -> Any:
        return PlainTree.node(self, F, x, states)


def plain_loss(net: gluon.Block, sample: Any) -> Any:
    return (net(nd, sample[1], sample[0])[0] ** 2).sum()


@pytest.mark.parametrize("model", [PlainTree, PlainCellTree])
def test_plain_block(model: type[gluon.Block]) -> None:
    net = model()
    net.initialize(mx.init.Uniform(0.5))
    random = np.random.RandomState(1)
    table = rows(12, SIZE).asnumpy()
    samples = []
    for _ in range(12):
        tree, words = random_tree(random, random.randint(1, 9))
        samples.append((tree, nd.array(table[words])))
    report = assert_same(net, samples, plain_loss)
    assert report.flushes == 1 and not report.alone and not report.unbatched
    if model is PlainCellTree:
        depth = max(longest_path(tree) for tree, _ in samples)
        assert depth <= sum("node" in step.name for step in report.steps) < 3 * depth
