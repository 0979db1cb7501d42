"""The flags of MXNet's autograd, as they were at a call."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from ctypes import byref, c_bool, c_int
from functools import partial
from typing import Any

from mxnet.base import _LIB

from gluonjit.engines.mxnet.hooked import original_set_training
from gluonjit.graph.modes import is_recorded, is_training
from gluonjit.graph.recorder import Uncaptured
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
_BEFORE = byref(c_int())
_SET_RECORDING = tuple([partial(_LIB.MXAutogradSetIsRecording, c_int(flag), _BEFORE) for flag in (0, 1)])
_SET_TRAINING = tuple([partial(_LIB.MXAutogradSetIsTraining, c_int(flag), _BEFORE) for flag in (0, 1)])


class as_captured(Uncaptured):
    """A region for `with` that runs under the flags under which something was captured, and captures nothing.

    A class, as `contextmanager` takes as long as the calls of MXNet's.
    """

    __slots__ = ("_mode",)

    def __init__(self, mode: int) -> None:
        self.local = LOCAL
        self._mode = mode

    def ways(self) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        """Returns what sets the flags, and what sets them as they are."""
        recording, training = c_bool(), c_bool()
        _LIB.MXAutogradIsRecording(byref(recording))
        _LIB.MXAutogradIsTraining(byref(training))
        return (
            (_SET_RECORDING[is_recorded(self._mode)], _SET_TRAINING[is_training(self._mode)]),
            (_SET_RECORDING[recording.value], _SET_TRAINING[training.value]),
        )
