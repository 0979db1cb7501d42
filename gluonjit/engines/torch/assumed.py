"""Checks of arguments by PyTorch's own Python (`torch.distributions`): they wait for the batch, which raises for them.

Such a check asks whether all numbers are valid, and raises if they are not. Until it is known the program continues as
with valid ones. If one does not hold, it is repeated on computed tensors, so that the error is PyTorch's own.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import CodeType, FunctionType
from typing import Any

import torch
from torch.distributions import ContinuousBernoulli, Distribution, Geometric

from gluonjit.engines.torch.lazy import LazyTensor, waits
from gluonjit.engines.torch.operands import concrete, current
from gluonjit.errors import FlushError
from gluonjit.graph import line_of, user_line
from gluonjit.hybrid.capture.reuse import refuse
from gluonjit.hybrid.capture.structure import map_structure
from gluonjit.hybrid.run.failures import both
from gluonjit.hybrid.run.state import LOCAL, UNCAPTURED

_LIKELIHOOD = torch.nn.functional.gaussian_nll_loss
_VALID: dict[CodeType, tuple[Callable[..., Any], bool]] = {
    function.__code__: (function, valid)
    for function, valid in (
        (Distribution.__init__, True),
        (Distribution._validate_sample, True),
        (Geometric.__init__, True),
        (ContinuousBernoulli.__init__, True),
        (_LIKELIHOOD, False),
    )
}
"""Code that reads truth values only to raise ValueError, and which value all numbers must have for it not to."""

EXPANDED: dict[Any, Callable[..., Any]] = {
    _LIKELIHOOD: FunctionType(
        _LIKELIHOOD.__code__,
        {**_LIKELIHOOD.__globals__, "has_torch_function_variadic": lambda *given: False},
        _LIKELIHOOD.__name__,
        _LIKELIHOOD.__defaults__,
    )
}
"""Functions that are no node because of such a check, and the same without the question of who overrides them."""


def assumed(lazy: LazyTensor) -> bool | None:
    """The truth value of a pending tensor that such a check reads; None where something else reads it."""
    frame = sys._getframe(3)
    known = _VALID.get(frame.f_code)
    state = LOCAL.state
    if known is None or state.batch is None or state.paused or state.trace is not None:
        return None
    current(lazy)
    if not waits(lazy) or lazy._v.graph is not state.batch.graph:
        return None
    function, valid = known
    names = frame.f_code.co_varnames[: frame.f_code.co_argcount]
    arguments = [_as_is(frame.f_locals[name]) for name in names]
    where = [f"in sample {state.batch.sample - 1}"] if state.inside else []
    line = line_of(user_line())
    where += [] if line is None else [f"at {line}"]

    def check() -> None:
        if bool(concrete(lazy)) is not valid:
            raise _error(function, arguments, ", ".join(where))

    state.batch.due.append(check)
    refuse("it checks numbers of a tensor")
    return valid


def _as_is(item: Any) -> Any:
    """An argument of a check; a distribution as it is at this time."""
    if not isinstance(item, Distribution):
        return item
    found = object.__new__(type(item))
    vars(found).update(vars(item))
    return found


def _error(function: Callable[..., Any], arguments: list[Any], where: str) -> Exception:
    """Repeats a check that does not hold; returns its error, which names the sample and the line."""
    cause: Exception | None = None
    with UNCAPTURED:
        given = map_structure(arguments, _computed)
        for item in given:
            if isinstance(item, Distribution):
                vars(item).update(map_structure(vars(item), _computed))
        try:
            function(*given)
            text = f"an argument of {function.__qualname__} was not valid"  # and was written to since
        except ValueError as error:
            text, cause = str(error), error
    said = both(FlushError, ValueError, f"{text} ({where[0].upper()}{where[1:]}.)" if where else text)
    said.__cause__ = cause
    return said


def _computed(item: Any) -> Any:
    return concrete(item) if item.__class__ is LazyTensor else item
