"""The flags of MXNet's autograd, as they were at a call."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from gluonjit.engines.mxnet.hooked import original_set_recording, original_set_training
from gluonjit.graph.modes import is_recorded, is_training
from gluonjit.hybrid.run.state import LOCAL


@contextmanager
def in_training(wanted: bool) -> Iterator[None]:
    """Computes as in training, if wanted.

    Max pooling gives the same then, but its gradients are wrong where MXNet has recorded it outside of training.
    """
    before = original_set_training(True) if wanted else None
    try:
        yield
    finally:
        if wanted:
            original_set_training(before)


POOLING = {"Pooling"}


class as_captured:
    """A region for `with` that runs under the flags under which something was captured, and captures nothing.

    A class, as `contextmanager` takes as long as the calls of MXNet's.
    """

    __slots__ = ("_before", "_mode", "_paused", "_recording", "_training")

    def __init__(self, mode: int) -> None:
        self._mode = mode

    def __enter__(self) -> None:
        state, mode = LOCAL.state, self._mode
        self._before = state.mode  # which MXNet's functions of autograd, called in here, set
        self._recording, self._training = (
            original_set_recording(is_recorded(mode)),
            original_set_training(is_training(mode)),
        )
        self._paused = state.paused  # to which it goes back, as an interrupt may come where an inner region is left
        state.paused = self._paused + 1  # as UNCAPTURED, which would cost a twentieth more here

    def __exit__(self, *error: object) -> None:
        state = LOCAL.state
        state.paused = self._paused
        state.mode = self._before
        original_set_recording(self._recording)
        original_set_training(self._training)
