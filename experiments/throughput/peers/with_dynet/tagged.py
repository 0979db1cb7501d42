"""The BiLSTM tagger for one sentence, by DyNet's own nodes for an LSTM."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import dynet as dy
import numpy as np

from experiments.throughput.peers.samples import Arrays, Tagged
from experiments.throughput.peers.with_dynet.learner import Learner, Split

DIRECTIONS = ("ahead", "back")


class Tagger(Learner):
    """The model. Gluon's gates stand in the order i, f, u, o, DyNet's in the order i, f, o, u."""

    def __init__(self, weights: Arrays, rate: float) -> None:
        size = self.size = weights["ahead_h2h_weight"].shape[1]
        self._order = np.r_[0 : 2 * size, 3 * size : 4 * size, 2 * size : 3 * size]
        turned = {name: array[self._order] if _has_gates(name) else array for name, array in weights.items()}
        super().__init__(turned, rate, {"out_weight": Split(("out_ahead", "out_back"), 1, size)})
        # DyNet's node adds one to the forget gate.
        self._less_one = np.zeros(4 * size, dtype=np.float32)
        self._less_one[size : 2 * size] = -1

    def differentiate(self, samples: Sequence[Tagged]) -> Arrays:
        """Return losses and gradients, gates in Gluon's order."""
        back = np.argsort(self._order)
        found = super().differentiate(samples).items()
        return {name: array[back] if _has_gates(name) else array for name, array in found}

    def loss(self, sample: Tagged) -> Any:
        """Return the mean loss of a sentence's tokens."""
        scores = zip(self.outputs(sample), sample.labels.tolist())
        return dy.average([dy.pickneglogsoftmax(score, label) for score, label in scores])

    def outputs(self, sample: Tagged) -> list[Any]:
        """Return the scores of each token."""
        words = [self.word(number) for number in sample.words.tolist()]
        ahead, back = self._run("ahead", words), self._run("back", words[::-1])[::-1]
        found = self.weights
        bias, ahead_weight, back_weight = found["out_bias"], found["out_ahead"], found["out_back"]
        return [dy.affine_transform([bias, ahead_weight, a, back_weight, b]) for a, b in zip(ahead, back)]

    def _run(self, direction: str, words: Sequence[Any]) -> list[Any]:
        """Return the hidden states of one direction."""
        found = self.weights
        x_weight, h_weight = found[f"{direction}_i2h_weight"], found[f"{direction}_h2h_weight"]
        biases = [found[f"{direction}_i2h_bias"], found[f"{direction}_h2h_bias"], dy.inputVector(self._less_one)]
        bias = dy.esum(biases)
        h = c = dy.zeros(self.size)
        states = []
        for word in words:
            gates = dy.vanilla_lstm_gates(word, h, x_weight, h_weight, bias)
            c = dy.vanilla_lstm_c(c, gates)
            h = dy.vanilla_lstm_h(c, gates)
            states.append(h)
        return states


def _has_gates(name: str) -> bool:
    return "2h_" in name
