"""The common part of readers of data files: the folder, and lines of files that must exist."""

from __future__ import annotations

import os
from pathlib import Path

from experiments.data.errors import DataError

DATA_VARIABLE = "GLUONJIT_DATA"


def data_dir(given: str | None, wanted: str, instead: str) -> Path:
    """Return the folder that the user named, by option or environment.

    Raises DataError that names the missing files and what to use `instead`.
    """
    found = given or os.environ.get(DATA_VARIABLE)
    if not found:
        raise DataError(
            Path(wanted),
            None,
            f"no data folder: pass --data-dir or set {DATA_VARIABLE}, or use {instead}, which needs no files",
        )
    return Path(found)


def lines_of(path: Path, what: str) -> list[str]:
    """Return the lines of a required file; the error for a missing one names its content, `what`."""
    try:
        # Only ends of lines end them: a text may hold other characters that `splitlines` takes for ends.
        lines = path.read_text(encoding="utf-8").split("\n")
    except FileNotFoundError:
        raise DataError(path, None, f"no such file; docs/data.md says how {what} are made") from None
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(path, None, f"cannot be read: {error}") from error
    return lines[:-1] if lines[-1] == "" else lines
