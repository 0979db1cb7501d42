# cython: language_level=3, nonecheck=True, initializedcheck=False, binding=False
"""Lazy arrays of values: what they look like to compiled code, and new ones.

Most lazy tensors end soon, and are used again: `tensors.c` keeps those that have ended.
"""

from __future__ import annotations

import cython

__all__ = ["keep_bodies", "spare_bodies", "tensor"]


def _place_for(value, computed):
    """The list for a tensor that had this value and stood for this, which has ended; None where it is not kept."""
    if type(value) is not Value:
        return None
    if computed is not None and computed is not cython.cast(Value, value).base:  # nor does it stand for an input
        return None
    found = cython.cast(Value, value).spec
    if bodies >= MOST_BODIES or type(found) is not Spec:
        return None
    spec: Spec = found
    if spec.bodies is None:
        spec.bodies = []
    return spec.bodies if type(spec.bodies) is list else None


def tensor_of(value):
    """A lazy tensor of a value: one that lies ready and that nobody has got hold of, or a new one."""
    global bodies
    spec: Spec = value.spec
    kept = spec.bodies
    if type(kept) is list and len(cython.cast(list, kept)):
        found = last_of(kept)
        if Py_REFCNT(found) == 1 and type(found) is torch.lazy.kind and slot_is(found, torch.lazy.c, Ellipsis):
            bodies -= 1
            fill_slot(found, torch.lazy.v, value)
            fill_slot(found, torch.lazy.c, None)
            PyObject_GC_Track(found)
            return found
    return torch.make(value)


def wrap(kind, value):
    """A lazy array of a value."""
    if kind is torch.lazy:
        return tensor_of(value)
    array = allocate(kind.kind)
    PyObject_GC_UnTrack(array)  # nothing refers to a lazy array that it refers to: it is in no circle
    fill_slot(array, kind.c, None)
    fill_slot(array, kind.b, None)
    fill_slot(array, kind.k, None)
    fill_slot(array, kind.v, value)
    return array


def note_view(kind, view, array, key):
    """Notes what an array is a view of: a whole array and a key of it, or of a view those of that and the key."""
    base, before = read_slot(array, kind.b), read_slot(array, kind.k)
    if base is not None and kind is torch.lazy:
        first, last = before if type(before) is tuple else (None, before)
        if type(last) is torch.engine.copying:
            if last.spec is not spec_of(kind, base) or last.first != first:
                torch.engine.unlink(array)
            elif last.copies:
                fill_slot(array, kind.n, None)
                fill_slot(array, kind.k, last)
                fill_slot(array, kind.b, None)
            base, before = read_slot(array, kind.b), read_slot(array, kind.k)
    if base is None:
        base = array
        if kind is not torch.lazy and before is not True:
            fill_slot(array, kind.k, True)
    elif type(base) is not kind.kind and (kind is torch.lazy or not isinstance(base, mxnet.Array)):
        raise TypeError(f"{base!r} has no views; nobody but gluonjit notes them")
    else:
        key = (before, key)
    fill_slot(view, kind.k, key)
    if kind is torch.lazy:
        fill_slot(view, kind.n, read_slot(base, kind.n))
    fill_slot(view, kind.b, base)
    return 0


def tensor(value: Value):
    """A lazy tensor of PyTorch's of a value. Raises TypeError where there is no PyTorch."""
    return tensor_of(value)


def keep_bodies(lazy):
    """Keeps tensors of the class of lazy ones when they end, to use them again."""
    return _keep(lazy)


def spare_bodies():
    """Returns how many tensors lie ready to be lazy ones."""
    return bodies


place_for = _place_for
