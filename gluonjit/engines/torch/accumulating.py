"""`total += x` of a plain tensor and a pending one, as `total = total + x` where nobody can tell the difference.

PyTorch calls the same function for `total += x` and `total.add_(x)`, so the statement is told by its byte code. The
tensor must have no other name, and its memory no other user.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import lru_cache
from types import CodeType, FrameType
from typing import Any
from weakref import getweakrefcount

import torch

from gluonjit.engines.torch.lazy import LazyTensor
from gluonjit.engines.torch.targets import is_assignment

_WAYS: dict[Any, Callable[..., Any]] = {
    torch.Tensor.add_: torch.add,
    torch.Tensor.sub_: torch.sub,
    torch.Tensor.mul_: torch.mul,
    torch.Tensor.div_: torch.div,
}
# From Python 3.14 on names on the stack are not counted.
_COUNTED = sys.version_info < (3, 14) and hasattr(torch._C, "_storage_Use_Count")
_NAMES_HERE = 6  # the program's, twice with the stack; the arguments, the caller's, `target`, and that of the count
_PACKAGE = __name__.partition(".")[0]


def accumulated(func: Any, args: tuple[Any, ...]) -> Any:
    """The sum, difference, product or quotient that the program's name is given; None if that is another case.

    `call_operator` alone calls this: `_NAMES_HERE` counts its name of the tensor.
    """
    run = _WAYS.get(func)
    if run is None or not _COUNTED or len(args) != 2 or args[1].__class__ is not LazyTensor:
        return None
    target = args[0]
    if target.__class__ is not torch.Tensor or target.requires_grad or not target.is_floating_point():
        return None
    if target.__dict__ or getweakrefcount(target) or sys.getrefcount(target) > _NAMES_HERE or not _is_assigned():
        return None
    memory = target.untyped_storage()
    if torch._C._storage_Use_Count(memory._cdata) > 2 or sys.getrefcount(memory) > 3 or not memory.resizable():
        return None
    found = run(*args)
    return found if (found.shape, found.dtype) == (target.shape, target.dtype) else None


def _is_assigned() -> bool:
    """True if the program's current operation is an augmented assignment."""
    frame: FrameType | None = sys._getframe(2)
    while frame is not None and frame.f_globals.get("__name__", "").partition(".")[0] == _PACKAGE:
        frame = frame.f_back
    if frame is None:
        return False
    return _assigns(frame.f_code, frame.f_lasti)


@lru_cache(maxsize=4096)
def _assigns(code: CodeType, at: int) -> bool:
    return is_assignment(code.co_code, at)
