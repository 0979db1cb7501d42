# cython: language_level=3, nonecheck=True, initializedcheck=False, binding=False
"""Names that compiled code has of the package and of each framework, which tell it by `configure`; the thread's state.

The files of this folder are in Cython's pure-Python mode and a part of `gluonjit._fast`: without a compiler nothing
stands in for them, as each function does what one of Python does, for the usual case. It gives LEFT where that is to be
called after all.
"""

from __future__ import annotations

from weakref import ref

import cython

__all__ = ["LazyKind", "configure"]

LEFT = object()


class LazyKind:
    """A class of lazy arrays, and where its slots are. Raises TypeError where it has none."""

    def __init__(self, kind):
        slots = getattr(kind, "__dict__", {})
        self.v, self.c = offset_of(slots.get("_v")), offset_of(slots.get("_c"))
        self.b, self.k = offset_of(slots.get("_b")), offset_of(slots.get("_k"))
        self.n = offset_of(slots["_n"]) if "_n" in slots else 0
        self.kind = kind


class PackageNames:
    """The package's own: `note` is told of a call outside of all samples, that began when `clock` said."""


class FrameworkNames:
    """A framework's classes, and functions of its engine.

    value_of(batch, array) -> Value, or raises `empty`; original: the call of a block as it was;
    look_up(cell, batch, indices, mode): a Value, or in PyTorch a tensor; None where that is no look-up;
    lay(batch, value, spec): the value with rows that lie as the spec has them;
    again(batch, cell, owner, key of another batch) -> (Record, key), or None;
    rebuild(structure, values): what a call returns; in PyTorch (structure, values, arguments).
    """

    def __cinit__(self):
        self.other = LazyKind.__new__(LazyKind)


class MXNetNames(FrameworkNames):
    """MXNet's: `handle` is the slot of an array's; others are addresses of its C interface.

    automatic(block, args): the cell of a block that has none in its __dict__, or None;
    after(block, args, out): what follows a forward beside its result.
    """


class TorchNames(FrameworkNames):
    """PyTorch's: `doors` has of a function its cell, the sort of its door, and what else is captured in its place.

    operate(func, types, args, kwargs): what a call without a door gives; error_of(func, args, kwargs, error): what is
    raised for an error in such a call; steps_of(func, args, kwargs, how many results): the ways to the views that a
    call gives, or None; laid_out: the cell of nodes that lay the rows of a value otherwise;
    leaf_laid(batch, tensor, modes, place) -> its value, in the mode for that place, and its natural spec;
    cheap: functions that run at the call where all their tensors are integers that are known, of dtypes `whole`, as
    PyTorch has them `whole_types`; as_known(tensor): such a result; item(lazy tensor, key): what lazy[key] gives, of
    any key; put(lazy tensor, key, value): writes it, of any key; looks: what tensors have in common, by shape, dtype
    and device; tensor: the function of that name, as it was; new(function, tensor): what a function gives of one that
    it has made; tried: how many more MadeHere there may be, by who makes them; leads_to(view, weight): whether
    gradients do; is_wrapped(tensor): whether it is one of torch.func; expanded(batch, cell, module, why): is told of a
    call that was no node; handle: PyTorch's own way with a function of which classes not in `mute` have a say;
    repeated(batch, module, args): calls an outermost module on one more sample.
    """


package, mxnet, torch = PackageNames(), MXNetNames(), TorchNames()
_SECTIONS = {"package": package, "mxnet": mxnet, "torch": torch}


def configure(section: str, **named):
    """Tells compiled code of what it calls: all names of "package", "mxnet" or "torch". Raises TypeError for others."""
    known = _SECTIONS.get(section)
    if known is None:
        raise TypeError(f"configure() has no section {section!r}")
    wanted = {name for name in dir(known) if name[:1] != "_"}
    if wanted != named.keys():
        raise TypeError(f"configure({section!r}) takes other names: {sorted(wanted ^ named.keys())}")
    made = type(known)()  # all of it counts, or nothing
    for each in (made, known):
        for name, value in named.items():
            setattr(each, name, value)
    if known is mxnet:
        mxnet.handle_at = offset_of(mxnet.handle)
        mxnet.other, mxnet.second = mxnet.lazy_np, mxnet.ndarray
    if known is torch:
        tensors.type = cython.cast(cython.p_void, torch.lazy.kind)
        tensors.v, tensors.c = torch.lazy.v, torch.lazy.c
        tensors.b, tensors.k, tensors.n = torch.lazy.b, torch.lazy.k, torch.lazy.n


_thread = 0  # that asked last, with the local that it asked, and a weak reference to the state, which ends with it
_local = _latest = None


def state_here():
    """The state of this thread: threading.local is slow."""
    global _thread, _local, _latest
    thread: cython.ulonglong = PyThreadState_GetID(PyThreadState_Get())
    if thread == _thread and package.local is _local and _latest is not None:
        found = cython.cast(object, PyWeakref_GetObject(_latest))
        if found is not None:
            return cython.cast(StateNumbers, found)
    state: StateNumbers = package.local.state
    _thread, _local, _latest = thread, package.local, ref(state)
    return state
