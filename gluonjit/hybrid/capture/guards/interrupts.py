"""Code that Python runs at any point of a followed call, and the profiler that sees every call."""

from __future__ import annotations

import signal
import sys
from typing import Any

from gluonjit.compiled import FAST

PASSED: dict[int, Any] = {}
"""Code of libraries, by address, which stays theirs: calls of it need no notice."""
_MOST_PASSED = 8192


def watch(notice: Any) -> None:
    """Has a function called at each call of a Python function, but those of PASSED where C sees to that."""
    if FAST is None:
        sys.setprofile(notice)
    else:
        FAST.watch_calls(notice, PASSED)


def pass_over(code: Any) -> None:
    """Notes code whose calls need no notice."""
    if len(PASSED) >= _MOST_PASSED:
        PASSED.clear()
    PASSED[id(code)] = code


def is_interrupted(frame: Any) -> bool:
    """True if the caller is code that Python runs at any point of the program, such as a `__del__`.

    Or once in a process, as an import does: finders of modules, such as those of editable installs, and new modules.
    """
    codes: dict[int, Any] = {}
    while frame is not None:
        code = frame.f_code
        if code.co_name == "__del__" or code.co_filename.startswith("<frozen importlib"):
            return True
        codes[id(code)] = code
        frame = frame.f_back
    handlers: Any = map(signal.getsignal, signal.valid_signals())
    functions = [
        handler if hasattr(handler, "__code__") else handler.__call__ for handler in handlers if callable(handler)
    ]
    return any(id(getattr(function, "__code__", None)) in codes for function in functions)


def profile_again(before: Any) -> None:
    """Restores the previous profiler: one in Python, or cProfile's."""
    if before is None or callable(before):
        sys.setprofile(before)
    else:
        before.enable()
