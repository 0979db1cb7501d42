"""Pure functions on captured graphs: the needed nodes, their steps, the places of their rows. numpy at most."""

from gluonjit.analysis.bound import lower_bound
from gluonjit.analysis.plan import Plan, Step
from gluonjit.analysis.planner import Planner, make_plan

__all__ = ["Plan", "Planner", "Step", "lower_bound", "make_plan"]
