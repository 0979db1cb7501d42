"""Cells, a call of which is one node: HybridBlocks, and functions declared with `gluonjit.cell`."""

from __future__ import annotations

from typing import Any

from gluonjit.engines.mxnet.values.computing import waits
from gluonjit.engines.mxnet.values.lazy import Lazy
from gluonjit.hybrid.capture.cell import BatchedCell
from gluonjit.hybrid.capture.structure import items_of
from gluonjit.hybrid.choose.pacing import NO_CHOICE, Paces
from gluonjit.hybrid.options import Options


class UnknownArgument(Exception):
    """An argument that can be no part of a cell's signature."""


class Cell(BatchedCell):
    """A cell of MXNet's."""

    __slots__ = ()

    copied = "active", "is_node"

    def __init__(self, name: str, options: Options, paces: Paces = NO_CHOICE) -> None:
        super().__init__(name, options, paces)
        self.active: bool | None = None  # what HybridBlock's own hybridization was before
        self.is_node = False

    def entrance(self, owner: Any, name: str) -> Any:
        """Returns what calls a method as a sample; None of a cell, whose calls are nodes."""
        return None if self.is_node else super().entrance(owner, name)

    def left(self, model: Any) -> None:
        """Turns a HybridBlock's own hybridization on again."""
        if self.active is not None:
            model._active = self.active

    def clear(self) -> None:
        """Forgets what was traced, and what calls have captured."""
        super().clear()
        self.recordings.clear()


def any_lazy(items: Any) -> bool:
    """True if an array among these arguments waits for its batch."""
    return any(map(waits, items_of(items, Lazy)))
