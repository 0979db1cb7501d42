"""Writes that MXNet refuses under recording: to variables, and to arrays that gradients go back from into a batch.

MXNet refuses them also where an array, or one that it was computed from, was read beside such an array. Here that is
allowed, and gradients are of the numbers at the calls.
"""

from __future__ import annotations

from typing import Any

from mxnet.base import MXNetError

from gluonjit.engines.mxnet.run.results import goes_back, places_of, tape_of
from gluonjit.graph import Value
from gluonjit.graph.modes import RECORDING
from gluonjit.hybrid.run.failures import refused
from gluonjit.hybrid.run.state import LOCAL, has_run


def refuse_recorded(value: Value) -> None:
    """Raises where MXNet, recording, refuses to write to an array of this value, which has been computed."""
    state = LOCAL.state
    if state.mode & RECORDING and state.paused == state.eagerly and is_entered(value):
        raise _refusal(value.spec.shape)


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


def is_entered(value: Value) -> bool:
    """True if gradients of a value go back, through its batch and earlier ones, to something that learns."""
    pending, met = [value], {id(value)}
    while pending:
        current = pending.pop()
        if not has_run(current) or not goes_back(current):
            continue
        for origin in tape_of(current).origins(places_of(current)):
            if origin.value is None:
                return True
            if id(origin.value) not in met:
                met.add(id(origin.value))
                pending.append(origin.value)
    return False
