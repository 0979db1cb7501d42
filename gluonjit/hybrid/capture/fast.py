"""The data about the package that the fast path in C needs, for any framework."""

from __future__ import annotations

from time import perf_counter

from gluonjit.compiled import FAST
from gluonjit.hybrid.capture.structure import Repeated
from gluonjit.hybrid.run.flush import FlushingBatch
from gluonjit.hybrid.run.state import LOCAL


def configure() -> None:
    """Configures the fast path, if it was built. Engines call this before they add their own data."""
    if FAST is not None:
        FAST.configure(
            "package",
            Repeated=Repeated,
            local=LOCAL,
            note=FlushingBatch.end_call,
            clock=perf_counter,
        )
