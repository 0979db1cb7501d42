"""The child-sum Tree-LSTM for pairs, all trees of a minibatch at once by level, with a handwritten backward.

Leaves are separate, as they have no children; words are projected in one product, and so is the gradient of each
weight. Rows of all arrays are in the order of `Forest.order`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from experiments.throughput.peers.forest import forest_of
from experiments.throughput.peers.samples import Arrays, Pair
from experiments.throughput.peers.with_torch.functions import (
    Learner,
    divergence,
    log_softmax_backward,
    state_backward,
    tanh,
)


class _Tape(NamedTuple):
    """The parts of the forward that backward needs: rows of nodes, and of edges to children where they are named so."""

    x: Tensor
    gates: Tensor  # i, o, u after their functions
    tanh_c: Tensor
    c: Tensor
    h: Tensor
    sums: Tensor  # of the children's h, inner nodes only
    forget: Tensor  # edges
    edge_h: Tensor  # edges
    edge_c: Tensor  # edges


class Relatedness(Learner):
    """The model and its step."""

    def __init__(self, weights: Arrays, rate: float, device: str = "cpu") -> None:
        super().__init__(weights, rate, device)
        self.size = self.weights["f_weight"].shape[0]

    def outputs(self, samples: Sequence[Pair]) -> Tensor:
        """Return the (n, 5) log-probabilities of a minibatch."""
        forest = self._forest(samples)
        return self._head(self._climb(forest).h, forest)[0]

    def gradients(self, samples: Sequence[Pair]) -> tuple[Tensor, dict[str, Tensor]]:
        """Return the losses and the gradients of their sum."""
        forest, targets = self._forest(samples), self.tensor(np.stack([pair.target for pair in samples]))
        tape = self._climb(forest)
        scores, (product, distance, difference, hidden) = self._head(tape.h, forest)
        weights = self.weights
        dlog = -targets
        dscores = log_softmax_backward(dlog, scores)
        dhidden = (dscores @ weights["out_weight"]).mul_(hidden).mul_(1 - hidden)
        found = {
            "out_weight": dscores.T @ hidden,
            "out_bias": dscores.sum(0),
            "product_weight": dhidden.T @ product,
            "distance_weight": dhidden.T @ distance,
            "hidden_bias": dhidden.sum(0),
        }
        dproduct = dhidden @ weights["product_weight"]
        ddifference = (dhidden @ weights["distance_weight"]).mul_(difference.sign())
        half = len(samples)
        left, right = tape.h[forest.roots[:half]], tape.h[forest.roots[half:]]
        dh = torch.empty_like(tape.h)  # every node but a root has one parent, that sets its rows
        dh[forest.roots[:half]] = (dproduct * right).add_(ddifference)
        dh[forest.roots[half:]] = (dproduct * left).sub_(ddifference)
        self._descend(forest, tape, dh, found)
        return divergence(scores, targets), found

    def _head(self, h: Tensor, forest: Any) -> tuple[Tensor, tuple[Tensor, Tensor, Tensor, Tensor]]:
        """Compare the roots."""
        weights, half = self.weights, len(forest.roots) // 2
        left, right = h[forest.roots[:half]], h[forest.roots[half:]]
        difference = left - right
        product, distance = left * right, difference.abs()
        hidden = torch.addmm(weights["hidden_bias"], product, weights["product_weight"].T)
        hidden = hidden.addmm_(distance, weights["distance_weight"].T).sigmoid_()
        scores = torch.addmm(weights["out_bias"], hidden, weights["out_weight"].T).log_softmax(1)
        return scores, (product, distance, difference, hidden)

    def _climb(self, forest: Any) -> _Tape:
        """Run the leaves, then level by level those above."""
        size, leaves, weights = self.size, forest.leaves, self.weights
        nodes, edges = len(forest.words), len(forest.children)
        x = self.table.index_select(0, forest.words)
        gates = x.new_empty((nodes, 3 * size))
        x_weight, x_bias = weights["x_weight"], weights["x_bias"]
        torch.addmm(x_bias[: 3 * size], x[:leaves], x_weight[: 3 * size].T, out=gates[:leaves])
        from_x = torch.addmm(x_bias, x[leaves:], x_weight.T)
        c, tanh_c, h = (x.new_empty((nodes, size)) for _ in range(3))
        self._state(slice(0, leaves), gates, None, c, tanh_c, h)
        sums = x.new_zeros((nodes - leaves, size))
        forget, edge_h, edge_c = (x.new_empty((edges, size)) for _ in range(3))
        for rows, edge in forest.levels:
            inner = slice(rows.start - leaves, rows.stop - leaves)
            children, parents = forest.children[edge], forest.parents[edge]
            torch.index_select(h, 0, children, out=edge_h[edge])
            torch.index_select(c, 0, children, out=edge_c[edge])
            torch.index_select(from_x[inner, 3 * size :], 0, parents, out=forget[edge])
            forget[edge].addmm_(edge_h[edge], weights["f_weight"].T).sigmoid_()
            sums[inner].index_add_(0, parents, edge_h[edge])
            kept = x.new_zeros((rows.stop - rows.start, size))
            kept.index_add_(0, parents, forget[edge] * edge_c[edge])
            torch.addmm(from_x[inner, : 3 * size], sums[inner], weights["h_weight"].T, out=gates[rows])
            self._state(rows, gates, kept, c, tanh_c, h)
        return _Tape(x, gates, tanh_c, c, h, sums, forget, edge_h, edge_c)

    def _state(self, rows: slice, gates: Tensor, kept: Tensor | None, c: Tensor, tanh_c: Tensor, h: Tensor) -> None:
        """Fill in the states of some rows from their gates, which are put through their functions."""
        size = self.size
        gates[rows, : 2 * size].sigmoid_()
        tanh(gates[rows, 2 * size :], out=gates[rows, 2 * size :])
        torch.mul(gates[rows, :size], gates[rows, 2 * size :], out=c[rows])
        if kept is not None:
            c[rows].add_(kept)
        tanh(c[rows], out=tanh_c[rows])
        torch.mul(gates[rows, size : 2 * size], tanh_c[rows], out=h[rows])

    def _descend(self, forest: Any, tape: _Tape, dh: Tensor, found: dict[str, Tensor]) -> None:
        """Go down level by level, leaves at the end; weights get their gradients from all rows together."""
        size, leaves, weights = self.size, forest.leaves, self.weights
        dc = torch.empty_like(dh)
        dc[forest.roots] = 0
        dgates = dh.new_empty((len(dh), 4 * size))
        dforget = torch.empty_like(tape.forget)
        for rows, edge in reversed(forest.levels):
            self._state_backward(rows, tape, dh, dc, dgates)
            children, parents = forest.children[edge], forest.parents[edge]
            forget = tape.forget[edge]
            above = dc[rows].index_select(0, parents)
            down = above * forget
            torch.mul(down, tape.edge_c[edge], out=dforget[edge])
            dforget[edge].mul_(1 - forget)
            dc.index_copy_(0, children, down)
            dgates[rows, 3 * size :] = 0
            dgates[rows, 3 * size :].index_add_(0, parents, dforget[edge])
            dsums = dgates[rows, : 3 * size] @ weights["h_weight"]
            dh.index_copy_(0, children, dsums.index_select(0, parents).addmm_(dforget[edge], weights["f_weight"]))
        self._state_backward(slice(0, leaves), tape, dh, dc, dgates)
        inner = dgates[leaves:]
        found["h_weight"] = inner[:, : 3 * size].T @ tape.sums
        found["f_weight"] = dforget.T @ tape.edge_h
        found["x_weight"] = inner.T @ tape.x[leaves:]
        found["x_bias"] = inner.sum(0)
        found["x_weight"][: 3 * size].addmm_(dgates[:leaves, : 3 * size].T, tape.x[:leaves])
        found["x_bias"][: 3 * size].add_(dgates[:leaves, : 3 * size].sum(0))

    def _state_backward(self, rows: slice, tape: _Tape, dh: Tensor, dc: Tensor, dgates: Tensor) -> None:
        """Turn the gradients of h and c of some rows into those of their gates; dc becomes whole."""
        size = self.size
        state = (*tape.gates[rows].split(size, 1), tape.tanh_c[rows])
        state_backward(state, dh[rows], dc[rows], dgates[rows].split(size, 1)[:3])

    def _forest(self, samples: Sequence[Pair]) -> Any:
        """Join the trees of all left sides, then those of the right sides; index arrays are tensors."""
        forest = forest_of([pair.left for pair in samples] + [pair.right for pair in samples])
        names = ("words", "children", "parents", "roots")
        return forest._replace(**{name: self.tensor(getattr(forest, name)) for name in names})
