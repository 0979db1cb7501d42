"""Rules of recurrent layers: sequences of one length side by side, those of any length packed as PyTorch has it."""

from __future__ import annotations

from functools import lru_cache, partial
from typing import Any, NamedTuple

import numpy as np
import torch

from gluonjit.engines.torch.framework.arrays import sent
from gluonjit.engines.torch.operators.passes import PackedSteps, run_pass
from gluonjit.engines.torch.operators.recurrent import Layer, apart, beside, layer_of
from gluonjit.program.axes.row import Application
from gluonjit.program.axes.values import Vals, Values, is_sized


def recurrent(call: Application) -> Vals:
    """lstm, gru and rnn: sequences of one length side by side, on the axis of batches."""
    layer = layer_of(call.name, call.attrs)
    given, weights = call.vals[: 1 + layer.states], call.vals[1 + layer.states :]
    if any(not weight.shared for weight in weights):
        raise call.refuse("weights differ by sample")
    if is_sized(given[0].shape[_batch(layer)]):
        return _of_any_batch(call, layer, given, weights)
    if any(val.padded for val in given):
        raise call.mixed_rows
    if given[0].packed:
        return _of_any_length(call, layer, given, weights)
    return call.applied(_side_by_side, [*call.stacked(*given), *weights], layer)


def _batch(layer: Layer) -> int:
    return 0 if layer.batch_first else 1


def _of_any_batch(call: Application, layer: Layer, given: Vals, weights: Vals) -> Vals:
    """Any number of sequences of one length in each sample: those of all nodes are one batch."""
    axes = [_batch(layer), *[1] * layer.states]
    others = [val.shape[:axis] + val.shape[axis + 1 :] for val, axis in zip(given, axes)]
    count, *unlike = {val.shape[axis] for val, axis in zip(given, axes)}
    if unlike or is_sized(tuple(others)):  # PyTorch would read beyond states of another number
        raise call.mixed_rows
    if call.writer.padded:
        whole = [call.writer.each(call.writer.filled(val, [axis], 0)) for val, axis in zip(given, axes)]
        return call.applied(_side_by_side, [*whole, *weights], layer)
    if any(other[0] != 1 for other in others):
        raise call.mixed_rows
    rows = [call.writer.rows_of(val, 2) for val in given]
    slots = call.writer.apply(_one_step, [*rows, *weights], layer, outputs=len(call.outs))
    return [Values(slot, shape, dtype, count, shape[2:]) for slot, (shape, dtype) in zip(slots, call.outs)]


def _one_step(inputs: Any, *rest: Any) -> list[Any]:
    """The results of a layer of one step, with a row for each sequence."""
    *tensors, layer = rest
    states, weights = tensors[: layer.states], tensors[layer.states :]
    step = _batch(layer) ^ 1
    outputs, *last = layer.run(
        (), inputs.unsqueeze(step), [state.unsqueeze(0).contiguous() for state in states], weights
    )
    return [outputs.squeeze(step), *[state.squeeze(0) for state in last]]


def _of_any_length(call: Application, layer: Layer, given: Vals, weights: Vals) -> Vals:
    """Sequences of any length, one in each sample or side by side."""
    writer, (data, *states) = call.writer, given
    length, several, width = [data.shape[k] for k in ((1, 0, 2) if layer.batch_first else (0, 1, 2))]
    if not writer.sized or any(is_sized(state.shape) for state in states) or is_sized((several, width)):
        raise call.mixed_rows
    if layer.batch_first and several != 1:
        raise call.refuse("sequences one after the other in a sample")
    rows = writer.form(data, length, (several, width))
    operands = [rows, *[writer.each(state) for state in states], *weights, writer.need("host", length)]
    slots = writer.apply(recurred, operands, layer, outputs=len(call.outs))
    shape, dtype = call.outs[0]
    found = Values(slots[0], shape, dtype, length, (several, shape[2]))
    return [found, *[Values(slot, *out, 1, out[0]) for slot, out in zip(slots[1:], call.outs[1:])]]


def _side_by_side(inputs: Any, *rest: Any) -> list[Any]:
    """The results of all nodes, (nodes, *shape), of inputs and states alike."""
    *tensors, layer = rest
    count = inputs.shape[0]
    states, weights = tensors[: layer.states], tensors[layer.states :]
    given = inputs.flatten(0, 1) if layer.batch_first else beside(inputs)
    begin = [beside(state).contiguous() for state in states]  # as cuDNN wants them
    outputs, *last = layer.run((), given, begin, weights)
    found = outputs.unflatten(0, (count, -1)) if layer.batch_first else apart(outputs, count)
    return [found, *[apart(state, count) for state in last]]


class Packing(NamedTuple):
    """The order in which rows, one sequence after the other, are packed: step by step, the longest sequence first.

    rows: which row comes at each place; back: the place of each row; turned: the place of the row as far from the other
    end of its sequence; sequences: which one comes at each place; places: that of each; steps: of this order.
    """

    rows: Any
    back: Any
    turned: Any
    sequences: Any
    places: Any
    steps: PackedSteps


@lru_cache(maxsize=8)  # layers of one program have the same lengths
def packing_of(lengths: tuple[int, ...], each: int, device: Any) -> Packing:
    """The packing of nodes with these numbers of rows, with `each` sequences side by side in a node."""
    sizes = np.repeat(lengths, each)
    begins = np.repeat(np.cumsum(lengths) - lengths, each) * each + np.tile(np.arange(each), len(lengths))
    order = np.argsort(-sizes, kind="stable")
    longest = sizes[order]
    counts = (longest[:, None] > np.arange(longest[0])).sum(0)
    offsets = np.cumsum(counts) - counts
    step = np.repeat(np.arange(len(counts)), counts)
    place = np.arange(len(step)) - offsets[step]
    rows = begins[order][place] + step * each
    before = np.where(step > 0, len(sizes) + offsets[step - 1] + place, place)
    turned = offsets[longest[place] - 1 - step] + place
    last = offsets[longest - 1] + np.arange(len(sizes))
    steps = PackedSteps(counts.tolist(), torch.from_numpy(counts), sent(before, device), sent(last, device))
    arrays = (rows, np.argsort(rows), turned, order, np.argsort(order))
    return Packing._make([*[sent(array, device) for array in arrays], steps])


def recurred(rows: Any, *given: Any) -> list[Any]:
    """The outputs of all rows, (rows, b, h), and what the states of all nodes are after them.

    given: the states before, (nodes, layers, b, h); then the weights; the number of rows of each node; the layer.
    """
    *tensors, lengths, layer = given
    states, weights = tensors[: layer.states], tensors[layer.states :]
    each, count = rows.shape[1], len(lengths)
    packing = packing_of(tuple(lengths), each, rows.device)
    data = rows.flatten(0, 1).index_select(0, packing.rows)
    begin = [beside(state).index_select(1, packing.sequences) for state in states]
    learns = torch.is_grad_enabled() and any(tensor.requires_grad for tensor in (data, *begin, *weights))
    host = data.device.type == "cpu" and data.dtype in (torch.float32, torch.float64)
    if learns and host and layer.plain(weights):
        outputs, *last = _by_passes(layer, packing, data, begin, weights)
    else:
        outputs, *last = layer.run((packing.steps.sizes,), data, begin, weights)
    found = outputs.index_select(0, packing.back).unflatten(0, (-1, each))
    return [found, *[apart(state.index_select(1, packing.places), count) for state in last]]


def _by_passes(layer: Layer, packing: Packing, data: Any, begin: Any, weights: Any) -> Any:
    ways, each = 1 + layer.bidirectional, 4 if layer.has_biases else 2
    one = layer._replace(layers=1, bidirectional=False)
    packed = partial(one.run, (packing.steps.sizes,))
    ends = []
    for number in range(layer.layers):
        outputs = []
        for way in range(ways):
            place = number * ways + way
            given = data.index_select(0, packing.turned) if way else data
            own = weights[each * place : each * (place + 1)]
            found, last = run_pass(layer.name, packed, packing.steps, given, [state[place] for state in begin], own)
            outputs.append(found.index_select(0, packing.turned) if way else found)
            ends.append(last)
        data = torch.cat(outputs, 1) if ways > 1 else outputs[0]
    return (data, *[torch.stack(states) for states in zip(*ends)])
