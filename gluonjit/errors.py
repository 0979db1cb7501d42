"""Every fault the library reports, a class for each, so that a caller can catch exactly one of them.

Messages give the user's call, both values and the next step. This module imports nothing: every other module
of the package may import it.
"""

from __future__ import annotations


class GluonJITError(Exception):
    """Base of every error that this library raises itself."""


class OptionError(GluonJITError, ValueError, TypeError):
    """An option is unknown, or its value is not one of those it can have.

    Raised by ``hybridize(dynamic_batch=True, ...)``, ``batching(...)`` and other calls that take options,
    before anything has changed.
    """


class CaptureError(GluonJITError):
    """A call cannot be captured: its operands do not fit the cell or operator (shape, dtype, device).

    Raised by the user's own call, while the open batch still holds what was captured before.
    """


class FlushError(GluonJITError):
    """Captured work failed when it ran; the message names the user's call that was captured.

    The open batch is clean afterwards, and the engine's own error is the ``__cause__``.
    """


class NotFiniteError(GluonJITError, ArithmeticError):
    """A NaN or an infinite number, found by the option ``check_finite``; the message names the call that made it."""


class BatchClosedError(GluonJITError):
    """A lazy value is asked for, but its batch was discarded unrun, as after an exception inside it."""


class TraceError(GluonJITError, ValueError):
    """A trace cannot be written, read or simulated as asked; the message names the file and the next step."""


class EngineError(GluonJITError, ImportError):
    """A framework is missing or cannot be used as installed; the message says what to install or change."""


class VerifyError(GluonJITError, AssertionError):
    """``verify`` found that batched and per-sample execution differ; the message names where first."""


class ReuseError(GluonJITError):
    """Two calls of one key of ``reuse`` capture different things; the message names the key and what differs first."""


class StateError(GluonJITError):
    """A call that was traced before would do something else now, by what it reads of Python's state unseen."""


class GluonJITWarning(UserWarning):
    """Base of every warning of this library: a program is slower than it needs to be; docs/guide.md has a table."""


class EarlyFlushWarning(GluonJITWarning):
    """A value was needed inside an open batch, so what was pending ran without samples that came after it."""


class AloneWarning(GluonJITWarning):
    """A cell or operator cannot be batched and runs once per sample."""


class BackwardWarning(GluonJITWarning):
    """``backward`` was called sample by sample, which repeats work that one call for the sum does once."""


class CellWarning(GluonJITWarning):
    """A function captures many operators a call, and would be one node as a ``@gluonjit.cell``."""


class CacheWarning(GluonJITWarning):
    """Minibatch after minibatch has signatures that were never seen, so that cells are traced again and again."""


class SmallBatchWarning(GluonJITWarning):
    """So few nodes run together that batching does not pay for itself."""
