# cython: language_level=3, nonecheck=True, initializedcheck=False, boundscheck=False, wraparound=False, binding=False
"""Values of tensors that were there before a batch, or that an earlier flush has left: `operands` does it in Python."""

from __future__ import annotations

import cython
from cython import bint, cfunc

__all__ = ["leaf", "new"]


@cfunc
def _carried(batch: BatchRoom, graph: GraphRows, lazy) -> Value:
    """The value of a result that an earlier flush left with others that this batch has read; None: Python's to see."""
    value: Value = value_in(torch.lazy, lazy)
    if value is None or value.graph is not None or not slot_is(lazy, torch.lazy.c, None):
        return None
    base = read_slot(lazy, torch.lazy.b)
    if base is not None and not slot_is(base, torch.lazy.c, None):
        return None
    result = value._result
    if not isinstance(result, tuple):
        return None
    chunk, first = result
    taped: bint = value.taped and is_learning() and chunk.tensor.requires_grad
    table = batch.tables.get((ADDRESS(chunk), taped))
    if table is None:
        return None
    spec: Spec = value.spec
    numbers = (first,) if spec.rows == 1 else range(first, first + spec.rows)
    if taped:
        chunk.readers.taken.update(numbers)
    batch.carried.add(batch.sample - 1)
    rows: tuple = rows_of(graph, table.entered, numbers)
    return Value(rows[0] if spec.rows == 1 else rows, 0, spec, graph, taped)


@cfunc
def _input(batch: BatchRoom, graph: GraphRows, lazy) -> Value:
    """The value of a lazy tensor that stands for an input: None where it does not, or it is Python's to see."""
    seen: Value = value_in(torch.lazy, lazy)
    tensor = read_slot(lazy, torch.lazy.c)
    if seen is None or seen._result is not None or seen.base is not tensor or type(tensor) is not torch.Array:
        return None
    value = _plain(batch, graph, tensor) if slot_is(lazy, torch.lazy.b, None) else None
    if value is not None and seen.graph is not None:
        batch.carried.add(batch.sample - 1)
    return value


@cfunc
def _plain(batch: BatchRoom, graph: GraphRows, tensor) -> Value:
    """The value of a small tensor of numbers: one that the batch has met, or the last one did and samples go on, as
    long as it has its numbers still, or a new one."""
    place = ADDRESS(tensor)
    known = batch.imports.get(place) or batch.earlier.get(place)
    if known is None:
        return _entered(batch, graph, tensor, place)
    held: InputSlots = known[0]
    value = known[1]
    raw = held.raw
    if held.apart or tensor.is_inference() or held.version != tensor._version:
        return None
    if raw is None and held._rows is None:
        return _numbers(batch, graph, tensor, torch.looks.get((tensor.shape, tensor.dtype, tensor.device)))
    if type(raw) is not bytes:
        return None
    if tensor.shape != held.spec.shape:  # its data was exchanged
        return None
    address: cython.size_t = _address(tensor)
    if not address or memcmp(cython.cast(cython.p_void, address), PyBytes_AS_STRING(raw), len(raw)) != 0:
        return None
    if cython.cast(Value, value).graph is graph:
        return value
    key = (held.spec, raw)
    if held.shared or held.first is not None or held.noted or key in graph.leaves:  # which counts who has it
        return None
    value = Value(graph.add_leaf(key, held, held.spec).base, 0, held.spec, graph, False, tensor)
    batch.imports[place] = (held, value)
    return value


@cfunc
def _entered(batch: BatchRoom, graph: GraphRows, tensor, place) -> Value:
    """The value of one that the batch has not met, which is one with others of the same numbers."""
    if torch.forward_ad._current_level >= 0 or torch.is_wrapped(tensor) or tensor.layout is not torch.strided:
        return None
    look = torch.looks.get((tensor.shape, tensor.dtype, tensor.device))
    if look is None or look.unfit or tensor.is_inference():
        return None
    if look.number is not None:
        value = _numbers(batch, graph, tensor, look)
        if value is not None:
            batch.imports[place] = (torch.InputVersion(tensor, tensor._version, None), value)
        return value
    if look.bytes_at is None:
        return None
    address: cython.size_t = _address(tensor)
    if not address:
        return None
    raw = PyBytes_FromStringAndSize(cython.cast(cython.p_char, address), look.spec.bytes)
    held: InputSlots = torch.InputVersion(tensor, tensor._version, None, raw, look.spec)
    found: Leaf = graph.add_leaf((look.spec, raw), held, look.spec)
    if found.payload is not held:
        found.payload.share(held)
    value = Value(found.base, 0, look.spec, graph, False, tensor)
    batch.imports[place] = (held, value)
    return value


@cfunc
def _numbers(batch: BatchRoom, graph: GraphRows, tensor, look) -> Value:
    """The value of whole numbers of the host, which are rows numbered by value: they are read anew at each call."""
    if look is None or look.number is None:
        return None
    row: Spec = look.number
    if row.device != "cpu" or torch.is_wrapped(tensor):
        return None
    listed = tensor.tolist()
    entries: dict = graph.entries(batch.host_table(row.dtype, row.device), row)
    if type(listed) is list:
        return entries_value(graph, rows_of(graph, entries, listed), row, False, tensor)
    rows: tuple = rows_of(graph, entries, (listed,))
    return Value(rows[0], 0, row, graph, False, tensor)


@cfunc
def _address(tensor) -> cython.size_t:
    """The address of the numbers of a tensor that has no history, in order; 0 where they are not plainly there."""
    if tensor.requires_grad or not tensor.is_contiguous() or tensor.is_neg():
        return 0
    return tensor.data_ptr()


def met(batch, graph, array):
    """The value of a tensor of PyTorch's that is not of this graph, or None."""
    if state_here().recorded is not None:
        return None
    if type(array) is torch.lazy.kind:
        found = _carried(batch, graph, array)
        return _input(batch, graph, array) if found is None else found
    return _plain(batch, graph, array) if type(array) is torch.Array else None


def leaf(batch: BatchRoom, tensor):
    """The value of a small plain tensor in a batch, or None where Python has to see to it."""
    return met(batch, batch.graph, tensor) if type(tensor) is torch.Array else None


def new(function, tensor):
    """A tensor of floats that a function has made in a sample, as a lazy one of the program's; or Python sees to it.

    Another function of Python lies between this one and the program.
    """
    state: StateNumbers = state_here()
    alone: bint = function is torch.tensor
    if not is_running(state) or type(tensor) is not torch.Array or (alone and not tensor.is_floating_point()):
        return tensor
    if tensor.requires_grad or tensor.layout is not torch.strided or (alone and tensor.numel() != 1):
        return tensor
    caller: cython.pointer(Frame) = frame_before(frame_here())
    if not caller or is_library(cython.cast(object, globals_of(caller))):
        return tensor
    look = torch.looks.get((tensor.shape, tensor.dtype, tensor.device))
    spec: Spec = None if look is None else look.spec
    place: cython.longlong = ADDRESS(cython.cast(object, code_of(caller)))
    floats: bint = spec is not None and spec.floats
    tried = torch.tried.get(place if floats else ~place)
    left: cython.int = 1 if tried is None else tried[0]
    if left == 0:
        return tensor
    if tried is None or not floats:
        return torch.new(function, tensor)
    if left > 0:
        tried[0] = left - 1
    made = tensor_of(Value(0, 0, spec, None, False, tensor))
    fill_slot(made, torch.lazy.c, tensor)
    fill_slot(made, torch.lazy.k, tried)
    return made
