# cython: language_level=3, nonecheck=True, initializedcheck=False, binding=False
"""Rows of a lazy array of the open batch: the quick part of `__getitem__` of LazyArray, LazyNumpy and LazyTensor."""

from __future__ import annotations

import cython
from cython import Py_ssize_t, bint, cfunc

__all__ = ["Items", "Silent", "waited"]


@cfunc
def _has_history(kind: LazyKind, state: StateNumbers, value: Value) -> bint:
    """True if a slice made now has the history of a value, which has one if it was taped."""
    if kind is torch.lazy:
        return is_running(state) and (not value.taped or is_learning())
    return not value.taped or state.mode >= 2


@cfunc
def _entry_of(state: StateNumbers, value: Value, numbers: tuple) -> Value:
    """Returns `x[i, j]` where calls have had many: a row, and its entries by numbers that are operands; or None."""
    for number in numbers:
        if type(number) is not int:
            return None
        found = sliced(value, number)
        shape: tuple = cython.cast(Spec, value.spec).shape
        if found is None and shape and -shape[0] <= number < shape[0]:
            given: tuple = (tensor_of(value), number % shape[0])
            found = value_in(torch.lazy, captured(torch, state, torch.entry, None, None, items_of(given), 2, None))
        if found is None:
            return None
        value = found
    return value


@cfunc
def _known_key(key):
    """A key of a lazy tensor with numbers in place of a tensor that is known, or of several of single numbers."""
    kind = type(key)
    if kind is torch.lazy.kind or kind is torch.Array:
        found = known_whole(key)
        return key if found is None else found
    if kind is not tuple:
        return key
    parts: list = [_known_key(part) for part in key]
    return key if any([type(part) is list for part in parts]) else tuple(parts)


def slice_of(kind, array, key):
    """Returns rows of a lazy array, a view but for those at known numbers inside of a sample; or LEFT."""
    value: Value = value_in(kind, array)
    if value is None or (kind is torch.lazy and is_stale(array)):
        return LEFT
    state: StateNumbers = state_here()
    batch: BatchRoom = state.batch
    if batch is None or batch.graph is not value.graph or batch.graph is None or type(value.spec) is not Spec:
        return LEFT
    if not _has_history(kind, state, value):
        return LEFT
    inside: bint = kind is torch.lazy and state.inside > 0
    if inside:
        key = _known_key(key)
        if type(key) is list:
            found = _picked(value, key)
            return LEFT if found is None else tensor_of(found)
    found = sliced(value, key)
    if found is None and inside and torch.entry in batch.operands:
        numbers: tuple = key if type(key) is tuple else (key,)
        found = None if is_overridden() else _entry_of(state, value, numbers)
        if found is not None:
            key = Key(numbers)
    if found is None:
        return LEFT
    result = wrap(kind, found)
    note_view(kind, result, array, key)
    return result


def entry_of_weight(weight, key):
    """`weight[key]` by known numbers, an entry of a table that calls of this batch have looked up; or LEFT."""
    state: StateNumbers = state_here()
    batch: BatchRoom = state.batch
    if batch is None or state.inside <= 0 or not is_torch(batch) or not is_running(state) or is_overridden():
        return LEFT
    parts: tuple = key if type(key) is tuple else (key,)
    taped: bint = is_learning() and weight.requires_grad
    table = batch.tables.get((ADDRESS(weight), (), bool(taped), len(parts)))
    if table is None or table.whole is None or state.recorded is not None:
        return LEFT
    graph: GraphRows = batch.graph
    entries = graph.lookups.get(table)
    parts = _known_key(parts)
    value = None if entries is None else entries_at(graph, entries, table.number(parts), table.size, table.row, taped)
    if value is None:
        return LEFT
    result = tensor_of(value)
    note_view(torch.lazy, result, table.whole, Key(parts))
    return result


@cfunc
def _has_put(tensor, key, value) -> bint:
    """Puts a row of the open batch into a lazy tensor that is no view, by its number; False where Python has to."""
    kind: LazyKind = torch.lazy
    before: Value = value_in(kind, tensor)
    source: Value = value_in(kind, value)
    state: StateNumbers = state_here()
    batch: BatchRoom = state.batch
    if before is None or source is None or batch is None or batch.room < 0 or type(key) is not int:
        return False
    if batch.graph is None or before.graph is not batch.graph or source.graph is not before.graph:
        return False
    if not is_running(state) or state.recorded is not None or is_overridden() or is_stale(value):
        return False
    if not (slot_is(tensor, kind.b, None) and slot_is(tensor, kind.c, None) and slot_is(tensor, kind.k, None)):
        return False
    spec: Spec = before.spec
    if spec.mode != "rows" or source.spec is not spec.one_row() or not -spec.rows <= key < spec.rows:
        return False
    if (before.taped or source.taped) and not is_learning():
        return False
    if before.taped and (type(before.rows) is not tuple or spec.rows == 1):  # whose backward pass runs in any case
        return False
    if type(source.rows) is not int:
        return False
    rows: list = before.row_list()
    rows[key] = source.rows
    found: tuple = tuple(rows)
    before.graph.copies.append(found)
    depth: Py_ssize_t = max(before.depth, source.depth)
    taped: bint = before.taped or source.taped
    first = found if spec.rows > 1 else source.rows
    after = Value(first, depth, spec, before.graph, taped, (before, source))
    count = read_slot(tensor, kind.n)
    fill_slot(tensor, kind.v, after)
    fill_slot(tensor, kind.n, 1 if count is None else count + 1)
    return True


def waited(tensor):
    """The place of a lazy tensor's result, which a sample of `gluonjit.map` has waited for; None: Python's to see.

    What is read counts as `lazy._asked` has it.
    """
    kind: LazyKind = torch.lazy
    value: Value = value_in(kind, tensor)
    if value is None or value.depth == 0 or not (slot_is(tensor, kind.b, None) and slot_is(tensor, kind.c, None)):
        return None
    state: StateNumbers = state_here()
    hub, batch = state.hub, state.batch
    if hub is None or batch is None or not is_running(state) or state.recorded is not None:
        return None
    reads: dict = batch.report.reads
    if value._result is not None:
        reads["answered"] += 1
        return value._result
    if value.graph is None or value.graph is not cython.cast(BatchRoom, batch).graph:
        return None
    reads["flushed"] += 1
    if not hub.park(batch):
        reads["flushed"] -= 1
    return value._result


class Items:
    """The items of lazy tensors: a base of theirs."""

    def __setitem__(self, key, value):
        """Puts a row, or has Python see to it."""
        if package.local is None or type(self) is not torch.lazy.kind or not _has_put(self, key, value):
            torch.put(self, key, value)

    def __getitem__(self, key):
        """Returns rows, or by other constants a node."""
        if package.local is not None and type(self) is torch.lazy.kind:
            found = slice_of(torch.lazy, self, key)
            if found is LEFT and not is_overridden():  # by what has to see the call first
                given = (self, key)
                found = through(torch.getitem, items_of(given), 2, None)
            if found is not LEFT:
                return found
        if torch.item is None:
            raise TypeError(f"{type(self).__name__} has no items")
        return torch.item(self, key)


class Silent:
    """A base of lazy arrays, which end without a word where NDArray would call a function of Python."""

    def __del__(self):
        pass


never_listed(Items)
