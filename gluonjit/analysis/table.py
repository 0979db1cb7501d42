"""The table of schedulers: one row here, and a file of that name in `schedulers/`, for each."""

from __future__ import annotations

NAMES = (
    "depth",
    "bound",
    "beam",
)
GONE = ("agenda", "agenda_static", "greedy")
BREADTH = 4  # of a beam, by default
