"""Costs of a flush: coefficients of the machine, measured curves, and predictions from a plan."""

from gluonjit.analysis.costs.coefficients import Coefficients, CoefficientsError
from gluonjit.analysis.costs.model import CostModel, Observed, ObservedBackward
from gluonjit.analysis.ways import Costs

__all__ = ["Coefficients", "CoefficientsError", "CostModel", "Costs", "Observed", "ObservedBackward"]
