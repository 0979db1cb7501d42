"""Cells, a call of which is one node: modules, functions declared with `gluonjit.cell`, operators."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple
from weakref import WeakSet

import torch

from gluonjit.graph import Kind, Value
from gluonjit.hybrid.capture.entrances import asked
from gluonjit.hybrid.capture.guards.variants import Noted, Variant
from gluonjit.hybrid.capture.reuse import Recordings
from gluonjit.hybrid.choose.pacing import NO_CHOICE, Paces
from gluonjit.hybrid.options import Options
from gluonjit.hybrid.run.batch import Batch
from gluonjit.hybrid.run.places import DifferingNumbers

KEY = "_gluonjit"
"""A dynamically batched module keeps its Cell in its own __dict__, so that copies and pickles take it along."""

_cells: WeakSet[Cell] = WeakSet()


_FRESH = 16
_CHANGES = 4  # of a module, after each of which it is refused for the same reason, or all in one batch


class Pattern:
    """The record of what calls of a cell have come to whose arguments have the same classes and numbers of axes.

    refused: by the reason, how many signatures; records: of the first that were made one node; again: whether one of
    those has come again, or runs together with another; fresh: the records of the latest new signatures, if none of any
    has come again since; never: why no further signature is traced, if so.
    """

    __slots__ = ("again", "fresh", "never", "records", "refused")

    def __init__(self) -> None:
        self.refused: dict[str, int] = {}
        self.records: list[Any] = []
        self.fresh: deque[Any] = deque(maxlen=_FRESH)
        self.again = False
        self.never = ""


def cells_known() -> list[Cell]:
    """Every cell there is."""
    return list(_cells)


def forget_recordings() -> None:
    """Forgets what calls have captured: it may not be what they capture from now on."""
    for cell in cells_known():
        if cell.reuse is not None:
            cell.recordings.clear()


class Cell:
    """A cell: its options, its kinds by signature, and why some calls are not one node.

    A copy or a pickle of a module gets a cell of its own, with the same options and nothing cached.
    """

    __slots__ = ("__dict__", "__weakref__", "chooses", "keys", "laid", "lookup", "paces", "refused")

    def __init__(
        self,
        name: str,
        options: Options,
        operator: bool = False,
        stateless: bool = False,
        paces: Paces = NO_CHOICE,
    ) -> None:
        self.name = name
        self.options = options
        self.paces = paces  # those of the model it belongs to
        self.chooses = paces.open
        self.operator = operator
        self.made = False  # from source, by ourselves
        self.whole = operator  # one node at every granularity
        self.stateless = stateless  # of any module that looks so
        self.kinds: dict[Any, Kind] = {}
        self.variants: dict[Any, list[Variant]] = {}  # of each signature, by what they read of Python's state
        self.families: dict[Any, Kind] = {}
        self.by_rows: dict[Any, list[Any]] = {}  # what was traced, but for their numbers of rows
        self.products: dict[Any, Kind] = {}  # cut out of the cell's kinds
        self.expanded: dict[Any, str] = {}
        self.patterns: dict[Any, Pattern] = {}  # what calls with arguments of the same classes have come to
        self.plain: dict[Any, Any] = {}  # what calls give that is no tensor: it follows from shapes alone
        self.joints: dict[Any, Any] = {}  # calls that may differ in the number of children alone
        self.by_number = ""  # why calls with other numbers of children run apart, if they do
        self.counts: dict[Any, set[int]] = {}  # of operators in traces, by their signatures but for sizes
        self.numbers = DifferingNumbers()  # of an operator's calls
        self.lookup: Any = None
        self.laid: dict[tuple[int, int], str] | None = None  # modes of operands, by their numbers and numbers of axes
        self.keys: Any = None  # by what C has found calls of it, in any batch
        self.never = ""  # why no call of it is one node, if so
        self.refused: dict[Any, str] = {}  # why none is, by whether gradients are recorded and the module trains
        self.lost: dict[str, int] = {}  # by the reason, how often such refusals were forgotten
        self.seen: Any = None  # what the module looked like when its calls were traced
        self.looked: Any = None  # how the module was when it was last looked at in full, and what that has found
        self.known: Any = None  # how it was when its parameters and hooks were noted, and these
        self.met = False  # whether a call of it has been traced, be it forgotten
        self.reuse = options.reuse
        self.recordings = Recordings(options.check_reuse)
        _cells.add(self)

    enters: Any = None  # dynamic.entered, which knows of cells

    def entrance(self, owner: Any, name: str) -> Any:
        """Returns what calls a method of the model as a sample, for the code of that method; None if it is to go on."""
        if torch.compiler.is_compiling():
            return None
        method = asked(name)
        return None if method is None else partial(Cell.enters, owner, self, method)

    def entries(self) -> int:
        """The number of signatures: of kinds, of what is cut out of them, and of calls that are not one node."""
        return len(self.kinds) + len(self.products) + len(self.expanded) + len(self.plain)

    def clear(self) -> None:
        """Forgets traces; what never is a node remains, and recordings of what the cell calls.

        A module that has changed often, and has been refused for one reason each time, is not tried again: it may be
        what changes the module, as a counter of its calls.
        """
        if not self.kinds and not self.plain:
            for reason in {reason for pattern in self.patterns.values() for reason in pattern.refused}:
                self.lost[reason] = self.lost.get(reason, 0) + 1
                if self.lost[reason] == _CHANGES:
                    self.never = reason
        self.kinds.clear()
        self.variants.clear()
        self.families.clear()
        self.by_rows.clear()
        self.products.clear()
        self.expanded.clear()
        self.patterns.clear()
        self.refused.clear()
        self.plain.clear()
        self.joints.clear()
        self.by_number = ""
        self.lookup = self.keys = self.laid = None
        self.seen = None

    def change(self, times: int) -> None:
        """Forgets traces of a module that has changed, so many times in this batch; often, and it is never a node."""
        self.clear()
        if times == _CHANGES:
            self.never = "its module changes from sample to sample: the calls inside it are captured instead"

    def __reduce__(self) -> Any:
        options = replace(self.options, reuse=None)  # a function need not have a name to be found by
        return Cell, (self.name, options, self.operator, self.stateless, self.paces)

    def __deepcopy__(self, memo: Any) -> Cell:
        return Cell(self.name, self.options, self.operator, self.stateless, deepcopy(self.paces, memo))


class Call(NamedTuple):
    """A call that may become a node: `owner` is the module whose parameters it may use, or None."""

    cell: Cell
    owner: Any
    run: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    values: Sequence[Value]  # of its tensors
    batch: Batch
    noted: Noted  # what it reads of Python's state
