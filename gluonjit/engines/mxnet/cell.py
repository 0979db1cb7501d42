"""Cells, a call of which is one node: HybridBlocks, and functions declared with `gluonjit.cell`."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace
from functools import partial
from typing import Any
from weakref import WeakSet

from gluonjit.engines.mxnet.computing import waits
from gluonjit.engines.mxnet.lazy import Lazy
from gluonjit.graph import Kind
from gluonjit.hybrid.capture.entrances import asked
from gluonjit.hybrid.capture.guards.variants import Variant
from gluonjit.hybrid.capture.reuse import Recordings
from gluonjit.hybrid.choose.pacing import NO_CHOICE, Paces
from gluonjit.hybrid.options import Options

KEY = "_gluonjit"
"""A dynamically batched block keeps its Cell in its own __dict__, so that copies and pickles take it along."""

_cells: WeakSet[Cell] = WeakSet()


def cells_known() -> list[Cell]:
    """Every cell there is."""
    return list(_cells)


def forget_recordings() -> None:
    """Forgets what calls have captured: it may not be what they capture from now on."""
    for cell in cells_known():
        cell.recordings.clear()


class UnknownArgument(Exception):
    """An argument that can be no part of a cell's signature."""


class Cell:
    """A cell: its options, its kinds by signature, and why some calls are not one node.

    A copy or a pickle of a block gets a cell of its own, with the same options and nothing cached.
    """

    __slots__ = ("__dict__", "__weakref__", "chooses", "is_node", "keys", "lookup", "paces")

    def __init__(self, name: str, options: Options, paces: Paces = NO_CHOICE) -> None:
        self.name = name
        self.options = options
        self.paces = paces  # those of the model it belongs to
        self.chooses = paces.open
        self.active: bool | None = None  # what HybridBlock's own hybridization was before
        self.kinds: dict[Any, Kind] = {}
        self.variants: dict[Any, list[Variant]] = {}  # of each signature, by what they read of Python's state
        self.families: dict[Any, Kind] = {}
        self.products: dict[Any, Kind] = {}  # cut out of the cell's kinds
        self.by_number = ""  # why calls with other numbers of children run apart, if they do
        self.joints: dict[Any, Any] = {}  # calls that may differ in the number of children alone
        self.expanded: dict[Any, str] = {}
        self.is_node = False
        self.met = False  # whether a call of it has been traced, be it forgotten
        self.lookup: Any = None
        self.keys: Any = None  # by what C has found calls of it, in any batch
        self.reuse = options.reuse
        self.recordings = Recordings(options.check_reuse)
        _cells.add(self)

    enters: Any = None  # calls.OUTERMOST.entered, which knows of cells

    def entrance(self, owner: Any, name: str) -> Any:
        """Returns what calls a method of the model as a sample, for the code of that method; None if it is to go on."""
        method = None if self.is_node else asked(name)
        return None if method is None else partial(Cell.enters, owner, self, method)

    def entries(self) -> int:
        """The number of signatures: of kinds, of products cut out of them, and of calls that are not one node."""
        return len(self.kinds) + len(self.products) + len(self.expanded)

    def clear(self) -> None:
        """Forgets what was traced."""
        self.kinds.clear()
        self.variants.clear()
        self.families.clear()
        self.products.clear()
        self.joints.clear()
        self.by_number = ""
        self.expanded.clear()
        self.lookup = self.keys = None
        self.recordings.clear()

    def __reduce__(self) -> Any:
        options = replace(self.options, reuse=None)  # a function need not have a name to be found by
        return _copied, (self.name, options, self.active, self.is_node, self.paces)

    def __deepcopy__(self, memo: Any) -> Cell:
        return _copied(self.name, self.options, self.active, self.is_node, deepcopy(self.paces, memo))


def _copied(name: str, options: Options, active: bool | None, is_node: bool, paces: Paces) -> Cell:
    cell = Cell(name, options, paces)
    cell.active, cell.is_node = active, is_node
    return cell


def any_lazy(items: Any) -> bool:
    """Tells whether an array among these arguments waits for its batch."""
    for item in items:
        if isinstance(item, Lazy):
            if waits(item):
                return True
        elif isinstance(item, (list, tuple)) and any_lazy(item):
            return True
    return False
