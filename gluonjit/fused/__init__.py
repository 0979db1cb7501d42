"""Steps as fused programs: one call in C for the whole of a step, forward and backward, in float32 on the host."""

from gluonjit.fused.assembly import Compiled, Way, compiled
from gluonjit.fused.program import CHILD, NODE, Builder, NotFusable, Program, View, Weight
from gluonjit.fused.running import ROWS, Launches, Memory, rows_of

__all__ = [
    "Program",
    "Builder",
    "View",
    "Weight",
    "NODE",
    "CHILD",
    "NotFusable",
    "Way",
    "Compiled",
    "compiled",
    "Memory",
    "Launches",
    "rows_of",
    "ROWS",
]
