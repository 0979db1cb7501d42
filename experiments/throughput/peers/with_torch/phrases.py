"""The binary Tree-LSTM, all trees of a minibatch at once by level, with a handwritten backward."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from experiments.throughput.peers.forest import Binary, binary_of
from experiments.throughput.peers.samples import Phrases
from experiments.throughput.peers.with_torch.functions import Learner, per_sample, state_backward, tanh


class _Tape(NamedTuple):
    """The parts of the forward that backward needs: rows of phrases, `parts` and `forget` of inner ones."""

    x: Tensor
    gates: Tensor  # i, o, u after their functions
    tanh_c: Tensor
    c: Tensor
    h: Tensor
    parts: Tensor  # h of left and right
    forget: Tensor  # of left and right


class Sentiment(Learner):
    """The model and its step."""

    def outputs(self, samples: Sequence[Phrases]) -> Tensor:
        """Return the scores of all phrases, sentence by sentence in the order in which phrases end."""
        forest = self._binary(samples)
        scores = self._scores(self._climb(forest).h)
        return scores[forest.rows]

    def gradients(self, samples: Sequence[Phrases]) -> tuple[Tensor, dict[str, Tensor]]:
        """Return the losses, those of a sentence's phrases added up, and the gradients of their sum."""
        forest = self._binary(samples)
        tape = self._climb(forest)
        scores = self._scores(tape.h).log_softmax(1)
        losses = functional.nll_loss(scores, forest.labels, reduction="none")
        total = per_sample(losses[forest.rows], [len(sample.labels) for sample in samples])
        dscores = scores.exp_()
        dscores[torch.arange(len(dscores), device=self.device), forest.labels] -= 1
        found = {"out_weight": dscores.T @ tape.h, "out_bias": dscores.sum(0)}
        self._descend(forest, tape, dscores @ self.weights["out_weight"], found)
        return total, found

    def _binary(self, samples: Sequence[Phrases]) -> Binary:
        """Return the schedule with its index arrays as tensors."""
        found = binary_of(samples)
        names = ("words", "left", "right", "rows", "labels")
        return found._replace(**{name: self.tensor(getattr(found, name)) for name in names})

    def _scores(self, h: Tensor) -> Tensor:
        return torch.addmm(self.weights["out_bias"], h, self.weights["out_weight"].T)

    def _climb(self, forest: Binary) -> _Tape:
        """Run the leaves, then level by level those above."""
        weights, leaves = self.weights, forest.leaves
        size, nodes = len(weights["leaf_bias"]) // 3, len(forest.labels)
        x = self.table.index_select(0, forest.words)
        gates = x.new_empty((nodes, 3 * size))
        c, tanh_c, h = (x.new_empty((nodes, size)) for _ in range(3))
        parts, forget = (x.new_empty((nodes - leaves, 2 * size)) for _ in range(2))
        torch.addmm(weights["leaf_bias"], x, weights["leaf_weight"].T, out=gates[:leaves])
        rows = slice(0, leaves)
        i, u = _activate(gates[rows])
        torch.mul(i, u, out=c[rows])
        _hidden(gates[rows], c[rows], tanh_c[rows], h[rows])
        for rows in forest.levels:
            inner = slice(rows.start - leaves, rows.stop - leaves)
            left, right = forest.left[inner], forest.right[inner]
            parts[inner, :size] = h.index_select(0, left)
            parts[inner, size:] = h.index_select(0, right)
            all_gates = torch.addmm(weights["compose_bias"], parts[inner], weights["compose_weight"].T)
            gates[rows] = all_gates[:, : 3 * size]
            torch.sigmoid(all_gates[:, 3 * size :], out=forget[inner])
            i, u = _activate(gates[rows])
            torch.mul(i, u, out=c[rows])
            c[rows].addcmul_(forget[inner, :size], c.index_select(0, left))
            c[rows].addcmul_(forget[inner, size:], c.index_select(0, right))
            _hidden(gates[rows], c[rows], tanh_c[rows], h[rows])
        return _Tape(x, gates, tanh_c, c, h, parts, forget)

    def _descend(self, forest: Binary, tape: _Tape, dh: Tensor, found: dict[str, Tensor]) -> None:
        """Go down level by level, leaves last; dh starts as the gradient from the scores."""
        weights, leaves = self.weights, forest.leaves
        size = dh.shape[1]
        dc = torch.zeros_like(dh)
        dinner, dleaves = dh.new_empty((len(dh) - leaves, 5 * size)), dh.new_empty((leaves, 3 * size))
        for rows in reversed(forest.levels):
            inner = slice(rows.start - leaves, rows.stop - leaves)
            left, right = forest.left[inner], forest.right[inner]
            dgates = dinner[inner]
            _state_backward(tape, rows, dh, dc, dgates)
            for side, first in ((left, 0), (right, size)):
                forget = tape.forget[inner, first : first + size]
                kept = dc[rows] * forget
                part = dgates[:, 3 * size + first : 4 * size + first]
                torch.mul(kept, tape.c.index_select(0, side), out=part)
                part.mul_(1 - forget)
                dc.index_copy_(0, side, kept)
            down = dgates @ weights["compose_weight"]
            dh.index_add_(0, left, down[:, :size])
            dh.index_add_(0, right, down[:, size:])
        _state_backward(tape, slice(0, leaves), dh, dc, dleaves)
        found["compose_weight"] = dinner.T @ tape.parts
        found["compose_bias"] = dinner.sum(0)
        found["leaf_weight"] = dleaves.T @ tape.x
        found["leaf_bias"] = dleaves.sum(0)


def _activate(gates: Tensor) -> tuple[Tensor, Tensor]:
    """Put i, o and u through their functions; return i and u."""
    size = gates.shape[1] // 3
    gates[:, : 2 * size].sigmoid_()
    u = gates[:, 2 * size :]
    return gates[:, :size], tanh(u, out=u)


def _hidden(gates: Tensor, c: Tensor, tanh_c: Tensor, h: Tensor) -> None:
    size = c.shape[1]
    tanh(c, out=tanh_c)
    torch.mul(gates[:, size : 2 * size], tanh_c, out=h)


def _state_backward(tape: _Tape, rows: slice, dh: Tensor, dc: Tensor, dgates: Tensor) -> None:
    """Turn the gradients of h and c of some rows into those of i, o, u; dc becomes whole."""
    size = dh.shape[1]
    state = (*tape.gates[rows].split(size, 1), tape.tanh_c[rows])
    state_backward(state, dh[rows], dc[rows], dgates[:, : 3 * size].split(size, 1))
