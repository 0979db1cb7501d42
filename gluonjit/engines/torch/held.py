"""Tensors that were there before a batch, as they were when it captured them."""

from __future__ import annotations

from typing import Any

from gluonjit.hybrid import LOCAL


def recorded() -> int:
    """The number of the call that is being recorded to be reused; 0 where none is."""
    apart = LOCAL.state.recorded
    return 0 if apart is None else int(apart.number)


def version_of(tensor: Any) -> int:
    """The number of times a tensor has been written to."""
    return 0 if tensor.is_inference() else int(tensor._version)


class Held:
    """The payload of a leaf: a tensor of the program's, and how often it had been written to when it was captured.

    rows: its numbers, as they were then where they are a copy; raw: those of a small one; shared: whether other tensors
    have the same ones; apart: the number of the call that was recorded meanwhile, or 0: there each tensor is a leaf of
    its own.
    """

    __slots__ = ("apart", "raw", "rows", "shared", "tensor", "version")

    def __init__(self, tensor: Any, version: int, rows: Any, raw: bytes | None = None) -> None:
        self.tensor, self.version, self.rows, self.raw = tensor, version, rows, raw
        self.shared = False
        self.apart = recorded()

    @property
    def stale(self) -> bool:
        """Tells whether its numbers are others by now than those that were captured."""
        return self.rows is self.tensor and version_of(self.tensor) != self.version

    @property
    def rewritten(self) -> bool:
        """Tells whether the program's tensor has other numbers by now."""
        return not self.shared and version_of(self.tensor) != self.version
