"""Origins: where in the user's program a node was captured, and in which sample."""

from __future__ import annotations

import os
import warnings
from bisect import bisect_right
from collections.abc import Sequence
from dis import findlinestarts
from functools import lru_cache
from types import CodeType, TracebackType
from typing import Any, NamedTuple, Optional

from gluonjit.graph.frames import LIBRARIES, Origin, is_library

_MOST_LINES = 1024
_lines: dict[tuple[int, int], tuple[CodeType, Line]] = {}  # by the addresses of codes, which they keep, and offsets


class Line(NamedTuple):
    """A line of a source file, and the function it is in."""

    file: str
    number: int
    function: str

    def __str__(self) -> str:
        return _text(self, os.getcwd())


def warn_at(line: Line | None, text: str, category: type[Warning], **more: Any) -> None:
    """Warns as if from a line; `more` are arguments of `warnings.warn_explicit`."""
    file, number = ("<unknown>", 0) if line is None else line[:2]
    warnings.warn_explicit(text, category, file, number, **more)


@lru_cache(_MOST_LINES)
def _text(line: Line, here: str) -> str:
    """A line as it is shown from a folder."""
    path = os.path.relpath(line.file) if line.file.startswith(here + os.sep) else line.file
    return f"{path}:{line.number} in {line.function}"


Mark = tuple[int, Optional[int]]
"""Rows from the first number on belong to this sample, or where that is None to none. There are two a sample: Python's
collector need not look at plain tuples of numbers."""


def is_own(item: Any) -> bool:
    """True if an object's class belongs to a library, not to the user."""
    return type(item).__module__.partition(".")[0] in LIBRARIES


def raised_at(trace: TracebackType | None) -> Line | None:
    """Returns the user's line nearest to where an error was raised."""
    found: Origin = None
    while trace is not None:
        if not is_library(trace.tb_frame.f_globals):
            found = trace.tb_frame.f_code, trace.tb_lasti
        trace = trace.tb_next
    return line_of(found)


def line_of(origin: Origin) -> Line | None:
    """The line of a place."""
    if origin is None:
        return None
    code, offset = origin
    known = _lines.get((id(code), offset))
    if known is None:
        if len(_lines) >= _MOST_LINES:
            _lines.clear()
        known = _lines[id(code), offset] = code, _read_line(code, offset)
    return known[1]


def clear_lines() -> None:
    """Drops the cached lines of places; they are read anew."""
    _lines.clear()
    _text.cache_clear()


def _read_line(code: CodeType, offset: int) -> Line:
    number = code.co_firstlineno
    for start, line in findlinestarts(code):
        if start > offset:
            break
        if line is not None:
            number = line
    return Line(code.co_filename, number, getattr(code, "co_qualname", code.co_name))


def sample_at(marks: Sequence[Mark], row: int) -> int | None:
    """The sample during whose call a row was captured, or none."""
    position = bisect_right([begin for begin, _ in marks], row) - 1
    return marks[position][1] if position >= 0 else None
