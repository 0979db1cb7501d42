"""The just-in-time part, framework-free: options, the open batch of a thread, flush, reports."""

from gluonjit.hybrid.batch import Batch, Results, Tape
from gluonjit.hybrid.options import Options
from gluonjit.hybrid.protocol import Engine
from gluonjit.hybrid.report import Report, StepRow
from gluonjit.hybrid.state import LOCAL, State, batching, engine_of, explain, register

__all__ = [
    "LOCAL",
    "Batch",
    "Engine",
    "Options",
    "Report",
    "Results",
    "State",
    "StepRow",
    "Tape",
    "batching",
    "engine_of",
    "explain",
    "register",
]
