# cython: language_level=3, nonecheck=True, initializedcheck=False, boundscheck=False, wraparound=False, binding=False
"""A call as one node: what `capture` of an engine does for lazy and plain arrays in tuples and lists.

Nothing is appended before the whole node is there, so that an error leaves no half of one.
"""

from __future__ import annotations

import cython
from cython import Py_ssize_t, bint, cfunc

__all__ = ["capture", "due", "keep"]

_found = 0  # calls of cells, since the last one that Python was left, to be traced again


def due():
    """True if a call that is found now is to be traced again; it is counted anew from then."""
    global _found
    enough = _found >= EVERY
    if enough:
        _found = 0
    return enough


@cfunc
def _take_other(call: SeenCall, array) -> bint:
    """Appends the value of an array that is not of this graph; tells whether it has one."""
    secure(call)
    value = met(call.batch, call.graph, array) if call.of is torch else None
    if value is not None:
        own(call, value)
        return take(call, array, value, None)
    try:
        value = call.of.value_of(call.batch, array)
    except call.of.empty:
        return False
    own(call, value)
    return take(call, array, value, None)


@cfunc
def _take_plain(call: SeenCall, tensor) -> bint:
    """The same of a plain one, which lies at once as the cell's kinds have it; its signature has the natural spec."""
    if call.laid == cython.cast(Pointer, None):
        return _take_other(call, tensor)
    modes: dict = cython.cast(object, call.laid)
    if not modes.get((call.arguments, tensor.dim())):
        return _take_other(call, tensor)
    secure(call)
    try:
        value, spec = torch.leaf_laid(call.batch, tensor, cython.cast(object, call.laid), call.arguments)
    except call.of.empty:
        return False
    own(call, value)
    return take(call, tensor, value, spec)


@cfunc
def _flatten_tensor(call: SeenCall, tensor) -> bint:
    """Appends a plain tensor of PyTorch's: buffers, and views of weights as `in_weight` has them, are constants."""
    known: dict = call.batch.parameters
    if known and ADDRESS(tensor) in known:
        held = call.batch.own.snapshots.get(ADDRESS(tensor))
        if held is None or held.version != tensor._version:  # of one that is written to Python makes an operand
            return False
        append_bits(call, CONSTANT, ADDRESS(tensor))
        return True
    weight = tensor._base
    if type(weight) is not torch.Parameter:
        return _take_plain(call, tensor)
    if is_learning() and not torch.leads_to(tensor, weight):
        return _take_plain(call, tensor)
    if tensor.dtype is not weight.dtype or tensor._backward_hooks or tensor.retains_grad:
        return _take_plain(call, tensor)
    look: tuple = (*tensor.shape, *tensor.stride(), tensor.storage_offset())
    if call.count + 4 + len(look) > MOST:
        return False
    append(call, END)  # which begins nothing else
    append(call, len(look))
    append_bits(call, CONSTANT, ADDRESS(weight))
    for number in look:
        append(call, number)
    return True


@cfunc
def _flatten(call: SeenCall, arg) -> bint:
    """Appends an argument; tells whether it could, or Python has to look at it."""
    of: FrameworkNames = call.of
    kind = type(arg)
    if call.count + 3 > MOST:
        return False
    if kind is of.lazy.kind:
        if of is torch and is_stale(arg):
            return False
        return take(call, arg, read_slot(arg, of.lazy.v), None) or _take_other(call, arg)
    if kind is tuple or kind is list or kind is torch.Size:
        append(call, ADDRESS(kind))
        for part in arg:
            if not _flatten(call, part):
                return False
        append(call, END)
        return call.count < MOST
    if kind is of.other.kind and kind is not None:
        append(call, ADDRESS(kind))
        return take(call, arg, read_slot(arg, of.other.v), None) or _take_other(call, arg)
    if arg is None or kind is bool:
        append(call, NO_ARGUMENT if arg is None else ADDRESS(arg))
    elif cython.cast(Pointer, arg) == call.owner or PyModule_CheckExact(arg) or arg is Ellipsis or kind is torch.dtype:
        append(call, ADDRESS(arg))  # each is there for good
    elif kind is of.Array and of is torch:
        return _flatten_tensor(call, arg)
    elif (kind is of.Array or kind is of.second) and of is mxnet and ADDRESS(arg) in call.batch.parameters:
        append_bits(call, CONSTANT, ADDRESS(call.batch.parameters[ADDRESS(arg)]))
    elif kind is of.Array:
        return _take_plain(call, arg)
    elif kind is of.second:
        append(call, ADDRESS(of.other.kind))
        return _take_other(call, arg)
    elif kind is str:
        if not PyUnicode_CHECK_INTERNED(arg):  # equal ones are mostly one object
            return False
        append(call, ADDRESS(arg))
    elif of is mxnet:
        return append_number(call, arg)
    elif kind is slice:
        append(call, SLICE)
        return _flatten(call, arg.start) and _flatten(call, arg.stop) and _flatten(call, arg.step)
    elif kind is torch.device:
        append_bits(call, DEVICE, hash(arg))
    elif kind is torch.Parameter:
        append_bits(call, CONSTANT, ADDRESS(arg))
    else:
        return append_number(call, arg)
    return True


@cfunc
def _take_opened(call: SeenCall, known: dict, args: Args, count: Py_ssize_t, k: Py_ssize_t) -> bint:
    """Appends a weight, or a number beside an array, that is an operand in this batch; tells whether it is one."""
    arg = item(args, k)
    value = known.get(ADDRESS(arg))
    if value is None and count == 2:
        numbers = known.get((spec_of(torch.lazy, item(args, 1 - k)), type(arg)))
        value = None if numbers is None else number_in(call.graph, numbers, arg)
    if value is None:
        return False
    own(call, value)
    return take(call, arg, value, None)


@cfunc
def _look_at(call: SeenCall, state: StateNumbers, args: Args, count: Py_ssize_t, named: dict | None) -> bint:
    """Looks at what a call is made with; tells whether it could, or Python has to see to it."""
    k: Py_ssize_t
    if not begin(call, state):
        return False
    operands: dict = call.batch.operands
    known: dict = operands.get(cython.cast(object, call.cell)) if operands else None
    for k in range(count):
        if not (known and _take_opened(call, known, args, count, k)) and not _flatten(call, item(args, k)):
            return False
    if named is not None:
        for name, arg in named.items():
            if call.count + 2 > MOST:
                return False
            append(call, NAMED)
            append(call, ADDRESS(name))
            if not _flatten(call, arg):
                return False
    return finish(call) and call.batch.graph is call.graph  # what an array was may have run the batch


@cfunc
def _value_of(record: Record, node: Py_ssize_t, k: Py_ssize_t) -> Value:
    """The k-th value of a node."""
    if not 0 <= k < record.results or (node + 1) * record.results > len(record._values):
        raise IndexError(f"there is no value {k} of node {node}")
    return value_at(record, node * record.results + k)


def wrapped(kind, record, node, k):
    """A lazy array of the k-th value of a node."""
    return wrap(kind, _value_of(record, node, k))


def wrapped_all(kind, record, node, listed):
    """Lazy arrays of the values of a node, in a list or a tuple."""
    if record.results == 2 and not listed:
        return wrapped(kind, record, node, 0), wrapped(kind, record, node, 1)
    found: list = [wrapped(kind, record, node, k) for k in range(record.results)]
    return found if listed else tuple(found)


@cfunc
def _part(call: SeenCall, structure, record: Record | None, node: Py_ssize_t, made: dict):
    """A part of what a call returns, of results that `made` has where they are others too; LEFT to Python."""
    kind = type(structure)
    place: Py_ssize_t
    if kind is int or kind is package.Repeated:
        place = structure
        if place < 0 and call.of is torch:  # an argument; in MXNet, one of mx.np
            if ~place >= call.arguments:
                raise IndexError(f"there is no argument {~place}")
            given = cython.cast(object, call.given[~place])
            if call.itself or type(given) is torch.lazy.kind:
                return given
            return tensor_of(cython.cast(Value, call.values[~place]))
        if kind is int:
            made[place] = wrapped(call.of.lazy if place >= 0 else call.of.other, record, node, max(place, ~place))
        return made.get(place, LEFT)
    if kind is not tuple and kind is not list:
        return LEFT
    found: list = []
    for each in structure:
        part = _part(call, each, record, node, made)
        if part is LEFT:
            return LEFT
        found.append(part)
    return found if kind is list else tuple(found)


@cfunc
def _returned(call: SeenCall, entry: SignatureEntry, record: Record, node: Py_ssize_t):
    """Makes what the call returns."""
    of: FrameworkNames = call.of
    structure = entry.structure
    if structure is None:
        return wrapped(of.lazy, record, node, 0)
    if structure is of.other.kind:
        return wrapped(of.other, record, node, 0)
    if structure is tuple:
        return wrapped_all(of.lazy, record, node, False)
    found = _part(call, structure, record, node, {})
    if found is not LEFT:
        return found
    values = tuple([_value_of(record, node, k) for k in range(record.results)])
    if of is mxnet:
        return of.rebuild(structure, values)
    given: Args = call.values
    if call.itself:
        given = call.given
    return of.rebuild(structure, values, all_of(given, call.arguments))


@cfunc
def _is_owned(call: SeenCall) -> bint:
    """True if a call is one of a module, which may change."""
    return call.of is torch and call.owner != cython.cast(Pointer, None)


@cfunc
def _met_before(call: SeenCall, keys: SignatureTable, key) -> SignatureEntry:
    """The entry among keys of earlier batches, made with a `key` if there is none; else None.

    What changes from batch to batch is no part of it: how often modules have changed in one.
    """
    changes: cython.longlong = call.parts[CHANGES]
    has_changes: bint = _is_owned(call)
    if has_changes:
        call.parts[CHANGES] = 0
    entry: SignatureEntry = keys.find(call)
    if entry is None and key is not None:
        entry = keys.add(call, None, key)
    if has_changes:
        call.parts[CHANGES] = changes
    return entry


@cfunc
def _note_key(call: SeenCall, key) -> cython.void:
    """Notes by what compiled code found a call, in any batch, with the key that Python made of it."""
    cell = cython.cast(object, call.cell)
    keys = cell.keys
    if type(keys) is not SignatureTable or cython.cast(SignatureTable, keys).used >= MOST_KEYS:
        keys = cell.keys = SignatureTable()
    _met_before(call, keys, key)


@cfunc
def _entry_of(call: SeenCall) -> SignatureEntry:
    """The entry of a call, also of one like it of an earlier batch; None where Python has not made it one node."""
    entry: SignatureEntry = call.signatures.find(call)
    if entry is not None:
        return entry
    cell = cython.cast(object, call.cell)
    keys = None if call.of.again is None else cell.keys
    if type(keys) is not SignatureTable:
        return None
    secure(call)
    entry = _met_before(call, keys, None)
    found = None if entry is None else call.of.again(call.batch, cell, cython.cast(object, call.owner), entry.key)
    if found is None:
        return None
    own: SignatureEntry = call.signatures.find(call)  # Python may have added it
    if own is None:
        own = call.signatures.add(call, found[0], found[1])
        own.first = entry
    return own


@cfunc
def _link(tensor, part, step) -> cython.void:
    """Lets a part of what a call has given know which view of the tensor it is, if it is no other tensor's."""
    kind: LazyKind = torch.lazy
    if type(part) is kind.kind and part is not tensor and read_slot(part, kind.b) is None:
        note_view(kind, part, tensor, step)


@cfunc
def _link_views(
    entry: SignatureEntry, viewing, result, args: Args, count: Py_ssize_t, named: dict | None
) -> cython.void:
    """Lets what a call has given know which views of its first argument these are, as Python's `linked` does."""
    several: bint = isinstance(result, (tuple, list))
    tensor = item(args, 0)
    k: Py_ssize_t
    if type(tensor) is not torch.lazy.kind:
        return
    if entry.first is not None:
        entry = entry.first
    if entry.steps is None:
        given = all_of(args, count)
        entry.steps = torch.steps_of(viewing, given, named, len(result) if several else -1) or ()
    steps: tuple = entry.steps
    if several:
        for k in range(min(len(steps), len(result))):
            _link(tensor, result[k], steps[k])
    elif len(steps) == 1:
        _link(tensor, result, steps[0])


@cfunc
def _laid_out(call: SeenCall, state: StateNumbers, value: Value, spec: Spec):
    """A value whose rows lie otherwise than its shape has them, computed by a node of its own; None: Python's to do."""
    if call.of is mxnet or value.depth == 0 or not PyUnicode_CHECK_INTERNED(spec.mode):
        return None
    if cython.cast(Spec, value.spec).row_shape == spec.row_shape:
        return None
    laying: SeenCall = opened(call.of, state, torch.laid_out, ADDRESS(torch.laid_out))
    if laying is None:
        return None
    try:
        if begin(laying, state) and take(laying, None, value, None) and _flatten(laying, spec.mode) and finish(laying):
            entry: SignatureEntry = _entry_of(laying)
            if entry is not None and entry.record is not None:
                return _value_of(entry.record, node_of(laying, entry, laying.batch.sharing), 0)
    finally:
        close(laying)
    return None


def lay(call, state, operands):
    """Has the values of a call lie as the operands of its kind; tells whether all do."""
    k: Py_ssize_t
    secure(call)
    for k in range(call.arguments):
        value: Value = cython.cast(Value, call.values[k])
        spec = operands[k] if k < len(operands) else value.spec
        if value.spec is spec or type(spec) is not Spec:
            continue
        found = _laid_out(call, state, value, spec)
        if found is None:
            found = call.of.lay(call.batch, value, spec)
        if type(found) is not Value:
            return False
        call.operands[k] = own(call, found)
    return True


def node_of(call, entry, sharing):
    """The node of a call: one that is there, or a new one."""
    return new_node(call.batch, call.graph, entry.record, call.operands, call.arguments, entry.pure and sharing)


@cfunc
def _given_back(call: SeenCall, structure):
    """Gives what is no node: an argument, or where a Spec is kept, the rows of its only one, which look so."""
    if type(structure) is not Spec:
        return _part(call, structure, None, 0, {})
    value: Value = cython.cast(Value, call.values[0])
    if call.arguments != 1 or (value.taped and not is_learning()):
        return LEFT
    return tensor_of(same_rows(value, structure, value.rows))


@cfunc
def _captured(call: SeenCall, state: StateNumbers, viewing, args: Args, count: Py_ssize_t, named: dict | None):
    """Captures a call that Python has seen once: a node, or what it was given."""
    global _found
    if not _look_at(call, state, args, count, named):
        return LEFT
    entry: SignatureEntry = _entry_of(call)
    if entry is None:
        return LEFT
    if entry.record is None:
        result = _given_back(call, entry.structure)
    else:
        if not entry.operator:
            _found += 1
            if _found >= EVERY:
                return LEFT
        sharing: bint = call.batch.sharing
        entry = current(call, entry)
        if entry is None or (
            (entry.apart or call.laid != cython.cast(Pointer, None)) and not lay(call, state, entry.operands)
        ):
            return LEFT
        call.itself = call.of is torch and not entry.operator
        result = _returned(call, entry, entry.record, node_of(call, entry, sharing))
    if result is not LEFT and viewing is not None:
        _link_views(entry, viewing, result, args, count, named)
    return result


def is_fine(state, block):
    """True if nodes of the open batch are operators, and this block of MXNet's, no look-up, runs as it is."""
    batch: BatchRoom = state.batch
    if batch is None or not batch.fine or is_torch(batch):
        return False
    return mxnet.Embedding is not None and not isinstance(block, mxnet.Embedding)


@cfunc
def _call(of: FrameworkNames, state: StateNumbers, cell, owner) -> SeenCall:
    """A call of a cell, if it can be one of the open batch; else None."""
    call: SeenCall = opened(of, state, cell, ADDRESS(cell))
    if call is not None:
        call.owner = cython.cast(Pointer, owner)
        if of is torch and type(cell) is of.Cell:
            call.laid = own(call, cython.cast(CellSlots, cell).laid)
    return call


def captured(of, state, cell, owner, viewing, args, count, named):
    """Captures a call in the open batch, or LEFT; views of its first argument, if it gives any (`viewing`), know it."""
    # A batch of the other framework runs first, before it knows anything of this call.
    if of is mxnet and ((state.batch is not None and is_torch(state.batch)) or is_fine(state, owner)):
        return LEFT
    call: SeenCall = _call(of, state, cell, owner)
    if call is None:
        return LEFT
    try:
        return _captured(call, state, viewing, args, count, named)
    finally:
        close(call)


def outside(of, state, cell, owner, viewing, args, count, named):
    """The same outside of all samples, as of a loss: the time it took is noted."""
    batch: BatchRoom = state.batch
    if batch is None:
        return LEFT
    begun = package.clock()
    result = captured(of, state, cell, owner, viewing, args, count, named)
    if result is not LEFT:
        package.note(batch, cell, begun)
    return result


@cfunc
def _framework(cell) -> FrameworkNames:
    """The framework of a cell. Raises TypeError where it has none."""
    of: FrameworkNames = mxnet if mxnet.Cell is not None and type(cell) is mxnet.Cell else torch
    if of.Cell is None:
        raise TypeError(f"{cell!r} is no cell of a framework that was imported")
    return of


def capture(cell, owner, args: tuple, kwargs: dict):
    """Captures a call as a node, or returns None where Python has to see to it."""
    of: FrameworkNames = _framework(cell)
    state: StateNumbers = state_here()
    if not is_running(state) or (of is mxnet and kwargs):  # names are an argument in Python's signature
        return None
    result = captured(of, state, cell, owner, None, items_of(args), len(args), kwargs)
    return None if result is LEFT else result


@cfunc
def _is_found(call: SeenCall, key: tuple, record) -> bint:
    """True if a record is what Python finds by this key now."""
    if _is_owned(call):  # what has changed since the key was made?
        if len(key) < 4 or key[3] != call.batch.changes:
            return False
    found: Record = record
    return call.batch.records.get(key) is record and found.arity == call.arguments


def keep(cell, owner, args: tuple, kwargs: dict, key: tuple, record):
    """Lets equal calls be nodes of a record, which Python finds by this key.

    In place of a record ~place lets them give their argument at that place, and a Spec the rows of theirs as they look
    then.
    """
    of: FrameworkNames = _framework(cell)
    placed: bint = type(record) is not Record
    if placed and type(record) is not Spec and not (of is torch and type(record) is int and -MOST <= record < 0):
        raise TypeError(f"keep() takes a Record, a Spec or the place of an argument as ~place, not {record!r}")
    state: StateNumbers = state_here()
    call: SeenCall = _call(of, state, cell, owner) if is_running(state) else None
    if call is None:
        return
    try:
        if _look_at(call, state, items_of(args), len(args), kwargs) and (placed or _is_found(call, key, record)):
            entry: SignatureEntry = call.signatures.find(call)
            if entry is None:
                entry = call.signatures.add(call, None if placed else record, key)
            if placed and entry.record is None:
                entry.structure = record
            if not placed:
                _note_key(call, key)
    finally:
        close(call)
