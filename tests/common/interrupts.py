"""Ctrl-C at a line of the library: as a signal may come at any of them, each is tried, and the same one each time."""

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


def _is_passed(frame: Any) -> bool:
    """Tells whether Python sees to no signal at a line: where a region ends, and where its end is guarded."""
    file, number = frame.f_code.co_filename, frame.f_lineno
    before = linecache.getline(file, number - 1).strip()
    return linecache.getline(file, number).strip().startswith("with ") or before.startswith(("finally", "except"))


def _is_deleted(frame: Any) -> bool:
    """Tells whether something is being deleted: Python prints what is raised there, and goes on."""
    while frame is not None and frame.f_code.co_name != "__del__":
        frame = frame.f_back
    return frame is not None


def _run(number: int, run: Callable[[], object]) -> int:
    """Runs something up to a line of the library; returns the number of lines."""
    lines = _Lines(number)
    before = sys.gettrace()
    sys.settrace(lines.called)
    try:
        run()
    finally:
        sys.settrace(before)
    return lines.count


def interrupted(run: Callable[[], object], every: int) -> Iterator[int]:
    """Runs something again and again, each time up to another line of the library, `every` so many; yields these."""
    for number in range(1, _run(0, run) + 1, every):
        try:
            _run(number, run)
        except KeyboardInterrupt:
            yield number
