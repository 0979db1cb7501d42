"""The cells of single operators, PyTorch's and our own: what is known of calls of them."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from gluonjit.compiled import FAST
from gluonjit.engines.torch.cell import Cell
from gluonjit.engines.torch.cells import capture, open_batch
from gluonjit.hybrid.options import Options
from gluonjit.hybrid.run.state import LOCAL

_MOST = 4096
_NO_NAMES: dict[str, Any] = {}
_operators: OrderedDict[Any, Cell] = OrderedDict()
DOORS: dict[Any, tuple[Cell, int]] = {}
"""Functions of which C captures calls by itself: their cell, and the sort of their door (see `doors`)."""


def captured(func: Any, args: tuple[Any, ...]) -> Any:
    """A call of a function as one node. Raises Refusal where that cannot be."""
    cell = cell_of(func, func.__name__)
    found = FAST.capture(cell, None, args, _NO_NAMES) if FAST is not None and LOCAL.state.inside else None
    return capture(cell, None, func, args, _NO_NAMES, open_batch()) if found is None else found


def capturing(func: Any) -> Callable[..., Any]:
    """Makes a function that captures calls of `func`, each as one node. A call raises Refusal where that cannot be."""
    open_batch()
    cell = cell_of(func, func.__name__)
    quick = None if FAST is None else FAST.capture

    def call(*args: Any) -> Any:
        found = None if quick is None else quick(cell, None, args, _NO_NAMES)
        return captured(func, args) if found is None else found

    return call


def cell_of(func: Any, name: str) -> Cell:
    """The cell of a function."""
    cell = _operators.get(func)
    if cell is None:
        cell = _operators[func] = Cell(name, Options(), operator=True)
        while len(_operators) > _MOST:
            DOORS.pop(_operators.popitem(last=False)[0], None)
            if FAST is not None:
                FAST.forget_doors()
    return cell
