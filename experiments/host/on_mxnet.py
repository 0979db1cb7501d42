"""Kinds of calls in MXNet. A vector is a row, (1, C), as in Gluon."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any
from unittest.mock import patch

import mxnet as mx
import numpy as np
from mxnet import autograd, gluon
from mxnet.ndarray import register

import gluonjit
from experiments.host import MOST_CALLS, WAY
from experiments.host.sorts import Operands, Sort, Tree
from experiments.host.trees import WORDS

SIZE, EMBEDDED = 64, 32
PLANNED = (95, 1230)


class Cell(gluon.HybridBlock):
    """The README's: one node of a tree."""

    def __init__(self) -> None:
        super().__init__()
        self.word, self.child = gluon.nn.Dense(SIZE), gluon.nn.Dense(SIZE, use_bias=False, in_units=SIZE)

    def hybrid_forward(self, F: Any, word: Any, *children: Any) -> Any:
        """Its state, of its word and its children's states."""
        return F.tanh(self.word(word) + (self.child(F.add_n(*children)) if children else 0))


class TreeModel(gluon.Block):
    """The README's."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.cell, self.head = gluon.nn.Embedding(WORDS, EMBEDDED), Cell(), gluon.nn.Dense(1)

    def forward(self, tokens: Any, tree: Tree) -> Any:
        """Score a sentence."""
        return self.head(self.encode(tree, self.embed(tokens)))

    def encode(self, node: Tree, words: Any) -> Any:
        """The state of a node."""
        index, children = node
        return self.cell(words[index : index + 1], *[self.encode(child, words) for child in children])


class Own(gluon.HybridBlock):
    """A HybridBlock as users write it, of two operands."""

    def __init__(self) -> None:
        super().__init__()
        self.left, self.right = gluon.nn.Dense(SIZE), gluon.nn.Dense(SIZE)

    def hybrid_forward(self, F: Any, x: Any, y: Any) -> Any:
        """One layer of both."""
        return F.tanh(self.left(x) + self.right(y))


class Joining(gluon.Block):
    """A block with a method of two operands."""

    def __init__(self) -> None:
        super().__init__()
        self.left, self.right = (gluon.nn.Dense(SIZE, in_units=SIZE) for _ in range(2))

    def join(self, x: Any, y: Any) -> Any:
        """One layer of both."""
        return mx.nd.tanh(self.left(x) + self.right(y))


class JoiningCell(Joining):
    """The same, declared."""

    join = gluonjit.cell(Joining.join)


def gated(x: Any, y: Any) -> Any:
    """A function of two operands."""
    return mx.nd.sigmoid(x) * mx.nd.tanh(y)


gated_cell = gluonjit.cell(gated)


class Calls(gluon.Block):
    """A model that calls the function it is given, and the layers for it."""

    def __init__(self, batched: bool) -> None:
        super().__init__()
        self.embed = gluon.nn.Embedding(MOST_CALLS, SIZE)
        self.first, self.second, self.dense = (gluon.nn.Dense(SIZE, in_units=SIZE) for _ in range(3))
        self.own = Own()
        self.joining = JoiningCell() if batched else Joining()
        self.gated = gated_cell if batched else gated

    def forward(self, work: Any) -> Any:
        """Call `work` with this model."""
        return work(self)


def calls(batched: bool, seed: int) -> Calls:
    """Return the model in which calls are made."""
    net = _initialized(Calls(batched), seed)
    row = mx.nd.zeros((1, SIZE))
    net.own(row, row)  # a layer has no weights before an array reaches it
    return _batched(net) if batched else net


def trees(batched: bool, seed: int, **options: Any) -> TreeModel:
    """Return the TreeModel; `options` are more of how it is batched."""
    net = _initialized(TreeModel(), seed)
    net(mx.nd.zeros(2), (0, [(1, [])]))
    return _batched(net, **options) if batched else net


def _initialized(net: Any, seed: int) -> Any:
    mx.random.seed(seed)
    np.random.seed(seed)  # initializers draw from either
    net.initialize()
    return net


def _batched(net: Any, **options: Any) -> Any:
    net.hybridize(dynamic_batch=True, **WAY, **options)
    return net


def operands(net: Calls, words: np.ndarray) -> Operands:
    """Make operands of these words: results of layers, and the look-up of the sentence."""
    found = net.embed(mx.nd.array(words))
    each = [found[k : k + 1] for k in range(len(words))]
    return Operands([net.first(word) for word in each], [net.second(word) for word in each], found)


def words(words: np.ndarray) -> Any:
    """Return words as an input array."""
    return mx.nd.array(words)


def gradients(on: bool) -> AbstractContextManager[Any]:
    """Return a context with recording, or without."""
    return autograd.record() if on else nullcontext()


wait = mx.nd.waitall


def numbers(array: Any) -> np.ndarray:
    """Return an array's numbers."""
    return array.asnumpy()


@contextmanager
def stubbed() -> Iterator[object]:
    """Let operators end at `_imperative_invoke`, where they come to gluonjit, or without it to MXNet's C.

    Each function of `mx.nd` is Python that MXNet has generated, which collects arrays and attributes and passes them to
    that one; signs like + call such functions.
    """
    nothing = object()
    with patch.object(register, "_imperative_invoke", lambda *given: nothing):
        yield nothing


def _index(net: Calls, at: Operands) -> list[Any]:
    words = at.words
    return [words[k] for k in range(len(at.xs))]


def _slice(net: Calls, at: Operands) -> list[Any]:
    words = at.words
    return [words[k : k + 1] for k in range(len(at.xs))]


def _tanh(net: Calls, at: Operands) -> list[Any]:
    return [mx.nd.tanh(x) for x in at.xs]


def _concat(net: Calls, at: Operands) -> list[Any]:
    return [mx.nd.concat(x, y, dim=1) for x, y in zip(at.xs, at.ys)]


def _connected(net: Calls, at: Operands) -> list[Any]:
    weight, bias = net.dense.weight.data(), net.dense.bias.data()
    return [mx.nd.FullyConnected(x, weight, bias, num_hidden=SIZE) for x in at.xs]


def _dense(net: Calls, at: Operands) -> list[Any]:
    dense = net.dense
    return [dense(x) for x in at.xs]


def _own(net: Calls, at: Operands) -> list[Any]:
    own = net.own
    return [own(x, y) for x, y in zip(at.xs, at.ys)]


def _function(net: Calls, at: Operands) -> list[Any]:
    gated = net.gated
    return [gated(x, y) for x, y in zip(at.xs, at.ys)]


def _method(net: Calls, at: Operands) -> list[Any]:
    joining = net.joining
    return [joining.join(x, y) for x, y in zip(at.xs, at.ys)]


def _add(net: Calls, at: Operands) -> list[Any]:
    return [x + y for x, y in zip(at.xs, at.ys)]


SORTS = (
    Sort("`x + y`", _add, stub=stubbed),
    Sort("`x + y`, an equal call", _add, again=True, stub=stubbed),
    Sort("`x * 2.0`", lambda net, at: [x * 2.0 for x in at.xs], stub=stubbed),
    Sort("`words[i]`", _index),
    Sort("`words[i : i + 1]`", _slice),
    Sort("`mx.nd.tanh(x)`", _tanh, stub=stubbed),
    Sort("`mx.nd.concat(x, y, dim=1)`", _concat, stub=stubbed),
    Sort("`mx.nd.FullyConnected(x, ...)`", _connected, stub=stubbed),
    Sort("a `Dense`", _dense),
    Sort("a HybridBlock of the user's, two operands", _own),
    Sort("a function as `@gluonjit.cell`, two operands", _function),
    Sort("a method as `@gluonjit.cell`, two operands", _method),
)
