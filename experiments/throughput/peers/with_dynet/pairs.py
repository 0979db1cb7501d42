"""The child-sum Tree-LSTM for one pair of sentences, by recursion over its trees."""

from __future__ import annotations

from typing import Any

import dynet as dy
import numpy as np

from experiments.throughput.peers.samples import Arrays, Node, Pair
from experiments.throughput.peers.with_dynet.learner import Learner


class Relatedness(Learner):
    """The model; gates that take the same operands are one product, as DyNet's own recurrent layers have it."""

    def __init__(self, weights: Arrays, rate: float) -> None:
        size = self.size = weights["f_weight"].shape[0]
        whole = dict(weights)
        x_weight, x_bias = whole.pop("x_weight"), whole.pop("x_bias")
        whole.update(iou_weight=x_weight[: 3 * size], iou_bias=x_bias[: 3 * size])
        whole.update(fx_weight=x_weight[3 * size :], fx_bias=x_bias[3 * size :])
        super().__init__(whole, rate)
        found = self.weights
        self._leaf = [found["iou_bias"], found["iou_weight"]]
        self._forget = [found["fx_bias"], found["fx_weight"]]

    def differentiate(self, samples: Any) -> Arrays:
        """Return losses and gradients by the names that all systems have."""
        found = super().differentiate(samples)
        found["x_weight"] = np.concatenate([found.pop("iou_weight"), found.pop("fx_weight")])
        found["x_bias"] = np.concatenate([found.pop("iou_bias"), found.pop("fx_bias")])
        return found

    def loss(self, sample: Pair) -> Any:
        """Return the Kullback-Leibler divergence of one pair."""
        target = sample.target
        entropy = float(target @ np.log(target + 1e-12))
        return dy.dot_product(dy.inputVector(-target), self.output(sample)) + entropy

    def output(self, sample: Pair) -> Any:
        """Return the log-probabilities of the five classes."""
        left, right = self.encode(sample.left.root)[0], self.encode(sample.right.root)[0]
        found = self.weights
        hidden = dy.affine_transform(
            [
                found["hidden_bias"],
                found["product_weight"],
                dy.cmult(left, right),
                found["distance_weight"],
                dy.abs(left - right),
            ]
        )
        return dy.log_softmax(dy.affine_transform([found["out_bias"], found["out_weight"], dy.logistic(hidden)]))

    def encode(self, node: Node) -> tuple[Any, Any]:
        """Return (h, c) of a node."""
        size, found = self.size, self.weights
        x = dy.lookup(self.table, node.word, update=False)
        if not node.children:
            gates = dy.affine_transform([*self._leaf, x])
            c = None
        else:
            states = [self.encode(child) for child in node.children]
            total = states[0][0] if len(states) == 1 else dy.esum([h for h, _ in states])
            gates = dy.affine_transform([*self._leaf, x, found["h_weight"], total])
            forget = dy.affine_transform([*self._forget, x])
            kept = [
                dy.cmult(dy.logistic(forget + found["f_weight"] * h), c_k) for h, c_k in states
            ]
        io = dy.logistic(dy.pick_range(gates, 0, 2 * size))
        u = dy.tanh(dy.pick_range(gates, 2 * size, 3 * size))
        c = dy.cmult(dy.pick_range(io, 0, size), u)
        if node.children:
            c = dy.esum([c, *kept])
        return dy.cmult(dy.pick_range(io, size, 2 * size), dy.tanh(c)), c
