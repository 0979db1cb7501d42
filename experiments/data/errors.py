"""The one error that reading data can raise."""

from __future__ import annotations

from pathlib import Path


class DataError(Exception):
    """A data file is missing or broken; the message names the file, the line and the next step."""

    def __init__(self, path: Path, line: int | None, message: str) -> None:
        place = f"{path}:{line}" if line is not None else str(path)
        super().__init__(f"{place}: {message}")
        self.path = path
        self.line = line
