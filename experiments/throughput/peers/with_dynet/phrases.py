"""The binary Tree-LSTM for one sentence: a class for each of its phrases."""

from __future__ import annotations

from typing import Any

import dynet as dy

from experiments.throughput.peers.samples import Arrays, Phrases
from experiments.throughput.peers.with_dynet.learner import Learner, Split


class Sentiment(Learner):
    """The model; the gates of a phrase are one product for each side."""

    def __init__(self, weights: Arrays, rate: float) -> None:
        size = self.size = weights["leaf_weight"].shape[0] // 3
        super().__init__(weights, rate, {"compose_weight": Split(("left_weight", "right_weight"), 1, size)})

    def loss(self, sample: Phrases) -> Any:
        """Return the losses of all phrases, added up."""
        scores, labels = self.outputs(sample), sample.labels.tolist()
        return dy.esum([dy.pickneglogsoftmax(score, label) for score, label in zip(scores, labels)])

    def outputs(self, sample: Phrases) -> list[Any]:
        """Return the scores of each phrase, in the order in which phrases end."""
        words = sample.words.tolist()
        states: list[tuple[Any, Any]] = []
        for left, right in zip(sample.left.tolist(), sample.right.tolist()):
            states.append(self._leaf(words[right]) if left < 0 else self._compose(states[left], states[right]))
        bias, weight = self.weights["out_bias"], self.weights["out_weight"]
        return [dy.affine_transform([bias, weight, h]) for h, _ in states]

    def _leaf(self, word: int) -> tuple[Any, Any]:
        """Return (h, c) of a word."""
        found = self.weights
        gates = dy.affine_transform([found["leaf_bias"], found["leaf_weight"], self.word(word)])
        io, u = self._io_and_u(gates)
        return self._state(io, dy.cmult(dy.pick_range(io, 0, self.size), u))

    def _compose(self, left: tuple[Any, Any], right: tuple[Any, Any]) -> tuple[Any, Any]:
        """Return (h, c) of a phrase from those of its two parts."""
        size, found = self.size, self.weights
        from_left, from_right = [found["left_weight"], left[0]], [found["right_weight"], right[0]]
        gates = dy.affine_transform([found["compose_bias"], *from_left, *from_right])
        io, u = self._io_and_u(gates)
        forget = dy.logistic(dy.pick_range(gates, 3 * size, 5 * size))
        kept_left = dy.cmult(dy.pick_range(forget, 0, size), left[1])
        kept_right = dy.cmult(dy.pick_range(forget, size, 2 * size), right[1])
        return self._state(io, dy.esum([dy.cmult(dy.pick_range(io, 0, size), u), kept_left, kept_right]))

    def _io_and_u(self, gates: Any) -> tuple[Any, Any]:
        size = self.size
        return dy.logistic(dy.pick_range(gates, 0, 2 * size)), dy.tanh(dy.pick_range(gates, 2 * size, 3 * size))

    def _state(self, io: Any, c: Any) -> tuple[Any, Any]:
        return dy.cmult(dy.pick_range(io, self.size, 2 * self.size), dy.tanh(c)), c
