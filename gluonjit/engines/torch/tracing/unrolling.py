"""Calls that are loops: captured iteration by iteration, or whole, one node for each of their shapes.

Iterations of samples of any length run together. If they are operators, not layers, to capture one takes as long as
eager takes to run it. Where a minibatch has several calls of one shape these run together as a whole, and nothing in
them is captured. `analysis/pace.py` decides by what both take.
"""

from __future__ import annotations

from gluonjit.engines.torch.tracing.cell import Cell
from gluonjit.hybrid.choose.pacing import captures_whole, note_loop

LOOPS = (
    "it applies a weight again to an earlier result of the same weight, as a loop over a sequence does: the "
    "calls of each iteration are captured instead"
)
UNROLLED = (
    "it runs more operators the larger its operands are, as a loop over a length does: the calls of each iteration are "
    "captured instead"
)


def never(cell: Cell) -> str:
    """Says why no call of a cell is one node now; "" if one may be."""
    if cell.never in (LOOPS, UNROLLED):
        if captures_whole():
            return ""
        note_loop()
    return cell.never
