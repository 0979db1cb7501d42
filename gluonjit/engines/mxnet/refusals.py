"""Writes that MXNet refuses under recording: to arrays in a computational graph, here to those of a batch."""

from __future__ import annotations

from typing import Any

import numpy as np
from mxnet.base import MXNetError

from gluonjit.engines.mxnet.history import has_history as known_to_autograd
from gluonjit.engines.mxnet.history import is_learned
from gluonjit.engines.mxnet.reach import entered_waiting
from gluonjit.engines.mxnet.results import Imported, is_entered, is_read, spent, tape_of
from gluonjit.graph import Graph, Value
from gluonjit.graph.modes import RECORDING
from gluonjit.hybrid.run.failures import refused
from gluonjit.hybrid.run.state import LOCAL


def refuse_recorded(value: Value, shape: tuple[int, ...]) -> None:
    """Raises where MXNet, recording, refuses to write to an array of this shape, whose value has been computed."""
    state = LOCAL.state
    if not state.mode & RECORDING or state.paused != state.eagerly or _is_one_of_several(value):
        return
    if is_entered(value):
        raise _refusal(shape)


def refuse_waiting(value: Value) -> bool:
    """Raises where MXNet, recording, refuses to write to an array of this value, which waits to be computed.

    Tells whether equal calls have given several arrays of this value, of which any may have been read: none is refused.
    """
    state = LOCAL.state
    graph = value.graph
    if not state.mode & RECORDING or state.paused != state.eagerly or state.batch is None:
        return False
    if graph is None or graph is not state.batch.graph or _is_one_of_several(value) or _is_new(value):
        return False
    begun: list[int] = []
    for leaf in graph.leaves.values():
        payload = leaf.payload
        earlier = isinstance(payload, Imported)
        if is_entered(payload.value) if earlier else (leaf.taped and is_learned(payload)) or is_read(payload):
            begun += range(leaf.base, leaf.base + leaf.spec.rows)
    for table, entries in graph.lookups.items():
        if table.taped and table.weight.grad is not None:
            begun += entries.values()
    rows = value.row_list()
    since = entered_waiting(graph, begun, known_to_autograd)[rows]
    if not np.isfinite(since).all():
        return False
    if any([graph.again(row) for row, time in zip(rows, since) if time > row]):  # it was read, but which of several?
        return True
    raise _refusal(value.spec.shape)


def _is_one_of_several(value: Value) -> bool:
    """Tells whether other arrays of the program have this value, too, so that who reads it may have read those.

    These are made alike, of nothing, and nobody else's write to one is seen in another.
    """
    graph = value.graph
    return isinstance(graph, Graph) and not graph.several.isdisjoint(value.row_list())


def _is_new(value: Value) -> bool:
    """Tells whether nothing was captured since an array was made without being recorded."""
    graph = value.graph
    return value.base is None and not value.taped and value.row_list()[-1] + 1 == graph.rows


def refuse_variable(array: Any) -> None:
    """Raises where MXNet refuses to write to an array because it has a gradient, and it is recording."""
    if LOCAL.state.mode & RECORDING and array.grad is not None:
        raise _refusal(array.shape)


def _refusal(shape: tuple[int, ...]) -> Exception:
    text = (
        f"an array of shape {shape} was written to under autograd.record, and it is in a computational graph: "
        "recorded calls have computed or read it. MXNet refuses this, as gradients of earlier calls would be "
        "lost (Assigning to NDArrays that are already in a computational graph). Make a new array: `h = h + 1` "
        "for `h += 1`, `h = nd.relu(h)` for `nd.relu(h, out=h)`, `nd.where` or `nd.concat` for `h[...] = y`; or "
        "write to it outside of autograd.record."
    )
    return refused(MXNetError, text)


def has_history(value: Value) -> bool:
    """Tells whether gradients of an array of this value, whose batch has run, go back into that batch."""
    tape = tape_of(value)
    return tape is not None and not spent(value, tape)
