"""Recurrent layers (`torch.nn.LSTM`, `GRU`, `RNN`) of one sequence, step by step.

As one operator a layer would be a kind for each length. So its steps are captured, each a node, and sequences of all
lengths run together; what is computed of the inputs alone is one node for the whole sequence, before them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch.nn.functional import linear

from gluonjit.engines.torch.lazy import LazyTensor

Capture = Callable[[Callable[..., Any], tuple[Any, ...]], Any]
"""Captures a call of a function as one node."""


def lstm_step(given: Any, h: Any, c: Any, weight: Any, bias: Any) -> tuple[Any, Any]:
    """The state (h, c) after a step, from what is computed of its input and the state before."""
    i, f, g, o = (given + linear(h, weight, bias)).chunk(4, -1)
    c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
    return torch.sigmoid(o) * torch.tanh(c), c


def gru_step(given: Any, h: Any, weight: Any, bias: Any) -> tuple[Any]:
    """The state after a step."""
    given_r, given_z, given_n = given.chunk(3, -1)
    r, z, n = linear(h, weight, bias).chunk(3, -1)
    r, z = torch.sigmoid(given_r + r), torch.sigmoid(given_z + z)
    n = torch.tanh(given_n + r * n)
    return (n + z * (h - n),)


def tanh_step(given: Any, h: Any, weight: Any, bias: Any) -> tuple[Any]:
    """The state after a step."""
    return (torch.tanh(given + linear(h, weight, bias)),)


def relu_step(given: Any, h: Any, weight: Any, bias: Any) -> tuple[Any]:
    """The state after a step."""
    return (torch.relu(given + linear(h, weight, bias)),)


STEPS: dict[Any, Callable[..., tuple[Any, ...]]] = {
    torch.lstm: lstm_step,
    torch.gru: gru_step,
    torch.rnn_tanh: tanh_step,
    torch.rnn_relu: relu_step,
}
"""The functions behind the layers, and what each does in a step."""


class _Layer(NamedTuple):
    """Arguments of such a function, but for the first: see torch.nn.RNNBase."""

    state: Any
    weights: Sequence[Any]
    has_biases: bool
    layers: int
    dropout: float
    training: bool
    bidirectional: bool
    batch_first: bool


def run(func: Any, args: tuple[Any, ...], capture: Capture) -> Any:
    """What a layer gives for one sequence; None where it is called in another way, on several sequences for one."""
    if len(args) != 1 + len(_Layer._fields) or not isinstance(args[2], (list, tuple)):
        return None  # packed sequences
    layer, lstm = _Layer(*args[1:]), func is torch.lstm
    steps = args[0].squeeze(0 if layer.batch_first else 1) if args[0].dim() == 3 else None
    each = 4 if layer.has_biases else 2
    directions = 2 if layer.bidirectional else 1
    if steps is None or steps.dim() != 2 or not len(steps):
        return None
    if len(layer.weights) != each * layer.layers * directions:
        return None  # with projections
    if any(weight.__class__ is LazyTensor for weight in layer.weights):
        return None
    states = layer.state if lstm else (layer.state,)
    ends: list[tuple[Any, ...]] = []
    for number in range(layer.layers):
        if number and layer.dropout and layer.training:
            steps = torch.dropout(steps, layer.dropout, True)
        ways = []
        for backward in range(directions):
            place = len(ends)
            weights = layer.weights[each * place : each * (place + 1)]
            begin = tuple([state[place][0] for state in states])
            outputs, end = _one_way(STEPS[func], steps, begin, weights, bool(backward), capture)
            ways.append(outputs)
            ends.append(end)
        steps = torch.cat(ways, 1) if len(ways) > 1 else ways[0]
    last = tuple([torch.stack(parts).unsqueeze(1) for parts in zip(*ends)])
    return (steps.unsqueeze(0 if layer.batch_first else 1), *last)


def _one_way(
    step: Callable[..., Any],
    inputs: Any,
    state: tuple[Any, ...],
    weights: Sequence[Any],
    backward: bool,
    capture: Capture,
) -> tuple[Any, tuple[Any, ...]]:
    """The outputs of one layer in one direction, in the order of the inputs, and its last state."""
    of_input, of_state, *biases = weights
    given = linear(inputs, of_input, biases[0] if biases else None)
    outputs = []
    order = range(len(inputs))
    for k in reversed(order) if backward else order:
        state = capture(step, (given[k], *state, of_state, biases[1] if biases else None))
        outputs.append(state[0])
    return torch.stack(outputs[::-1] if backward else outputs), state
