"""What calls take and give: tensors in nested lists, tuples and dictionaries, with plain constants between them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Constant:
    """A part of a result that is no tensor. Not a tuple, which would be a structure itself."""

    value: Any


def map_structure(item: Any, visit: Callable[[Any], Any]) -> Any:
    """Apply `visit` to everything in nested lists, tuples and dictionaries that is none of these."""
    kind = type(item)
    if kind is list:
        return [map_structure(part, visit) for part in item]
    if kind is tuple:
        return tuple([map_structure(part, visit) for part in item])
    if isinstance(item, tuple) and hasattr(kind, "_make"):  # a named one
        return kind._make([map_structure(part, visit) for part in item])
    if isinstance(item, tuple) and hasattr(kind, "n_sequence_fields"):  # one of torch.return_types
        return kind([map_structure(part, visit) for part in item])
    if isinstance(item, dict):
        return type(item)((key, map_structure(part, visit)) for key, part in item.items())
    return visit(item)
