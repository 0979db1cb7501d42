"""The child-sum Tree-LSTM for one pair of sentences, by recursion over its trees."""

from __future__ import annotations

from typing import Any

import dynet as dy
import numpy as np

from experiments.throughput.peers.samples import Arrays, Node, Pair
from experiments.throughput.peers.with_dynet.learner import Learner, Split


class Relatedness(Learner):
    """The model; gates that take the same operands are one product, as DyNet's own recurrent layers have it."""

    def __init__(self, weights: Arrays, rate: float) -> None:
        size = self.size = weights["f_weight"].shape[0]
        splits = {
            "x_weight": Split(("iou_weight", "fx_weight"), 0, 3 * size),
            "x_bias": Split(("iou_bias", "fx_bias"), 0, 3 * size),
        }
        super().__init__(weights, rate, splits)
        self._gates = [self.weights["iou_bias"], self.weights["iou_weight"]]
        self._forget = [self.weights["fx_bias"], self.weights["fx_weight"]]

    def loss(self, sample: Pair) -> Any:
        """Return the Kullback-Leibler divergence of one pair."""
        target = sample.target
        entropy = float(target @ np.log(target + 1e-12))
        return dy.dot_product(dy.inputVector(-target), self.outputs(sample)[0]) + entropy

    def outputs(self, sample: Pair) -> list[Any]:
        """Return the log-probabilities of the five classes."""
        left, right = self.encode(sample.left.root)[0], self.encode(sample.right.root)[0]
        found = self.weights
        product = [found["product_weight"], dy.cmult(left, right)]
        distance = [found["distance_weight"], dy.abs(left - right)]
        hidden = dy.logistic(dy.affine_transform([found["hidden_bias"], *product, *distance]))
        return [dy.log_softmax(dy.affine_transform([found["out_bias"], found["out_weight"], hidden]))]

    def encode(self, node: Node) -> tuple[Any, Any]:
        """Return (h, c) of a node."""
        size, found = self.size, self.weights
        x = self.word(node.word)
        kept = []
        if node.children:
            states = [self.encode(child) for child in node.children]
            total = states[0][0] if len(states) == 1 else dy.esum([h for h, _ in states])
            gates = dy.affine_transform([*self._gates, x, found["h_weight"], total])
            forget, f_weight = dy.affine_transform([*self._forget, x]), found["f_weight"]
            kept = [dy.cmult(dy.logistic(forget + f_weight * h), c) for h, c in states]
        else:
            gates = dy.affine_transform([*self._gates, x])
        io = dy.logistic(dy.pick_range(gates, 0, 2 * size))
        c = dy.cmult(dy.pick_range(io, 0, size), dy.tanh(dy.pick_range(gates, 2 * size, 3 * size)))
        if kept:
            c = dy.esum([c, *kept])
        return dy.cmult(dy.pick_range(io, size, 2 * size), dy.tanh(c)), c
