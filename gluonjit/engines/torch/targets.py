"""The tensor that a call of a function of PyTorch's writes to."""

from __future__ import annotations

from inspect import signature
from typing import Any

_WRITING = "add sub mul truediv floordiv mod pow matmul and or xor lshift rshift".split()
_IN_PLACE = {"__setitem__", *(f"__i{name}__" for name in _WRITING)}
WRITES = "it writes to a tensor"
"""Why a call that was recorded is not reused."""


def target_of(func: Any, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The tensor that a call writes to; None if it writes to none."""
    if is_writing(name) or _inplace(func, args, kwargs):
        return args[0] if args else kwargs.get("input")
    return kwargs.get("out")


def is_writing(name: str) -> bool:
    """Tells whether a method of this name writes to its tensor."""
    return (name.endswith("_") and not name.endswith("__")) or name in _IN_PLACE


def _inplace(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Tells whether a function of torch.nn.functional is told to work in place."""
    if "inplace" in kwargs:
        return bool(kwargs["inplace"])
    for arg in args:
        if arg is True:
            break
    else:  # as mostly: no generator for this
        return False
    place = _places.get(func)
    if place is None:
        try:
            place = list(signature(func).parameters).index("inplace")
        except (ValueError, TypeError):
            place = len(_places) + 1_000
        _places[func] = place
    return place < len(args) and args[place] is True


_places: dict[Any, int] = {}
