"""The just-in-time part, framework-free: options, the open batch of a thread, flush, reports."""

from gluonjit.hybrid.explain.report import Report, StepRow
from gluonjit.hybrid.options import Options
from gluonjit.hybrid.run.batch import FULL, RUNNING, Batch, Results
from gluonjit.hybrid.run.protocol import Adapter, Session
from gluonjit.hybrid.run.state import LOCAL, UNCAPTURED, State, batching, engine_of, explain, register

__all__ = [
    "FULL",
    "LOCAL",
    "RUNNING",
    "UNCAPTURED",
    "Adapter",
    "Batch",
    "Options",
    "Report",
    "Results",
    "Session",
    "State",
    "StepRow",
    "batching",
    "engine_of",
    "explain",
    "register",
]
