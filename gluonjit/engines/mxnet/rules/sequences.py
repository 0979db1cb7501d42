"""Operators with time first and the batch second: (T, B, ...).

The samples' batches are laid side by side: (N, T, B, ...) becomes (T, N*B, ...), and back.
"""

from __future__ import annotations

from collections.abc import Sequence

import mxnet as mx

from .rule import Emit, OperatorCall, Rule
from .symbols import apply
from .values import ROWS, STACK, NotBatchable, Shape, Val, all_rows, convert, reshape, spread


def side_by_side(value: Val, reference: Val) -> mx.sym.Symbol:
    """(T, B, ...) of each sample as (T, N*B, ...)."""
    stacked = spread(value, reference)
    order = (1, 0, *range(2, value.ndim + 1))
    return apply(
        "Reshape",
        [apply("transpose", [stacked.sym], {"axes": order})],
        {"shape": (value.shape[0], -1, *value.shape[2:])},
    )


def apart(symbol: mx.sym.Symbol, shape: Shape, dtype: str) -> Val:
    """(T, N*B, ...) as a stack of (T, B, ...)."""
    folded = apply("Reshape", [symbol], {"shape": (shape[0], -1, *shape[1:])})
    order = (1, 0, *range(2, len(shape) + 1))
    return Val(apply("transpose", [folded], {"axes": order}), shape, dtype, STACK)


def batch_axes(call: OperatorCall, inputs: Sequence[int], outputs: Sequence[int]) -> list[Val]:
    """The operator with all samples' batches along the axes that it takes for the batch, each 0 or 1.

    Axis -1 marks a parameter, the same for all samples.
    """
    if call.poly:
        raise NotBatchable(f"{call.name}: rows of varying length, but axis 0 is not the batch")
    reference = call.batched[0]
    symbols = []
    for value, axis in zip(call.inputs, inputs):
        if axis < 0 and not value.shared:
            raise NotBatchable(f"{call.name}: parameters that are not the same for all samples")
        if axis < 0:
            symbols.append(value.sym)
        elif axis == 1:
            symbols.append(side_by_side(value, reference))
        else:
            symbols.append(convert(spread(value, reference) if value.shared else value, ROWS).sym)
    result = call.same(symbols)
    count = len(call.outputs)
    each = [result] if count == 1 and len(result) == 1 else [result[i] for i in range(count)]
    return [
        apart(symbol, shape, dtype) if axis == 1 else Val(symbol, shape, dtype, ROWS)
        for symbol, axis, (shape, dtype) in zip(each, outputs, call.outputs)
    ]


def sequence(keeps_time: bool) -> Emit:
    """SequenceMask, SequenceReverse and SequenceLast: `axis` is the time, the other one the batch."""

    def emit(call: OperatorCall) -> list[Val]:
        if call.data.shared:
            raise NotBatchable(f"{call.name}: shared data with lengths per sample")
        if not call.attrs.flag("use_sequence_length"):
            return _whole(call)
        if call.attrs.integer("axis", 0) == 1:
            rows, poly = all_rows(call.inputs)
            return call.deliver(call.same(rows), ROWS, poly)
        return batch_axes(call, (1, 0), (1 if keeps_time else 0,))

    return emit


def _whole(call: OperatorCall) -> list[Val]:
    """Emits the operator without lengths: a mask keeps all, a reversal is a flip and the last step a slice.

    MXNet's SequenceLast ends the process where it has no lengths.
    """
    data, axis = call.data, call.attrs.integer("axis", 0)
    if call.name == "SequenceMask":
        return call.deliver(apply("_copy", [data.sym], {}), data.layout, data.poly)
    if axis == 0:
        data = convert(data, STACK)
    time = axis if data.rows else axis + 1
    if call.name == "SequenceReverse":
        return call.deliver(apply("reverse", [data.sym], {"axis": (time,)}), data.layout, data.poly)
    last = apply("slice_axis", [data.sym], {"axis": time, "begin": -1, "end": None})
    return call.deliver(reshape(last, call.shape[1:]), ROWS, data.poly)


def rnn(call: OperatorCall) -> list[Val]:
    """Fused recurrent layers over equally many steps; between layers nothing may be dropped."""
    if call.attrs.number("p", 0.0) > 0.0:
        raise NotBatchable("RNN: dropout between its layers")
    if call.attrs.flag("use_sequence_length") or call.attrs.text("projection_size", "None") != "None":
        raise NotBatchable("RNN: sequence lengths or projections")
    return batch_axes(call, (1, -1, 1, 1), (1, 1, 1))


def by_batches(inputs: Sequence[int], *outputs: int) -> Emit:
    """An operator with all samples' batches along these axes."""
    return lambda call: batch_axes(call, inputs, outputs)


_NOTE = "the samples' batches side by side"

RULES: dict[str, Rule] = {
    "SequenceMask": Rule("rewritten", sequence(keeps_time=True), notes=_NOTE),
    "SequenceReverse": Rule("rewritten", sequence(keeps_time=True), notes=_NOTE),
    "SequenceLast": Rule("rewritten", sequence(keeps_time=False), notes=_NOTE),
    "CTCLoss": Rule("rewritten", by_batches((1, 0, 0, 0), 0, 1), notes=_NOTE),
    "RNN": Rule(
        "rewritten",
        rnn,
        random=True,
        stateful=True,
        notes=_NOTE + "; alone with dropout",
        random_if=lambda attrs: attrs.number("p", 0.0) > 0.0,
    ),
    "_contrib_interleaved_matmul_selfatt_qk": Rule("rewritten", by_batches((1,), 0), notes=_NOTE),
    "_contrib_interleaved_matmul_selfatt_valatt": Rule("rewritten", by_batches((1, 0), 1), notes=_NOTE),
    "_contrib_interleaved_matmul_encdec_qk": Rule("rewritten", by_batches((1, 1), 0), notes=_NOTE),
    "_contrib_interleaved_matmul_encdec_valatt": Rule("rewritten", by_batches((1, 0), 1), notes=_NOTE),
}
