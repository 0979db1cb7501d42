"""Functions that are one operator of a trace, which PyTorch would take apart: recurrent layers, and `one_hot`.

The parts of a layer are slower, and those of `one_hot` do not refuse a class that there is none of.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

from gluonjit.engines.torch.framework.originals import autocast
from gluonjit.engines.torch.operators.binding import operator_named
from gluonjit.engines.torch.operators.recurrent import FUNCTIONS
from gluonjit.hybrid.run.state import LOCAL
from gluonjit.program.trace import NeedsValue

_ATEN = torch.ops.aten
PACKED = (
    "a packed sequence is read by its lengths, for each sample: pass the layer each sequence as it is, as "
    "rows, state = self.lstm(x), which runs together for sequences of all samples, whatever their lengths"
)
_PLACES: dict[str, dict[str, Any]] = {"one_hot": vars(torch.nn.functional)}  # where programs take functions from
_LAYERS: dict[str, Any] = vars(torch._VF)  # and where layers do


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


def _one_hot(input: Any, num_classes: int = -1) -> Any:
    """Runs `one_hot` of a given number of classes as one operator, if it is recorded."""
    if LOCAL.state.trace is None or num_classes < 0:
        return _ONE_HOT(input, num_classes)
    with torch._C._AutoDispatchBelowAutograd():
        return _ATEN.one_hot(input, num_classes)


def _packed(*args: Any) -> Any:
    """Packs sequences, which reads their lengths."""
    if LOCAL.state.trace is not None:
        raise NeedsValue
    return torch._pack_padded_sequence(*args)


_ONE_HOT = torch.nn.functional.one_hot
_ARGUMENTS = 9
WHOLE: dict[Any, Callable[..., Any]] = {
    **{function: _keeping(function, operator_named(name)) for name, function in FUNCTIONS.items()},
    _ONE_HOT: _one_hot,
    torch._pack_padded_sequence: _packed,
}
"""Functions of PyTorch's, and for each one that can be recorded as one operator."""


@contextmanager
def kept_whole() -> Iterator[None]:
    """Returns a region in which programs and layers call what can be recorded as one operator."""
    places = [(_PLACES.get(function.__name__, _LAYERS), function.__name__, run) for function, run in WHOLE.items()]
    before = [(place, name, place.get(name)) for place, name, _ in places]
    for place, name, run in places:
        place[name] = run
    try:
        yield
    finally:
        for place, name, function in before:
            if function is None:
                del place[name]
            else:
                place[name] = function
