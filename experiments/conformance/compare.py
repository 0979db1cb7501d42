"""Comparing the outcomes of a minibatch: eager, and batched."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from experiments.conformance.outcome import Finding, Leaf, Outcome, Program, Record

# Kinds of differences that raise no error: what a user would not notice.
SILENT = ("value", "gradient", "weight", "state", "shape", "dtype", "container", "announced", "none", "no error")
NUMBERS = ("value", "gradient", "weight", "state")
SEEDS = range(1, 5)  # with which eager execution is repeated, to see if it draws
NO_ROUNDING = 30.0  # times as far as rounding of the inputs moves a number
TOLERANCES = {
    "float16": (4e-3, 1e-3),
    "bfloat16": (1.6e-2, 1e-2),
    "float32": (1e-4, 1e-5),
    "complex64": (1e-4, 1e-5),
    "float64": (1e-7, 1e-7),
    "complex128": (1e-7, 1e-7),
}
_MOST = 4  # findings that are kept of one minibatch


def examine(record: Record, program: Program, at: Callable[[str], None]) -> None:
    """Run one minibatch eagerly and in all its modes; write into `record` what differs."""
    at(program.name)
    wanted = program.run(None, 0, False)
    drawn: bool | None = None
    moved: Outcome | None = None
    for mode in program.modes:
        name = f"{program.name} {mode.granularity}"
        at(name)
        got = program.run(mode, 0, False)
        found = differences(got, wanted, program.values, none=program.gradients_of_none)
        if any(kind in NUMBERS for kind, _ in found):
            if drawn is None:
                drawn = any(differences(program.run(None, seed, False), wanted) for seed in SEEDS)
                record.random |= drawn
            if not drawn:
                moved = moved or program.run(None, 0, True)
            exact = program.values and not drawn
            found = differences(got, wanted, exact, moved, none=program.gradients_of_none)
            record.by_rounding += not found and not drawn
        record.cases += 1
        record.equal += not found
        record.batched += got.batched
        record.refused += wanted.error is not None and not found
        found += [("distrusted", text) for text in got.distrusted]
        record.findings += [Finding(name, kind, text, got.trace[-900:]) for kind, text in found[:_MOST]]


def differences(
    got: Outcome, wanted: Outcome, values: bool = True, moved: Outcome | None = None, none: bool = True
) -> list[tuple[str, str]]:
    """Kinds and texts of differences. `moved`: the eager outcome of inputs that are moved by their rounding."""
    if wanted.error is not None or got.error is not None:
        return _of_errors(got, wanted)
    if got.containers != wanted.containers:
        return [("container", f"{got.containers} instead of {wanted.containers}"[:300])]
    found = []
    for what, leaves in wanted.parts.items():
        others = got.parts.get(what, [])
        if len(others) != len(leaves):
            found.append((what, f"{len(others)} instead of {len(leaves)}"))
            continue
        near = moved.parts.get(what) if moved is not None and moved.error is None else None
        for place, (a, b) in enumerate(zip(others, leaves)):
            beside = near[place] if near is not None and len(near) == len(leaves) else None
            kind, text = _of_leaves(a, b, what, values, beside, none)
            if text:
                found.append((kind, f"{what} {place}: {text}"))
    return found


def _of_errors(got: Outcome, wanted: Outcome) -> list[tuple[str, str]]:
    if got.error is None:
        return [("no error", f"eagerly at {wanted.phase}: {_said(wanted.error)}")]
    if wanted.error is None:
        return [("exception", f"at {got.phase}: {_said(got.error)}")]
    if not isinstance(got.error, type(wanted.error)):
        return [("error class", f"at {got.phase}: {_said(got.error)} instead of {_said(wanted.error)}")]
    return []


def _said(error: BaseException | None) -> str:
    return f"{type(error).__name__}: {str(error)[:250]}"


def _of_leaves(
    got: Leaf | None, wanted: Leaf | None, what: str, values: bool, beside: Leaf | None, none: bool
) -> tuple[str, str]:
    """The kind of difference and its text, empty if there is none."""
    if got is None or wanted is None:
        if got is wanted:
            return "none", ""
        there = wanted if got is None else got
        assert there is not None
        zeros = not np.any(there.value)
        if zeros and not none:
            return "none", ""
        other = "zeros" if zeros else "numbers"
        return "none", f"None instead of {other}" if got is None else f"{other} instead of None"
    if got.kind != wanted.kind:
        return "dtype", f"{got.kind} instead of {wanted.kind}"
    if not wanted.is_array:
        same = got.value == wanted.value or (got.value != got.value and wanted.value != wanted.value)
        return what, "" if same or not values else f"{got.value!r} instead of {wanted.value!r}"[:200]
    if got.value.shape != wanted.value.shape:
        return "shape", f"{got.value.shape} instead of {wanted.value.shape}"
    if got.said is not None and got.said != (got.value.shape, got.kind):
        return "announced", f"said {got.said}, was {(got.value.shape, got.kind)}"
    if not values:
        return what, ""
    shift = 0.0 if beside is None or not beside.is_array else _movement(wanted.value, beside.value)
    return what, far(got.value, wanted.value, got.kind, NO_ROUNDING * shift + wanted.noise)


def far(got: np.ndarray, wanted: np.ndarray, dtype: str, allowed: float = 0.0) -> str:
    """Describe how arrays of one shape differ beyond rounding and what is allowed; empty if they do not."""
    if not wanted.size:
        return ""
    if wanted.dtype.kind not in "fc":
        wrong = got != wanted
    else:
        rtol, atol = TOLERANCES.get(dtype.split()[0], (1e-4, 1e-5))
        a, b = _reals(got), _reals(wanted)
        with np.errstate(all="ignore"):
            apart = np.abs(a - b)
            scale = np.abs(b[np.isfinite(b)]).max(initial=0.0)
            close = (apart <= atol + rtol * np.abs(b)) | (apart <= max(0.1 * rtol * scale, allowed))
            wrong = ~((a == b) | (np.isnan(a) & np.isnan(b)) | close)
        got, wanted = a, b
    if not wrong.any():
        return ""
    first = int(wrong.ravel().argmax())
    a, b = got.ravel()[first], wanted.ravel()[first]
    return f"{int(wrong.sum())} of {wrong.size} differ, first {a:.6g} instead of {b:.6g}"


def _reals(array: np.ndarray) -> np.ndarray:
    if array.dtype.kind == "c":
        return np.stack([array.real, array.imag], -1).astype(np.float64)
    return array.astype(np.float64)


def _movement(wanted: np.ndarray, beside: np.ndarray) -> float:
    """The largest movement between two eager results of slightly different inputs."""
    if wanted.shape != beside.shape or wanted.dtype.kind not in "fc":
        return 0.0
    with np.errstate(all="ignore"):
        apart = np.abs(_reals(wanted) - _reals(beside))
    if bool((np.isnan(wanted) != np.isnan(beside)).any()):
        return math.inf
    return float(apart[np.isfinite(apart)].max(initial=0.0))
