"""The engine's part of comparisons: it runs the operators of one node."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

from gluonjit.analysis.plan import Step
from gluonjit.graph import Kind
from gluonjit.hybrid.check.rounding import Manner
from gluonjit.program.trace import Trace


class NodeRun(NamedTuple):
    """The numbers that a trace gives for one node: results, and gradients of operands and, by identity, of weights."""

    results: list[Any]
    gradients: Sequence[Any] = ()
    weights: dict[int, Any] = {}


class NodeRunner(Protocol):
    """The engine's part of comparisons. Numbers are arrays of numpy.

    once: operators whose backward pass overwrites what their forward pass has saved: a second one is wrong.
    """

    once: frozenset[str]

    def numbers(self, array: Any, rows: list[int]) -> Any:
        """Reads rows of an array."""

    def build(self, trace: Trace) -> Any:
        """Makes a batched program, as `program`, `outputs`, `rows` and `poly`. Raises an error if there is none."""

    def alone(
        self,
        kind: Kind,
        operands: Sequence[Any],
        mode: int,
        manner: Manner,
        heads: Sequence[Any] | None = None,
        together: int = 0,
    ) -> NodeRun:
        """Runs a node's operators one by one, without effect on anything.

        heads: gradients of the results, None for those that have none.
        together: where not 0, the kind's program runs for so many nodes, whose rows come one after the other.
        """

    def compute(self, step: Step, operands: Sequence[Any], consts: Sequence[Any], results: Sequence[Any]) -> Any:
        """Computes all nodes of a step one by one, in place of its program."""
