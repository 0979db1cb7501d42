"""The nodes of a step and their lengths; and what follows from these: places of rows, holes, counts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from math import inf
from typing import Any

import numpy as np

from gluonjit.program.axes.values import Number, Shape, Size, at_sizes

Sent = Callable[[Any, str], Any]
"""Makes an array of the host one of the framework: with a dtype, or as it is if that is empty."""


class SizedNodes:
    """Nodes that run together: `lengths` has an array with one entry for each node, by name."""

    def __init__(self, count: int, lengths: Mapping[Any, Any], send: Sent) -> None:
        self.count = count
        self.lengths = lengths
        self.most: dict[Any, int] = {"#": count, **{name: int(each.max(initial=0)) for name, each in lengths.items()}}
        self._send = send
        self._sent: dict[Any, Any] = {}

    def of(self, size: Any) -> Any:
        """A size of each node."""
        return size.at(self.lengths) if size.__class__ is Size else np.full(self.count, size)

    def need(self, key: tuple[Any, ...], numbers: Callable[[Number], Any] | None = None) -> Any:
        """An array that follows from the lengths: made once, by the method that the key names.

        numbers: gives the one that each node has for itself, where the key has such; then the array is made anew.
        """
        name, *rest = key
        if numbers is not None and any([item.__class__ is Number for item in rest]):
            return getattr(self, name)(*[numbers(item) if item.__class__ is Number else item for item in rest])
        return self.once(key, lambda: getattr(self, name)(*rest))

    def once(self, key: tuple[Any, ...], make: Callable[[], Any]) -> Any:
        """A value that follows from the lengths, made on first request."""
        found = self._sent.get(key)
        if found is None:
            found = self._sent[key] = make()
        return found

    def index(self, made: Any) -> Any:
        """Places as the framework has them."""
        return self._send(np.ascontiguousarray(made, dtype=np.int64), "")

    def host(self, size: Any) -> Any:
        """A size of each node, on the host."""
        return self.of(size)

    def sizes(self, size: Any) -> Any:
        """A size of each node."""
        return self.index(self.of(size))

    def begins(self, size: Any) -> Any:
        """The first row of each node."""
        return self.index(begins_of(self.of(size)))

    def owners(self, size: Any) -> Any:
        """The node of each row."""
        return self.index(np.repeat(np.arange(self.count), self.of(size)))

    def counts(self, size: Any, dtype: str) -> Any:
        """A size of each node, as numbers."""
        return self._send(self.of(size).astype(np.float64), dtype)

    def number(self, numbers: Any, dtype: str) -> Any:
        """A number that each node has for itself."""
        return self._send(numbers.astype(np.float64), dtype)

    def hole(self, size: Any, before: int, after: int) -> Any:
        """True where padding is, (nodes, 1, ..., size, 1, ...)."""
        return self._send(self._hole(size).reshape(self.count, *[1] * before, -1, *[1] * after), "bool")

    def bar(self, size: Any, before: int, dtype: str) -> Any:
        """-inf where padding is and 0 elsewhere, (nodes, 1, ..., size)."""
        return self._send(np.where(self._hole(size), -inf, 0.0).reshape(self.count, *[1] * before, -1), dtype)

    def _hole(self, size: Any) -> Any:
        return np.arange(size.at(self.most)) >= self.of(size)[:, None]

    def places(self, front: Shape) -> Any:
        """The places of all rows, which `front` counts, among padded ones."""
        return self.index(np.flatnonzero(self._there(front)))

    def within(self, front: Shape) -> Any:
        """The places of all rows among those of one node that is as long as the longest."""
        return self.index(np.nonzero(self._there(front).reshape(self.count, -1))[1])

    def _there(self, front: Shape) -> Any:
        """True where no padding is, (nodes, *front)."""
        found = np.ones((self.count, *at_sizes(front, self.most)), dtype=bool)
        for axis, size in enumerate(front):
            if size.__class__ is Size:
                found &= ~self._hole(size).reshape(self.count, *[1] * axis, -1, *[1] * (len(front) - axis - 1))
        return found

    def clipped(self, front: Shape) -> Any:
        """The row for each padded place: for padding the last one that there is."""
        sizes = [self.of(size) for size in front]
        rows = np.prod(sizes, 0)
        found, stride = np.zeros((self.count, 1), dtype=np.int64), np.ones(self.count, dtype=np.int64)
        for size, most in zip(reversed(sizes), reversed(at_sizes(front, self.most))):
            places = np.minimum(np.arange(most), np.maximum(size[:, None] - 1, 0)) * stride[:, None]
            found = (places[:, :, None] + found[:, None, :]).reshape(self.count, -1)
            stride = stride * size
        found += begins_of(rows)[:, None]
        return self.index(np.minimum(found, max(rows.sum() - 1, 0)).reshape(-1))

    def chosen(self, front: Shape, begin: Any, step: int, count: Any, padded: bool) -> Any:
        """Rows along the last axis of `front`: so many of each node, from a place on, one in `step`.

        begin: negative from the end, None: so that the last ones are taken.
        """
        size, several = self.of(front[-1]), np.prod([self.of(each) for each in front[:-1]], 0, dtype=np.int64)
        several = np.full(self.count, several) if not np.ndim(several) else several
        kept = self.of(count)
        if begin is None:
            begins = size - kept
        else:
            begins = self.of(begin)
            begins = np.where(begins < 0, begins + size, begins)
        last = begins + np.maximum(kept - 1, 0) * step
        outside = (kept > 0) & ((begins < 0) | (begins >= size) | (last < 0) | (last >= size))
        if outside.any():
            raise IndexError(f"index {begin} is out of bounds for dimension 0 with size {size[outside][0]}")
        if not padded:
            each = several * kept
            j = within(each)
            wide = np.repeat(np.maximum(kept, 1), each)
            rows = np.repeat(begins_of(size * several), each) + j // wide * np.repeat(size, each)
            return self.index(rows + np.repeat(begins, each) + j % wide * step)
        most, wide = front[-1].at(self.most), at_sizes(count, self.most)
        places = begins[:, None] + np.minimum(np.arange(wide), np.maximum(kept[:, None] - 1, 0)) * step
        base = np.arange(self.count * int(several[0])).reshape(self.count, -1, 1) * most
        return self.index((base + places.clip(0, max(most - 1, 0))[:, None]).reshape(-1))

    def repeated(self, size: Any, count: Any, each: bool) -> Any:
        """Rows of each node several times, so that there are `count`: each after itself, or all after all."""
        sizes, counts = self.of(size), self.of(count)
        wide = np.maximum(counts // np.maximum(sizes, 1) if each else sizes, 1)
        number, wide = within(counts), np.repeat(wide, counts)
        return self.index(np.repeat(begins_of(sizes), counts) + (number // wide if each else number % wide))

    def merged(self, *sizes: Any) -> Any:
        """Rows of several values, one after the other for each node, among those of all, one value after the other."""
        each = np.stack([self.of(size) for size in sizes])
        begins = begins_of(each.sum(0)) + np.cumsum(each, 0) - each
        places = np.repeat((begins - begins_of(each.reshape(-1)).reshape(each.shape)).reshape(-1), each.reshape(-1))
        return self.index(np.argsort(places + np.arange(len(places))))

    def beside(self, several: int, *sizes: Any) -> Any:
        """Entries of several padded values, which lie beside each other, one after the other without padding between.

        several: how often each node has them.
        """
        each, most = [self.of(size) for size in sizes], [at_sizes(size, self.most) for size in sizes]
        longest = int(sum(each).max(initial=0))
        found = np.zeros((self.count, longest + 1), dtype=np.int64)  # the last one takes what is not there
        begins, offset = np.zeros(self.count, dtype=np.int64), 0
        for size, wide in zip(each, most):
            numbers = np.arange(wide)
            columns = np.where(numbers < size[:, None], begins[:, None] + numbers, longest)
            np.put_along_axis(found, columns, np.broadcast_to(offset + numbers, columns.shape), 1)
            begins, offset = begins + size, offset + wide
        base = np.arange(self.count * several).reshape(self.count, several, 1) * offset
        return self.index((base + found[:, None, :longest]).reshape(-1))


def begins_of(sizes: Any) -> Any:
    """Finds where the rows of each node begin, of those of all."""
    return np.cumsum(sizes) - sizes


def within(sizes: Any) -> Any:
    """Numbers the rows of each node."""
    return np.arange(sizes.sum()) - np.repeat(begins_of(sizes), sizes)


@lru_cache(maxsize=16)  # operators on the same sequences follow each other
def nodes_of(lengths: bytes, count: int, send: Sent) -> SizedNodes:
    """Nodes of these lengths, (nodes, lengths), 64 bits each."""
    each = np.frombuffer(lengths, dtype=np.int64).reshape(count, -1)
    return SizedNodes(count, dict(enumerate(np.ascontiguousarray(each.T))), send)
