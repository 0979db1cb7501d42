"""Walks of a Gluon block: the blocks inside it, and the arrays of their parameters."""

from __future__ import annotations

from collections.abc import Iterator

from mxnet import gluon
from mxnet.ndarray import NDArray


def blocks_of(block: gluon.Block) -> Iterator[gluon.Block]:
    """The block and all blocks inside it, each once."""
    seen: set[int] = set()
    pending = [block]
    while pending:
        inner = pending.pop()
        if id(inner) not in seen:
            seen.add(id(inner))
            yield inner
            pending.extend(inner._children.values())


def arrays_of(block: gluon.Block) -> Iterator[tuple[gluon.Parameter, NDArray]]:
    """The parameters of the block and of all inside it, with each of their arrays; those not initialized have none."""
    for inner in blocks_of(block):  # collect_params() leaves a cycle for Python's collector with every block
        for parameter in inner._params.values():
            for array in parameter._data or ():
                yield parameter, array
