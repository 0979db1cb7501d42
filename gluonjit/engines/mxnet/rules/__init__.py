"""Rules: how each MXNet operator runs for many samples at once, a table with one row an operator.

A program for one sample is a list of operators with known shapes. `batch_op` emits the symbol that
runs one of them for all samples; `NotBatchable` says why an operator has to run for each alone.
"""

from __future__ import annotations

from .attributes import Attributes
from .call import OperatorCall
from .gradients import NO_GRADIENT
from .listing import describe
from .rule import Rule
from .symbols import apply, canonical
from .table import RULES, batch_op
from .values import NotBatchable, Val, convert

__all__ = [
    "NO_GRADIENT",
    "RULES",
    "Attributes",
    "OperatorCall",
    "NotBatchable",
    "Rule",
    "Val",
    "apply",
    "batch_op",
    "canonical",
    "convert",
    "describe",
]
