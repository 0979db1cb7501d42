"""Instructions of random programs, common to all frameworks; each adds its spelling and its own lines."""

from __future__ import annotations

# They fill the table.
from experiments.fuzz.vocabulary import axes, control, elementwise, layers, shaping
from experiments.fuzz.vocabulary.table import COMMON, LINES, Dialect, Spelling, Table

__all__ = ["COMMON", "LINES", "Dialect", "Spelling", "Table", "axes", "control", "elementwise", "layers", "shaping"]
