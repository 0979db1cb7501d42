"""Buffers that a program writes to while calls that read them are pending: each call has the values of its own time.

A buffer is a constant of the calls that read it, until a write to it is seen. From then on it is an input of them,
copied at capture; calls captured before run with a copy of its old values.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from weakref import ref

import torch

from gluonjit.engines.torch.framework.exposed import Exposed, begin_use, taken_over
from gluonjit.engines.torch.framework.input_version import InputVersion, payload_of, version_of
from gluonjit.engines.torch.framework.originals import data_of
from gluonjit.hybrid.run.batch import Batch
from gluonjit.hybrid.run.places import vary

_written: dict[int, Any] = {}


class Account:
    """The account of one open batch: `Batch.own`.

    versions: weights by address, with how often they had been written to, and where they lay, at the first call that
    uses them; snapshots: buffers by address, as they were then; hooked: whether there were hooks for all modules;
    looked: for cells that are look-ups, after how many changes their modules have last been looked at; changed: how
    often the modules of cells have changed between their calls; exposed: weights of which the program has asked for the
    memory; statistics: `statistics.RunningStatistics`, running ones that calls update which wait.
    """

    __slots__ = ("changed", "exposed", "hooked", "looked", "snapshots", "statistics", "versions")

    def __init__(self, statistics: Any) -> None:
        self.statistics = statistics
        self.versions: dict[int, tuple[Any, int, int]] = {}
        self.snapshots: dict[int, InputVersion] = {}
        self.exposed: Exposed = taken_over()
        self.hooked = False
        self.looked: dict[Any, int] = {}
        self.changed: dict[Any, int] = {}


def note_versions(batch: Batch, weights: Sequence[Any]) -> None:
    """Remembers how often each weight had been written to when the first call that uses it was captured."""
    versions = batch.own.versions
    for tensor in weights:
        if id(tensor) not in versions:
            versions[id(tensor)] = (tensor, version_of(tensor), tensor.data_ptr())
            if batch.own.exposed:
                begin_use(batch.own.exposed, tensor)


def note_written(tensor: Any) -> None:
    """Remembers a buffer that a program writes to."""
    if tensor.__class__ is torch.Tensor and not tensor.requires_grad:
        place = id(tensor)
        _written[place] = ref(tensor, lambda gone: _written.pop(place, None))


def is_written(tensor: Any) -> bool:
    """True if a buffer has been seen to be written to by the program that reads it."""
    known = _written.get(id(tensor))
    return known is not None and known() is tensor


def passes_as_constant(batch: Batch, arg: Any) -> bool:
    """True of an argument that is a part of what a call does, and no operand: a weight or a buffer."""
    return (id(arg) in batch.parameters or isinstance(arg, torch.nn.Parameter)) and is_constant(batch, arg)


class WeightView:
    """A view of a weight, by where it lies in that: a constant of a call, as the weight is."""

    def __init__(self, weight: Any, look: tuple[tuple[int, ...], tuple[int, ...], int]) -> None:
        self.weight, self.look = weight, look

    def tensor(self) -> Any:
        """The view, taken anew: a part of a matrix or a line, or its transpose, as row programs have it."""
        weight, (size, stride, offset) = self.weight, self.look
        if weight.dim() == len(size) == 1 and stride == (1,):
            return weight.narrow(0, offset, *size)
        if weight.dim() == len(size) == 2 and weight.shape[1] > 1 and sorted(stride) == sorted(weight.stride()):
            turned = stride[0] == 1
            rows, columns = reversed(size) if turned else size
            top, left = divmod(offset, weight.shape[1])
            if left + columns <= weight.shape[1]:
                found = weight.narrow(0, top, rows).narrow(1, left, columns)
                return found.t() if turned else found
        return weight.as_strided(*self.look)


def leads_to(view: Any, weight: Any) -> bool:
    """True if gradients of a view of a weight go on to that: not of one that was taken without recording, or of it."""
    if not weight.requires_grad:
        return True
    step = view.grad_fn
    while step is not None and step.next_functions:
        step = step.next_functions[0][0]
    return getattr(step, "variable", None) is weight


def in_weight(cell: Any, batch: Batch, arg: Any) -> Any:
    """Returns an argument of a call, a view of a weight by where it lies: unless calls have had many of its shape."""
    weight: Any = arg._base if arg.__class__ is torch.Tensor else None
    if weight.__class__ is not torch.nn.Parameter or arg.dtype is not weight.dtype or arg.is_complex():
        return arg
    if torch.is_grad_enabled() and not leads_to(arg, weight):
        return arg
    if arg._backward_hooks or arg.retains_grad or weight.storage_offset() or not weight.is_contiguous():
        return arg
    look = tuple(arg.shape), arg.stride(), arg.storage_offset()
    return arg if vary(cell, look[0], (id(weight), *look), batch) else WeightView(weight, look)


def is_constant(batch: Batch, tensor: Any) -> bool:
    """True if a weight, or a buffer, is the same in all calls of this batch that wait to run."""
    if tensor.requires_grad or isinstance(tensor, torch.nn.Parameter):
        return True
    if is_written(tensor):
        return False
    snapshots = batch.own.snapshots
    known = snapshots.get(id(tensor))
    version = version_of(tensor)
    if known is None:
        small = tensor.numel() * tensor.element_size() <= batch.options.copy_inputs
        snapshots[id(tensor)] = payload_of(tensor, version, tensor.clone() if small else tensor)
    elif known.version != version:
        note_written(tensor)
        return False
    return True


@contextmanager
def as_captured(snapshots: Sequence[InputVersion]) -> Iterator[None]:
    """A region in which buffers have the numbers that they had when calls that read them were captured.

    To autograd they have been written to afterwards.
    """
    now = [held.tensor.detach().clone() for held in snapshots]
    for held in snapshots:
        data_of(held.tensor).copy_(held.rows)
    try:
        yield
    finally:
        for held, numbers in zip(snapshots, now):
            data_of(held.tensor).copy_(numbers)
            torch.autograd.graph.increment_version(held.tensor)
