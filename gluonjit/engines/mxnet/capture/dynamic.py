"""Turning dynamic batching on and off for a block and everything in it."""

from __future__ import annotations

from typing import Any, Optional
from weakref import WeakKeyDictionary, WeakSet, ref

from mxnet import gluon

from gluonjit.engines.mxnet.framework.blocks import blocks_of
from gluonjit.engines.mxnet.tracing.cell import Cell, any_lazy
from gluonjit.engines.mxnet.tracing.following import is_hybrid
from gluonjit.graph.graph import Graph
from gluonjit.hybrid.capture.outlining.free_functions import forget_functions
from gluonjit.hybrid.choose.kept import BlockDescription, recalled
from gluonjit.hybrid.options import Options
from gluonjit.hybrid.run.engine import engine_of
from gluonjit.hybrid.run.state import LOCAL
from gluonjit.replaced import KEY

_Flush = Optional["ref[Graph]"]
"""What a batch has captured since its last flush."""

_automatic: WeakKeyDictionary[gluon.Block, Cell] = WeakKeyDictionary()
_parts: WeakSet[gluon.Block] = WeakSet()  # blocks inside automatic cells
_first: WeakKeyDictionary[Cell, _Flush] = WeakKeyDictionary()  # where it was called for the first time
_anew: WeakKeyDictionary[type, tuple[_Flush, int]] = WeakKeyDictionary()  # how many of a class's were so in one flush
_MOST_ANEW = 4


def enable(block: gluon.Block, options: dict[str, Any]) -> None:
    """Batch this block dynamically. Raises OptionError before anything has changed."""
    chosen = Options().updated("hybridize(dynamic_batch=True)", options)
    engine = engine_of("mxnet")
    engine.check("hybridize(dynamic_batch=True)", chosen)
    Cell.leave(blocks_of(block))
    paces, asked = recalled(chosen, engine, map(_described, blocks_of(block))), list[str]()
    for inner in blocks_of(block):
        cell = Cell(inner.name or type(inner).__name__, chosen, paces)
        cell.is_node, cell.asked = is_hybrid(inner), asked
        if isinstance(inner, gluon.HybridBlock):
            cell.active, inner._active = inner._active, False
        inner.__dict__[KEY] = cell


def _described(block: gluon.Block) -> BlockDescription:
    """Describes a block to kept choices."""
    own = block._reg_params.values()
    return BlockDescription("", type(block), [f"{each.shape} {each.dtype}" for each in own])


def disable(block: gluon.Block) -> None:
    """Gives back exactly the block there was."""
    forget_functions()
    Cell.leave(blocks_of(block))


def automatic_cell(block: gluon.HybridBlock, args: tuple[Any, ...]) -> Cell | None:
    """Returns the cell of a HybridBlock that was not hybridized, such as a loss, called on arrays of the open batch.

    Where a program makes such blocks anew for each call, each cell would be traced and run by itself: then calls are
    captured by their operators until a block is called in a second flush.
    """
    if not is_hybrid(block) or block._active:
        return None
    batch = LOCAL.state.batch
    if not (batch is not None and batch.explicit) and not any_lazy(args):
        return None
    cell = _automatic.get(block)
    here = None if batch is None else ref(batch.graph)
    if cell is None:
        cell = _automatic[block] = Cell(block.name or type(block).__name__, LOCAL.state.options)
        cell.is_node = _is_kept(type(block), here)
        _first[cell] = here
        _parts.update(blocks_of(block))
    elif cell in _first and _first[cell] != here:
        cell.is_node = True
        _anew.pop(type(block), None)
        del _first[cell]
    return cell


def _is_kept(kind: type, here: _Flush) -> bool:
    """True if a block of this class that is called for the first time is likely to be called in other flushes."""
    where, count = _anew.get(kind, (here, 0))
    if count < _MOST_ANEW:
        _anew[kind] = here, count + 1 if where == here else 1
        return True
    return False


def restructured(block: gluon.Block | None) -> None:
    """A block in a cell has changed (or any may have): what waits runs, and cells are traced anew."""
    if block is None or KEY in block.__dict__ or block in _parts:
        LOCAL.state.flush("a block was changed")
        for cell in Cell.every():
            cell.clear()
