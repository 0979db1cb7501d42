"""The protocol of a framework: what the just-in-time part needs. Arrays, modes and programs are the engine's own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from gluonjit.analysis import Plan
from gluonjit.analysis.costs.measured import Measured, Progress
from gluonjit.analysis.plan import LeafChunk, LookupChunk
from gluonjit.graph import Kind, Spec
from gluonjit.hybrid.explain.provenance import Provenance
from gluonjit.hybrid.explain.report import Report
from gluonjit.hybrid.options import Options


class Session(Protocol):
    """The arrays of one flush. A mode is 2 * recording + training.

    tape: what its results can be differentiated by as long as somebody holds it, or None.
    """

    @property
    def tape(self) -> Any: ...

    def put_lookup(self, chunk: LookupChunk) -> None:
        """Put entries of a table into their place."""

    def put_leaves(self, chunk: LeafChunk) -> None:
        """Put arrays into their place."""

    def run(self, number: int) -> None:
        """Run a step of the plan: gather its operands, run its program, put the results into their places."""

    def result(self, arena: int, position: int) -> Any:
        """Returns what a value whose rows begin there needs to be materialized."""

    def wait(self) -> None:
        """Wait for all that was handed over, where `options.profile` asks for it."""

    def finish(self) -> None:
        """Called when every result has been asked for."""


class Engine(Protocol):
    """A framework underneath."""

    name: str
    versions: Mapping[str, str]  # of the framework: measured costs belong to them

    def current_mode(self) -> int:
        """The framework's recording and training flags on this thread."""

    def wait(self) -> None:
        """Wait until everything has run that the framework was given."""

    def may_choose(self) -> bool:
        """Tells whether this process may run calls eagerly where others, which train with it, run them batched."""

    def sum_kind(self, spec: Spec, count: int) -> Kind:
        """The kind whose one operand is `count` stacked arrays of this spec and whose result is their sum."""

    def session(self, plan: Plan, report: Report, options: Options, samples: int, provenance: Provenance) -> Session:
        """Make room for a flush of so many samples. Times go into the report.

        With `options.profile` the engine waits for each part, with `check_finite` it looks at every number. What
        fails raises FlushError, or NotFiniteError, that names the node by `provenance`.
        """

    def wants(self, args: Sequence[Any]) -> bool:
        """Tells whether a call with these arguments has to be captured."""

    def call_cell(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Capture the call of a CellFunction."""

    def owns(self, array: Any) -> bool:
        """Tells whether this is an array of the framework."""

    def owns_block(self, net: Any) -> bool:
        """Tells whether this is a model of the framework."""

    def hybridize(self, net: Any, dynamic_batch: bool, options: dict[str, Any]) -> None:
        """Turn dynamic batching of a model on or off."""

    def verify(
        self, net: Any, samples: Sequence[Any], loss: Any, rtol: float | None, train_mode: bool, options: dict[str, Any]
    ) -> Report:
        """Compare eager and batched execution; see `gluonjit.verify`."""

    def add_n(self, arrays: Sequence[Any]) -> Any:
        """The sum of arrays of one shape."""

    def calibrate(self, seconds: float, progress: Progress) -> Measured:
        """Measure for about so long what work costs; `progress` is told the share that is over."""

    def cache_info(self) -> dict[str, int]:
        """Entries in each of the engine's caches."""

    def clear_caches(self) -> None:
        """Empty them."""
