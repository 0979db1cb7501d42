"""Recurrent layers (`torch.nn.LSTM`, `GRU`, `RNN`) of one sequence, step by step.

As one operator a layer would be one kind per length. So its steps are captured as nodes, and sequences of all lengths
run together; what is computed from the inputs alone is one node for the whole sequence, before them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch.nn.functional import linear

from gluonjit.engines.torch.lazy import LazyTensor

Capture = Callable[[Callable[..., Any]], Callable[..., Any]]
"""Makes of a function what captures calls of it, each as one node."""


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


_MODES: dict[str, Callable[..., tuple[Any, ...]]] = {
    "LSTM": lstm_step,
    "GRU": gru_step,
    "RNN_TANH": tanh_step,
    "RNN_RELU": relu_step,
}
_FORWARDS = {torch.nn.LSTM.forward, torch.nn.GRU.forward, torch.nn.RNN.forward}


class _RecurrentArguments(NamedTuple):
    """Arguments of such a function, but for the first: see torch.nn.RNNBase."""

    state: Any
    weights: Sequence[Any]
    has_biases: bool
    layers: int
    dropout: float
    training: bool
    bidirectional: bool
    batch_first: bool

    @property
    def passes(self) -> int:
        """The number of times the sequence is gone through."""
        return self.layers * (2 if self.bidirectional else 1)


def run(func: Any, args: tuple[Any, ...], capture: Capture) -> Any:
    """Runs such a function for one sequence; None if it is called in another way, on several for one."""
    if len(args) != 1 + len(_RecurrentArguments._fields) or not isinstance(args[2], (list, tuple)):
        return None  # packed sequences
    layer = _RecurrentArguments(*args[1:])
    axis = 0 if layer.batch_first else 1
    if args[0].dim() != 3 or args[0].shape[axis] != 1:
        return None
    states = layer.state if func is torch.lstm else (layer.state,)
    begin = [tuple([state[number][0] for state in states]) for number in range(layer.passes)]
    found = _outputs(STEPS[func], layer, args[0].squeeze(axis), begin, capture)
    if found is None:
        return None
    outputs, last = found
    return (outputs.unsqueeze(axis), *[end.unsqueeze(1) for end in last])


def call(module: Any, args: tuple[Any, ...], kwargs: dict[str, Any], capture: Capture) -> Any:
    """Runs a layer for a sequence without an axis of batches; None if it is called in another way."""
    if type(module).forward not in _FORWARDS or "forward" in module.__dict__ or kwargs or not 1 <= len(args) <= 2:
        return None
    inputs, lstm = args[0], module.mode == "LSTM"
    if inputs.__class__ is not LazyTensor or inputs.dim() != 2 or inputs.shape[1] != module.input_size:
        return None
    layer = _RecurrentArguments(
        args[1] if len(args) > 1 else None,
        module._flat_weights,
        module.bias,
        module.num_layers,
        module.dropout,
        module.training,
        module.bidirectional,
        module.batch_first,
    )
    if layer.state is None:
        zeros = torch.zeros(module.hidden_size, dtype=layer.weights[0].dtype, device=layer.weights[0].device)
        begin = [(zeros, zeros) if lstm else (zeros,)] * layer.passes
    else:
        states = layer.state if lstm else (layer.state,)
        shape = (layer.passes, module.hidden_size)
        if any(not isinstance(state, torch.Tensor) or tuple(state.shape) != shape for state in states):
            return None
        begin = [tuple([state[number] for state in states]) for number in range(layer.passes)]
    found = _outputs(_MODES[module.mode], layer, inputs, begin, capture)
    if found is None:
        return None
    outputs, last = found
    return outputs, last if lstm else last[0]


def _outputs(
    step: Callable[..., Any],
    layer: _RecurrentArguments,
    inputs: Any,
    begin: Sequence[tuple[Any, ...]],
    capture: Capture,
) -> tuple[Any, tuple[Any, ...]] | None:
    """The outputs for each step of a sequence, and the last state of each pass."""
    each = 4 if layer.has_biases else 2
    if not len(inputs) or len(layer.weights) != each * layer.passes:
        return None  # or with projections
    if any(weight.__class__ is LazyTensor for weight in layer.weights):
        return None
    ends: list[tuple[Any, ...]] = []
    for number in range(layer.layers):
        if number and layer.dropout and layer.training:
            inputs = torch.dropout(inputs, layer.dropout, True)
        ways = []
        for backward in (False, True)[: 2 if layer.bidirectional else 1]:
            place = len(ends)
            weights = layer.weights[each * place : each * (place + 1)]
            outputs, end = _one_way(step, inputs, begin[place], weights, backward, capture)
            ways.append(outputs)
            ends.append(end)
        inputs = torch.cat(ways, 1) if len(ways) > 1 else ways[0]
    return inputs, tuple([torch.stack(parts) for parts in zip(*ends)])


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
    outputs, capture_step = [], capture(step)
    order, bias = range(len(inputs)), biases[1] if biases else None
    for k in reversed(order) if backward else order:
        state = capture_step(given[k], *state, of_state, bias)
        outputs.append(state[0])
    return torch.stack(outputs[::-1] if backward else outputs), state
