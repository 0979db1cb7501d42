"""Cells, a call of which is one node: modules, functions declared with `gluonjit.cell`, operators."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch

from gluonjit.graph import Kind, Value
from gluonjit.hybrid.capture.cell import BatchedCell
from gluonjit.hybrid.capture.guards.variants import Noted
from gluonjit.hybrid.choose.pacing import NO_CHOICE, Paces, captures_whole, note_loop
from gluonjit.hybrid.options import Options
from gluonjit.hybrid.run.batch import Batch
from gluonjit.program.trace import Trace

ALL_CONSTANT = "it has no tensor operands"
RAISED = "tracing it raised"
"""The begin of a reason that may hold for one call alone."""
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


class Cell(BatchedCell):
    """A cell of PyTorch's."""

    __slots__ = ()

    def __init__(
        self,
        name: str,
        options: Options,
        operator: bool = False,
        stateless: bool = False,
        paces: Paces = NO_CHOICE,
    ) -> None:
        super().__init__(name, options, paces)
        self.operator = operator
        self.made = False  # from source, by ourselves
        self.whole = operator  # one node at every granularity
        self.viewing = operator  # who captures its calls sees to views that they give
        self.stateless = stateless  # of any module that looks so
        self.patterns: dict[Any, Pattern] = {}  # what calls with arguments of the same classes have come to
        self.plain: dict[Any, Any] = {}  # what calls give that is no tensor: it follows from shapes alone
        self.counts: dict[Any, set[int]] = {}  # of operators in traces, by their signatures but for sizes
        self.never = ""  # why no call of it is one node, if so
        self.refused: dict[Any, str] = {}  # why none is, by whether gradients are recorded and the module trains
        self.lost: dict[str, int] = {}  # by the reason, how often such refusals were forgotten
        self.seen: Any = None  # what the module looked like when its calls were traced
        self.looked: Any = None  # how the module was when it was last looked at in full, and what that has found
        self.known: Any = None  # how it was when its parameters and hooks were noted, and these

    def entrance(self, owner: Any, name: str) -> Any:
        """Returns what calls a method as a sample; None where PyTorch compiles."""
        return None if torch.compiler.is_compiling() else super().entrance(owner, name)

    def entries(self) -> int:
        """The number of signatures, those of calls that give no tensor too."""
        return super().entries() + len(self.plain)

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
        super().clear()
        self.patterns.clear()
        self.refused.clear()
        self.plain.clear()
        self.seen = None

    def change(self, times: int) -> None:
        """Forgets traces of a module that has changed, so many times in this batch; often, and it is never a node."""
        self.clear()
        if times == _CHANGES:
            self.never = "its module changes from sample to sample: the calls inside it are captured instead"


class TraceFindings(NamedTuple):
    """The findings of tracing a call: the trace, and where its results are in what the call returns.

    draws: whether it draws random numbers; learning: which of the trace's constants learned.
    """

    trace: Trace
    structure: Any
    draws: bool
    learning: list[bool]


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


MADE: dict[Callable[..., Any], Callable[[Call], Kind]] = {}
"""Functions of our own whose kinds need no trace."""


LOOPS = (
    "it applies a weight again to an earlier result of the same weight, as a loop over a sequence does: the "
    "calls of each iteration are captured instead"
)
UNROLLED = (
    "it runs more operators the larger its operands are, as a loop over a length does: the calls of each iteration are "
    "captured instead"
)


def never(cell: Cell) -> str:
    """Says why no call of a cell is one node now; "" if one may be."""
    if cell.never in (LOOPS, UNROLLED):
        if captures_whole():
            return ""
        note_loop()
    return cell.never
