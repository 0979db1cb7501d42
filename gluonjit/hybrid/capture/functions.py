"""Functions and methods declared as cells: one node per call."""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import MethodType
from typing import Any

from gluonjit.compiled import FAST
from gluonjit.errors import OptionError
from gluonjit.hybrid.run.engine import ENGINES, Engine
from gluonjit.hybrid.run.state import LOCAL


class _Bound:
    """A base of cells that bind like functions, in C if it was built."""

    def __get__(self: Any, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else MethodType(self, instance)


_Celled: Any = _Bound if FAST is None else FAST.Celled


class CellFunction(_Celled):  # type: ignore[misc]
    """A function whose calls are captured as one node each; outside of a batch it runs as usual.

    It must compute its results from its arguments and the parameters of the block it is a method of. Arrays from
    elsewhere, reads of an array's numbers, or arguments that are neither arrays nor plain constants (nested in lists
    and tuples) make the call run operator by operator, and the report says why.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function
        self.name = str(getattr(function, "__qualname__", function))
        self.caches: dict[str, Any] = {}  # what each engine knows about it
        functools.update_wrapper(self, function)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        state = LOCAL.state
        if state.trace is None and not state.paused:
            for engine in ENGINES if len(ENGINES) == 1 else _engines_of((*args, *kwargs.values())):
                if state.inside or (state.explicit and state.batch) or engine.waits(args):
                    return engine.call_cell(self, args, kwargs)
        follower = getattr(state.trace, "follower", None)
        return self.function(*args, **kwargs) if follower is None else follower.call(self, *args, **kwargs)

    def __reduce__(self) -> Any:
        return self.name  # found by name, as any function is


if FAST is not None:
    FAST.quick_cells(CellFunction)


def _engines_of(args: Any) -> list[Engine]:
    """Finds the engine of an argument, if there are several."""
    pending = list(args)[::-1]
    while pending:
        item = pending.pop()
        if isinstance(item, (list, tuple)):
            pending.extend(reversed(item))
            continue
        for engine in ENGINES:
            if engine.owns(item) or engine.owns_block(item):
                return [engine]
    return []


def cell(function: Callable[..., Any] | None = None, **options: Any) -> CellFunction:
    """Declares a function or method as a cell: under dynamic batching each call is one node.

    Used as a decorator, without options; pass options to `hybridize(dynamic_batch=True, ...)` or `batching(...)`.
    Raises OptionError for any option, and TypeError if `function` is not callable.
    """
    if options:
        given = ", ".join(f"{name}={value!r}" for name, value in options.items())
        raise OptionError(
            f"gluonjit.cell({given}): it takes no options. Write @gluonjit.cell above the function, and pass "
            f"options to hybridize(dynamic_batch=True, {given}) or batching({given})."
        )
    if not callable(function):
        raise TypeError(f"gluonjit.cell({function!r}): it takes a function or method; use it as a decorator")
    return CellFunction(function)
