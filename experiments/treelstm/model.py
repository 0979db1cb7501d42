"""The child-sum Tree-LSTM for semantic relatedness (Tai, Socher and Manning 2015), for one pair of sentences.

This one source runs imperatively and under dynamic batching; only `hybridize` differs.
"""

from __future__ import annotations

import warnings
from typing import Any

from mxnet import gluon
from mxnet.gluon import nn

from experiments.bench.model import HEAD_SIZE, MEMORY_SIZE
from experiments.data.trees import CLASSES, Pair, Tree

WORD_SIZE = 300

State = tuple[Any, Any]


class ChildSumCell(gluon.HybridBlock):
    """One node: `cell(x, (h1, c1), (h2, c2), ...)` gives (h, c) from its word and any number of children.

    The gates of x stand in the order i, o, u, f, those of the children's sum in the order i, o, u.
    """

    def __init__(self, size: int = MEMORY_SIZE, in_size: int = WORD_SIZE, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._size = size
        with self.name_scope():
            self.x_weight = self.params.get("x_weight", shape=(4 * size, in_size))
            self.x_bias = self.params.get("x_bias", shape=(4 * size,))
            self.h_weight = self.params.get("h_weight", shape=(3 * size, size))
            self.f_weight = self.params.get("f_weight", shape=(size, size))

    def hybrid_forward(
        self, F: Any, x: Any, *children: State, x_weight: Any, x_bias: Any, h_weight: Any, f_weight: Any
    ) -> State:
        """Compute the state of a node; without children the products with the zero state are not there."""
        from_x = F.FullyConnected(x, x_weight, x_bias, num_hidden=4 * self._size)
        gates = from_x
        if children:
            total = F.add_n(*[h for h, _ in children])
            gates = self._gate(F, from_x, 0, 3) + self._project(F, total, h_weight, 3)
        i = F.Activation(self._gate(F, gates, 0), act_type="sigmoid")
        o = F.Activation(self._gate(F, gates, 1), act_type="sigmoid")
        u = F.Activation(self._gate(F, gates, 2), act_type="tanh")
        c = i * u
        if children:
            forget_x = self._gate(F, from_x, 3)
            c = F.add_n(c, *[self._kept(F, forget_x, h, c_k, f_weight) for h, c_k in children])
        return o * F.Activation(c, act_type="tanh"), c

    def _gate(self, F: Any, gates: Any, first: int, count: int = 1) -> Any:
        """Cut `count` gates out of a row of gates."""
        return F.slice_axis(gates, axis=1, begin=first * self._size, end=(first + count) * self._size)

    def _project(self, F: Any, h: Any, weight: Any, gates: int) -> Any:
        """Return what a hidden state adds to `gates` gates."""
        return F.FullyConnected(h, weight, num_hidden=gates * self._size, no_bias=True)

    def _kept(self, F: Any, forget_x: Any, h: Any, c: Any, f_weight: Any) -> Any:
        """Return what is kept of one child's memory, by a forget gate of its own."""
        return F.Activation(forget_x + self._project(F, h, f_weight, 1), act_type="sigmoid") * c


class TreeLSTM(gluon.Block):
    """Encodes a tree by plain recursion: the hidden state of its root."""

    def __init__(self, size: int = MEMORY_SIZE, in_size: int = WORD_SIZE, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        with self.name_scope():
            self.cell = ChildSumCell(size, in_size)

    def forward(self, root: Tree, words: Any) -> Any:
        """Return h of the root of a tree over the rows of `words`."""
        return self.encode(root, words)[0]

    def encode(self, node: Tree, words: Any) -> State:
        """Return (h, c) of a node."""
        children = [self.encode(child, words) for child in node.children]
        return self.cell(words[node.index : node.index + 1], *children)


class HybridizedTreeLSTM(TreeLSTM):
    """The same with compiled cells, one for each number of children, since a CachedOp has one structure."""

    def __init__(self, size: int = MEMORY_SIZE, in_size: int = WORD_SIZE, **kwargs: Any) -> None:
        super().__init__(size, in_size, **kwargs)
        self._size, self._in_size = size, in_size
        self._cells: dict[int, ChildSumCell] = {}

    def encode(self, node: Tree, words: Any) -> State:
        """Return (h, c) of a node."""
        children = [self.encode(child, words) for child in node.children]
        cell = self._cells.get(len(children)) or self._compiled
        return cell(words[node.index : node.index + 1], *children)

    def _compiled(self, x: Any, *children: State) -> State:
        """Make, keep and call a hybridized cell that shares the parameters."""
        cell = ChildSumCell(self._size, self._in_size, params=self.cell.params)
        cell.hybridize(static_alloc=True)
        self._cells[len(children)] = cell
        with warnings.catch_warnings():  # MXNet warns of unused weights, which is right at a leaf
            warnings.filterwarnings("ignore", message=".*not used by any computation")
            return cell(x, *children)


class Similarity(gluon.HybridBlock):
    """Log-probabilities of the five classes of relatedness, from the hidden states of two roots."""

    def __init__(self, size: int = MEMORY_SIZE, hidden: int = HEAD_SIZE, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._hidden = hidden
        with self.name_scope():
            self.product_weight = self.params.get("product_weight", shape=(hidden, size))
            self.distance_weight = self.params.get("distance_weight", shape=(hidden, size))
            self.hidden_bias = self.params.get("hidden_bias", shape=(hidden,))
            self.out_weight = self.params.get("out_weight", shape=(CLASSES, hidden))
            self.out_bias = self.params.get("out_bias", shape=(CLASSES,))

    def hybrid_forward(
        self,
        F: Any,
        left: Any,
        right: Any,
        product_weight: Any,
        distance_weight: Any,
        hidden_bias: Any,
        out_weight: Any,
        out_bias: Any,
    ) -> Any:
        """Compare the product and the distance of two hidden states."""
        product = F.FullyConnected(left * right, product_weight, num_hidden=self._hidden, no_bias=True)
        distance = F.FullyConnected(F.abs(left - right), distance_weight, hidden_bias, num_hidden=self._hidden)
        hidden = F.Activation(product + distance, act_type="sigmoid")
        return F.log_softmax(F.FullyConnected(hidden, out_weight, out_bias, num_hidden=CLASSES))


class Relatedness(gluon.Block):
    """The whole model for one pair of sentences; the word vectors stay fixed."""

    def __init__(
        self,
        words: int,
        tree: type[gluon.Block] = TreeLSTM,
        in_size: int = WORD_SIZE,
        size: int = MEMORY_SIZE,
        hidden: int = HEAD_SIZE,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        with self.name_scope():
            self.embed = nn.Embedding(words, in_size)
            self.tree = tree(size, in_size)
            self.head = Similarity(size, hidden)
        self.embed.weight.grad_req = "null"

    def forward(self, pair: Pair) -> Any:
        """Return the (1, 5) log-probabilities of a pair; one look-up a sentence."""
        left = self.tree(pair.left.root, self.embed(pair.left.tokens))
        right = self.tree(pair.right.root, self.embed(pair.right.tokens))
        return self.head(left, right)
