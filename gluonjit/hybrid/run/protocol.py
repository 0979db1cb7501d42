"""The Adapter of a framework: what the just-in-time part needs of it. docs/extending.md explains how to write one."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from gluonjit.analysis.plan_cache import clear_plans, plan_count
from gluonjit.compiled import FAST
from gluonjit.hybrid.run.engine import Engine
from gluonjit.hybrid.run.session import Session
from gluonjit.hybrid.run.state import LOCAL
from gluonjit.rows.ways import assembly_count, clear_assemblies


class Adapter(Engine):
    """A framework underneath. An engine derives from this class; members with a default are optional.

    Requirements:

    * Capture. When a function of the framework is called on a lazy array (`waits`), or inside of a sample, the engine
      finds the record of the call's signature in the open batch and adds a node (`hybrid.capturing`). A signature
      distinguishes programs: function, shapes and types of operands, constants, weights by identity, mode. A call that
      reads numbers, draws random numbers from elsewhere, or writes to anything that outlives it is not a node: it runs,
      and the calls inside it are captured. When nothing is captured, the framework behaves as without the library.
    * Arrays. A value's `Spec` describes it; its mode is "stack" (one row, of the array's shape) or "rows" (as many as
      its first axis has); `graph.natural_mode` chooses for outside arrays. The number of an array's rows in the graph
      does not change. A leaf's payload has the numbers that the array had at capture.
    * Programs. `Kind.program` runs all nodes of a step together (`graph.kinds.BatchedProgram`), with the results that
      each would have by itself, up to rounding. A node that cannot run this way has a kind with `lone`, and runs alone.
    * Numbers. Code that needs an array's numbers runs what is pending: `hybrid.run.state.settle`, then the value's
      `result` or, for a reference, `hybrid.run.session.rows_of`.
    * Errors are those of `gluonjit.errors`, no later than the flush, and name the user's line.

    Methods that it has to have:

    * `capture(cell, owner, function, args, kwargs)`: captures a call of a function, which is a cell, of an owner's
      if that is not None.
    * `session(plan, report, options, samples, provenance)`: makes room for a flush of `samples` samples. Times go
      into the report. All of it is inside of `running`. With `options.profile` the engine waits for each part, with
      `check_finite` it checks every number. A failure raises FlushError, or NotFiniteError, that names the node by
      `provenance`.
    * `sum_kind(spec, count)`: returns the kind with one operand, `count` stacked arrays of this spec, whose result
      is their sum. Called only if the engine's own kinds declare that they are sums (`Kind.sum_of`).
    """

    capture: Callable[..., Any]
    session: Callable[..., Session]
    sum_kind: Any = None
    cells: Any  # the class of its cells

    def call_cell(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        cell = function.caches.get(self.name)
        if cell is None:
            cell = function.caches[self.name] = self.cells(function.name, LOCAL.state.options)
        owner = args[0] if args and isinstance(args[0], self.block) else None
        if FAST is not None and cell.keys is not None and cell.lookup is None and LOCAL.state.inside:
            found = FAST.capture(cell, owner, args, kwargs)
            if found is not None:
                return found
        return self.capture(cell, owner, function.function, args, kwargs)

    def running(self) -> AbstractContextManager[Any]:
        """Returns a context for a flush, whatever contexts the program has open."""
        return nullcontext()

    def cache_info(self) -> dict[str, int]:
        """Entries in each of the engine's caches, also those of cells, and of all engines the plans (512 at most) and
        the assemblies of row programs (1,024 at most) that are kept."""
        kept = {"plans": plan_count(), "assemblies": assembly_count()}
        cells = self.cells.every()
        return {
            **super().cache_info(),
            **kept,
            "cells": sum(cell.entries() for cell in cells),
            "reused": sum(len(cell.recordings.entries) for cell in cells),
            "reused_bytes": sum(cell.recordings.bytes for cell in cells),
        }

    def clear_caches(self) -> None:
        """Empty them."""
        super().clear_caches()
        clear_plans()
        clear_assemblies()
        for cell in self.cells.every():
            cell.clear()
