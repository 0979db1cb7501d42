# cython: language_level=3, nonecheck=True, initializedcheck=False, binding=False
"""Calls of MXNet's blocks, and of its operators outside of cells: `calls.call` and `calls.invoke`.

The latter for calls like those that `ops` has captured as nodes before.
"""

from __future__ import annotations

import cython
from cython import Py_ssize_t, bint, cfunc

__all__ = ["keep_operator"]


@cfunc
def _append_attribute(call: SeenCall, part) -> bint:
    """Appends the name of an attribute, or what it is; tells whether it could."""
    if call.count + 3 > MOST:
        return False
    if part is None or type(part) is bool:
        append(call, NO_ARGUMENT if part is None else ADDRESS(part))
    elif type(part) is str:
        if PyUnicode_CHECK_INTERNED(part):
            append(call, ADDRESS(part))
        else:  # equal ones are found by their letters, where there are few
            return _append_text(call, part.encode())
    elif type(part) is tuple:
        append(call, ADDRESS(tuple))
        append(call, len(part))
        for each in part:
            if not _append_attribute(call, each):
                return False
    else:
        return append_number(call, part)
    return True


@cfunc
def _append_text(call: SeenCall, letters: bytes) -> bint:
    k: Py_ssize_t
    if call.count + 2 + len(letters) > MOST:
        return False
    append_bits(call, TEXT, len(letters))
    for k in range(len(letters)):
        append(call, letters[k])
    return True


@cfunc
def _look_at(call: SeenCall, state: StateNumbers, handle, arrays: list, keys: list, values: list) -> cython.int:
    """Looks at what an operator is called with.

    Returns 0 where Python has to look, else 1, and 2 where a lazy array has to be captured.
    """
    found: cython.int = 1
    if not begin(call, state) or not append_number(call, handle):
        return 0
    append(call, len(keys))
    for part in keys:
        if not _append_attribute(call, part):
            return 0
    for part in values:
        if not _append_attribute(call, part):
            return 0
    for array in arrays:
        kind: LazyKind = mxnet.lazy if type(array) is mxnet.lazy.kind else mxnet.other
        if call.count + 2 > MOST:
            return 0
        if type(array) is kind.kind:
            if slot_is(array, kind.c, None):
                found = 2
            if not take(call, array, read_slot(array, kind.v), None):
                return 0
        elif ADDRESS(array) in call.batch.parameters:
            append_bits(call, PARAMETER, ADDRESS(array))
        else:
            return 0
    return found if call.arguments else 0


@cfunc
def _may_refer(call: SeenCall, state: StateNumbers) -> bint:
    """True if a reference to an operand needs no node: under recording, or if nothing goes back to it."""
    k: cython.int
    if state.mode >= 2:
        return True
    for k in range(call.arguments):
        value: Value = cython.cast(Value, call.values[k])
        if value.taped or isinstance(value.base, mxnet.Array):
            return False
    return True


@cfunc
def _referred(call: SeenCall, state: StateNumbers, kind: LazyKind, way):
    """The result of an operator that need not run: whole rows, one operand's after the other's, or those of one.

    way: the mode of the operands, or how the result looks.
    """
    if not _may_refer(call, state):
        return LEFT
    if type(way) is str:
        found = joined([cython.cast(Value, call.values[k]) for k in range(call.arguments)], way)
    else:
        found = seen_as(cython.cast(Value, call.values[0]), way)
    return wrap(kind, found) if type(found) is Value else LEFT


@cfunc
def _captured(call: SeenCall, state: StateNumbers, args: Args):
    """Captures a call as a node of the record of equal ones, if arrays are pending or a sample is being captured."""
    kind: LazyKind = mxnet.other if item(args, 5) is True else mxnet.lazy
    listed: bint = item(args, 6) is True
    seen: cython.int = _look_at(call, state, item(args, 0), item(args, 1), item(args, 2), item(args, 3))
    if seen == 0 or (seen == 1 and state.inside <= 0):
        return LEFT
    entry: SignatureEntry = call.signatures.find(call)
    if entry is None:
        return LEFT
    record: Record = entry.record
    if record is None:
        result = _referred(call, state, kind, entry.structure)
        return [result] if listed and result is not LEFT else result
    sharing: bint = call.batch.sharing
    if entry.apart and not lay(call, state, entry.operands):
        return LEFT
    node: Py_ssize_t = node_of(call, entry, sharing)
    if record.results == 1 and not listed:
        return wrapped(kind, record, node, 0)
    return wrapped_all(kind, record, node, True)


@cfunc
def _are_lists(args: Args) -> bint:
    return type(item(args, 1)) is list and type(item(args, 2)) is list and type(item(args, 3)) is list


def call_operator(args, count):
    """Stands before _imperative_invoke(handle, arrays, keys, vals, out, is_np, as_list), or LEFT."""
    if count != 7 or mxnet.Cell is None or item(args, 4) is not None or not _are_lists(args):
        return LEFT
    state: StateNumbers = state_here()
    call: SeenCall = opened(mxnet, state, None, OPERATOR) if is_running(state) else None
    if call is None:
        return LEFT
    try:
        return _captured(call, state, args)
    finally:
        close(call)


def keep_operator(handle, arrays: list, keys: list, values: list, record):
    """Lets equal calls of an operator of MXNet be nodes of a record; by a mode or a Spec in its place, references."""
    is_node: bint = type(record) is Record
    if not (is_node or type(record) is str or type(record) is Spec) or mxnet.Cell is None:
        raise TypeError(f"keep_operator() takes a Record, a mode or a Spec, not {record!r}")
    state: StateNumbers = state_here()
    call: SeenCall = opened(mxnet, state, None, OPERATOR)
    if call is None:
        return
    try:
        if _look_at(call, state, handle, arrays, keys, values) and call.signatures.find(call) is None:
            specs = [cython.cast(Value, call.values[k]).spec for k in range(call.arguments)]
            entry: SignatureEntry = call.signatures.add(
                call, record if is_node else None, (tuple(keys), tuple(values), specs)
            )
            if not is_node:
                entry.structure = record
    finally:
        close(call)


def verified(args, count, numpy):
    """Tells, by None, that arrays are of one interface, with nothing else to be said; LEFT where Python has to look.

    Stands before _verify_all_legacy_ndarrays(op_name, func_name, arrays, out) and its counterpart for mx.np.
    """
    if count != 4 or item(args, 3) is not None or type(item(args, 2)) is not list or mxnet.Cell is None:
        return LEFT
    for array in item(args, 2):
        kind = type(array)
        if not isinstance(array, mxnet.ndarray) if numpy else kind is not mxnet.Array and kind is not mxnet.lazy.kind:
            return LEFT
    return None


@cfunc
def _are_lazy(args: Args, count: Py_ssize_t) -> bint:
    """True if no argument is an array that has to become lazy."""
    k: Py_ssize_t
    for k in range(1, count):
        kind = type(item(args, k))
        if kind is mxnet.Array or kind is mxnet.ndarray:
            return False
    return True


@cfunc
def _forward(state: StateNumbers, own: dict, args: Args, count: Py_ssize_t):
    """A block that is no node, inside of a sample: its forward, whose calls are captured."""
    state.inside += 1
    try:
        result = PyObject_VectorcallMethod("forward", args, count, cython.NULL)
        if not unhooked(own, "_forward_hooks") or state.numpy != 0:  # forward has registered a hook, or it is mx.np
            mxnet.after(item(args, 0), all_of(args + 1, count - 1), result)
        return result
    finally:
        state.inside -= 1


@cfunc
def _look_up(state: StateNumbers, cell: CellSlots, indices):
    """A call of a cell that is nothing but a look-up."""
    batch: BatchRoom = state.batch
    if batch is None or batch.room < 0 or is_torch(batch):
        return LEFT
    found = mxnet.look_up(cell, batch, indices, state.mode)
    if type(found) is not Value:
        return LEFT
    return wrap(mxnet.other if isinstance(indices, mxnet.ndarray) else mxnet.lazy, found)


def call_block(args, count):
    """Stands before gluon.Block.__call__, or LEFT."""
    if mxnet.Cell is None:
        return LEFT
    state: StateNumbers = state_here()
    block = item(args, 0)
    if state.paused > 0 and state.trace is None:  # what runs eagerly costs no more than this
        return PyObject_Vectorcall(mxnet.original, args, count, cython.NULL)
    own: dict = own_dict(block) if is_running(state) else None
    if own is None:
        return LEFT
    found = own.get(mxnet.key)
    if found is None and state.batch is not None and isinstance(block, mxnet.HybridBlock):
        found = mxnet.automatic(block, all_of(args + 1, count - 1))  # nobody hybridized it
    if type(found) is not mxnet.Cell:
        return LEFT
    cell: CellSlots = found
    if state.inside == 0 and cell.chooses is True:
        return spare_call(mxnet, state, cell, state.mode & 2, args, count)
    if not unhooked(own, "_forward_hooks") or not unhooked(own, "_forward_pre_hooks"):
        return LEFT
    if cell.is_node is not True:
        return _forward(state, own, args, count) if state.inside and _are_lazy(args, count) else LEFT
    if cell.lookup is not None:
        return _look_up(state, cell, item(args, 1)) if count == 2 else LEFT
    if is_fine(state, block):
        return _forward(state, own, args, count) if state.inside else LEFT
    if state.inside:
        return captured(mxnet, state, cell, block, None, args + 1, count - 1, None)
    return outside(mxnet, state, cell, block, None, args + 1, count - 1, None)
