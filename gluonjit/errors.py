"""Errors and warnings of the library, one class per fault, so that a caller can catch exactly one of them.

Messages give the user's call, both values and the next step. This module imports nothing: every other module
of the package may import it.
"""

from __future__ import annotations


class GluonJITError(Exception):
    """Base of every error that this library raises itself."""


class OptionError(GluonJITError, ValueError, TypeError):
    """An option is unknown, or its value is invalid.

    Raised by ``hybridize(dynamic_batch=True, ...)``, ``batching(...)`` and other calls that take options,
    before anything has changed.
    """


class CaptureError(GluonJITError):
    """A call cannot be captured: its operands do not fit the cell or operator (shape, dtype, device).

    Raised at the user's own call; the open batch keeps the calls captured before.
    """


class FlushError(GluonJITError):
    """Captured work failed when it ran; the message names the user's call that was captured.

    The open batch is clean afterwards, and the engine's own error is the ``__cause__``.
    """


class NotFiniteError(GluonJITError, ArithmeticError):
    """A NaN or an infinite number, found by the option ``check_finite``; the message names the call that made it."""


class BatchClosedError(GluonJITError):
    """A lazy value was read, but its batch was discarded before it ran, for example after an exception inside it."""


class TraceError(GluonJITError, ValueError):
    """A trace cannot be written, read or simulated as asked; the message names the file and the next step."""


class EngineError(GluonJITError, ImportError):
    """A framework is missing or cannot be used as installed; the message says what to install or change."""


class VerifyError(GluonJITError, AssertionError):
    """``verify`` found that batched and per-sample execution differ; the message names where first."""


class ReuseError(GluonJITError):
    """Two calls with one ``reuse`` key capture different calls; the message names key and first difference."""


class StateError(GluonJITError):
    """A traced call would do something else now, because it depends on state that gluonjit does not see."""


class GluonJITWarning(UserWarning):
    """Base of every warning of this library: a program is slower than it needs to be; docs/guide.md has a table."""


class EarlyFlushWarning(GluonJITWarning):
    """A value was read inside an open batch, so pending calls ran without the samples that came later."""


class AloneWarning(GluonJITWarning):
    """A cell or operator cannot be batched and runs once per sample."""


class BackwardWarning(GluonJITWarning):
    """``backward`` was called sample by sample, repeating work that one call for the sum of losses does once."""


class CellWarning(GluonJITWarning):
    """A function captures many operators per call, and would be one node as a ``@gluonjit.cell``."""


class CacheWarning(GluonJITWarning):
    """Minibatch after minibatch has new signatures, so cells are traced again and again."""


class SmallBatchWarning(GluonJITWarning):
    """Too few nodes run together for batching to pay."""


class RuleWarning(GluonJITWarning):
    """A batched program gave other numbers than its operators for one sample: its calls run one by one, which is right.

    The message names the operator, shapes, both numbers, and how to report it.
    """
