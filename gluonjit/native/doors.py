# cython: language_level=3, nonecheck=True, initializedcheck=False, binding=False
"""Doors: calls of PyTorch's functions on lazy tensors of which nothing but a node can come, or rows of what is there.

`ops.call_operator` does the same in Python, for what is in its table DOORS.
"""

from __future__ import annotations

import cython
from cython import Py_ssize_t, bint, cfunc

__all__ = ["handled", "torch_function"]


@cfunc
def _is_float(arg) -> bint:
    """True if a lazy tensor's value is there, and holds no whole numbers, which may be known."""
    spec: Spec = spec_of(torch.lazy, arg)
    return spec is not None and spec.floats and type(read_slot(arg, torch.lazy.k)) is not torch.MadeHere


@cfunc
def _is_waiting(arg, graph: GraphRows, deeper: bint) -> bint:
    """True if a lazy tensor waits for this graph to run; `deeper`: as a result, which is not known."""
    value: Value = value_in(torch.lazy, arg)
    if value is None or value.graph is not graph or (deeper and value.depth == 0) or is_stale(arg):
        return False
    return slot_is(arg, torch.lazy.c, None)


@cfunc
def _is_unknown(args: Args, count: Py_ssize_t, graph: GraphRows) -> bint:
    """True if one of these holds floats or is pending."""
    k: Py_ssize_t
    for k in range(count):
        arg = item(args, k)
        if _is_float(arg) or _is_waiting(arg, graph, True):
            return True
        if type(arg) is list or type(arg) is tuple:
            for part in arg:
                if _is_float(part) or _is_waiting(part, graph, True):
                    return True
    return False


@cfunc
def _operand(arg, graph: GraphRows) -> Value:
    """The value of a lazy tensor of this graph, as an operand, or None."""
    value: Value = value_in(torch.lazy, arg)
    if value is None or value.graph is not graph or type(value.spec) is not Spec or is_stale(arg):
        return None
    return value


@cfunc
def _sliceable(arg, graph: GraphRows) -> Value:
    """The same of one whose rows may be referred to: None where Python has to look."""
    value: Value = _operand(arg, graph)
    return None if value is not None and value.taped and not is_learning() else value


@cfunc
def _referring(value):
    """A lazy tensor of a new value; LEFT where there is none."""
    return LEFT if value is None else tensor_of(value)


@cfunc
def _joined_rows(batch: BatchRoom, graph: GraphRows, listed, sort: cython.int):
    """Joins along axis 0 arrays that are whole rows, as torch.cat and torch.stack do; None where that is a node."""
    values: list = []
    for each in listed:
        value: Value = _sliceable(each, graph)
        if value is None:
            value = met(batch, graph, each)  # small numbers that were there before
        if value is None:
            return LEFT
        if cython.cast(Spec, value.spec).mode != ("rows" if sort == ROWS else "stack"):
            return LEFT if values else None
        values.append(value)
    return _referring(joined(values, cython.cast(Spec, value.spec).mode)) if values else LEFT


@cfunc
def _is_constant(arg, depth: cython.int) -> bint:
    """True if there is no tensor in an argument, as far as that is not nested deeper than keys and shapes are."""
    kind = type(arg)
    if kind is tuple or kind is list or kind is torch.Size:
        if depth == 0:
            return False
        for each in arg:
            if not _is_constant(each, depth - 1):
                return False
        return True
    if kind is slice:
        return depth > 0 and _is_constant(arg.start, 0) and _is_constant(arg.stop, 0) and _is_constant(arg.step, 0)
    if arg is None or arg is Ellipsis or kind is int or kind is str:
        return True
    return kind is torch.dtype or kind is torch.device


@cfunc
def _is_zero(arg) -> bint:
    return type(arg) is int and arg == 0


@cfunc
def _only(args: Args, count: Py_ssize_t, kwargs: dict | None):
    """The second argument of a call, also by name: `dim`; None where there is none, LEFT where there are others."""
    if kwargs is None and count == 1:
        return None
    if kwargs is None:
        found = item(args, 1) if count == 2 else None
    else:
        found = kwargs.get("dim") if count == 1 and len(kwargs) == 1 else None
    return LEFT if found is None else found


@cfunc
def _refers(batch: BatchRoom, graph: GraphRows, sort: cython.int, args: Args, count: Py_ssize_t, kwargs: dict | None):
    """Gives what comes of a call without a node, or LEFT; None where that is nothing."""
    k: Py_ssize_t
    if sort == SUM or sort == COPY:
        if kwargs is not None or count != (2 if sort == SUM else 1) or (count == 2 and not _is_zero(item(args, 1))):
            return None
        value: Value = _sliceable(item(args, 0), graph)  # `0 + x`, with which the built-in `sum` begins, or a clone
        return LEFT if value is None else _referring(copied(value))
    if sort == ROWS or sort == STACK:
        axis = _only(args, count, kwargs)
        listed = item(args, 0) if count else None
        if (type(listed) is not list and type(listed) is not tuple) or (type(axis) is not int and axis is not None):
            return LEFT
        if axis is not None and axis != 0:  # one from behind is a node, too
            return None
        return _joined_rows(batch, graph, listed, sort)
    if sort >= VIEW:  # a view where it was one before, if what the call gives follows from constants alone
        for k in range(1, count):
            if not _is_constant(item(args, k), 2):
                return LEFT
        if kwargs is not None:
            for arg in kwargs.values():
                if not _is_constant(arg, 2):
                    return LEFT
    return None


def known_whole(key):
    """The whole numbers that a tensor of one axis holds, or one of none, if they are known; else None."""
    tensor = key
    if type(key) is not torch.Array:
        spec: Spec = spec_of(torch.lazy, key)
        if spec is None or is_stale(key) or spec.dtype != "int64" or spec.device != "cpu" or len(spec.shape) > 1:
            return None
        tensor = read_slot(key, torch.lazy.c)
        return tensor.tolist() if type(tensor) is torch.Array else None
    try:
        return key.tolist() if key.dtype is torch.int64 and key.is_cpu and key.dim() < 2 else None
    except RuntimeError:  # what functorch wraps holds none: Python sees to it
        return None


def known_numbers(key):
    """The whole numbers that a tensor of one axis holds, if they are known; else None."""
    found = known_whole(key)
    return found if type(found) is list else None


@cfunc
def _picked_rows(graph: GraphRows, args: Args, count: Py_ssize_t):
    """Returns `x.index_select(0, numbers)` of known numbers, which do not count from the end."""
    if count != 3 or not _is_zero(item(args, 1)):
        return LEFT
    numbers: list = known_numbers(item(args, 2))
    value: Value = _sliceable(item(args, 0), graph)
    if not numbers or value is None or min(numbers) < 0:
        return LEFT
    return _referring(_picked(value, numbers))


@cfunc
def _written(graph: GraphRows, state: StateNumbers, cells: tuple, args: Args, count: Py_ssize_t, kwargs: dict | None):
    """Captures a write to a lazy tensor that is no view, which has the new value from then on, or LEFT.

    The tensor is of this graph, or a result without history of an earlier flush.
    """
    kind: LazyKind = torch.lazy
    tensor = item(args, 0)
    before: Value = value_in(kind, tensor)
    if before is None or state.recorded is not None or (before.taped and not is_learning()):
        return LEFT
    if before.graph is not graph and (before.graph is not None or before._result is None or before.taped):
        return LEFT
    if not (slot_is(tensor, kind.b, None) and slot_is(tensor, kind.c, None) and slot_is(tensor, kind.k, None)):
        return LEFT
    if state.inside > 0:
        result = captured(torch, state, cells[before.taped], None, None, args, count, kwargs)
    else:
        result = outside(torch, state, cells[before.taped], None, None, args, count, kwargs)
    after: Value = None if result is LEFT else value_in(kind, result)
    if after is None:
        return LEFT
    if before.taped and before.depth and type(before.rows) is int:
        graph.overwrite(before.rows, before.spec.rows, after.rows if type(after.rows) is int else -1)
    writes = read_slot(tensor, kind.n)
    fill_slot(tensor, kind.v, after)
    fill_slot(tensor, kind.n, 1 if writes is None else writes + 1)
    return tensor


@cfunc
def _entered(state: StateNumbers, door: tuple, func, args: Args, count: Py_ssize_t, kwargs: dict | None):
    """Captures a call in an open batch, or LEFT."""
    batch: BatchRoom = state.batch
    sort: cython.int = door[1]
    k: Py_ssize_t
    if batch is None or batch.room < 0 or not is_running(state) or not is_torch(batch) or batch.graph is None:
        return LEFT
    graph: GraphRows = batch.graph
    if not _is_unknown(args, count, graph):
        return LEFT
    for k in range(count):
        if item(args, k) is True:  # which may stand for `inplace`
            return LEFT
    if kwargs is not None and (kwargs.get("out") is not None or kwargs.get("inplace", False) is not False):
        return LEFT  # it writes
    if state.inside == 0:
        for k in range(count):
            if _is_waiting(item(args, k), graph, False):
                break
        else:
            return LEFT
    result = None
    if sort == DETACH and is_learning():
        return LEFT
    if sort < PICK:
        result = _refers(batch, graph, sort, args, count, kwargs)
    elif sort == WRITE:
        return _written(graph, state, door[0], args, count, kwargs)
    elif state.inside == 0:
        return LEFT
    else:
        result = LEFT if kwargs is not None else _picked_rows(graph, args, count)
    if result is not None:
        return result
    viewing = func if sort == VIEW or sort == DETACH else None
    if state.inside > 0:
        return captured(torch, state, door[0], None, viewing, args, count, kwargs)
    return outside(torch, state, door[0], None, viewing, args, count, kwargs)


@cfunc
def _of_known(func, args: Args, count: Py_ssize_t):
    """Runs a cheap function of known integers that are no views, and of plain numbers, at once; or LEFT."""
    first = item(args, 0)
    if type(first) is torch.lazy.kind and (slot_is(first, torch.lazy.c, None) or _is_float(first)):
        return LEFT
    given: list = []
    k: Py_ssize_t
    for k in range(count):
        arg = item(args, k)
        kind = type(arg)
        if kind is torch.lazy.kind:
            spec: Spec = spec_of(torch.lazy, arg)
            if spec is None or slot_is(arg, torch.lazy.c, None) or not slot_is(arg, torch.lazy.k, None):
                return LEFT
            if spec.dtype not in torch.whole or spec.device != "cpu":
                return LEFT
            arg = read_slot(arg, torch.lazy.c)
            if type(arg) is not torch.Array:
                return LEFT
        elif kind is not int and kind is not bool and kind is not float and kind is not torch.dtype:
            return LEFT
        given.append(arg)
    if func not in torch.cheap:
        return LEFT
    found = func(*given)
    return torch.as_known(found) if type(found) is torch.Array and found.dtype in torch.whole_types else LEFT


def through(func, args, count, kwargs):
    """Captures a call that has a door, or runs one of known integers; or LEFT. Raises what Python makes of errors."""
    doors: dict = torch.doors
    if doors is None:
        return LEFT
    door = doors.get(func)
    state: StateNumbers = state_here()
    try:
        if count and not kwargs and state.inside > 0 and is_running(state):
            found = _of_known(func, args, count)
            if found is not LEFT:
                return found
        return LEFT if door is None else _entered(state, door, func, args, count, kwargs if kwargs else None)
    except BaseException as error:
        given = all_of(args, count)
        said = torch.error_of(func, given, kwargs or {}, error)
        if said is error:
            raise
        raise said  # noqa: B904 (it has its cause)


def torch_function(func, types, args: tuple = (), kwargs: dict | None = None):
    """Stands in the place of `__torch_function__` of lazy tensors: every operator and method not answered elsewhere."""
    found = through(func, items_of(args), len(args), kwargs)
    if found is not LEFT:
        return found
    if torch.operate is None:
        raise TypeError("there is no function of Python behind this door")
    return torch.operate(func, types, args, kwargs)


def handled(public_api, relevant_args, /, *args, **kwargs):
    """A function of PyTorch's that is written in Python, of lazy tensors, among others; see `capture.doors`."""
    lazy: bint = False
    if torch.handle is None:
        raise TypeError("there is no function of Python behind this door")
    for each in relevant_args:
        kind = type(each)
        if kind is torch.lazy.kind:
            lazy = True
        elif kind not in torch.mute:
            lazy = False
            break
    if not lazy or is_overridden():
        return torch.handle(public_api, relevant_args, *args, **kwargs)
    return torch_function(public_api, (torch.lazy.kind,), args, kwargs)


def operate(func, method, args, count):
    """Calls a method of PyTorch's whose first argument is a lazy tensor, or a plain one before a lazy one.

    A node of `func`, with which PyTorch would call __torch_function__, or else what the method says.
    """
    kind = type(item(args, 0))
    if torch.engine is not None and (kind is torch.lazy.kind or (count == 2 and kind is torch.Array)):
        if not is_overridden():  # by what has to see the call first
            found = through(func, args, count, None)
            if found is not LEFT:
                return found
    Py_EnterRecursiveCall(" in a door")  # of a door of a door
    try:
        return PyObject_Vectorcall(method, args, count, cython.NULL)
    finally:
        Py_LeaveRecursiveCall()
