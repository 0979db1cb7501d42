"""Writes that MXNet refuses under recording: to arrays that are in a computational graph, here to those of a batch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mxnet.base import MXNetError

from gluonjit.engines.mxnet.results import placed, spent, tape_of
from gluonjit.graph import Value
from gluonjit.hybrid import LOCAL
from gluonjit.hybrid.batch import Results, results_of
from gluonjit.hybrid.failures import refused


def refuse_recorded(value: Value, shape: tuple[int, ...]) -> None:
    """Raise where MXNet, recording, refuses to write to an array of this shape, whose value has been computed."""
    state = LOCAL.state
    if state.mode >= 2 and not state.paused and _is_entered(value):
        _refuse(shape)


def refuse_variable(array: Any) -> None:
    """Raise where MXNet refuses to write to an array because it has a gradient, and it is recording."""
    if LOCAL.state.mode >= 2 and array.grad is not None:
        _refuse(array.shape)


def _refuse(shape: tuple[int, ...]) -> None:
    text = (
        f"an array of shape {shape} was written to under autograd.record, and it is "
        f"in a computational graph: it was computed by recorded calls, or they have read it. MXNet refuses this, as "
        f"gradients of what came before would be lost (Assigning to NDArrays that are already in a computational "
        f"graph). Make a new array: `h = h + 1` for `h += 1`, `h = nd.relu(h)` for `nd.relu(h, out=h)`, `nd.where` or "
        f"`nd.concat` for `h[...] = y`; or write to it outside of autograd.record."
    )
    raise refused(MXNetError, text)


def _is_entered(value: Value) -> bool:
    """Whether the history of a batch that has run, and was not differentiated since, holds an array of this value."""
    positions: Sequence[int]
    if value.result is not None:
        result = value.result
        tape, arena = result.tape, result.arena
        positions = range(result.position, result.position + value.spec.rows)
    elif value.graph is not None and isinstance(value.graph.owner, Results):
        session: Any = results_of(value).session
        tape = session.tape
        arena, positions = placed(value, results_of(value))
    else:
        return False
    return tape is not None and not spent(value, tape) and tape.has_entered(arena, list(positions))


def has_history(value: Value) -> bool:
    """Whether gradients of an array of this value, whose batch has run, go back into that batch."""
    tape = tape_of(value)
    return tape is not None and not spent(value, tape)
