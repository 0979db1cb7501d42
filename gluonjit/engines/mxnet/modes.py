"""The flags of MXNet's autograd, as they were at a call."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from gluonjit.engines.mxnet.hooked import original_set_recording, original_set_training
from gluonjit.graph.modes import is_recorded, is_training
from gluonjit.hybrid.run.state import LOCAL


@contextmanager
def as_captured(mode: int) -> Iterator[None]:
    """Runs under the recording and training flags under which something was captured, and captures nothing."""
    state = LOCAL.state
    before = state.mode  # which MXNet's functions of autograd, called in here, set
    recording, training = original_set_recording(is_recorded(mode)), original_set_training(is_training(mode))
    state.paused += 1  # as UNCAPTURED, which would cost a twentieth more here
    try:
        yield
    finally:
        state.paused -= 1
        state.mode = before
        original_set_recording(recording)
        original_set_training(training)
