"""Functions of the program that are no methods of a model, losses among them: found by the operators they bring.

An operator that is captured outside of any cell knows the frame of the program that called it. A function that brings
several of them, in one sample after the other, gets code with cells when its batch has run, before its next call: what
calls a model has begun before a batch is open. It keeps that code until dynamic batching is turned off for a model.
"""

from __future__ import annotations

import sys
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

from gluonjit.graph.frames import is_library, user_line
from gluonjit.hybrid.capture.guards.facts import class_attribute
from gluonjit.hybrid.capture.guards.owners import is_user_function
from gluonjit.hybrid.capture.outlining.known import FRAMEWORKS
from gluonjit.hybrid.capture.outlining.outlines import OUTLINES, OutlinedFunction, outlines_in
from gluonjit.hybrid.run.batch import Batch
from gluonjit.hybrid.run.state import LOCAL

_FEWEST = 2  # kinds of operators
_MOST = 4096
_INSTALLED = {"site-packages", "dist-packages"}
_settled: dict[int, CodeType] = {}  # code that is not looked at again, by address


class Brought:
    """The functions that operators of a batch come from, with the sample that each was first met in."""

    def __init__(self, batch: Batch) -> None:
        self._batch = batch
        self._met: dict[int, list[Any]] = {}

    def note(self, code: CodeType) -> None:
        """Notes one more kind of operator that is captured in this code."""
        met = self._met.get(id(code))
        if met is None:
            function = _function_of(code)
            if function is None:
                _settle(code)
                return
            met = self._met[id(code)] = [0, code, function, self._batch.sample]
        met[0] += 1

    def swap_out(self) -> None:
        """Gives functions that one sample after the other has come to their code with cells: the batch runs now."""
        for kinds, code, function, sample in self._met.values():
            if kinds >= _FEWEST and self._batch.sample > sample:
                _settle(code)
                outline = OUTLINES[function] = OutlinedFunction(function, None, FRAMEWORKS[self._batch.engine.name])
                outline.swap_in()
                outline.cells = outline.cells_of(self._batch, None)  # type: ignore[assignment]


def note_operator(batch: Batch) -> None:
    """Notes that a batch has got a kind of operator that it had not: the program captures it, outside of any cell."""
    place = user_line()
    if place is None or id(place[0]) in _settled or LOCAL.state.trace is not None:
        return
    if outlines_in(batch, batch.options):
        batch.placed.setdefault(0, Brought(batch)).note(place[0])


def forget_functions() -> None:
    """Gives functions back the code that they were written with; they are found anew."""
    for function, outline in list(OUTLINES.items()):
        if outline.free:
            outline.swap_out()
            del OUTLINES[function]
    _settled.clear()


def _settle(code: CodeType) -> None:
    if len(_settled) >= _MOST:
        _settled.clear()
    _settled[id(code)] = code


def _function_of(code: CodeType) -> FunctionType | None:
    """Returns the function that is running this code, if its module, or the class of its first argument, has it.

    None for what is left alone: other functions, a library's, and a model's methods, whose cells are made otherwise.
    """
    frame: Any = sys._getframe(2)
    while frame.f_code is not code:
        frame = frame.f_back
    found = frame.f_globals.get(code.co_name)
    if getattr(found, "__code__", None) is not code and code.co_argcount:
        kind = type(frame.f_locals.get(code.co_varnames[0]))
        if any(is_library(vars(sys.modules.get(base.__module__, sys))) for base in kind.__mro__[:-1]):
            return None
        found = class_attribute(kind, code.co_name)
    if getattr(found, "__code__", None) is not code or not is_user_function(found) or found in OUTLINES:
        return None
    return None if _INSTALLED.intersection(Path(code.co_filename).parts) else found
