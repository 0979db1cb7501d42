"""The parts in C: there where they were built and nobody has asked for Python."""

from __future__ import annotations

import os
import sys
from importlib import import_module
from importlib.machinery import ExtensionFileLoader
from importlib.util import module_from_spec, spec_from_loader
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
_GRAPH = ("frames", "values", "slices", "entries", "joining", "replay")
_CAPTURE = ("guards.facts", "outlining.entering")
PARTS = (*[f"gluonjit.graph.{name}" for name in _GRAPH], *[f"gluonjit.hybrid.capture.{name}" for name in _CAPTURE])
"""Modules that were built together with it, into the same file."""


def _load_parts() -> None:
    sys.modules["gluonjit.graph.recorder"] = FAST  # that file compiled, with what is written in C beside it
    for name in PARTS:
        spec = spec_from_loader(name, ExtensionFileLoader(name, FAST.__file__))
        assert spec is not None and spec.loader is not None
        sys.modules[name] = module_from_spec(spec)
        spec.loader.exec_module(sys.modules[name])


if FAST is not None:
    _load_parts()
ROWS, WHY_NO_ROWS = load("_rows")
"""The module that runs steps as a whole, or None and why."""
