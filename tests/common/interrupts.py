"""Ctrl-C at a line of the library, or as one of its functions is entered: each is tried, the same one each time."""

from __future__ import annotations

import linecache
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import gluonjit

_ROOT = Path(gluonjit.__file__).parent
_PARTS = tuple([str(_ROOT / part) for part in ("rows", "analysis", "hybrid/run")])
_REGIONS = ("__enter__", "__exit__", "__del__")  # an interrupt there is lost, or leaves any program's regions open

_FLAGS = ("set_recording", "set_training")  # MXNet's record() calls two, and an interrupt between them is as without us


class _Lines:
    """Counts lines of a run of the library, and raises KeyboardInterrupt at the one of this number."""

    def __init__(self, number: int) -> None:
        self.count, self._number = 0, number

    def called(self, frame: Any, event: str, arg: Any) -> Any:
        """Looks at the lines of a function of the library's, unless a region is entered or left there."""
        code = frame.f_code
        return self._line if code.co_filename.startswith(_PARTS) and code.co_name not in _REGIONS else None

    def _line(self, frame: Any, event: str, arg: Any) -> Any:
        if event == "line" and not _is_passed(frame):
            self.count += 1
            if self.count == self._number:
                if not _is_deleted(frame):
                    raise KeyboardInterrupt
                self._number += 1
        return self._line


class _Calls(_Lines):
    """Counts calls of all functions of the library in Python, as above: a region's end is one, if it is in Python."""

    def called(self, frame: Any, event: str, arg: Any) -> Any:
        """Looks at a call."""
        if frame.f_code.co_filename.startswith(str(_ROOT)) and not _is_within(frame, "__del__", *_FLAGS):
            self.count += 1
            if self.count == self._number:
                raise KeyboardInterrupt
        return None


def _is_passed(frame: Any) -> bool:
    """True if Python sees to no signal at a line: where a region ends, and where its end is guarded."""
    file, number = frame.f_code.co_filename, frame.f_lineno
    before = linecache.getline(file, number - 1).strip()
    return linecache.getline(file, number).strip().startswith("with ") or before.startswith(("finally", "except"))


def _is_deleted(frame: Any) -> bool:
    """True if something is being deleted: Python prints what is raised there, and goes on."""
    return _is_within(frame, "__del__")


def _is_within(frame: Any, *names: str) -> bool:
    while frame is not None and frame.f_code.co_name not in names:
        frame = frame.f_back
    return frame is not None


def _run(lines: _Lines, run: Callable[[], object]) -> int:
    """Runs something up to a line or call of the library; returns their number."""
    before = sys.gettrace()
    sys.settrace(lines.called)
    try:
        run()
    finally:
        sys.settrace(before)
    return lines.count


def interrupted(run: Callable[[], object], every: int, calls: bool = False) -> Iterator[int]:
    """Runs something again and again, each time up to another line (or call), `every` so many; yields these."""
    kind = _Calls if calls else _Lines
    for number in range(1, _run(kind(0), run) + 1, every):
        try:
            _run(kind(number), run)
        except KeyboardInterrupt:
            yield number
