# cython: language_level=3, annotation_typing=False, binding=False
"""Specs: what an array looks like. Compiled with `recorder`, where that is (`values.pxd` has the types)."""

from __future__ import annotations

from math import prod
from sys import intern
from typing import Any, Union

Rows = Union[int, tuple[int, ...]]
"""An int: that many consecutive rows (`Spec.rows` of them) from there on. A tuple: these rows, in this order."""

STACK = "stack"
ROWS = "rows"
_LEADING = {STACK: 0, ROWS: 1, **{f"{ROWS}{axes}": axes for axes in range(2, 10)}}
"""By the mode, how many axes are counted as rows."""
MODES = tuple(_LEADING)
"""All modes, in the order of these numbers."""


class Spec:
    """Shape, dtype, device and storage mode of one per-sample array; interned, so compared by identity.

    In mode *rows* an array of shape (r, *rest) is r rows of shape `rest`; in mode *stack* an array of shape S
    is one row of shape S. In mode *rows2* an array of shape (q, r, *rest) is q * r rows of shape `rest`, and so on.
    """

    __slots__ = ("bodies", "bytes", "device", "dtype", "floats", "mode", "of_rows", "row", "row_shape", "rows", "shape")

    def __init__(self, shape: tuple[int, ...], dtype: str, device: str, mode: str, itemsize: int) -> None:
        self.shape = shape
        self.dtype = dtype
        self.device = device
        self.mode = intern(mode)  # C compares it by its address
        leading = _LEADING[mode]
        self.rows = prod(shape[:leading])
        self.row_shape = shape[leading:]
        self.bytes = itemsize * prod(shape)
        self.floats = dtype.startswith(("f", "bf"))
        self.row: Any = None  # how one row of it looks, once asked for
        self.of_rows: dict[int, Spec] = {}  # made of it: with n rows at n, of n such arrays at ~n
        self.bodies: Any = None  # an engine's arrays of this look that have ended and may be used again

    def with_rows(self, rows: int) -> Spec:
        """Returns the spec of this many rows of this one's shape."""
        spec = self.of_rows.get(rows)
        if spec is None:
            spec = intern_spec((rows, *self.row_shape), self.dtype, self.device, ROWS)
            self.of_rows[rows] = spec
        return spec

    def one_row(self) -> Spec:
        """Returns the spec of a single row: an array of one axis less, which is not a single number."""
        if self.row is None:
            self.row = intern_spec(self.row_shape, self.dtype, self.device, STACK)
        return self.row  # type: ignore[no-any-return]

    def stacked(self, count: int) -> Spec:
        """Returns the spec of this many arrays of this one's shape, each one row."""
        spec = self.of_rows.get(~count)
        if spec is None:
            spec = self.of_rows[~count] = intern_spec((count, *self.shape), self.dtype, self.device, ROWS)
        return spec

    def __repr__(self) -> str:
        return f"Spec({self.shape}, {self.dtype}, {self.device}, {self.mode})"


_specs: dict[tuple[tuple[int, ...], str, str, str], Spec] = {}


def item_size(dtype: str) -> int:
    """The bytes of one number, from the bits that its dtype is named by."""
    return max(int("0" + "".join(filter(str.isdigit, dtype.split("_")[0]))) // 8, 1)


def intern_spec(shape: tuple[int, ...], dtype: str, device: str, mode: str) -> Spec:
    """The one Spec with these properties. `mode` is "rows" or "stack", or one of `mode_of`."""
    key = (shape, dtype, device, mode)
    spec = _specs.get(key)
    if spec is None:
        if len(_specs) > 100_000:  # shapes of a long-running stream; live specs stay valid, only sharing is lost
            _specs.clear()
        spec = _specs[key] = Spec(shape, dtype, device, mode, item_size(dtype))
    return spec


def spec_count() -> int:
    """Specs that are interned: 100,000 at most."""
    return len(_specs)


def clear_specs() -> None:
    """Forgets all specs; live ones stay valid, but are not shared with later ones."""
    for spec in _specs.values():
        spec.bodies = None
    _specs.clear()


def mode_of(axes: int) -> str:
    """The mode in which this many axes, one or more, are counted as rows."""
    return ROWS if axes == 1 else f"{ROWS}{axes}"


def natural_mode(shape: tuple[int, ...]) -> str:
    """The mode of a free-standing array of this shape: rows from two dimensions on, and a scalar (1,)."""
    return ROWS if len(shape) >= 2 or shape == (1,) else STACK
