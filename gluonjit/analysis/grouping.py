"""Items grouped by key, and the countdowns that schedulers use."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Index = npt.NDArray[np.int64]


class Lists(NamedTuple):
    """A list of numbers for each node: those of node k are `items[starts[k] : starts[k + 1]]`."""

    starts: Index
    items: Index

    def of(self, nodes: Index) -> Index:
        """The lists of several nodes, one after the other."""
        begins, lengths = self.starts[nodes], self.starts[nodes + 1] - self.starts[nodes]
        total = int(lengths.sum())
        offsets = np.repeat(begins - np.concatenate(([0], np.cumsum(lengths)[:-1])), lengths)
        return self.items[offsets + np.arange(total)]  # type: ignore[no-any-return]


def grouped(keys: Index, items: Index, count: int) -> Lists:
    """Returns the items of each key below `count`."""
    starts = np.concatenate(([0], np.cumsum(np.bincount(keys, minlength=count))))
    return Lists(starts, items[np.argsort(keys, kind="stable")])


def sorting(keys: Index) -> tuple[Index, Index]:
    """Returns the order that sorts `keys`, stably, and the place in it where each key begins."""
    order = np.argsort(keys, kind="stable")
    ordered = keys[order]
    return order, np.flatnonzero(np.diff(ordered, prepend=ordered[:1] - 1))


def by_key(keys: Index, items: Index) -> list[tuple[int, Index]]:
    """Returns the keys that occur, in order, each with its items."""
    order, starts = sorting(keys)
    if not len(starts):
        return []
    return list(zip(keys[order[starts]].tolist(), np.split(items[order], starts[1:])))


def released(waiting: Index, users: Lists, run: Index) -> Index:
    """Subtracts nodes that run from the counts of those that wait for them; returns those that wait no longer."""
    uses = np.bincount(users.of(run), minlength=0)
    touched = np.flatnonzero(uses)
    waiting[touched] -= uses[touched]
    return touched[waiting[touched] == 0]  # type: ignore[no-any-return]
