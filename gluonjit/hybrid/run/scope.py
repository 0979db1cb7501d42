"""Batches that a program opens with `batching`, and the report of the last minibatch."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from gluonjit.errors import OptionError
from gluonjit.graph.frames import user_line
from gluonjit.graph.origins import line_of
from gluonjit.hybrid.choose.pacing import measured
from gluonjit.hybrid.explain.minibatch import MINIBATCH
from gluonjit.hybrid.explain.report import Report
from gluonjit.hybrid.options import EAGER
from gluonjit.hybrid.run.engine import engine_of
from gluonjit.hybrid.run.flush import FlushingBatch
from gluonjit.hybrid.run.state import LOCAL


@contextmanager
def batching(**options: Any) -> Iterator[FlushingBatch]:
    """Captures everything in this region and runs it at its end, or when a value is needed.

    options: those of `hybridize(dynamic_batch=True, ...)`, for this region.

    Yields the batch. `batch.flush("why")` runs what was captured so far. `batch.report` is the report. An exception
    discards captured calls that have not run. Scopes of coroutines and generators may end in any order: calls go into
    the scope opened last, which runs when any scope opened before it ends.

    Raises OptionError for unusable options, and EngineError if no framework has been imported.
    """
    state = LOCAL.state
    chosen = state.options.updated("batching()", options)
    if chosen.reuse is not None:
        raise OptionError("batching(): reuse is an option of a block: net.hybridize(dynamic_batch=True, reuse=...)")
    batch = FlushingBatch(engine_of(), chosen, explicit=True, region=line_of(user_line()))
    state.mode = batch.engine.current_mode()
    outer = state.batch
    if outer is not None and not outer.explicit:
        outer.flush("batching() opened")
    batch.task = _task()
    state.explicit.append(batch)
    state.batch = batch
    MINIBATCH.end()
    eager = chosen.granularity == EAGER
    state.paused += eager
    state.eagerly += eager
    try:
        yield batch
    except BaseException as error:
        if batch.engine.owes(batch.own):
            batch.flush("batching() ended with an exception, and calls write to more than their results")
        elif all(other.task == batch.task for other in state.explicit):
            batch.discard(f"batching() ended with {type(error).__name__}: {error}")
        else:  # it may hold what other tasks have captured
            batch.flush("the end of batching() in one of several tasks")
        raise
    else:
        if batch in state.explicit:
            for opened in state.explicit[state.explicit.index(batch) :]:
                opened.flush("the end of batching()")
        else:  # a fork has come between
            batch.flush("the end of batching()")
    finally:
        state.paused -= eager
        state.eagerly -= eager
        if batch in state.explicit:
            state.explicit.remove(batch)
        if state.batch is batch:
            state.batch = state.explicit[-1] if state.explicit else None
        MINIBATCH.end()


def _task() -> Any:
    """The running task of asyncio, if there is one."""
    asyncio = sys.modules.get("asyncio")
    try:
        return None if asyncio is None else id(asyncio.current_task())
    except RuntimeError:  # no event loop is running
        return None


def explain() -> Report:
    """Returns the report of the last minibatch on this thread, in one flush or several (empty if none has run)."""
    report = MINIBATCH.report(LOCAL.state.batch)
    report.ways = measured()
    return report
