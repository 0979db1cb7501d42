"""What calls take and give: tensors in nested lists, tuples and dictionaries, with plain constants between them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from gluonjit.hybrid.structure import map_structure

__all__ = ["Constant", "map_structure"]


@dataclass(frozen=True)
class Constant:
    """A part of a result that is no tensor. Not a tuple, which would be a structure itself."""

    value: Any
