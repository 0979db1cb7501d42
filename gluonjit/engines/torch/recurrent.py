"""Recurrent layers (`torch.nn.LSTM`, `GRU`, `RNN`) as one operator of a trace, which PyTorch would take apart."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

from gluonjit.engines.torch.hooked import autocast
from gluonjit.hybrid.run.state import LOCAL

_PLACE: dict[str, Any] = vars(torch._VF)  # where the layers take their functions from


def _keeping(function: Any, operator: Any) -> Callable[..., Any]:
    """Makes a function that calls the operator of a layer, if it is recorded, and else does what `function` does.

    A call on packed sequences is another operator, which reads their sizes. What is cast is so inside of a layer.
    """

    def call(*args: Any) -> Any:
        if LOCAL.state.trace is None or len(args) != _ARGUMENTS or not isinstance(args[3], bool) or autocast():
            return function(*args)
        layers, dropout, training = args[4:7]
        if layers > 1 and dropout and training:
            return _dropping(call, *args)
        with torch._C._AutoDispatchBelowAutograd():  # above it the operator is its parts
            return operator(*args[:5], 0.0, *args[6:])

    return call


def _dropping(
    run: Callable[..., Any],
    inputs: Any,
    states: Any,
    weights: Any,
    has_biases: bool,
    layers: int,
    dropout: float,
    training: bool,
    bidirectional: bool,
    batch_first: bool,
) -> tuple[Any, ...]:
    """Runs layer after layer, with an operator between two of them that drops."""
    lstm, ways, each = isinstance(states, (list, tuple)), 1 + bidirectional, len(weights) // layers
    ends = []
    for number in range(layers):
        if number:
            inputs = torch.dropout(inputs, dropout, True)
        begin = [state.narrow(0, number * ways, ways) for state in (states if lstm else (states,))]
        own = weights[number * each : (number + 1) * each]
        rest = (has_biases, 1, 0.0, training, bidirectional, batch_first)
        inputs, *last = run(inputs, begin if lstm else begin[0], own, *rest)
        ends.append(last)
    return (inputs, *map(torch.cat, zip(*ends)))


_ARGUMENTS = 9
LAYERS: dict[Any, Callable[..., Any]] = {
    function: _keeping(function, operator.input)
    for function, operator in (
        (torch.lstm, torch.ops.aten.lstm),
        (torch.gru, torch.ops.aten.gru),
        (torch.rnn_tanh, torch.ops.aten.rnn_tanh),
        (torch.rnn_relu, torch.ops.aten.rnn_relu),
    )
}
"""The functions behind the layers, and for each one that can be recorded as one operator."""


@contextmanager
def kept_whole() -> Iterator[None]:
    """Returns a region in which layers call what can be recorded as one operator."""
    before = {name: _PLACE[name] for name in _NAMES if name in _PLACE}
    _PLACE.update(_NAMES)
    try:
        yield
    finally:
        for name in _NAMES:
            del _PLACE[name]
        _PLACE.update(before)


_NAMES = {function.__name__: run for function, run in LAYERS.items()}
