"""Outcomes as plain data, and how two of them are compared."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

TOLERANCE = 1e-5
REFUSED = object()  # in the place of a value that a batched program refuses to give, as documented


@dataclass
class Raised:
    """An error that a program met; batched, it is to be of the class that it is of eagerly."""

    error: BaseException | None

    def __repr__(self) -> str:
        return "no error" if self.error is None else f"{type(self.error).__name__}: {str(self.error)[:300]}"


def plain(value: Any) -> Any:
    """A copy as numpy arrays, numbers and strings in lists, tuples and dictionaries; TypeError for anything else."""
    if value is None or isinstance(value, (bool, int, float, str, type, Raised, np.dtype)):
        return value
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray):
        return value.copy()
    if isinstance(value, dict):
        return {key: plain(part) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(part) for part in value]
    if hasattr(value, "asnumpy"):
        return value.asnumpy().copy()
    if hasattr(value, "detach"):
        return value.detach().numpy().copy()
    raise TypeError(f"{type(value).__name__} is nothing that an outcome holds")


def differences(batched: Any, eager: Any, where: str) -> list[str]:
    """Each place where two outcomes differ, as a line that says where and how."""
    if batched is REFUSED:
        return []
    if isinstance(eager, Raised) or isinstance(batched, Raised):
        if isinstance(eager, Raised) and isinstance(batched, Raised) and isinstance(batched.error, type(eager.error)):
            return []
        return [f"{where}: {batched!r}, eagerly {eager!r}"]
    if isinstance(eager, dict) and isinstance(batched, dict):
        if list(eager) != list(batched):
            return [f"{where}: keys {list(batched)}, eagerly {list(eager)}"]
        return [line for key in eager for line in differences(batched[key], eager[key], f"{where}[{key!r}]")]
    if isinstance(eager, list) and isinstance(batched, list):
        if len(eager) != len(batched):
            return [f"{where}: {len(batched)} entries, eagerly {len(eager)}: {batched!r}, {eager!r}"[:1000]]
        pairs = enumerate(zip(batched, eager))
        return [line for k, (one, other) in pairs for line in differences(one, other, f"{where}[{k}]")]
    if isinstance(eager, (float, np.ndarray)) and isinstance(batched, (float, np.ndarray)):
        return _numbers(np.asarray(batched), np.asarray(eager), where)
    if type(eager) is not type(batched) or eager != batched:
        return [f"{where}: {batched!r}, eagerly {eager!r}"]
    return []


def _numbers(batched: Any, eager: Any, where: str) -> list[str]:
    if batched.shape != eager.shape or batched.dtype != eager.dtype:
        looks = [f"{numbers.shape} {numbers.dtype}" for numbers in (batched, eager)]
        return [f"{where}: {looks[0]}, eagerly {looks[1]}"]
    if eager.dtype.kind in "fc":
        scale = max(float(np.abs(eager).max(initial=0.0)), 0.1)
        same = np.allclose(batched, eager, rtol=0, atol=TOLERANCE * scale, equal_nan=True)
    else:
        same = bool((batched == eager).all())
    return [] if same else [f"{where}: {batched.tolist()}, eagerly {eager.tolist()}"]
