"""The table of schedulers: one row here, and a file of that name in `schedulers/`, for each."""

from __future__ import annotations

from collections.abc import Mapping

TABLE: Mapping[str, tuple[float, float, float]] = {
    "depth": (240e-6, 0.5e-6, 8e-6),
    "bound": (250e-6, 0.75e-6, 8e-6),
    "beam": (250e-6, 0.75e-6, 130e-6),
}
"""Seconds that each flush, node and step takes, until `python -m gluonjit calibrate` has measured it."""
GONE = ("agenda", "agenda_static", "greedy")
BREADTH = 4  # of a beam, by default
