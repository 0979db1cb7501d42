"""The interface to predictions."""

from __future__ import annotations

import gluonjit


def predicted_ms(report: gluonjit.Report, training: bool) -> float | None:
    """Return the milliseconds that the cost model gives the minibatch of a report; None if nothing has run."""
    costs = report.predicted(training)
    return None if costs is None else costs.total * 1e3
