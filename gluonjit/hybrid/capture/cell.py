"""Cells, a call of which is one node: what they hold on any engine."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from copy import deepcopy
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar
from weakref import WeakSet

from gluonjit.graph import Kind
from gluonjit.graph.recorder import CellSlots
from gluonjit.hybrid.capture.guards.variants import Variant
from gluonjit.hybrid.capture.reuse.cache import Recordings
from gluonjit.hybrid.choose.pacing import NO_CHOICE, Paces
from gluonjit.hybrid.options import Options
from gluonjit.hybrid.run.state import LOCAL
from gluonjit.program.trace import Trace
from gluonjit.replaced import ENTRANCES, KEY

_cells: WeakSet[BatchedCell] = WeakSet()
_Own = TypeVar("_Own", bound="BatchedCell")


class BatchedCell(CellSlots):
    """A cell: its options, its kinds by signature, and why some calls are not one node. An engine derives from it.

    A copy or a pickle of a model gets cells of its own, with the same options and nothing cached.
    """

    __slots__ = ("__dict__", "__weakref__")

    operator = False  # whether each call of it is one operator
    copied: tuple[str, ...] = ()  # attributes of the engine's that a copy has, too
    enters: Any = None  # the engine's OutermostCalls.entered, which knows of cells

    def __init__(self, name: str, options: Options, paces: Paces = NO_CHOICE) -> None:
        self.name = name
        self.options = options
        self.paces = paces  # those of the model it belongs to
        self.chooses = paces.open
        self.kinds: dict[Any, Kind] = {}
        self.variants: dict[Any, list[Variant]] = {}  # of each signature, by what they read of Python's state
        self.families: dict[Any, Kind] = {}
        self.products: dict[Any, Kind] = {}  # cut out of the cell's kinds
        self.joints: dict[Any, Any] = {}  # calls that may differ in the number of children, or in lengths, alone
        self.laid: dict[tuple[int, int], str] | None = None  # modes of operands, by their numbers and numbers of axes
        self.by_number = ""  # why calls with other numbers of children run apart, if they do
        self.expanded: dict[Any, str] = {}
        self.asked: list[str] = []  # why calls of its model run eagerly: shared by all cells of a model
        self.met = False  # whether a call of it has been traced, be it forgotten
        self.lookup: Any = None
        self.keys: Any = None  # by what C has found calls of it, in any batch
        self.reuse = options.reuse
        self.recordings = Recordings(options.check_reuse)
        _cells.add(self)

    @classmethod
    def every(cls: type[_Own]) -> list[_Own]:
        """Every cell of an engine that there is."""
        return [cell for cell in _cells if isinstance(cell, cls)]

    @classmethod
    def forget_recordings(cls) -> None:
        """Forgets what calls have captured: it may not be what they capture from now on."""
        for cell in cls.every():
            if cell.reuse is not None:
                cell.recordings.clear()

    @classmethod
    def leave(cls, models: Iterable[Any]) -> None:
        """Takes their cells from models, also where what waits, which runs first, fails."""
        cls.forget_recordings()
        batched = [model for model in models if KEY in model.__dict__]
        try:
            if batched:
                LOCAL.state.flush("hybridize() turned dynamic batching off")
        finally:
            for model in batched:
                model.__dict__.pop(KEY).left(model)

    def left(self, model: Any) -> None:
        """Gives a model back what its cell has taken from it."""

    def entrance(self, owner: Any, name: str) -> Any:
        """Returns what calls a method of the model as a sample, for the code of that method; None if it is to go on."""
        state = LOCAL.state
        if state.inside or state.paused or state.trace is not None:
            return None
        method = ENTRANCES.get(name)
        return None if method is None else partial(self.enters, owner, self, method)

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
        self.laid = None
        self.expanded.clear()
        self.lookup = self.keys = None

    def __reduce__(self) -> Any:
        options = replace(self.options, reuse=None)  # a function need not have a name to be found by
        own = [getattr(self, name) for name in self.copied]
        return _copied, (type(self), self.name, options, self.paces, own)

    def __deepcopy__(self, memo: Any) -> BatchedCell:
        own = [getattr(self, name) for name in self.copied]
        return _copied(type(self), self.name, self.options, deepcopy(self.paces, memo), own)


def _copied(kind: type[BatchedCell], name: str, options: Options, paces: Paces, own: Sequence[Any]) -> BatchedCell:
    cell = kind(name, options, paces=paces)
    for each, value in zip(kind.copied, own):
        setattr(cell, each, value)
    return cell


def product_kind(cell: BatchedCell, trace: Trace, key: tuple[Any, ...], build: Any, work_of: Any) -> Kind:
    """The kind of what was cut out of a cell: one for all kinds of the cell that have it, and an equal `key`."""
    key = (*key, *trace.operands, *map(repr, trace.listing()), *map(id, trace.consts))
    kind = cell.products.get(key)
    if kind is None:
        name = f"{cell.name}: products of leaves"
        kind = cell.products[key] = build(trace).kind(name, trace, work_of, poly=False)
    return kind
