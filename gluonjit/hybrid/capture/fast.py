"""Facts about the package that the fast path in C needs, whatever the framework."""

from __future__ import annotations

from gluonjit.compiled import FAST
from gluonjit.graph import Graph, Spec, origins
from gluonjit.hybrid.run.batch import Batch
from gluonjit.hybrid.run.state import LOCAL, State


def configure() -> None:
    """Tell it, where it was built. Engines do so before they tell it of themselves."""
    if FAST is not None:
        FAST.configure(
            "package",
            State=State,
            Batch=Batch,
            Graph=Graph,
            Spec=Spec,
            local=LOCAL,
            known=origins.known,
            is_library=origins.is_library,
        )
