"""Rules: how each operator of ATen runs for many nodes at once, a table with one row an operator.

A program for one sample is a list of operators with known shapes. `batch_op` writes down what runs one of them for
all samples; `NotBatchable` says why an operator has to run for each alone.
"""

from __future__ import annotations

from .examples import Examples
from .table import RANDOM, RULES, batch_op, operator_named, rule_of
from .values import ANY, NODES, Instruction, NotBatchable, OperatorCall, Val, Writer

__all__ = [
    "ANY",
    "NODES",
    "RANDOM",
    "RULES",
    "OperatorCall",
    "Examples",
    "Instruction",
    "NotBatchable",
    "Val",
    "Writer",
    "batch_op",
    "operator_named",
    "rule_of",
]
