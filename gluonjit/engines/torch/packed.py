"""Packed sequences of pending tensors, whose lengths are known: a recurrent layer reads them one by one.

Each is a call of the layer, so that those of all samples run together; packing and padding are rows by known numbers.
In traces, too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Any

import torch
from torch.nn.utils.rnn import PackedSequence

from gluonjit.engines.torch.known import known
from gluonjit.engines.torch.lazy import LazyTensor
from gluonjit.engines.torch.recurrent import WHOLE
from gluonjit.engines.torch.traced_tensors import TraceTensor
from gluonjit.hybrid.run.batch import Batch
from gluonjit.hybrid.run.state import LOCAL

_LAYERS = (torch.nn.RNN, torch.nn.GRU, torch.nn.LSTM)
_PENDING = (LazyTensor, TraceTensor)
_MOST = 64
"""Sequences of one call; more run as PyTorch has them."""


def pack(batch: Batch | None, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Returns the packed rows of padded sequences and how many there are at each step; None if it must be captured."""
    if kwargs or len(args) != 3 or args[0].__class__ not in _PENDING or args[0].dim() < 3:
        return None
    tensor, given, first = args
    lengths = _numbers(given)
    count, longest = (tensor.shape[:2]) if first else (tensor.shape[1], tensor.shape[0])
    if not lengths or len(lengths) != count or not longest >= lengths[0] or lengths[-1] < 1:
        return None
    if count > _MOST or lengths != sorted(lengths, reverse=True):
        return None
    if tensor.__class__ is TraceTensor and (count > 1 or lengths[0] != longest):
        tensor.recorder.known_numbers(given)
    sizes = [sum([length > step for length in lengths]) for step in range(lengths[0])]
    if count == 1:
        rows = (tensor.squeeze(0) if first else tensor.squeeze(1))[: lengths[0]]
    else:
        a, b = (1, longest) if first else (count, 1)
        places = [step * a + place * b for step, size in enumerate(sizes) for place in range(size)]
        rows = tensor.flatten(0, 1)[places]
    return rows, torch.tensor(sizes)


def pad(batch: Batch | None, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Returns the padded sequences of packed rows, and their lengths; None if it must be captured."""
    if kwargs or len(args) != 5 or args[0].__class__ not in _PENDING:
        return None
    rows, given, first, filler, total = args
    sizes = _numbers(given)
    if not sizes or sizes[0] > _MOST or 0 < total < len(sizes) or rows.dim() < 2:
        return None
    steps, count = max(total, len(sizes)), sizes[0]
    if count == 1 and steps == len(sizes):
        return rows.unsqueeze(0 if first else 1), torch.tensor([steps])
    begins, end = _begins(sizes), sum(sizes)
    table = [[end] * count for _ in range(steps)]
    for step, size in enumerate(sizes):
        table[step][:size] = range(begins[step], begins[step] + size)
    found = _filled([rows], filler, table, not first)
    return found, torch.tensor([sum([size > place for size in sizes]) for place in range(count)])


def pad_list(batch: Batch, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Returns sequences side by side, padded to the longest; None if it must be captured."""
    if kwargs or len(args) not in (3, 4) or args[3:] not in ((), ("right",)) or args[0].__class__ not in (list, tuple):
        return None
    sequences, first, filler = args[:3]
    looks = {(each.dtype, each.device, each.shape[1:]) for each in sequences if isinstance(each, torch.Tensor)}
    if len(looks) != 1 or not all([isinstance(each, torch.Tensor) and each.dim() for each in sequences]):
        return None
    lengths = [each.shape[0] for each in sequences]
    begins, end = _begins(lengths), sum(lengths)
    table = [
        [begin + step if step < length else end for step in range(max(lengths))]
        for begin, length in zip(begins, lengths)
    ]
    return _filled(sequences, filler, table, first)


def _filled(parts: Sequence[Any], filler: float, table: list[list[int]], as_they_are: bool) -> Any:
    """Rows of these by a table of numbers, one past the last for padding; turned if they are not to lie as they are."""
    one = parts[0]
    padding = torch.full((1, *one.shape[1:]), filler, dtype=one.dtype, device=one.device)
    turned = table if as_they_are else list(zip(*table))
    rows = torch.cat([*parts, padding])[[place for line in turned for place in line]]
    return rows.view(len(turned), len(turned[0]), *one.shape[1:])


def run_layer(module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Calls a layer on packed sequences, one by one; None if this is no such call, or one that it would refuse."""
    if type(module) not in _LAYERS or len(args) not in (1, 2) or kwargs or args[0].__class__ is not PackedSequence:
        return None
    data, given, order, back = args[0]
    sizes = _numbers(given)
    if data.__class__ not in _PENDING or not sizes or not 0 < sizes[0] <= _MOST or data.dim() != 2:
        return None
    states = args[1] if len(args) == 2 else None
    if states is not None:
        states = module.permute_hidden(states, order)
        module.check_forward_args(data, states, given)
    begins, count = _begins(sizes), sizes[0]
    lengths = [sum([size > place for size in sizes]) for place in range(count)]
    outputs, ends = [], []
    for place, length in enumerate(lengths):
        rows = data if count == 1 else data[[begin + place for begin in begins[:length]]]
        own = () if states is None else (_chosen(states, place),)
        output, end = module(rows, *own)
        outputs.append(output)
        ends.append(end)
    joined = outputs[0]
    if count > 1:
        firsts = [0, *accumulate(lengths)]
        joined = torch.cat(outputs)[[firsts[place] + step for step, size in enumerate(sizes) for place in range(size)]]
    last = tuple(map(_beside, zip(*ends))) if type(ends[0]) is tuple else _beside(ends)
    return PackedSequence(joined, given, order, back), module.permute_hidden(last, back)


def _numbers(given: Any) -> list[int] | None:
    """The numbers of a tensor of one axis, or None if something must run for them."""
    if given.__class__ is TraceTensor:
        tensor = given.recorder.numbers(given)
    else:
        tensor = known(given) if isinstance(given, torch.Tensor) else None
    if tensor is None or tensor.dim() != 1 or tensor.dtype is not torch.int64:
        return None
    numbers: list[int] = tensor.tolist()
    return numbers


def _begins(sizes: list[int]) -> list[int]:
    """The place of the first row of each step."""
    return [0, *accumulate(sizes)][:-1]


def _beside(states: Any) -> Any:
    return states[0].unsqueeze(1) if len(states) == 1 else torch.stack(tuple(states), 1)


def _chosen(states: Any, place: int) -> Any:
    """The states that one sequence begins with."""
    return tuple([state[:, place] for state in states]) if isinstance(states, tuple) else states[:, place]


PACKING = {
    torch._pack_padded_sequence: pack,
    torch._pad_packed_sequence: pad,
    torch._C._nn.pad_sequence: pad_list,
}
"""Functions of packed sequences, and what does it by numbers."""


def _recorded(function: Any, by_numbers: Callable[..., Any]) -> Callable[..., Any]:
    """Makes a function that does by numbers what is recorded, where these are known, and else what `function` does."""

    def call(*args: Any) -> Any:
        found = None if LOCAL.state.trace is None else by_numbers(None, args, {})
        return function(*args) if found is None else found

    return call


for _function in (torch._pack_padded_sequence, torch._pad_packed_sequence):
    WHOLE[_function] = _recorded(_function, PACKING[_function])
