"""The part of a capture that is in C: there where it was built and nobody has asked for Python."""

from __future__ import annotations

import os
from typing import Any

PURE = "GLUONJIT_PURE"
"""The environment variable that, set to anything but 0, has everything run in Python."""


def _load() -> tuple[Any, str]:
    if os.environ.get(PURE, "0") not in ("", "0"):
        return None, f"{PURE} is set"
    try:
        from gluonjit import _fast
    except ImportError as error:
        return None, f"gluonjit._fast was not built ({error})"
    return _fast, ""


FAST, WHY_NOT = _load()
"""The module, or None and why."""
