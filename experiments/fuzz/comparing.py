"""The functions that every program is run with, in any framework. A printed program begins with this text."""

from __future__ import annotations

import contextlib
from typing import Any

import gluonjit


def attempt(found: dict[str, Any], what: str, call: Any, *args: Any) -> Any:
    """The result of a call; where it raises, the error is part of what is compared."""
    try:
        return call(*args)
    except Exception as error:
        found[f"{what} raises"] = error.with_traceback(None)
        return None


SIDE = [False]
"""Whether samples run side by side now, and so do their branches."""


def side_by_side(batched: bool, calls: Any, in_flight: Any, **options: Any) -> list[Any]:
    """Results of calls: by `gluonjit.map` in the batched run."""
    SIDE[0] = batched
    try:
        if not batched:
            return [call() for call in calls]
        return gluonjit.map(lambda call: call(), calls, in_flight, **options)
    finally:
        SIDE[0] = False


def branches(calls: Any) -> list[Any]:
    """Results of parts of a sample, side by side where samples are."""
    return gluonjit.map(lambda call: call(), calls) if SIDE[0] else [call() for call in calls]


def scope(batched: bool, **options: Any) -> Any:
    """`gluonjit.batching` in the batched run."""
    return gluonjit.batching(**options) if batched else contextlib.nullcontext()


def kind_of(found: Any, wanted: Any) -> str | None:
    """Compare the classes of two errors: one of gluonjit's is of the eager program's class besides."""
    return None if isinstance(found, type(wanted)) else f"{type(found).__name__} instead of {type(wanted).__name__}"


def difference(found: dict[str, Any], wanted: dict[str, Any], tolerance: float) -> list[tuple[str, str]]:
    """(what, how) for everything in which the batched run differs from the eager one."""
    wrong = []
    for name in [*wanted, *(name for name in found if name not in wanted)]:
        if name not in wanted or name not in found:
            if name.endswith(", learns") and name in found:
                continue  # of several results of one launch all learn where one does
            given = found.get(name, wanted.get(name))
            text = f": {type(given).__name__}: {given}" if isinstance(given, Exception) else ""
            wrong.append((name, f"only in the {'batched' if name in found else 'eager'} run{text}"))
        elif isinstance(wanted[name], Exception):
            how = kind_of(found[name], wanted[name])
            wrong += [(name, f"{how}: {found[name]}")] if how else []
        elif not (hasattr(found[name], "shape") and hasattr(wanted[name], "shape")):
            if type(wanted[name]) is not type(found[name]) or wanted[name] != found[name]:
                wrong.append((name, f"{_short(found[name])} instead of {_short(wanted[name])}"))
        elif (found[name].shape, found[name].dtype) != (wanted[name].shape, wanted[name].dtype):
            looks = [f"{array.dtype} {array.shape}" for array in (found[name], wanted[name])]
            wrong.append((name, f"{looks[0]} instead of {looks[1]}"))
        elif wanted[name].size:
            off = float(abs(found[name].astype("float64") - wanted[name].astype("float64")).max())
            allowed = tolerance * max(float(abs(wanted[name].astype("float64")).max()), 0.1)
            if not off <= allowed:
                wrong.append((name, f"off by {off:.3g}, allowed {allowed:.3g}"))
    return wrong


def _short(value: Any) -> str:
    return f"numbers of shape {value.shape}" if hasattr(value, "shape") else str(value)
