"""Tells numbers that differ by rounding alone from others."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

EPS = {"float16": 1e-3, "bfloat16": 8e-3, "float32": 1.2e-7, "float64": 2.2e-16}
EPS.update(complex32=1e-3, complex64=1.2e-7, complex128=2.2e-16)
WIDE = dict.fromkeys(("float16", "bfloat16", "float32"), "float64") | {"complex64": "complex128"}
_TIMES = 80.0  # rounding errors, above which numbers are looked at closely
_CLOSELY = 16.0  # times what rounding changes in the trace itself, above which a difference is none of rounding
TRIES = 4  # traces on operands that differ by rounding


class Manner(NamedTuple):
    """A way to run traces one by one: in float64 if `exact`, on operands and weights that `move` has changed."""

    exact: bool = False
    move: Callable[[Any], Any] | None = None

    def of(self, array: Any) -> Any:
        """Changes numbers."""
        return array if self.move is None else self.move(array)


PLAINLY = Manner()


class Deviation(NamedTuple):
    """A difference: what differs, how, and how far at most."""

    what: str
    how: str
    far: float = np.inf


Run = Callable[[Manner], "list[Any]"]
"""Runs nodes one by one in a manner, and gives their numbers."""


def _distance(found: Any, wanted: Any) -> Any:
    """|a - b| of each number: 0 where both are not finite in one way, infinite where they are not in the same way."""
    if found.dtype.kind not in "fc":
        return np.where(found == wanted, 0.0, np.inf)
    with np.errstate(all="ignore"):
        same = (found == wanted) | (np.isnan(found) & np.isnan(wanted))
        apart = np.where(same, 0.0, np.abs(found.astype(np.result_type(found, np.float64)) - wanted))
    return np.where(np.isnan(apart), np.inf, apart)


def scale_of(array: Any) -> float:
    """The largest of the finite numbers, by size."""
    return float(np.abs(array[np.isfinite(array)]).max(initial=0.0))


def near(found: Any, wanted: Any, tolerance: float) -> bool:
    """True if numbers agree to rounding, measured by the largest."""
    if found.shape != wanted.shape:
        return False
    return bool(_distance(found, wanted).max(initial=0.0) <= tolerance * scale_of(wanted))


def deviation_of(names: Sequence[str], found: Sequence[Any], run: Run, eps: float, times: float) -> Deviation | None:
    """The first of numbers that differ from those of a run one by one by more than rounding."""
    expected = run(PLAINLY)
    off = [k for k, pair in enumerate(zip(found, expected)) if not near(*pair, times * _TIMES * eps)]
    if not off:
        return None
    try:
        like = [run(Manner(True))]
    except Exception:  # of an operator that has no such numbers
        like = [expected]
    draw = np.random.RandomState(0)
    like += [run(Manner(False, partial(_moved, draw, eps))) for _ in range(TRIES)]
    for k in off:
        if not _is_rounding(found[k], expected[k], [each[k] for each in like]):
            far = float(_distance(found[k], expected[k]).max()) if found[k].shape == expected[k].shape else np.inf
            return Deviation(names[k], _shown(found[k], expected[k]), far)
    return None


def _moved(draw: Any, eps: float, array: Any) -> Any:
    """Numbers that differ by rounding."""
    if array.dtype.kind not in "fc":
        return array
    noise = draw.uniform(-2 * eps, 2 * eps, array.shape)
    return array * (1.0 + noise) + noise * scale_of(array) * 0.1


def shrunk(draw: Any, array: Any) -> Any:
    """Numbers of any size up to those that they are, none above 1."""
    if array.dtype.kind not in "fc":
        return array
    return (array * draw.uniform(size=array.shape) / max(1.0, scale_of(array))).astype(array.dtype)


def _is_rounding(found: Any, wanted: Any, like: Sequence[Any]) -> bool:
    """True if a difference is no larger than what rounding changes in the trace itself; ties, too."""
    if any(each.shape != found.shape for each in (wanted, *like)):
        return False
    if found.dtype.kind not in "fc":
        return bool(np.any([found == each for each in (wanted, *like)], axis=0).all())
    exact = like[0]
    spread = max(_distance(each, exact).max(initial=0.0) for each in (wanted, *like))
    return bool(_distance(found, exact).max(initial=0.0) <= _CLOSELY * spread)


def _shown(found: Any, wanted: Any) -> str:
    """Both numbers, where they differ most."""
    if found.shape != wanted.shape:
        return f"is of shape {found.shape} batched, and {wanted.shape} for one sample"
    at = np.unravel_index(int(np.argmax(_distance(found, wanted))), found.shape)
    return f"is {found[at]!s} batched, and {wanted[at]!s} for one sample"
