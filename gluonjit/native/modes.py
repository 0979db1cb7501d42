# cython: language_level=3, nonecheck=True, initializedcheck=False, binding=False
"""PyTorch's modes of this thread, read where PyTorch keeps them: its functions of Python take thirty times as long.

Where they are not found there, or say something else, the functions are called.
"""

from __future__ import annotations

import cython

__all__ = ["modes", "read_modes"]

_learning, _excluded, _disabled, _stacked = cython.NULL, cython.NULL, cython.NULL, cython.NULL
_casting = 0


def read_modes(
    learning: cython.size_t,
    excluded: cython.size_t,
    disabled: cython.size_t,
    stacked: cython.size_t,
    casting: cython.ulonglong,
):
    """Has modes read by functions of PyTorch's libraries, at these addresses, from now on; by 0 asked for in Python."""
    global _learning, _excluded, _disabled, _stacked, _casting
    _learning, _excluded = cython.cast(Learning, learning), cython.cast(Excluded, excluded)
    _disabled, _stacked = cython.cast(Disabled, disabled), cython.cast(Stacked, stacked)
    _casting = casting


def modes():
    """Returns whether gradients are recorded, something is cast, and functions are overridden."""
    return bool(is_learning()), bool(is_casting()), bool(is_overridden())
