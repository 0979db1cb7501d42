"""Both Tree-LSTMs, all trees of a minibatch at once by level, differentiated by autograd; a state is a row (h, c)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from experiments.throughput.peers.levels import Levels, joined, levels_of
from experiments.throughput.peers.samples import Arrays, Pair, Phrases, heads_of
from experiments.throughput.peers.with_torch.functions import divergence, per_sample
from experiments.throughput.peers.with_torch.learner import Differentiated


def state(gates: Tensor, kept: Tensor | None = None) -> Tensor:
    """Return the states from the gates i, o, u and the kept part of the children's memory."""
    i, o, u = gates.chunk(3, 1)
    c = i.sigmoid() * u.tanh()
    if kept is not None:
        c = c + kept
    return torch.cat([o.sigmoid() * c.tanh(), c], 1)


def child_sum(pool: Tensor, words: Tensor, children: Tensor, parents: Tensor, h: Tensor, f: Tensor) -> Tensor:
    """Return the states of a level's inner nodes; `words` are the gates i, o, u, f of theirs, h and f are weights."""
    size = f.shape[0]
    memory_h, memory_c = pool.index_select(0, children).chunk(2, 1)
    forget = torch.addmm(words[:, 3 * size :].index_select(0, parents), memory_h, f.T).sigmoid()
    sums = words.new_zeros((words.shape[0], 2 * size))
    sums = sums.index_add(0, parents, torch.cat([memory_h, forget * memory_c], 1))
    return state(torch.addmm(words[:, : 3 * size], sums[:, :size], h.T), sums[:, size:])


def compose(pool: Tensor, children: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """Return the states of a level's phrases; each has two children."""
    parts = pool.index_select(0, children).view(-1, 2, pool.shape[1])
    size = pool.shape[1] // 2
    gates = torch.addmm(bias, parts[:, :, :size].reshape(-1, 2 * size), weight.T)
    forget = gates[:, 3 * size :].sigmoid().view(-1, 2, size)
    return state(gates[:, : 3 * size], (forget * parts[:, :, size:]).sum(1))


def compare(
    left: Tensor, right: Tensor, product: Tensor, distance: Tensor, bias: Tensor, out: Tensor, out_bias: Tensor
) -> Tensor:
    """Return the log-probabilities (n, 5) from the hidden states of both roots."""
    hidden = torch.addmm(torch.addmm(bias, left * right, product.T), (left - right).abs(), distance.T).sigmoid()
    return torch.addmm(out_bias, hidden, out.T).log_softmax(1)


class ByLevel(Differentiated):
    """The common part of both models; `functions` are those of a level and of what is above the trees."""

    functions: tuple[Callable[..., Tensor], ...] = ()

    def __init__(self, weights: Arrays, rate: float, device: str = "cpu") -> None:
        super().__init__(weights, rate, device)
        self.run = {function.__name__: function for function in self.functions}

    def climb(self, levels: Levels, leaves: Tensor, level: Callable[[Tensor, slice, slice], Tensor]) -> list[Tensor]:
        """Return the states of the inner nodes of each level from those of all leaves.

        `level` computes one from the pool below, the places of its nodes among all inner nodes, and of its edges.
        """
        below = leaves.split(levels.leaves)
        pool, found = below[0], []
        nodes = edges = 0
        for leaf_part, inner, count in zip(below[1:], levels.inner, levels.edges):
            found.append(level(pool, slice(nodes, nodes + inner), slice(edges, edges + count)))
            pool = torch.cat([leaf_part, found[-1]]) if len(leaf_part) else found[-1]
            nodes, edges = nodes + inner, edges + count
        return [*found, pool]

    def laid_out(self, heads: Sequence[np.ndarray]) -> tuple[Levels, Any]:
        """Return the levels of trees and the order of their nodes, which stays on the host; indices are tensors."""
        levels = levels_of(joined(heads))
        tensors = {name: self.tensor(getattr(levels, name)) for name in ("children", "parents", "roots", "row")}
        return levels._replace(**tensors), levels.order


class Relatedness(ByLevel):
    """The child-sum Tree-LSTM for pairs."""

    functions = (child_sum, compare)

    def losses(self, samples: Sequence[Pair]) -> Tensor:
        """Return the divergence of each pair."""
        targets = self.tensor(np.stack([pair.target for pair in samples]))
        return divergence(self.scores(samples), targets)

    def scores(self, samples: Sequence[Pair]) -> Tensor:
        """Return the (n, 5) log-probabilities of a minibatch."""
        sentences = [pair.left for pair in samples] + [pair.right for pair in samples]
        levels, order = self.laid_out([sentence.heads for sentence in sentences])
        words = self.tensor(np.concatenate([sentence.words for sentence in sentences])[order])
        found, count = self.weights, sum(levels.leaves)
        x, x_weight, x_bias = self.table.index_select(0, words), found["x_weight"], found["x_bias"]
        rows = 3 * found["f_weight"].shape[0]
        leaves = state(torch.addmm(x_bias[:rows], x[:count], x_weight[:rows].T))
        gates = torch.addmm(x_bias, x[count:], x_weight.T)

        def level(pool: Tensor, nodes: slice, edges: slice) -> Tensor:
            places = levels.children[edges], levels.parents[edges]
            return self.run["child_sum"](pool, gates[nodes], *places, found["h_weight"], found["f_weight"])

        roots = self.climb(levels, leaves, level)[-1].index_select(0, levels.roots)[:, : rows // 3]
        names = ("product_weight", "distance_weight", "hidden_bias", "out_weight", "out_bias")
        return self.run["compare"](*roots.split(len(samples)), *[found[name] for name in names])


class Sentiment(ByLevel):
    """The binary Tree-LSTM for phrases."""

    functions = (compose,)

    def losses(self, samples: Sequence[Phrases]) -> Tensor:
        """Return the losses of each sentence's phrases, added up."""
        labels = self.tensor(np.concatenate([sample.labels for sample in samples]))
        found = functional.cross_entropy(self.scores(samples), labels, reduction="none")
        return per_sample(found, [len(sample.labels) for sample in samples])

    def scores(self, samples: Sequence[Phrases]) -> Tensor:
        """Return the scores of all phrases, sentence by sentence in the order in which phrases end."""
        found = self.weights
        levels, order = self.laid_out([heads_of(sample) for sample in samples])
        # Words are numbered where the phrases of one word end.
        at = np.zeros(len(order), dtype=np.int64)
        at[np.concatenate([sample.left for sample in samples]) < 0] = np.concatenate([one.words for one in samples])
        words = self.tensor(at[order[: sum(levels.leaves)]])
        gates = torch.addmm(found["leaf_bias"], self.table.index_select(0, words), found["leaf_weight"].T)
        leaves = state(gates)

        def level(pool: Tensor, nodes: slice, edges: slice) -> Tensor:
            return self.run["compose"](pool, levels.children[edges], found["compose_weight"], found["compose_bias"])

        inner = self.climb(levels, leaves, level)[:-1]
        size = leaves.shape[1] // 2
        h = torch.cat([leaves[:, :size], *[states[:, :size] for states in inner]]).index_select(0, levels.row)
        return torch.addmm(found["out_bias"], h, found["out_weight"].T)
