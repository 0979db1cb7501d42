"""The state of a thread: its open batches, and whether its program is inside a dynamically batched block."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from gluonjit.errors import EngineError
from gluonjit.hybrid.batch import Batch
from gluonjit.hybrid.options import Options
from gluonjit.hybrid.protocol import Engine
from gluonjit.hybrid.report import Report

ENGINES: list[Engine] = []
"""The engines whose frameworks have been imported."""


def register(engine: Engine) -> None:
    """Called by an engine when its framework has been imported."""
    ENGINES.append(engine)


def engine_of(name: str | None = None) -> Engine:
    """The engine of this name, or the only one. Raises EngineError where no framework has been imported."""
    for engine in ENGINES:
        if name in (None, engine.name):
            return engine
    raise EngineError("batching(): no framework has been imported yet; `import mxnet` first")


class State:
    """The state of one thread.

    batch: the innermost open batch; explicit: those opened by `batching`, outermost first; inside: how many
    dynamically batched blocks are being called; trace: the cell being traced; paused > 0: capture is off;
    mode: 2 * recording + training; numpy: which of the framework's array semantics hold, as the engine numbers
    them; last: the report of the last batch that ran something.
    """

    __slots__ = (
        "batch",
        "explicit",
        "inside",
        "last",
        "mode",
        "numpy",
        "options",
        "paused",
        "singles",
        "trace",
    )

    def __init__(self) -> None:
        self.batch: Batch | None = None
        self.explicit: list[Batch] = []
        self.inside = 0
        self.trace: Any = None
        self.paused = 0
        self.mode = 0
        self.numpy = 0
        self.last: Report | None = None
        self.options = Options()
        self.singles = 0  # batches of one sample that were differentiated, one after the other

    def open(self, engine: Engine, options: Options | None = None) -> Batch:
        """The open batch; an implicit one is opened where there is none."""
        batch = self.batch
        if batch is None:
            batch = self.batch = Batch(engine, options or self.options)
            self.last = batch.report
        return batch

    def close(self) -> None:
        """Forget the implicit batch, whose work has run; an explicit one stays open."""
        batch = self.batch
        if batch is not None and not batch.explicit:
            self.batch = None

    def flush(self, reason: str) -> None:
        """Run what waits on this thread, the outermost batch first."""
        for batch in [*self.explicit, self.batch]:
            if batch is not None:
                batch.flush(reason, early=self.inside > 0)
        self.close()


class _Local(threading.local):
    """Each thread's own state: one look-up, and the rest are plain attributes."""

    def __init__(self) -> None:
        self.state = State()


LOCAL = _Local()


@contextmanager
def batching(**options: Any) -> Iterator[Batch]:
    """Capture everything in this region and run it at its end, or when a value is needed.

    Options are those of `hybridize(dynamic_batch=True, ...)` and hold for this region. Yields the batch:
    `batch.flush("why")` runs what was captured so far, `batch.report` says what was done. On an exception
    what was captured and has not run is discarded. Raises OptionError for unusable options and EngineError
    where no framework has been imported.
    """
    state = LOCAL.state
    chosen = state.options.updated("batching()", options)
    batch = Batch(engine_of(), chosen, explicit=True)
    state.mode = batch.engine.current_mode()
    outer = state.batch
    if outer is not None and not outer.explicit:
        outer.flush("batching() opened")
        outer = None
    state.explicit.append(batch)
    state.batch = batch
    state.last = batch.report
    try:
        yield batch
    except BaseException as error:
        batch.discard(f"batching() ended with {type(error).__name__}: {error}")
        raise
    else:
        batch.flush("the end of batching()")
    finally:
        state.explicit.remove(batch)
        state.batch = outer
        state.last = batch.report


def explain() -> Report:
    """The report of the batch that ran last on this thread (empty where none has)."""
    return LOCAL.state.last or Report()
