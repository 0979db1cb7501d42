"""Values whose gradients will be differentiated again: their calls run once more, one by one, and MXNet records them.

The operators are those of the program itself, on operands of each call by itself: of what a batch runs in their place
MXNet can differentiate less twice.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import mxnet as mx
import numpy as np
from mxnet.ndarray import NDArray

from gluonjit.analysis.plan import rows_read
from gluonjit.engines.mxnet.framework.semantics import as_captured, as_shape, learned_rows, shapes
from gluonjit.engines.mxnet.framework.symbols import draws, read
from gluonjit.engines.mxnet.run.gradients import Tape
from gluonjit.engines.mxnet.run.program import interpret, join, program_of
from gluonjit.engines.mxnet.run.results import RecordedInput, goes_back, numbers_of, source_of, spent, tape_of
from gluonjit.errors import CaptureError
from gluonjit.graph import Spec, Value
from gluonjit.graph.modes import is_recorded, is_training


def recorded(values: Sequence[Value]) -> list[NDArray]:
    """Computes flushed values again, all with one history, which is MXNet's own. Raises CaptureError if they cannot be.

    What they come from may lie in many batches: these are visited the latest first, and run the earliest first.
    """
    found: dict[Tape, _Again] = {}
    waiting = {_want(found, value) for value in values}
    while waiting:
        tape = max(waiting, key=lambda each: each.number)
        waiting.remove(tape)
        waiting |= {_want(found, value) for value in found[tape].trace_back()}
    for tape in sorted(found, key=lambda each: each.number):
        found[tape].run(found)
    with as_captured(2):
        again = [found[_tape(value)].value(value) for value in values]
    for value, array in zip(values, again):
        if not _is_same(numbers_of(value).asnumpy(), array.asnumpy()):
            raise CaptureError(_WRITTEN)
    return again


def _is_same(before: Any, again: Any) -> bool:
    """True if these numbers are the same up to rounding; small ones may be differences of larger ones."""
    finite = np.abs(before[np.isfinite(before)])
    return np.allclose(again, before, rtol=1e-2, atol=1e-4 + 1e-3 * finite.max(initial=0.0), equal_nan=True)


def _tape(value: Value) -> Tape:
    tape: Tape | None = tape_of(value)
    if tape is None or spent(value, tape):
        raise mx.base.MXNetError(
            f"gradients of a value of shape {value.spec.shape} whose history an earlier backward has freed; pass "
            f"retain_graph=True to the earlier call"
        )
    return tape


def _want(found: dict[Tape, _Again], value: Value) -> Tape:
    """Has the flush of a value give it; returns the flush."""
    tape = _tape(value)
    if tape not in found:
        found[tape] = _Again(tape)
    found[tape].want(value.row_list())
    return tape


class _Again:
    """The part of a flush that is to run again; rows have the numbers of its graph.

    What no gradient goes through is as the flush had it: the program may have written to its arrays since.
    """

    def __init__(self, tape: Tape) -> None:
        self._plan = tape.plan
        self._arrays = tape.arrays
        self._nodes = {  # record and number of each node, by its rows
            row: (record, node)
            for record in tape.plan.called
            if record.rows_read is None and record.kind.call is not None  # others were made of calls
            for node in range(len(record))
            for row in range(record.base(node), record.base(node) + record.kind.rows)
        }
        self._rows_at = tape.rows_at
        # Not what goes into a value whose history is gone.
        inputs = [each for each in tape.sources if each.value is None or goes_back(each.value)]
        self._inputs = {row: each for each in inputs for row in tape.rows_at(each.place)}
        self._pending: list[int] = []
        self._calls: dict[int, tuple[Any, int]] = {}  # nodes to run, by their first rows
        self._given: dict[int, RecordedInput] = {}  # inputs that are used, by their addresses
        self._parts: dict[int, tuple[NDArray, Spec, int]] = {}  # by row: a row of which array

    def want(self, rows: Iterable[int]) -> None:
        """Lets rows be computed."""
        self._pending += rows

    def trace_back(self) -> list[Value]:
        """Finds what the wanted rows come from; returns values of earlier flushes that are wanted for it."""
        earlier = []
        while self._pending:
            row = self._pending.pop()
            arena = int(self._plan.arena[row])
            if row in self._nodes:
                record, node = self._nodes[row]
                if is_recorded(record.mode) or arena < 0:
                    if record.base(node) not in self._calls:
                        self._calls[record.base(node)] = record, node
                        for rows in rows_read(record, node):
                            self._pending += rows
                    continue
            elif row in self._inputs:
                given = self._inputs[row]
                if id(given) not in self._given:
                    self._given[id(given)] = given
                    if given.value is not None:
                        earlier.append(given.value)
                continue
            whole = self._plan.arenas[arena]
            self._parts[row] = self._arrays[arena], whole.spec.with_rows(whole.rows), int(self._plan.position[row])
        return earlier

    def run(self, others: dict[Tape, _Again]) -> None:
        """Runs the calls, in their order, as they were captured."""
        for given in self._given.values():
            self._note(self._rows_at(given.place), _begun(given, others), given.spec)
        for first in sorted(self._calls):
            record, node = self._calls[first]
            kind = record.kind
            with as_captured(record.mode), shapes(program_of(kind).numpy):
                operands = [self._piece(rows, spec) for rows, spec in zip(rows_read(record, node), kind.operands)]
                if any([draws(op.name, read(op.attrs), is_training(record.mode)) for op in kind.call.ops]):
                    raise CaptureError(_DRAWN)
                results = interpret(kind.call, operands)
                for output, array in zip(kind.outputs, results):
                    begin = first + output.offset
                    self._note(range(begin, begin + output.spec.rows), array, output.spec)

    def value(self, value: Value) -> NDArray:
        """A value that was wanted."""
        return self._piece(value.row_list(), value.spec)

    def _note(self, rows: Iterable[int], array: NDArray, spec: Spec) -> None:
        for position, row in enumerate(rows):
            self._parts[row] = array, spec, position

    def _piece(self, rows: Sequence[int], spec: Spec) -> NDArray:
        """An array of these rows: one that is there, a part of it, or parts of several that are joined."""
        parts: list[NDArray] = []
        begin = 0
        while begin < len(rows):
            array, whole, first = self._parts[rows[begin]]
            end = begin + 1
            while end < len(rows) and self._follows(rows[end], array, first + end - begin):
                end += 1
            if whole.mode != "stack":
                array = as_shape(array, (whole.rows, *whole.row_shape)) if whole.mode != "rows" else array
                part = array if end - begin == whole.rows else learned_rows(array, first, first + end - begin)
            else:
                part = array if len(rows) == 1 else as_shape(array, (1, *array.shape))
            parts.append(part)
            begin = end
        found: NDArray = parts[0] if len(parts) == 1 else join(spec.with_rows(len(rows)), parts, None)
        return found if found.shape == spec.shape else as_shape(found, spec.shape)

    def _follows(self, row: int, array: NDArray, position: int) -> bool:
        other, _, found = self._parts[row]
        return other is array and found == position


def _begun(source: RecordedInput, others: dict[Tape, _Again]) -> NDArray:
    """An input, with its history."""
    if source.value is None:
        return source_of(source)
    with as_captured(2):
        return others[_tape(source.value)].value(source.value)


_WRITTEN = (
    "gradients of gradients of a dynamically batched value: computed again it is another one, since a parameter or an "
    "input that it was computed from has been written to. Ask for its gradients before that, or call "
    "hybridize(dynamic_batch=False) for this computation."
)
_DRAWN = (
    "gradients of gradients of a dynamically batched value that was drawn at random, as by dropout: the values "
    "would be drawn again. Call hybridize(dynamic_batch=False) for this computation."
)
