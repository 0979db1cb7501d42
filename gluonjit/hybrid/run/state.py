"""The state of a thread: its open batches, and whether its program is inside a dynamically batched block."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from functools import wraps
from sys import is_finalizing
from typing import Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

from gluonjit.errors import BatchClosedError
from gluonjit.graph.recorder import StateNumbers, Uncaptured, Value
from gluonjit.hybrid.choose.pacing import HERE, SPENT, Paces
from gluonjit.hybrid.options import Options
from gluonjit.hybrid.run.batch import RUNNING, Batch
from gluonjit.hybrid.run.engine import Engine


class State(StateNumbers):
    """The state of one thread.

    batch: the innermost open batch; explicit: those opened by `batching`, outermost first; inside: how many
    dynamically batched blocks are being called; trace: the cell being traced; paused > 0: capture is off; eagerly: how
    many of these pauses are the program's own calls, which run eagerly: else what runs is the library's. Both are
    counted by statements just before `try` and in `finally`, as a signal comes where functions begin or were called.
    mode: see `graph.modes`; numpy: which of the framework's array semantics hold, as the engine numbers
    them; recorded: the call that is being captured to be reused; spare: how many outermost calls of the model that
    `spare_of` belongs to run eagerly without a question, in mode `spare_mode`: 2 for training (see `pacing`); hub: what
    runs the samples of `gluonjit.map`.
    """

    __slots__ = (
        "__weakref__",  # C keeps one
        "hub",
        "options",
        "pass_seen",
        "recorded",
        "singles",
    )
    opens: ClassVar[Any]  # the class of batches, told by `flush`

    def __init__(self) -> None:
        self.batch: Batch | None = None
        self.explicit: list[Batch] = []
        self.inside = 0
        self.trace: Any = None
        self.paused = 0
        self.eagerly = 0
        self.mode = 0
        self.numpy = 0
        self.recorded: Any = None
        self.hub: Any = None
        self.options = Options()
        self.pass_seen = -1  # the backward pass of the framework's that has last gone through a batch
        self.singles = 0  # batches of one sample that were differentiated, one after the other
        self.spare = 0
        self.spare_mode = 0
        self.spare_of: Paces | None = None

    def one_at_a_time(self, samples: int, first: bool, number: int = -1) -> bool:
        """Notes a backward pass through a batch of this many samples, the first being `first`; tells whether to warn.

        number: that of the framework's pass, where one may go through several batches, which is no fault.
        Batches of one sample are meant; where weights change between them, these are minibatches, which is no fault.
        """
        together, self.pass_seen = number >= 0 and number == self.pass_seen, number
        if samples > 1 or together:
            self.singles = 0
        elif samples == 1 and first:
            self.singles += 1
            return self.singles == 2
        return False

    def __del__(self) -> None:
        """Releases what an ended thread has captured and not run."""
        for batch in [*self.explicit, self.batch]:
            if batch is not None and not is_finalizing():
                batch.discard("its thread ended before it had run; read values in the thread that captured them")

    def open(self, engine: Engine, options: Options | None = None) -> Batch:
        """Returns the open batch; an implicit one is opened if there is none."""
        batch = self.batch
        if batch is not None and batch.engine is not engine:  # a batch is of one framework
            batch.flush("a call of another framework")
            batch.engine, batch.own = engine, engine.account()
            batch.reset()
            self.close()
            batch = self.batch
        if batch is None:
            batch = self.batch = self.opens(engine, options or self.options)
        return batch

    def close(self) -> None:
        """Forgets the implicit batch, whose work has run; an explicit one stays open."""
        batch = self.batch
        if batch is not None and not batch.explicit:
            self.batch = None
            batch.graph.owner = "its batch was closed"  # else both would wait for the collector of garbage

    def flush(self, reason: str) -> None:
        """Runs what waits on this thread, the outermost batch first."""
        for batch in [*self.explicit, self.batch]:
            if batch is not None:
                batch.flush(reason, "sample" if self.inside else "")
        self.close()


class _Local(threading.local):
    """Each thread's own state: one look-up, and the rest are plain attributes."""

    def __init__(self) -> None:
        self.state = State()


LOCAL = _Local()


UNCAPTURED = Uncaptured(LOCAL)
"""For `with`: what runs inside is no part of the program. It holds nothing, so that any number may be open at once."""


def abandoned_trial() -> bool:
    """True if this call is one of a trial of batching that has spent its budget: the rest runs eagerly.

    Asked before something is traced, which takes longest.
    """
    stretch, state = HERE.stretch, LOCAL.state
    if stretch is None or not stretch.inside or stretch.explores or state.batch is None or not stretch.spent():
        return False
    state.batch.flush(SPENT)
    stretch.abandon()
    stretch.pauses = True
    state.paused += 1
    state.eagerly += 1
    return True


def settle(value: Value, backward: bool = False) -> None:
    """Runs the batch of a value that has not run: to read it, or to go `backward`, no fault between samples."""
    if value.graph is not None and isinstance(value.graph.owner, Batch):
        state = LOCAL.state
        if state.hub is not None and not backward and state.hub.park(value.graph.owner):
            return
        middle = "sample" if state.inside else "scope" if state.explicit and not backward else ""
        owner = value.graph.owner
        owner.flush("backward" if backward else "a value was read", middle)
        if not state.inside and state.batch is owner:  # else it was captured before a fork
            state.close()


def preceded(original: Any, run: Callable[[Any], Any]) -> Any:
    """A method of a framework's before which something else runs, given the object."""

    @wraps(original)
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        run(self)
        return original(self, *args, **kwargs)

    return method


def compute_what_is_sent() -> None:
    """Has queues between processes run what waits before they take an object, which a thread of theirs pickles."""
    from multiprocessing import queues  # which frameworks import

    for kind in (queues.Queue, queues.JoinableQueue):
        if not hasattr(kind.put, "__wrapped__"):
            kind.put = _after_flush(kind.put)  # type: ignore[method-assign]


def _after_flush(put: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(put)
    def put_computed(self: Any, obj: Any, *args: Any, **kwargs: Any) -> Any:
        if not isinstance(obj, (int, float, str, bytes, type(None))):
            LOCAL.state.flush("a value goes to another process")
        return put(self, obj, *args, **kwargs)

    return put_computed


def _leave_to_parent() -> None:
    """Closes what was captured before a fork, in the child. Its values can still be read."""
    state = LOCAL.state
    state.batch = None
    state.explicit = []
    RUNNING._at_fork_reinit()  # type: ignore[attr-defined]  # another thread may have held it


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_leave_to_parent)


class Results(NamedTuple):
    """The places of a flushed graph's rows: row r is row `position[r]` of arena `arena[r]` of the session."""

    session: Any
    arena: npt.NDArray[np.int64]
    position: npt.NDArray[np.int64]


def has_run(value: Value) -> bool:
    """True if a value's batch has run."""
    return value.result is not None or isinstance(getattr(value.graph, "owner", None), Results)


def results_of(value: Value) -> Results:
    """Finds where a flushed value's rows lie; raises BatchClosedError where its batch did not run."""
    owner = value.graph.owner
    if isinstance(owner, Results):
        return owner
    raise BatchClosedError(f"this value was never computed: {owner}")


def rows_of(value: Value) -> Any:
    """Finds the rows of a flushed value by their places: of a reference, which is no node's own result."""
    results = results_of(value)
    return results.session.rows(*placed(value, results))


def placed(value: Value, results: Results) -> tuple[int, list[int]]:
    """The arena of a value's rows, and their positions there."""
    rows = value.row_list()
    return int(results.arena[rows[0]]), results.position[rows].tolist()
