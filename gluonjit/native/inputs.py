# cython: language_level=3, nonecheck=True, initializedcheck=False, boundscheck=False, wraparound=False, binding=False
"""Values of tensors that were there before a batch, or that an earlier flush has left: `operands` does it in Python."""

from __future__ import annotations

import cython
from cython import bint, cfunc

__all__ = ["leaf"]


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
    held, value = known
    raw = held.raw
    if type(raw) is not bytes or held.apart or tensor.is_inference() or held.version != tensor._version:
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
    if look is None or look.unfit or look.bytes_at is None or look.number is not None or tensor.is_inference():
        return None
    address: cython.size_t = _address(tensor)
    if not address:
        return None
    raw = PyBytes_FromStringAndSize(cython.cast(cython.p_char, address), look.spec.bytes)
    held = torch.InputVersion(tensor, tensor._version, None, raw, look.spec)
    found = graph.add_leaf((look.spec, raw), held, look.spec)
    if found.payload is not held:
        found.payload.share(held)
    value = Value(found.base, 0, look.spec, graph, False, tensor)
    batch.imports[place] = (held, value)
    return value


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
