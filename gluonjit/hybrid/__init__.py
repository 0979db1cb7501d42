"""The just-in-time part, framework-free: options, the open batch of a thread, flush, reports."""

from gluonjit.hybrid.explain.report import Report
from gluonjit.hybrid.options import Options
from gluonjit.hybrid.run.batch import RUNNING, Batch
from gluonjit.hybrid.run.engine import register
from gluonjit.hybrid.run.protocol import Adapter
from gluonjit.hybrid.run.session import Session
from gluonjit.hybrid.run.state import LOCAL

__all__ = ["LOCAL", "RUNNING", "Adapter", "Batch", "Options", "Report", "Session", "register"]
