"""Modes: the framework's flags at the time of a capture, as a number."""

from __future__ import annotations

TRAINING, RECORDING = 1, 2


def mode_of(recording: bool, training: bool) -> int:
    """Returns the mode: whether operators are recorded for backward, and layers behave as in training."""
    return RECORDING * bool(recording) + TRAINING * bool(training)


def is_recorded(mode: int) -> bool:
    """True if what is captured in a mode can be differentiated."""
    return mode >= RECORDING


def is_training(mode: int) -> bool:
    """True if layers behave as in training."""
    return bool(mode & TRAINING)
