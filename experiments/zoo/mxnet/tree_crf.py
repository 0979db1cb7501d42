"""Tree-structured CRF: the tags of a sentence's words, whose tree is given; each fits its word and its head's tag."""

from __future__ import annotations

from typing import Any

from mxnet import gluon, nd
from mxnet.gluon import nn

from experiments.zoo.row import Row
from experiments.zoo.samples.trees import TAGS, WORDS, Tree, tagged

SIZE = 16


def log_sum_exp(x: Any) -> Any:
    """Return the logarithms of the sums of exp along the last axis, which stays, of size 1."""
    largest = nd.max(x, axis=1, keepdims=True)
    return largest + nd.log(nd.sum(nd.exp(x - largest), axis=1, keepdims=True))


class TreeCRF(gluon.Block):
    """The negative log-likelihood of given tags."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        with self.name_scope():
            self.embed = nn.Embedding(WORDS, SIZE)
            self.hidden, self.out = nn.Dense(SIZE, activation="tanh"), nn.Dense(TAGS)
            self.transitions = self.params.get("transitions", shape=(TAGS, TAGS))  # from a word's tag to a child's

    def forward(self, tokens: Any, tree: Tree, tags: Any) -> Any:
        """Return the negative logarithm of the tags' probability, (1,)."""
        scores = self.out(self.hidden(self.embed(tokens)))
        return log_sum_exp(self.inside(tree, scores)).reshape((1,)) - self.gold(tree, scores, tags)

    def inside(self, tree: Tree, scores: Any) -> Any:
        """Return (1, TAGS): for each tag of a tree's root, the logarithm of the sum over all tags below."""
        index, children = tree
        total = scores[index : index + 1]
        for child in children:
            total = total + log_sum_exp(self.transitions.data() + self.inside(child, scores)).T
        return total

    def gold(self, tree: Tree, scores: Any, tags: Any) -> Any:
        """Return the score of a tree with the given tags, (1,)."""
        index, children = tree
        tag = int(tags[index].asscalar())
        total = scores[index, tag]
        for child in children:
            total = total + self.transitions.data()[tag, int(tags[child[0]].asscalar())]
            total = total + self.gold(child, scores, tags)
        return total


def loss(net: gluon.Block, sample: Any) -> Any:
    """Return the loss of one sentence."""
    tokens, tree, tags = sample
    return net(tokens, tree, tags)


ROW = Row("tree-crf", "tree-structured CRF over the tags of words", TreeCRF, tagged, loss)
