"""The BiLSTM tagger, all sentences of a minibatch at once step by step, with a handwritten backward.

Sentences are sorted by length, the longest first, so that those that continue at a step are its first rows. All steps
are stored one after the other, in the order in which a direction takes them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from experiments.throughput.peers.samples import Tagged
from experiments.throughput.peers.with_torch.functions import Learner, per_sample, state_backward, tanh

DIRECTIONS = ("ahead", "back")


class Steps(NamedTuple):
    """A minibatch: rows (begin, end) of each step; for each direction the token of each row."""

    sizes: Any
    bounds: list[slice]
    tokens: dict[str, Any]


class _Placed(NamedTuple):
    """The same as tensors, with numbers of words and tags, and for each direction the row of each token."""

    words: Tensor
    labels: Tensor
    sizes: Tensor
    bounds: list[slice]
    tokens: dict[str, Tensor]
    rows: dict[str, Tensor]


class _Tape(NamedTuple):
    """The parts of one direction that backward needs: the gates i, f, u, o after their functions, and the states."""

    x: Tensor
    gates: Tensor
    c: Tensor
    tanh_c: Tensor
    h: Tensor


class Tagger(Learner):
    """The model and its step."""

    def outputs(self, samples: Sequence[Tagged]) -> Tensor:
        """Return the scores of all tokens, sentence by sentence."""
        steps = self._placed(samples)
        return self._scores(self._states(steps, {name: self._run(name, steps) for name in DIRECTIONS}))

    def gradients(self, samples: Sequence[Tagged]) -> tuple[Tensor, dict[str, Tensor]]:
        """Return the losses, the mean of each sentence's tokens, and the gradients of their sum."""
        steps = self._placed(samples)
        tapes = {name: self._run(name, steps) for name in DIRECTIONS}
        states = self._states(steps, tapes)
        scores = self._scores(states).log_softmax(1)
        share = torch.repeat_interleave(1 / steps.sizes.float(), steps.sizes, output_size=len(scores))
        losses = functional.nll_loss(scores, steps.labels, reduction="none") * share
        total = per_sample(losses, [len(sample.labels) for sample in samples])
        dscores = scores.exp_()
        dscores[torch.arange(len(dscores), device=self.device), steps.labels] -= 1
        dscores.mul_(share[:, None])
        found = {"out_weight": dscores.T @ states, "out_bias": dscores.sum(0)}
        dstates = dscores @ self.weights["out_weight"]
        for name, part in zip(DIRECTIONS, dstates.chunk(2, 1)):
            dh = part.index_select(0, steps.tokens[name])
            found.update(self._run_backward(name, steps, tapes[name], dh))
        return total, found

    def _placed(self, samples: Sequence[Tagged]) -> _Placed:
        steps = steps_of(samples)
        return _Placed(
            self.tensor(np.concatenate([sample.words for sample in samples])),
            self.tensor(np.concatenate([sample.labels for sample in samples])),
            self.tensor(steps.sizes),
            steps.bounds,
            {name: self.tensor(found) for name, found in steps.tokens.items()},
            {name: self.tensor(np.argsort(found)) for name, found in steps.tokens.items()},
        )

    def _states(self, steps: _Placed, tapes: dict[str, _Tape]) -> Tensor:
        """Return the states of both directions at each token."""
        return torch.cat([tapes[name].h.index_select(0, steps.rows[name]) for name in DIRECTIONS], 1)

    def _scores(self, states: Tensor) -> Tensor:
        return torch.addmm(self.weights["out_bias"], states, self.weights["out_weight"].T)

    def _run(self, name: str, steps: _Placed) -> _Tape:
        """Run one direction; all words are projected at once."""
        weights = self.weights
        h_weight = weights[f"{name}_h2h_weight"]
        size = h_weight.shape[1]
        x = self.table.index_select(0, steps.words[steps.tokens[name]])
        bias = weights[f"{name}_i2h_bias"] + weights[f"{name}_h2h_bias"]
        gates = torch.addmm(bias, x, weights[f"{name}_i2h_weight"].T)
        c, tanh_c, h = (x.new_empty((len(x), size)) for _ in range(3))
        before = slice(0, 0)
        for rows in steps.bounds:
            going = slice(before.start, before.start + rows.stop - rows.start)  # sentences that go on
            found = gates[rows]
            if before.stop:
                found.addmm_(h[going], h_weight.T)
            found[:, : 2 * size].sigmoid_()
            found[:, 3 * size :].sigmoid_()
            i, f, u, o = found.split(size, 1)
            tanh(u, out=u)
            torch.mul(i, u, out=c[rows])
            if before.stop:
                c[rows].addcmul_(f, c[going])
            tanh(c[rows], out=tanh_c[rows])
            torch.mul(o, tanh_c[rows], out=h[rows])
            before = rows
        return _Tape(x, gates, c, tanh_c, h)

    def _run_backward(self, name: str, steps: _Placed, tape: _Tape, dh: Tensor) -> dict[str, Tensor]:
        """Go back step by step; dh starts as the gradient from the scores."""
        h_weight = self.weights[f"{name}_h2h_weight"]
        size = h_weight.shape[1]
        dgates, dc = torch.empty_like(tape.gates), torch.zeros_like(dh)
        first = steps.bounds[0].stop  # rows of the first step, which has nothing before it
        previous = dh.new_empty((len(dh) - first, size))
        for rows, before in zip(reversed(steps.bounds), [*reversed(steps.bounds[:-1]), None]):
            i, f, u, o = tape.gates[rows].split(size, 1)
            di, df, du, do = dgates[rows].split(size, 1)
            state_backward((i, o, u, tape.tanh_c[rows]), dh[rows], dc[rows], (di, do, du))
            if before is None:
                df.zero_()
                break
            going = slice(before.start, before.start + rows.stop - rows.start)
            torch.mul(dc[rows], tape.c[going], out=df)
            df.mul_(f).mul_(1 - f)
            torch.mul(dc[rows], f, out=dc[going])
            dh[going].addmm_(dgates[rows], h_weight)
            previous[rows.start - first : rows.stop - first] = tape.h[going]
        bias = dgates.sum(0)
        return {
            f"{name}_i2h_weight": dgates.T @ tape.x,
            f"{name}_h2h_weight": dgates[first:].T @ previous,
            f"{name}_i2h_bias": bias,
            f"{name}_h2h_bias": bias,
        }


def steps_of(samples: Sequence[Tagged]) -> Steps:
    """Sort and lay out a minibatch; all indices are numpy arrays."""
    sizes = np.array([len(sample.words) for sample in samples])
    starts = np.cumsum(sizes) - sizes
    longest_first = np.argsort(-sizes, kind="stable")
    counts = np.searchsorted(np.sort(-sizes), -np.arange(sizes.max()), side="left")  # sentences longer than step k
    ends = np.cumsum(counts)
    step = np.repeat(np.arange(len(counts)), counts)
    sentence = longest_first[np.arange(len(step)) - np.repeat(ends - counts, counts)]
    tokens = {"ahead": starts[sentence] + step, "back": starts[sentence] + sizes[sentence] - 1 - step}
    return Steps(sizes, [slice(end - count, end) for end, count in zip(ends.tolist(), counts.tolist())], tokens)
