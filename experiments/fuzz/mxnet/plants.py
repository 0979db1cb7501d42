"""Faults to build into gluonjit's engine for MXNet. This file uses the library's internals."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import mxnet  # noqa: F401  its import installs the engine that is patched here

from experiments.fuzz.framework import Patch
from experiments.fuzz.plants import (
    but_the_last,
    lost_effect,
    stale_parameter,
    stale_state,
    swapped_samples,
    wrong_order,
    wrong_row,
)
from gluonjit.engines.mxnet import patches
from gluonjit.engines.mxnet.capture import calls, ops
from gluonjit.engines.mxnet.framework import semantics
from gluonjit.engines.mxnet.run import fused_steps, gradients, memory, program
from gluonjit.engines.mxnet.values import refusals, replacing
from gluonjit.hybrid import LOCAL
from gluonjit.hybrid.capture import capturing


def _dropped_gradient() -> list[Patch]:
    """Backward leaves out the fourth step of a tape."""
    original = gradients.Tape.note

    def note(self: Any, *noted: Any) -> None:
        original(self, *noted)
        self.steps_noted = getattr(self, "steps_noted", 0) + 1
        if self.steps_noted == 4 and self.entries:
            self.entries.pop()

    return [(gradients.Tape, "note", note)]


def _wrong_share() -> list[Patch]:
    """Calls of an operator that differ in their last operand alone are taken as equal."""
    return [(ops, "FAST", None), (ops, "captured", but_the_last(capturing.captured))]


def _sevens(array: Any) -> Any:
    with semantics.as_captured(0):
        array[:] = 7
    return array


def _missed_write() -> list[Patch]:
    """Arrays in a computational graph may be written to under recording, and gradients before that are lost."""
    return [(refusals, "is_entered", lambda *of: 0)]


def _unnoticed(inputs: bool) -> list[Patch]:
    """Captured calls do not run before a write to its inputs, or to other arrays that it reads, which weights are."""
    original = replacing.before_write

    def before_write(array: Any) -> None:
        batch = LOCAL.state.batch
        if batch is None or (id(array) in batch.imports) != inputs:
            original(array)

    return [(patches, "before_write", before_write), (calls, "before_write", before_write)]


PLANTS: dict[str, Callable[[], list[Patch]]] = {
    "wrong-row": partial(wrong_row, memory),
    "dropped-gradient": _dropped_gradient,
    "stale-parameter": partial(
        stale_parameter, program, fused_steps, lambda own: own.copy(), lambda const: const.grad is not None
    ),
    "wrong-share": _wrong_share,
    "wrong-order": partial(wrong_order, memory, _sevens),
    "swapped-samples": swapped_samples,
    "stale-state": stale_state,
    "lost-effect": lost_effect,
    "missed-write": _missed_write,
    "stale-weight": partial(_unnoticed, False),
    "shared-buffer": partial(_unnoticed, True),
}
