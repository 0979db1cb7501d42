"""The Adapter of a framework: what the just-in-time part needs of it. docs/extending.md goes through making one."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

from gluonjit.analysis.again import clear_plans, plan_count
from gluonjit.analysis.plan import Plan
from gluonjit.graph.kinds import Kind
from gluonjit.graph.values import Spec
from gluonjit.hybrid.explain.counts import Counts
from gluonjit.hybrid.explain.provenance import Provenance
from gluonjit.hybrid.options import Options
from gluonjit.hybrid.run.engine import Engine
from gluonjit.hybrid.run.session import Session


class Adapter(Engine):
    """A framework underneath. An engine derives from this class; what has a default it may leave out.

    Required of an engine:

    * Capture. Where a function of the framework is called on a lazy array (`waits`), or inside of a sample, the engine
      finds the record of the call's signature in the open batch and adds a node (`hybrid.capturing`). A signature is
      all that tells programs apart: function, shapes and types of operands, constants, weights by identity, mode. A
      call that reads numbers, draws from elsewhere, or writes to what outlives it is no node: it runs, and what it
      calls is captured. Where nothing is captured, the framework does what it does without the library.
    * Arrays. A value's `Spec` says how it looks; its mode is "stack" (one row, of the array's shape) or "rows" (as many
      as its first axis has); `graph.natural_mode` chooses for arrays from outside. The number of an array's rows in the
      graph does not change. A leaf's payload has the numbers that the array had when it was captured.
    * Programs. `Kind.program` runs all nodes of a step in one go (`graph.kinds.BatchedProgram`), and gives what each
      would give by itself, to rounding. What cannot be run so has a kind with `lone`, and runs node by node.
    * Numbers. Whoever needs an array's numbers runs what it waits for: `hybrid.run.state.settle`, then the value's
      `result` or, for a reference, `hybrid.run.session.rows_of`.
    * Errors are those of `gluonjit.errors`, no later than the flush, and name the user's line.
    """

    def running(self) -> AbstractContextManager[Any]:
        """For `with`: a flush runs inside, whatever the program's own contexts say."""
        return nullcontext()

    def session(self, plan: Plan, report: Counts, options: Options, samples: int, provenance: Provenance) -> Session:
        """Make room for a flush of so many samples. Times go into the report. All of it is inside of `running`.

        With `options.profile` the engine waits for each part, with `check_finite` it looks at every number. What
        fails raises FlushError, or NotFiniteError, that names the node by `provenance`.
        """
        raise NotImplementedError

    def sum_kind(self, spec: Spec, count: int) -> Kind:
        """The kind whose one operand is `count` stacked arrays of this spec and whose result is their sum.

        Asked for only where the engine's own kinds say that they are sums (`Kind.sum_of`).
        """
        raise NotImplementedError

    def cache_info(self) -> dict[str, int]:
        """Entries in each of the engine's caches, and plans that are kept, of all engines (512 at most)."""
        return {**super().cache_info(), "plans": plan_count()}

    def clear_caches(self) -> None:
        """Empty them."""
        super().clear_caches()
        clear_plans()
