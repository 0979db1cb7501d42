"""Packed sequences of equal lengths, as `pack_padded_sequence` makes of one sentence, are captured unpacked.

Packing them reads lengths that are known, and a recurrent layer does with them what it does with the sequences
themselves. Sequences of several lengths within a sample run at once, as PyTorch packs them.
"""

from __future__ import annotations

from typing import Any

import torch

from gluonjit.engines.torch.known import known
from gluonjit.engines.torch.lazy import LazyTensor
from gluonjit.hybrid.run.batch import Batch

_PACK = 3  # arguments of torch._VF._pack_padded_sequence
_PAD = 5  # and of torch._VF._pad_packed_sequence
_LAYER = 9  # and of a recurrent layer: data, sizes, states, weights, biases, layers, dropout, training, both ways


def packed(batch: Batch, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Returns the rows, time after time, and how many sequences have each time; None if lengths differ or wait."""
    if len(args) != _PACK or kwargs or args[0].__class__ is not LazyTensor or args[0].dim() < 2:
        return None
    inputs, given, batch_first = args
    lengths = known(given)
    count, times = inputs.shape[:2] if batch_first else inputs.shape[1::-1]
    if lengths is None or lengths.tolist() != [times] * count or not times:
        return None
    if count == 1:
        data = inputs[0] if batch_first else inputs.squeeze(1)
    else:
        data = (inputs.transpose(0, 1) if batch_first else inputs).reshape(times * count, *inputs.shape[2:])
    return data, torch.full((times,), count)


def padded(batch: Batch, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Returns sequences, and their lengths, of rows that `packed` gave; None if lengths differ or wait."""
    if len(args) != _PAD or kwargs:
        return None
    data, sizes, batch_first, _, total = args
    count = _count(data, sizes)
    if not count or total > len(sizes):
        return None
    found = _by_time(data, count)
    return found.transpose(0, 1) if batch_first else found, torch.full((count,), len(sizes))


def layer_of(function: Any) -> Any:
    """Makes the capture of a recurrent layer's function on rows that `packed` gave; None if lengths differ or wait."""

    def layer(batch: Batch, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if len(args) != _LAYER or kwargs or isinstance(args[3], bool):  # of sequences that are not packed
            return None
        data, sizes, states, *rest = args
        count = _count(data, sizes)
        if not count:
            return None
        found, *ends = function(_by_time(data, count), states, *rest, False)
        return found.squeeze(1) if count == 1 else found.reshape(len(data), -1), *ends

    return layer


def _count(data: Any, given: Any) -> int:
    """The number of sequences, where each has all times; else 0."""
    sizes = known(given) if data.__class__ is LazyTensor else None
    if sizes is None or not len(sizes) or bool((sizes != sizes[0]).any()):
        return 0
    count = int(sizes[0])
    return count if count * len(sizes) == len(data) else 0


def _by_time(data: Any, count: int) -> Any:
    return data.unsqueeze(1) if count == 1 else data.reshape(-1, count, *data.shape[1:])
