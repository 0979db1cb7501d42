"""Outermost calls of blocks with a `forward` of their own: captured call by call, or whole, as one node.

What they call runs together whatever their lengths. If these are operators, not blocks, to capture one takes as long as
eager takes to run it. Where calls of any length are one kind as a whole, or a minibatch has several calls of one shape,
these run together, and nothing in them is captured. `analysis/pace.py` decides by what both take.
"""

from __future__ import annotations

from typing import Any

from mxnet import gluon
from mxnet.ndarray import NDArray

from gluonjit.engines.mxnet.capture.cells import as_node
from gluonjit.engines.mxnet.tracing.cell import Cell
from gluonjit.hybrid.capture.lengths.joining import joins
from gluonjit.hybrid.choose.pacing import captures_whole, note_loop


def whole(cell: Cell, block: gluon.Block, args: tuple[Any, ...]) -> Any:
    """Captures an outermost call as one node, or says why what it calls is captured instead."""
    sized = all([isinstance(arg, NDArray) for arg in args])  # a list of another length is another structure
    if not captures_whole(joins(cell) if sized else None):
        note_loop()
        return "what it calls is captured"
    if block._forward_hooks or block._forward_pre_hooks:
        return "it has hooks"
    found = as_node(cell, block, None, args)
    if not isinstance(found, str):
        note_loop()
    return found
