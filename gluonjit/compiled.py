"""The parts in C: there where they were built and nobody has asked for Python."""

from __future__ import annotations

import os
import sys
from importlib import import_module
from typing import Any

PURE = "GLUONJIT_PURE"
"""The environment variable that, set to anything but 0, has everything run in Python."""


def load(name: str) -> tuple[Any, str]:
    """The module of the package that was built under this name, or None and why there is none."""
    if os.environ.get(PURE, "0") not in ("", "0"):
        return None, f"{PURE} is set"
    try:
        return import_module(f"gluonjit.{name}"), ""
    except ImportError as error:
        return None, f"gluonjit.{name} was not built ({error})"


FAST, WHY_NOT = load("_fast")
"""The module that captures calls, or None and why."""
if FAST is not None:  # it is that file compiled, with what is written in C beside it
    sys.modules["gluonjit.graph.recorder"] = FAST
ROWS, WHY_NO_ROWS = load("_rows")
"""The module that runs steps as a whole, or None and why."""
