"""The just-in-time part, framework-free: options, the open batch of a thread, flush, reports."""

from gluonjit.hybrid.explain.report import Report, StepRow
from gluonjit.hybrid.options import Options
from gluonjit.hybrid.run.batch import FULL, RUNNING, Batch
from gluonjit.hybrid.run.engine import engine_of, register
from gluonjit.hybrid.run.protocol import Adapter
from gluonjit.hybrid.run.scope import batching, explain
from gluonjit.hybrid.run.session import Results, Session
from gluonjit.hybrid.run.state import LOCAL, UNCAPTURED, State

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
