"""Steps as fused programs: one call in C for the whole of a step, forward and backward, in float32 on the host."""

from gluonjit.rows.program import CHILD, COMMUTATIVE, NODE, Builder, NotFusable, RowProgram, View, Weight
from gluonjit.rows.running import NO_FLAGS, Memory, clear_spare, cores, row_flags
from gluonjit.rows.steps import Ahead, Learner, Learning, Steps, Stretch, sources

__all__ = [
    "RowProgram",
    "Builder",
    "View",
    "Weight",
    "NODE",
    "NO_FLAGS",
    "CHILD",
    "COMMUTATIVE",
    "NotFusable",
    "Ahead",
    "Steps",
    "Stretch",
    "Learner",
    "Learning",
    "Memory",
    "row_flags",
    "sources",
    "clear_spare",
    "cores",
]
