"""Steps as fused programs: one call in C for the whole of a step, forward and backward, in float32 on the host."""

from gluonjit.rows.program import CHILD, COMMUTATIVE, NODE, Builder, NotFusable, RowProgram, View, Weight
from gluonjit.rows.running import Memory, clear_spare
from gluonjit.rows.steps import Done, Steps

__all__ = [
    "RowProgram",
    "Builder",
    "View",
    "Weight",
    "NODE",
    "CHILD",
    "COMMUTATIVE",
    "NotFusable",
    "Steps",
    "Done",
    "Memory",
    "clear_spare",
]
