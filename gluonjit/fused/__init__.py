"""Steps as fused programs: one call in C for the whole of a step, forward and backward, in float32 on the host."""

from gluonjit.fused.program import CHILD, COMMUTATIVE, NODE, Builder, NotFusable, Program, View, Weight
from gluonjit.fused.running import Memory, clear_spare
from gluonjit.fused.steps import Done, Steps

__all__ = [
    "Program",
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
