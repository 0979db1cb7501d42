"""Recurrent layers over sequences of any length: one call for those of all nodes, packed as PyTorch has it."""

from __future__ import annotations

from functools import lru_cache, partial
from typing import Any, NamedTuple

import numpy as np
import torch

from gluonjit.engines.torch.arrays import sent
from gluonjit.engines.torch.operators.recurrent import Layer, apart, beside
from gluonjit.engines.torch.ragged.passes import PackedSteps, run_pass


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


def recurred(rows: Any, *rest: Any, layer: Layer) -> list[Any]:
    """The outputs of all rows, (rows, b, h), and what the states of all nodes are after them.

    rest: the states before, (nodes, layers, b, h); then the weights; last the number of rows of each node.
    """
    *tensors, lengths = rest
    states, weights = tensors[: layer.states], tensors[layer.states :]
    each, count = rows.shape[1], len(lengths)
    packing = packing_of(tuple(lengths), each, rows.device)
    data = rows.flatten(0, 1).index_select(0, packing.rows)
    begin = [beside(state).index_select(1, packing.sequences) for state in states]
    learns = torch.is_grad_enabled() and any(tensor.requires_grad for tensor in (data, *begin, *weights))
    host = data.device.type == "cpu" and data.dtype in (torch.float32, torch.float64)
    run = _by_passes if learns and host and layer.plain(weights) else _by_pytorch
    outputs, *last = run(layer, packing, data, begin, weights)
    found = outputs.index_select(0, packing.back).unflatten(0, (-1, each))
    return [found, *[apart(state.index_select(1, packing.places), count) for state in last]]


def _by_pytorch(layer: Layer, packing: Packing, data: Any, begin: Any, weights: Any) -> Any:
    return layer.run_packed(packing.steps.sizes, data, begin, weights)


def _by_passes(layer: Layer, packing: Packing, data: Any, begin: Any, weights: Any) -> Any:
    ways, each = 1 + layer.bidirectional, 4 if layer.has_biases else 2
    one = layer._replace(layers=1, bidirectional=False)
    packed = partial(one.run_packed, packing.steps.sizes)
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
