"""The nodes to schedule, and in which order they run."""

from __future__ import annotations

from functools import cached_property
from typing import Any, NamedTuple

from gluonjit.analysis import flat
from gluonjit.analysis.captured import Captured
from gluonjit.compiled import filled, room


class Schedule(NamedTuple):
    """Nodes of `Captured` in the order in which they run: step k has those from `starts[k]` to `starts[k + 1]`."""

    order: Any
    starts: list[int]


class Nodes:
    """The input of a scheduler: the kept nodes of `captured`.

    families: the type of each record, whose nodes may run together with others of it; kinds: how many types there are;
    breadth: how many states a beam goes on with.
    """

    def __init__(self, captured: Captured, keep: Any, breadth: int = 0) -> None:
        self.captured = captured
        self.keep = keep
        self.breadth = breadth
        known: dict[Any, int] = {}
        self.families = filled(
            [known.setdefault((record.kind.family, record.mode), len(known)) for record in captured.records]
        )
        self.kinds = len(known)

    @cached_property
    def phases(self) -> tuple[Any, Any, int]:
        """The number of each type's phase, whether its nodes depend on each other, and how many phases there are."""
        of = self.captured
        reads = of.widths, of.kinds, of.firsts, of.operands
        used = flat.uses(self.families, self.kinds, of.count, *reads, self.keep, of.producer)
        phase, recursive = room(self.kinds), room(self.kinds)
        return phase, recursive, flat.components(used, phase, recursive)
