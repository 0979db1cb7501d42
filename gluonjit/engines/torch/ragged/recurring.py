"""Recurrent layers over sequences of any length: one call for those of all nodes, packed as PyTorch has it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import torch

from gluonjit.engines.torch.arrays import sent
from gluonjit.engines.torch.rules.recurrent import Layer, apart, beside


class Packing(NamedTuple):
    """How the rows of nodes, one node after the other, are packed: step by step, the longest node first.

    rows: which row comes at each place; back: the place of each row; sizes: how many nodes have each step; nodes: the
    node that comes at each place; places: that of each node.
    """

    rows: Any
    back: Any
    sizes: Any
    nodes: Any
    places: Any


@lru_cache(maxsize=8)  # layers of one program have the same lengths
def packing_of(lengths: tuple[int, ...], device: Any) -> Packing:
    """The packing of nodes with these numbers of rows."""
    sizes = np.array(lengths)
    nodes = np.argsort(-sizes, kind="stable")
    steps = np.arange(sizes.max())
    counts = (sizes[:, None] > steps).sum(0)
    place = np.arange(sizes.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    rows = (np.cumsum(sizes) - sizes)[nodes][place] + np.repeat(steps, counts)
    found = [sent(numbers, device) for numbers in (rows, np.argsort(rows), nodes, np.argsort(nodes))]
    return Packing(found[0], found[1], torch.from_numpy(counts), found[2], found[3])


def recurred(rows: Any, *rest: Any, layer: Layer) -> list[Any]:
    """The outputs of all rows, (rows, b, h), and what the states of all nodes are after them.

    rest: the states before, (nodes, layers, b, h); then the weights; last the number of rows of each node.
    """
    *tensors, lengths = rest
    states, weights = tensors[: layer.states], tensors[layer.states :]
    packing = packing_of(tuple(lengths), rows.device)
    samples = rows.shape[1]
    data = rows.index_select(0, packing.rows).flatten(0, 1)
    begin = [beside(state.index_select(0, packing.nodes)) for state in states]
    outputs, *last = layer.run_packed(data, packing.sizes * samples, begin, weights)
    outputs = outputs.unflatten(0, (-1, samples)).index_select(0, packing.back)
    return [outputs, *[apart(state, len(lengths)).index_select(0, packing.places) for state in last]]
