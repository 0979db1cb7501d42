"""Arguments and results: tensors in nested lists, tuples and dictionaries, with plain constants between them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Constant:
    """A part of a result that is no tensor. Not a tuple, which would be a structure itself."""

    value: Any
