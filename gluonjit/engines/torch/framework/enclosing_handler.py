"""Errors that a program may catch in the middle of a sample, as a Cholesky factorization's that it repeats with jitter.

What may raise one waits for the batch only where nothing in the sample can catch it.
"""

from __future__ import annotations

import dis
import sys
from functools import lru_cache
from pathlib import Path
from types import CodeType
from typing import Any

import torch

from gluonjit.engines.torch.framework.originals import functions_named

_PACKAGE = Path(__file__).parents[3]
_PACKAGES = (str(_PACKAGE), str(Path(torch.__file__).parent))
_ENTRANCES = {str(_PACKAGE / "engines/torch/dynamic.py"), str(_PACKAGE / "hybrid/capture/outermost.py")}

RAISING = functions_named(
    "inv inverse cholesky solve tensorinv tensorsolve matrix_power", (torch, torch.linalg, torch.Tensor)
)
"""Functions that raise an error by the numbers they are given."""


def may_be_handled() -> bool:
    """True if the sample that runs may catch an error that is raised now, or leave a `with` by it."""
    found = since = entered = False
    frame: Any = sys._getframe(1)
    while frame is not None:
        code = frame.f_code
        if code.co_filename in _ENTRANCES:
            found, since, entered = found or since, False, True
        elif not code.co_filename.startswith(_PACKAGES):
            since = since or _covered(code, frame.f_lasti)
        frame = frame.f_back
    return found if entered else since


@lru_cache(maxsize=1024)
def _covered(code: CodeType, place: int) -> bool:
    """True if an exception at this place of a function's code goes on in the function."""
    entries = getattr(dis.Bytecode(code), "exception_entries", None)  # since Python 3.11
    return entries is None or any(entry.start <= place < entry.end for entry in entries)
