"""The tensor that a call of a function of PyTorch's writes to."""

from __future__ import annotations

import sys
from dis import opmap
from functools import cache, lru_cache
from inspect import signature
from types import CodeType
from typing import Any

from gluonjit.hybrid.capture.structure import Args, Kwargs

_WRITING = "add sub mul truediv floordiv mod pow matmul and or xor lshift rshift".split()
_IN_PLACE = {"__setitem__", *(f"__i{name}__" for name in _WRITING)}
WRITES = "it writes to a tensor"
"""Why a call that was recorded is not reused."""


def target_of(func: Any, name: str, args: Args, kwargs: Kwargs) -> Any:
    """The tensor that a call writes to; None if it writes to none."""
    if is_writing(name) or _inplace(func, args, kwargs):
        return args[0] if args else kwargs.get("input")
    return kwargs.get("out")


def is_writing(name: str) -> bool:
    """True if a method of this name writes to its tensor."""
    return (name.endswith("_") and not name.endswith("__")) or name in _IN_PLACE


_OPCODES = {number for name, number in opmap.items() if name.startswith("INPLACE_")}
_BINARY = opmap.get("BINARY_OP", -1)
_ASSIGNING = 13  # arguments of BINARY_OP from here on are those of assignments


def is_assignment(code: bytes, at: int) -> bool:
    """True if an operation of byte code is an augmented assignment."""
    return code[at] in _OPCODES or (code[at] == _BINARY and code[at + 1] >= _ASSIGNING)


@lru_cache(maxsize=4096)
def may_write(code: CodeType) -> bool:
    """True if a function may write to a view that it takes: it names a method that does, or assigns so."""
    named = any([is_writing(name) and not name.startswith("_") for name in code.co_names])
    return named or any([is_assignment(code.co_code, at) for at in range(0, len(code.co_code), 2)])


def _inplace(func: Any, args: Args, kwargs: Kwargs) -> bool:
    """True if a function of torch.nn.functional is told to work in place."""
    if "inplace" in kwargs:
        return bool(kwargs["inplace"])
    for arg in args:
        if arg is True:
            break
    else:  # as mostly: no generator for this
        return False
    place = _place(func)
    return place < len(args) and args[place] is True


@cache
def _place(func: Any) -> int:
    """The position of `inplace` among a function's parameters, or one after any argument."""
    try:
        return list(signature(func).parameters).index("inplace")
    except (ValueError, TypeError):
        return sys.maxsize
