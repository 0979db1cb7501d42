"""Recurrent layers: sequences of one length side by side, those of any length padded."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gluonjit.engines.mxnet.framework.arrays import dtype_name, sent
from gluonjit.engines.mxnet.framework.originals import slice_rows
from gluonjit.engines.mxnet.framework.symbols import apply
from gluonjit.engines.mxnet.operators.binding import reshape
from gluonjit.engines.mxnet.operators.layers import apart, by_batches, side_by_side
from gluonjit.program.axes.row import Application
from gluonjit.program.axes.values import Vals, Values, is_sized

_LAYERS = by_batches((1, -1, 1, 1), 1, 1, 1)
_GATES = {"lstm": 4, "gru": 3}
_SHUT = 1e4  # far more than what opens a gate
_ENDS = {"use_sequence_length": True}


def recurrent(call: Application) -> Vals:
    """RNN: fused recurrent layers; between layers nothing may be dropped."""
    if float(call.get("p", 0.0)) > 0.0:
        raise call.refuse("dropout between its layers")
    if call.get("use_sequence_length") or call.get("projection_size") is not None:
        raise call.refuse("sequence lengths or projections")
    writer, (data, params, *states) = call.writer, call.vals
    length, several, _ = data.shape
    if not is_sized(length):
        return _LAYERS(call)
    if not writer.padded or not params.shared or is_sized(several):
        raise call.mixed_rows
    placed = [side_by_side(writer, val) for val in (writer.filled(data, [0], 0), *states)]
    lengths = writer.need("counts", length, data.dtype)
    used = tuple(writer.used[1:])
    slots = writer.apply(padded, [*placed, params, lengths], several, call.attrs, used, outputs=len(call.outs))
    return [apart(writer, Values(slot, *out, 1, out[0])) for slot, out in zip(slots, call.outs)]


def padded(data: Any, *given: Any) -> list[Any]:
    """The outputs and last states of layers, one direction after the other, backward of sequences turned around.

    What is behind a sequence changes none of its outputs, of which the last is its state. An LSTM's cell stays as it is
    there, as one more input shuts the gates. A state that nothing uses is the one before.
    """
    *states, params, lengths, several, attrs, used = given
    size, ways = attrs["state_size"], 1 + bool(attrs.get("bidirectional"))
    gates, count = size * _GATES.get(attrs["mode"], 1), ways * (attrs.get("num_layers") or 1)
    one = {**attrs, "num_layers": 1, "bidirectional": False}
    if several > 1:
        lengths = apply("repeat", [lengths], {"repeats": several})
    behind, place, bias = None, 0, params.shape[0] - 2 * count * gates
    outputs: list[Any] = []
    ends: list[Any] = []
    if used[1:] == (True,):
        behind = apply("zeros_like", [apply("slice_axis", [data.detach()], {"axis": 2, "begin": 0, "end": 1})], {})
        behind = apply("SequenceMask", [behind, lengths], {**_ENDS, "value": 1})
        column = np.repeat(np.array([[-_SHUT], [_SHUT], [0], [0]], dtype_name(data)), size, 0)
        shut = sent(column, data.context)
    for number in range(count):
        inputs = apply("SequenceReverse", [data, lengths], _ENDS) if number % ways else data
        width, inner = data.shape[2], place + gates * data.shape[2]
        parts = [(place, inner), (inner, inner + gates * size), (bias, bias + 2 * gates)]
        weights = [slice_rows(params, *part) for part in parts]
        place, bias = parts[1][1], parts[2][1]
        if behind is not None:
            inputs = _beside([inputs, behind], 2)
            weights[0] = reshape(_beside([reshape(weights[0], (gates, width)), shut], 1), (-1,))
        begin = [slice_rows(state, number, number + 1) for state in states]
        found, *last = apply("RNN", [inputs, _beside(weights, 0), *begin], one)
        if used[0]:
            last[0] = apply("expand_dims", [apply("SequenceLast", [found, lengths], _ENDS)], {"axis": 0})
        ends.append(last)
        outputs.append(apply("SequenceReverse", [found, lengths], _ENDS) if number % ways else found)
        if len(outputs) == ways:
            data, outputs = _beside(outputs, 2), []
    finals = [_beside(each, 0) if wanted else before for each, wanted, before in zip(zip(*ends), used, states)]
    return [data, *finals]


def _beside(arrays: Sequence[Any], axis: int) -> Any:
    return apply("Concat", arrays, {"dim": axis, "num_args": len(arrays)}) if len(arrays) > 1 else arrays[0]
