"""Zeros for arrays that are there."""

from __future__ import annotations

from mxnet.ndarray import NDArray

from gluonjit.engines.mxnet import rules
from gluonjit.engines.mxnet.hooked import original_invoke

_zeros_like = rules.symbols._handle("zeros_like")


def fill_zero(array: NDArray) -> None:
    """Let an array hold zeros, in less time than `array[:] = 0`, which looks at its shape first."""
    original_invoke(_zeros_like, [array], [], [], array, False, False)
