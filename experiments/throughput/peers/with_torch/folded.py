"""The models as programs for one sample that add to a fold."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from experiments.throughput.peers import samples as plain
from experiments.throughput.peers.with_torch.bylevel import compare, state
from experiments.throughput.peers.with_torch.fold import Fold, Node
from experiments.throughput.peers.with_torch.functions import divergence, per_sample
from experiments.throughput.peers.with_torch.learner import Differentiated

Functions = dict[str, Callable[..., Tensor]]


class Relatedness(Differentiated):
    """The child-sum Tree-LSTM for pairs; nodes are told apart by their number of children."""

    def losses(self, samples: Sequence[plain.Pair]) -> Tensor:
        """Return the divergence of each pair."""
        targets = self.tensor(np.stack([pair.target for pair in samples]))
        return divergence(self.scores(samples), targets)

    def scores(self, samples: Sequence[plain.Pair]) -> Tensor:
        """Return the (n, 5) log-probabilities of a minibatch."""
        fold, most = Fold(), 0

        def encode(node: plain.Node) -> Node:
            nonlocal most
            children = [encode(child) for child in node.children]
            most = max(most, len(children))
            return fold.add(f"node{len(children)}", node.word, *children)

        wanted = [fold.add("head", encode(pair.left.root), encode(pair.right.root)) for pair in samples]
        functions: Functions = {f"node{count}": self._node for count in range(1, most + 1)}
        return fold.run({**functions, "node0": self._leaf, "head": self._head}, wanted, self.device)

    def _leaf(self, words: Tensor) -> Tensor:
        weight, bias = self.weights["x_weight"], self.weights["x_bias"]
        rows = 3 * len(bias) // 4
        return state(torch.addmm(bias[:rows], self.table.index_select(0, words), weight[:rows].T))

    def _node(self, words: Tensor, *children: Tensor) -> Tensor:
        found = self.weights
        size = len(found["f_weight"])
        gates = torch.addmm(found["x_bias"], self.table.index_select(0, words), found["x_weight"].T)
        total = torch.stack([child[:, :size] for child in children]).sum(0)
        forget = [torch.addmm(gates[:, 3 * size :], child[:, :size], found["f_weight"].T) for child in children]
        kept = [one.sigmoid() * child[:, size:] for one, child in zip(forget, children)]
        return state(torch.addmm(gates[:, : 3 * size], total, found["h_weight"].T), torch.stack(kept).sum(0))

    def _head(self, left: Tensor, right: Tensor) -> Tensor:
        size = left.shape[1] // 2
        names = ("product_weight", "distance_weight", "hidden_bias", "out_weight", "out_bias")
        return compare(left[:, :size], right[:, :size], *[self.weights[name] for name in names])


class Sentiment(Differentiated):
    """The binary Tree-LSTM for phrases."""

    def losses(self, samples: Sequence[plain.Phrases]) -> Tensor:
        """Return the losses of each sentence's phrases, added up."""
        labels = self.tensor(np.concatenate([sample.labels for sample in samples]))
        found = functional.cross_entropy(self.scores(samples), labels, reduction="none")
        return per_sample(found, [len(sample.labels) for sample in samples])

    def scores(self, samples: Sequence[plain.Phrases]) -> Tensor:
        """Return the scores of all phrases, sentence by sentence in the order in which phrases end."""
        fold = Fold()
        wanted = []
        for sample in samples:
            words = sample.words.tolist()
            phrases: list[Node] = []
            for left, right in zip(sample.left.tolist(), sample.right.tolist()):
                phrases.append(
                    fold.add("leaf", words[right]) if left < 0 else fold.add("compose", phrases[left], phrases[right])
                )
            wanted += [fold.add("out", phrase) for phrase in phrases]
        functions: Functions = {"leaf": self._leaf, "compose": self._compose, "out": self._out}
        return fold.run(functions, wanted, self.device)

    def _leaf(self, words: Tensor) -> Tensor:
        rows = self.table.index_select(0, words)
        return state(torch.addmm(self.weights["leaf_bias"], rows, self.weights["leaf_weight"].T))

    def _compose(self, left: Tensor, right: Tensor) -> Tensor:
        size = left.shape[1] // 2
        parts = torch.cat([left[:, :size], right[:, :size]], 1)
        gates = torch.addmm(self.weights["compose_bias"], parts, self.weights["compose_weight"].T)
        f_left, f_right = gates[:, 3 * size :].sigmoid().chunk(2, 1)
        return state(gates[:, : 3 * size], f_left * left[:, size:] + f_right * right[:, size:])

    def _out(self, phrase: Tensor) -> Tensor:
        h = phrase[:, : phrase.shape[1] // 2]
        return torch.addmm(self.weights["out_bias"], h, self.weights["out_weight"].T)


class Tagger(Differentiated):
    """The BiLSTM tagger."""

    def losses(self, samples: Sequence[plain.Tagged]) -> Tensor:
        """Return the mean loss of each sentence's tokens."""
        labels = self.tensor(np.concatenate([sample.labels for sample in samples]))
        found = functional.cross_entropy(self.scores(samples), labels, reduction="none")
        sizes = [len(sample.labels) for sample in samples]
        return per_sample(found, sizes) / self.tensor(np.array(sizes))

    def scores(self, samples: Sequence[plain.Tagged]) -> Tensor:
        """Return the scores of all tokens, sentence by sentence."""
        fold = Fold()
        wanted = []
        for sample in samples:
            words = sample.words.tolist()
            ahead, back = _chain(fold, "ahead", words), _chain(fold, "back", words[::-1])[::-1]
            wanted += [fold.add("out", *states) for states in zip(ahead, back)]
        functions: Functions = {"out": self._out}
        for side in ("ahead", "back"):
            functions[f"{side} begins"] = self._begins(side)
            functions[side] = self._step(side)
        return fold.run(functions, wanted, self.device)

    def _begins(self, side: str) -> Callable[[Tensor], Tensor]:
        return lambda words: _lstm(self._from_words(side, words))

    def _step(self, side: str) -> Callable[[Tensor, Tensor], Tensor]:
        weight = self.weights[f"{side}_h2h_weight"]

        def step(words: Tensor, before: Tensor) -> Tensor:
            h, c = before.chunk(2, 1)
            return _lstm(torch.addmm(self._from_words(side, words), h, weight.T), c)

        return step

    def _from_words(self, side: str, words: Tensor) -> Tensor:
        found = self.weights
        bias = found[f"{side}_i2h_bias"] + found[f"{side}_h2h_bias"]
        return torch.addmm(bias, self.table.index_select(0, words), found[f"{side}_i2h_weight"].T)

    def _out(self, ahead: Tensor, back: Tensor) -> Tensor:
        size = ahead.shape[1] // 2
        both = torch.cat([ahead[:, :size], back[:, :size]], 1)
        return torch.addmm(self.weights["out_bias"], both, self.weights["out_weight"].T)


def _chain(fold: Fold, side: str, words: Sequence[int]) -> list[Node]:
    """Add the steps of one direction."""
    nodes: list[Node] = []
    for word in words:
        nodes.append(fold.add(side, word, nodes[-1]) if nodes else fold.add(f"{side} begins", word))
    return nodes


def _lstm(gates: Tensor, before: Any = None) -> Tensor:
    """Return the states from the gates i, f, u, o."""
    i, f, u, o = gates.chunk(4, 1)
    c = i.sigmoid() * u.tanh()
    if before is not None:
        c = c + f.sigmoid() * before
    return torch.cat([o.sigmoid() * c.tanh(), c], 1)
