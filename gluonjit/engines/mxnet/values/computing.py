"""From a lazy array to its numbers, its history in MXNet, and its own memory."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from mxnet.ndarray import NDArray

from gluonjit.engines.mxnet.framework.semantics import as_captured
from gluonjit.engines.mxnet.run.one_by_one import decided
from gluonjit.engines.mxnet.run.results import goes_back
from gluonjit.engines.mxnet.values.aliases import DETACHED, Owned, in_memory, is_stale, renew
from gluonjit.engines.mxnet.values.bridge import bridged
from gluonjit.engines.mxnet.values.operands import seen_through
from gluonjit.engines.mxnet.values.recorder import Recorder
from gluonjit.engines.mxnet.values.refusals import refuse_recorded
from gluonjit.graph import Value
from gluonjit.graph.modes import RECORDING, is_recorded
from gluonjit.graph.references import keys_of
from gluonjit.hybrid.run.engine import engine_of
from gluonjit.hybrid.run.state import LOCAL, has_run
from gluonjit.program.trace import NeedsValue

_LINKED = object()
_WRITTEN = "an array that captured calls use was written to"


def created(value: Value) -> Value:
    """This value for an array whose memory is not its own, and which has no history."""
    return Value(value.rows, value.depth, value.spec, value.graph, False)


def concrete(array: Any) -> NDArray:
    """The computed array; runs what is pending."""
    if array._b is not None and is_stale(array):
        renew(array)
    return array._c if array._c is not None else compute(array)


def read(array: Any) -> NDArray:
    """The computed array, of which numbers are read; in the middle of samples the report counts that.

    Of a view of an input nothing has to run: it is the program's own memory, as it is now. Of what inputs alone decide,
    only that.
    """
    state = LOCAL.state
    batch = state.batch
    found = in_memory(array) if array._c is None else array._c
    if found is None:
        found = decided(array)
    if batch is not None and (state.inside or state.explicit) and not state.paused:
        batch.report.reads["flushed" if found is None else "answered"] += 1
    return concrete(array) if found is None or array._c is not None else found


def compute(array: Any) -> NDArray:
    """Runs what the array waits for, and keeps its numbers."""
    value = array._v
    if isinstance(value.graph, Recorder):
        raise NeedsValue()
    if seen_through(array):
        return concrete(array)
    computed: NDArray = array._in_kind(engine_of("mxnet").force(value))  # type: ignore[attr-defined]
    array._c = computed
    return computed


def plain(array: Any) -> NDArray:
    """The computed array, under recording with its history: for code that takes NDArrays of no other class."""
    state = LOCAL.state
    if state.mode & RECORDING and state.paused == state.eagerly and unlinked(array):
        return link(array)
    return concrete(array)


def waits(array: Any) -> bool:
    """True if an operator on this array is to be captured: it waits, or its history is its batch's."""
    return not is_there(array) or (unlinked(array) and is_recorded(LOCAL.state.mode))


def is_there(array: Any) -> bool:
    """True if an array has its numbers, or is to get them as its batch has run.

    While a batch is open what has run goes into that. Where none is open, the program may read results one by one after
    a minibatch, which would otherwise run a batch for each.
    """
    if array._b is not None and is_stale(array):
        renew(array)
    return array._c is not None or (LOCAL.state.batch is None and has_run(array._v))


def unlinked(array: Any) -> bool:
    """True if the history of an array lies in its batch, where MXNet's own recording does not see it."""
    if array._b is not None and is_stale(array):
        renew(array)
    value = array._v
    base = value.base
    return value.taped and base.__class__ is not Owned and base is not _LINKED


def link(array: Any) -> NDArray:
    """Lets MXNet's own recording go on from an array: something eager uses it under recording."""
    if array._c is None and seen_through(array):
        return concrete(array)
    concrete(array)
    value = array._v
    computed: NDArray = array._in_kind(engine_of("mxnet").with_history(value))  # type: ignore[attr-defined]
    linked = Value(value.rows, 0, value.spec, value.graph, True, _LINKED)
    linked.result = value.result
    array._c, array._v = computed, linked
    return computed


def own(array: Any, refusing: bool = True) -> NDArray:
    """Gives a computed array memory of its own, shared with its views, to be written to.

    Raises CaptureError if MXNet refuses the write, which it does for operators that write to a result (`refusing`).
    """
    if LOCAL.state.trace is not None:
        raise NeedsValue()
    if array._b is not None and is_stale(array):
        renew(array)
    base, value = array._b, array._v
    written = base._v if base is not None and DETACHED in keys_of(array._k) else value  # it shares what a graph reads
    if base is None:
        _open(array, value, refusing)
    elif base._v.base.__class__ is Owned:  # of an input
        LOCAL.state.flush(_WRITTEN)
        renew(array)
    else:
        concrete(array)
        _open(base, written, refusing, True)
        renew(array)
    return concrete(array)


def in_own_memory(arrays: Iterable[Any]) -> list[NDArray]:
    """Arrays that are to be written to, whatever MXNet refuses to a program."""
    return [own(array, False) if hasattr(array, "_v") else array for array in arrays]


def _open(array: Any, written: Value, refusing: bool, by_view: bool = False) -> None:
    """Gives an array that is no view its own memory; `written` is its value, or that of a view of it."""
    value = array._v
    owned = value.base.__class__ is Owned
    if not owned and seen_through(array, True):
        LOCAL.state.flush(_WRITTEN)
        owned = True
    concrete(array)
    if refusing:
        refuse_recorded(written)
    if not owned:
        if array._k is not None:
            _run_views(array)
        computed = _copied(array, by_view)
        array._c = computed
        array._v = Value(-1, 0, value.spec, None, value.taped, Owned(computed))
    elif array._v.base.__class__ is Owned:  # a copy that was read has its own numbers, and the rows of what it is of
        array._v = Value(-1, 0, value.spec, None, value.taped, array._v.base)


def _run_views(array: Any) -> None:
    """Runs what waits and may hold views of an array that was there before, or that was made from nothing."""
    state, value = LOCAL.state, array._v
    for batch in {state.batch, *state.explicit}:
        if batch is None:
            continue
        if value.graph is batch.graph or id(value) in batch.imports or id(array._c) in batch.imports:
            state.flush(_WRITTEN)
            return


def _copied(array: Any, by_view: bool) -> NDArray:
    """A copy of a computed array; where it has a history, that goes on through what is written to it, as in MXNet.

    by_view: whether it is a view that is written to, which MXNet allows under recording where that was not recorded.
    """
    state, value = LOCAL.state, array._v
    refused = state.paused != state.eagerly or (is_recorded(state.mode) and not by_view)
    if refused or not unlinked(array) or not goes_back(value):
        return concrete(array).copy()
    with as_captured(2):
        copy: NDArray = array._in_kind(bridged(value).copy())
    return copy
