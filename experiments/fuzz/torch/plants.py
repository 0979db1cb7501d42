"""Faults to build into gluonjit's engine for PyTorch. This file uses the library's internals."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch

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
from gluonjit.engines.torch import dynamic
from gluonjit.engines.torch.capture import cells, ops, writes
from gluonjit.engines.torch.capture.cells import DOORS
from gluonjit.engines.torch.framework import arrays
from gluonjit.engines.torch.run import fused_steps, gradients, memory, program
from gluonjit.engines.torch.values import operands
from gluonjit.hybrid.capture import capturing


def _dropped_gradient() -> list[Patch]:
    """Backward leaves out the fourth step of a tape."""
    original = gradients.Tape.begin

    def begin(self: Any, chunks: Any) -> Any:
        del self.entries[3:4]
        return original(self, chunks)

    return [(gradients.Tape, "begin", begin)]


def _wrong_share() -> list[Patch]:
    """Calls that differ in their last operand alone are taken as equal. The ways through C are closed."""
    DOORS.clear()
    return [
        (torch.nn.Module, "__call__", dynamic.call),
        (cells, "FAST", None),
        (ops, "admit", lambda func, cell: None),
        (cells, "captured", but_the_last(capturing.captured)),
    ]


def _missed_write() -> list[Patch]:
    """Views of a result that was written to stay what they were."""
    return [(writes, "_count", lambda base: None)]


def _stale_weight() -> list[Patch]:
    """Backward does not see that weights have been written to since the flush."""
    return [(fused_steps, "version_of", lambda tensor: 0)]


def _shared_buffer() -> list[Patch]:
    """Inputs are not copied when they are captured."""

    original = arrays.TensorTraits.__init__

    def look(self: Any, tensor: Any) -> None:
        original(self, tensor)
        self.bytes_at = None

    return [(operands, "snapshot", lambda batch, tensor: tensor), (arrays.TensorTraits, "__init__", look)]


PLANTS: dict[str, Callable[[], list[Patch]]] = {
    "wrong-row": partial(wrong_row, memory),
    "dropped-gradient": _dropped_gradient,
    "stale-parameter": partial(
        stale_parameter, program, fused_steps, lambda own: own.detach().clone(), lambda const: const.requires_grad
    ),
    "wrong-share": _wrong_share,
    "wrong-order": partial(wrong_order, memory, lambda tensor: tensor.fill_(7)),
    "swapped-samples": swapped_samples,
    "stale-state": stale_state,
    "lost-effect": lost_effect,
    "missed-write": _missed_write,
    "stale-weight": _stale_weight,
    "shared-buffer": _shared_buffer,
}
