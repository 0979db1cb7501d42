"""The Adapter of a framework: what the just-in-time part needs of it. docs/extending.md goes through making one."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from time import perf_counter
from typing import Any

from gluonjit.analysis.costs.measured import Measured, Progress
from gluonjit.analysis.plan import LeafChunk, LookupChunk, Place, Plan
from gluonjit.errors import EngineError, OptionError
from gluonjit.graph import Kind, Spec, clear_specs, spec_count
from gluonjit.hybrid.explain.provenance import Provenance
from gluonjit.hybrid.explain.report import Report
from gluonjit.hybrid.options import AUTO, Options
from gluonjit.hybrid.run.places import clear_places
from gluonjit.rows.steps import Ahead, Stretch


class Session:
    """The arrays of one flush: an arena for each shape of rows, which inputs and steps write to.

    The core calls `put_lookup` and `put_leaves` for all inputs of the plan, `run_from` until all steps have run,
    `result` for each value that somebody can read, and `finish`; `wait` after the inputs, and after the results.
    Whoever reads a reference later, such as a slice, asks for its `rows`, so a session lives as long as its values.

    tape: what its results can be differentiated by as long as somebody holds it, or None; ahead: steps that were
    started and that nobody has waited for.
    """

    tape: Any = None
    ahead: Ahead | None = None

    def __init__(self, plan: Plan, report: Report, options: Options, provenance: Provenance) -> None:
        self.plan = plan
        self.report = report
        self.provenance = provenance
        self.profile = options.profile
        self.flush = report.flushes  # its number
        self._places: dict[int, tuple[list[int], list[Place]]] = {}  # by arena, and where they begin

    def place_of(self, arena: int, position: int) -> Place:
        """The place of the input, or of the step's result, that a row of an arena belongs to."""
        if arena not in self._places:
            places = [chunk.place for chunk in self.plan.inputs if chunk.place.arena == arena]
            places += [place for step in self.plan.steps for place in step.places if place.arena == arena]
            self._places[arena] = [place.begin for place in places], places
        begins, places = self._places[arena]
        return places[bisect_right(begins, position) - 1]

    def lap(self, number: int, part: str, begin: float) -> float:
        """Note that a part of a step, to "gather" or to "compute", has taken from then to now, which is returned."""
        self.wait()
        now = perf_counter()
        self.report.took(self.plan.steps[number].kind.name, part, begin, now, number)
        return now

    def laps(self, stretch: Stretch, begin: float, end: float | None = None) -> None:
        """Note steps that have run in one call since then; what was not spent in them counts with the first."""
        self.wait()
        report, steps = self.report, self.plan.steps
        report.fused += len(stretch.steps)
        report.row_ms += sum(stretch.took) / 1e6
        end = (perf_counter() if end is None else end) - sum(stretch.took[1:]) / 1e9
        last = report.flushes == self.flush  # of which the report shows steps
        for number, nanoseconds in zip(stretch.steps, [*stretch.took[1:], 0]):
            step = steps[number]
            report.took(step.kind.name, "compute", begin, end, number if last else None)
            begin, end = end, end + nanoseconds / 1e9
            for gather in step.gathers:
                report.gathers += gather.index is not None

    def put_lookup(self, chunk: LookupChunk) -> None:
        """Put entries of a table into their place."""
        raise NotImplementedError

    def put_leaves(self, chunk: LeafChunk) -> None:
        """Put arrays into their place."""
        raise NotImplementedError

    def run(self, number: int) -> None:
        """Run a step of the plan: gather its operands, run its program, put the results into their places."""
        raise NotImplementedError

    def run_from(self, number: int) -> int:
        """Run a step, or several from it on where the engine runs them at once; returns the number of the next."""
        self.run(number)
        return number + 1

    def start(self, number: int) -> bool:
        """Let the steps from one on run while Python goes on, all of them; False where the engine runs them otherwise.

        From then on whoever asks for numbers of a result waits for them, by `join`.
        """
        return False

    def join(self) -> None:
        """Wait for steps that were started. Raises FlushError where one has failed, each time."""
        ahead = self.ahead
        if ahead is None:
            return
        begin, end, wrong = ahead.wait()
        if wrong is not None:
            raise self.failed(ahead.under_way, ValueError(wrong))
        if self.ahead is not None:  # else another thread was first
            self.ahead = None
            self.laps(ahead.stretch, begin, end)

    def failed(self, number: int, error: Exception) -> Exception:
        """The error to raise for a step that has failed, of those that were started."""
        return error

    def result(self, arena: int, position: int) -> Any:
        """Returns what a value whose rows begin there needs to be materialized: its `result` from then on."""
        raise NotImplementedError

    def rows(self, arena: int, positions: Sequence[int]) -> Any:
        """Returns rows of an arena, for values that refer to rows of others."""
        raise NotImplementedError

    def wait(self) -> None:
        """Wait for all that was handed over, where `options.profile` has it timed."""

    def finish(self) -> None:
        """Called when every result has been asked for."""


class Adapter:
    """A framework underneath. An engine derives from this class; what has a default here it may leave out.

    name: the package that users import, by which the engine is found; versions: of the framework: measured costs
    belong to them. executors: what can run its plans (the option `executor`); reuses: whether calls of models
    may be captured again without running them (the option `reuse`); title: the framework's name in sentences.

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
    * Numbers. Whoever needs an array's numbers runs what it waits for: `hybrid.state.settle`, then the value's `result`
      or, for a reference, `hybrid.batch.rows_of`.
    * Errors are those of `gluonjit.errors`, no later than the flush, and name the user's line.
    """

    name: str
    versions: Mapping[str, str] = {}
    executors: tuple[str, ...] = (AUTO, "stepwise")
    reuses = False

    # What the framework is doing on this thread

    def current_mode(self) -> int:
        """The framework's recording and training flags, as `graph.modes.mode_of` makes a number of them."""
        return 0

    def wait(self) -> None:
        """Wait until everything has run that the framework was given."""

    def may_choose(self) -> bool:
        """Tells whether this process may run calls eagerly where others, which train with it, run them batched."""
        return True

    # What is the framework's

    def owns(self, array: Any) -> bool:
        """Tells whether this is an array of the framework."""
        raise NotImplementedError

    def owns_block(self, net: Any) -> bool:
        """Tells whether this is a model of the framework."""
        return False

    def waits(self, args: Sequence[Any]) -> bool:
        """Tells whether an argument is an array, maybe in lists and tuples, that waits for its batch."""
        raise NotImplementedError

    # Capture

    def call_cell(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Capture a call of a CellFunction, in whose `caches` the engine keeps what it knows of it."""
        raise NotImplementedError

    def hybridize(self, net: Any, dynamic_batch: bool, options: dict[str, Any]) -> None:
        """Turn dynamic batching of a model on or off. Raises OptionError before anything has changed."""
        raise NotImplementedError

    def account(self) -> Any:
        """Makes the engine's own account of an open batch: `Batch.own` until the batch is closed."""
        return None

    def check(self, call: str, options: Options) -> None:
        """Raise OptionError where the engine has not what an option asks for; `call` is the user's."""
        if options.executor not in self.executors:
            usable = " or ".join(map(repr, self.executors))
            raise OptionError(f"{call}: executor={options.executor!r}, but on {self.title} it can be {usable}")
        if options.reuse is not None and not self.reuses:
            raise OptionError(
                f"{call}: reuse=..., but calls of models of {self.title} are not reused. Leave reuse= out: equal calls "
                f"are shared all the same (sharing=True)."
            )

    @property
    def title(self) -> str:
        return self.name

    # Running

    def running(self) -> AbstractContextManager[Any]:
        """For `with`: a flush runs inside, whatever the program's own contexts say."""
        return nullcontext()

    def session(self, plan: Plan, report: Report, options: Options, samples: int, provenance: Provenance) -> Session:
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

    def add_n(self, arrays: Sequence[Any]) -> Any:
        """The sum of arrays of one shape: by default in pairs, so that a batch has few launches for it."""
        listed = list(arrays)
        while len(listed) > 1:
            pairs = [left + right for left, right in zip(listed[::2], listed[1::2])]
            listed = pairs + listed[2 * len(pairs) :]
        return listed[0]

    # What an engine may have besides

    def verify(
        self, net: Any, samples: Sequence[Any], loss: Any, rtol: float | None, train_mode: bool, options: dict[str, Any]
    ) -> Report:
        """Compare eager and batched execution; see `gluonjit.verify`."""
        raise EngineError(f"gluonjit.verify(): the engine of {self.title} compares nothing")

    def calibrate(self, seconds: float, progress: Progress) -> Measured:
        """Measure for about so long what work costs; `progress` is told the share that is over."""
        raise EngineError(f"calibrate: the engine of {self.title} measures nothing")

    def cache_info(self) -> dict[str, int]:
        """Entries in each of the engine's caches."""
        return {"specs": spec_count()}

    def clear_caches(self) -> None:
        """Empty them."""
        clear_specs()
        clear_places()
