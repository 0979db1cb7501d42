"""Recurrent layers: the sequences of all samples lie side by side on the axis of batches."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch

FUNCTIONS: dict[str, Callable[..., Any]] = {
    "lstm.input": torch.lstm,
    "gru.input": torch.gru,
    "rnn_tanh.input": torch.rnn_tanh,
    "rnn_relu.input": torch.rnn_relu,
}
RECURRENT = frozenset(FUNCTIONS)
"""Recurrent layers, each recorded as one operator."""


class Layer(NamedTuple):
    """A layer but for its weights: the name of its operator, and arguments of torch.nn.RNNBase.

    It drops nothing: a layer that does is recorded as several."""

    name: str
    has_biases: bool
    layers: int
    training: bool
    bidirectional: bool
    batch_first: bool

    @property
    def states(self) -> int:
        """The number of tensors in its state."""
        return 2 if self.name.startswith("lstm") else 1

    def plain(self, weights: Any) -> bool:
        """True if it has no projections."""
        return len(weights) == (4 if self.has_biases else 2) * self.layers * (1 + self.bidirectional)

    def run(self, sizes: tuple[Any, ...], inputs: Any, states: Any, weights: Any) -> Any:
        """Runs PyTorch's own function: (n, b, d) or (b, n, d) gives outputs alike, then what the states are after.

        sizes: of packed sequences, of which `inputs` are the rows, how many there are at each step.
        """
        begin = states if self.states > 1 else states[0]
        rest = [self.has_biases, self.layers, 0.0, self.training, self.bidirectional]
        if not sizes:
            rest.append(self.batch_first)
        return FUNCTIONS[self.name](inputs, *sizes, begin, weights, *rest)


def layer_of(name: str, args: Any) -> Layer:
    """The layer of a call of its operator."""
    return Layer(name, *[args[key] for key in ("has_biases", "num_layers", "train", "bidirectional", "batch_first")])


def beside(whole: Any) -> Any:
    """(nodes, k, b, h) as (k, nodes * b, h)."""
    return whole.transpose(0, 1).flatten(1, 2)


def apart(whole: Any, count: int) -> Any:
    """(k, nodes * b, h) as (nodes, k, b, h)."""
    return whole.unflatten(1, (count, -1)).transpose(0, 1)
