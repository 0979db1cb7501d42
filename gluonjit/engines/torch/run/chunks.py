"""Flushed rows that can still be read: stored with those of their step, and separated when they are read."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
import torch

from gluonjit.analysis.plan import Place, Plan
from gluonjit.graph import Spec
from gluonjit.hybrid.run.reach import Reach

_MOST = 4096  # numbers that are read at once


class Readers:
    """The readers of a chunk. Apart from it: what history refers to must not refer back to tensors with that history.

    values: how many values; done: those from which backward has come, without being told to keep the history; taken:
    rows from which it may come otherwise than value by value; shared: whether equal calls gave the same value, from
    which backward may then come once for each; given: from which rows each backward that is under way comes.
    """

    __slots__ = ("done", "given", "shared", "taken", "values")

    def __init__(self) -> None:
        self.values = 0
        self.done: set[int] = set()
        self.taken: set[int] = set()
        self.shared = False
        self.given: dict[int, Any] = {}

    def rows_given(self, count: int) -> Any:
        """Makes the flags of the rows that the backward pass comes from, to be filled in."""
        return self.given.setdefault(current_backward(), np.zeros(count, dtype=bool))

    def take_given(self, count: int) -> Any:
        """Takes the flags of the rows that the backward pass comes from; all rows if nobody has set them."""
        found = self.given.pop(current_backward(), None)
        return np.ones(count, dtype=bool) if found is None else found

    @property
    def remaining(self) -> int:
        """Returns how many values there are that backward has not come from."""
        return self.values if self.taken or self.shared else self.values - len(self.done)

    @property
    def spent(self) -> bool:
        """True if no other backward can come from here."""
        return not self.taken and not self.shared and len(self.done) >= self.values


class Chunk:
    """All rows of one result of a step. `tensor` has their history once the flush is over.

    size: rows of each node's value, 0 where they are not equally many, or there is no history; plan, place: where they
    were in the flush.
    """

    __slots__ = ("_numbers", "pieces", "place", "plan", "readers", "size", "tensor")

    def __init__(self, tensor: Any, plan: Plan, place: Place) -> None:
        self.tensor = tensor
        self.size = 0
        self.plan = plan
        self.place = place
        self.readers = Readers()
        self.pieces: Any = None
        self._numbers: list[list[Any]] = []

    def numbers(self) -> list[list[Any]]:
        """Returns the numbers of each row, which are read all at once."""
        if not self._numbers:
            self._numbers = self.tensor.reshape(len(self.tensor), -1).tolist()
        return self._numbers

    def listed(self, spec: Spec, row: int) -> list[Any] | None:
        """Returns the numbers of a value in lists, as its shape has them; None where there are many, or more axes."""
        shape = self.tensor.shape
        if len(shape) != 2 or not 0 < self.tensor.numel() <= _MOST:
            return None
        if spec.shape == (spec.rows, shape[1]):
            return [each[:] for each in self.numbers()[row : row + spec.rows]]
        return self.numbers()[row][:] if spec.shape == shape[1:] else None

    def value(self, spec: Spec, row: int) -> Any:
        """The value of this spec that begins at a row."""
        if not self.tensor.requires_grad:
            found = self.tensor[row : row + spec.rows]
        elif self.size and spec.rows == self.size and row % self.size == 0:
            if self.pieces is None:
                # Each by a slice of its own would cost a gradient of the whole chunk for each.
                self.pieces = Pieces.apply(self.tensor, self.size, self.readers)
            found = self.pieces[row // self.size]
            if self.readers.shared:  # hooks of one call's result are not those of an equal one's
                found = Once.apply(found)
        else:
            found = self.rows(range(row, row + spec.rows))
        return found if spec.mode == "rows" else found.reshape(spec.shape)

    def rows(self, offsets: Sequence[int]) -> Any:
        """Some of the rows."""
        found = self._taken(offsets)
        return Once.apply(found) if self.readers.shared and found.requires_grad else found

    def taken(self, offsets: Sequence[int]) -> Any:
        """The same for a later flush alone, in which calls that are equal may have these rows in common."""
        found = self._taken(offsets)
        if found.requires_grad:
            found.grad_fn.reached = {}
        return found

    def _taken(self, offsets: Sequence[int]) -> Any:
        self.readers.taken.update(offsets)
        index = torch.tensor(offsets, device=self.tensor.device)
        if not self.tensor.requires_grad:
            return self.tensor[index]
        return Taken.apply(self.tensor, index, offsets, self.readers)


class ChunkRows(NamedTuple):
    """The place of a flushed value: rows of a chunk from `row` on."""

    chunk: Chunk
    row: int


class Taken(torch.autograd.Function):  # type: ignore[misc]
    """Some of a chunk's rows."""

    @staticmethod
    def forward(ctx: Any, rows: Any, index: Any, offsets: Sequence[int], readers: Readers) -> Any:
        """Takes them."""
        ctx.set_materialize_grads(False)
        ctx.shape, ctx.index, ctx.offsets, ctx.readers = rows.shape, index, offsets, readers
        ctx.reached = None
        return rows[index]

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        """Puts their gradient into one of the chunk."""
        if gradient is None:
            return None, None, None, None
        reached = True if ctx.reached is None else ctx.reached.pop(current_backward(), True)
        ctx.readers.rows_given(ctx.shape[0])[list(ctx.offsets)] |= reached
        return gradient.new_zeros(ctx.shape).index_add_(0, ctx.index, gradient), None, None, None


def note_reached(tensor: Any, reach: Reach, place: Place) -> None:
    """Notes from which of the rows that a flush has taken for itself alone the backward pass under way comes.

    place: where they lie in the flush; reach: what the pass has reached there.
    """
    node = tensor.grad_fn
    if node.__class__ is Taken._backward_cls and node.reached is not None:
        node.reached[current_backward()] = reach.at(place).astype(bool)


def given_out(tensor: Any) -> Any:
    """Returns a tensor that a flush may have taken for itself alone, to another who goes on from it."""
    if tensor.grad_fn.__class__ is Taken._backward_cls:
        tensor.grad_fn.reached = None
    return tensor


class Pieces(torch.autograd.Function):  # type: ignore[misc]
    """A chunk as a tensor for each value, none of which is a view."""

    @staticmethod
    def forward(ctx: Any, rows: Any, size: int, readers: Readers) -> Any:
        """Takes it apart."""
        ctx.set_materialize_grads(False)
        ctx.shape, ctx.size, ctx.readers = rows.shape, size, readers
        if rows.shape[0] == size:
            return (rows.clone(),)
        return tuple([part.clone() for part in rows.split(size)])

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        """Puts the gradients together."""
        given = [number for number, gradient in enumerate(gradients) if gradient is not None]
        if not given:  # as below a backward hook, where none of a call's results has a gradient
            return None, None, None
        readers: Readers = ctx.readers
        if not readers.shared and not readers.done.isdisjoint(given):
            raise RuntimeError(TWICE)
        if not keeps_graph():
            readers.done.update(given)
        if len(gradients) == 1:
            readers.rows_given(ctx.shape[0])[:] = True
            return gradients[0], None, None
        readers.rows_given(ctx.shape[0]).reshape(-1, ctx.size)[given] = True
        whole = gradients[given[0]].new_zeros(ctx.shape)
        for number in given:
            whole[number * ctx.size : (number + 1) * ctx.size] = gradients[number]
        return whole, None, None


class Once(torch.autograd.Function):  # type: ignore[misc]
    """A value of several equal calls, as the result of one of them: its hooks and its history are its own."""

    @staticmethod
    def forward(ctx: Any, value: Any) -> Any:
        """Gives the same numbers."""
        ctx.set_materialize_grads(False)
        ctx.gone = False
        return value.view_as(value)

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        """Passes the gradient on. Raises RuntimeError if the history is gone."""
        if ctx.gone:
            raise RuntimeError(TWICE)
        ctx.gone = not keeps_graph()
        return gradient


TWICE = (
    "Trying to backward through the graph a second time: an earlier backward has freed the history of this "
    "batch. Specify retain_graph=True in that call to go through it again."
)


class _Told(threading.local):
    """The orders of the innermost backward of this thread; a thread that none was called on keeps the history.

    asked: the nodes of the history whose results it was asked for by name.
    """

    keep = True
    asked: Collection[Any] = ()


_TOLD = _Told()


@contextmanager
def telling(keep: bool, asked: Collection[Any]) -> Iterator[None]:
    """A region in which backward is called, told whether to keep the history, and of which nodes to give results."""
    before = _TOLD.keep, _TOLD.asked
    _TOLD.keep, _TOLD.asked = keep, asked
    try:
        yield
    finally:
        _TOLD.keep, _TOLD.asked = before


def told() -> bool:
    """Tells the same where PyTorch does not say it (2.4): on the host backward runs on the thread that called it."""
    return _TOLD.keep


keeps_graph: Callable[[], bool] = getattr(torch._C._autograd, "_get_current_graph_task_keep_graph", told)
"""The flag of the backward under way: True if it was told to keep the history."""


def is_asked_by_name(node: Any) -> bool:
    """True if the backward under way was asked for the results of this node."""
    return node in _TOLD.asked


_executes: Callable[[Any], bool] = torch._C._will_engine_execute_node


def is_asked_for(node: Any) -> bool:
    """True if the backward under way goes on to this node of the history."""
    try:
        return node is not None and _executes(node)
    except RuntimeError:  # it does not say so of a leaf that torch.autograd.grad was asked for
        return True


current_backward: Callable[[], int] = torch._C._current_graph_task_id
"""The number of the backward pass that is under way."""
