"""Arguments and results of calls: arrays in nested lists, tuples and dictionaries."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import copy
from dataclasses import dataclass
from typing import Any

Args = tuple[Any, ...]
"""Arguments of a call, by position."""
Kwargs = dict[str, Any]
"""Arguments of a call, by name."""


class Repeated(int):
    """The place of a result that the call returns elsewhere too, before."""


class ResultPlace(int):
    """The place of a result that shows another's memory, or that has no history.

    view: the place of that other, and which view of it, as the engine has it.
    """

    view: Any = None

    @classmethod
    def of(cls, place: int, view: Any = None) -> ResultPlace:
        """Makes one."""
        found = cls(place)
        found.view = view
        return found

    def __eq__(self, other: object) -> bool:
        return int.__eq__(self, other) is True and self.view == getattr(other, "view", None)

    __hash__ = int.__hash__

    def __repr__(self) -> str:
        return f"ResultPlace({int(self)}, {self.view!r})"


@dataclass(frozen=True)
class Constant:
    """A part of a result that is no array. Not a tuple, which would be a structure itself."""

    value: Any


def without_constants(structure: Any) -> Any:
    """Returns a structure with nothing in place of its constants: calls of one program may return other numbers."""
    return map_structure(structure, lambda place: None if place.__class__ is Constant else place)


def map_structure(item: Any, visit: Callable[[Any], Any], tables: bool = True) -> Any:
    """Applies `visit` to the leaves of nested lists, tuples and, with `tables`, dictionaries."""
    kind = type(item)
    # Some tuples are made in C, as those of torch.return_types.
    if kind is list or kind is tuple or (isinstance(item, tuple) and hasattr(kind, "n_sequence_fields")):
        return kind([map_structure(part, visit, tables) for part in item])
    if isinstance(item, tuple) and hasattr(kind, "_make"):  # a named one
        return kind._make([map_structure(part, visit, tables) for part in item])
    if tables and isinstance(item, dict):
        table = copy(item)  # a defaultdict is none that its class makes of pairs
        table.update([(key, map_structure(part, visit, tables)) for key, part in item.items()])
        return table
    return visit(item)


def items_of(item: Any, kind: type) -> Iterator[Any]:
    """Everything of this kind in nested lists, tuples and dictionaries."""
    if isinstance(item, kind):
        yield item
    elif isinstance(item, dict):
        yield from items_of(tuple(item.values()), kind)
    elif isinstance(item, (list, tuple)):
        for part in item:
            yield from items_of(part, kind)
