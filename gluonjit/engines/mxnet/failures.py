"""Says what has failed, as `gluonjit.hybrid.run.failures` does."""

from __future__ import annotations

from collections.abc import Callable

from gluonjit.engines.mxnet.inference import reason_of
from gluonjit.hybrid.run import failures
from gluonjit.hybrid.run.check import StepCheck

_NEXT = "hybridize(dynamic_batch=False) runs the same code eagerly."


def failed(check: StepCheck, number: int, error: Exception, again: Callable[[], None]) -> Exception | None:
    """Returns the error of a step that failed, naming the first node that fails when run alone; None if none does.

    again: runs the step once more.
    """
    return failures.failed(check, number, error, reason_of, _NEXT, again)
