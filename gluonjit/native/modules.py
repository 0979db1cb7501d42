# cython: language_level=3, nonecheck=True, initializedcheck=False, binding=False
"""Modules of PyTorch's: what `dynamic.call` does for a cell inside of a sample, and what they have by name.

Outside of captures neither is different from PyTorch's own, which takes most of a microsecond for a call, and a third
of one for a part.
"""

from __future__ import annotations

from collections import OrderedDict

import cython
from cython import Py_ssize_t, bint, cfunc

__all__ = ["quick_attributes"]

_PARTS = ("_modules", "_parameters", "_buffers")
_HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")


def own_dict(module):
    """An object's `__dict__`; None where it has none."""
    found = dict_of(module)
    return found if type(found) is dict else None


def unhooked(own, name):
    """True if a block has no hooks of this sort."""
    hooks = own.get(name)
    return isinstance(hooks, dict) and len(cython.cast(dict, hooks)) == 0


def part_of(module, name):
    """A parameter, a buffer or a part of a module by its name; LEFT where it has none."""
    own: dict = own_dict(module) if type(name) is str else None
    return LEFT if own is None else _part_in(own, name)


@cfunc
def _part_in(own: dict, name):
    """The same, of a module with this `__dict__`."""
    for where in _PARTS:
        named = own.get(where)
        if type(named) is not dict and type(named) is not OrderedDict:
            break
        found = cython.cast(dict, named).get(name, LEFT)
        if found is not LEFT:
            return found
    return LEFT


@cfunc
def _is_special() -> bint:
    """True if there are hooks of all modules, or PyTorch traces a program."""
    for hooks in torch.global_hooks:
        if hooks:
            return True
    return torch.tracing() is not None


@cfunc
def _is_forward(module) -> bint:
    """True if a call of a module is nothing but one of its forward."""
    kind = type(module)
    own: dict = own_dict(module)
    compiled = "_compiled_call_impl"
    if own is None or of_class(kind, "_call_impl") is not torch.call_impl:
        return False
    if of_class(kind, compiled) is not None or own.get(compiled) is not None:
        return False
    for name in _HOOKS:
        if not unhooked(own, name):
            return False
    return not _is_special()


def run_module(args, count, keywords):
    """Calls a module as PyTorch does."""
    module = item(args, 0)
    if isinstance(module, torch.Block) and _is_forward(module):
        return PyObject_VectorcallMethod("forward", args, count, keywords)
    return PyObject_Vectorcall(torch.original, args, count, keywords)


def spare_call(of, state, cell, mode, args, count):
    """An outermost call of a model in a mode, 2 for training, that `begin` of hybrid.choose.pacing lets run eagerly.

    LEFT where Python has to be asked.
    """
    if state.spare <= 0 or cell.paces is not state.spare_of or state.spare_mode != mode or state.explicit:
        return LEFT
    state.spare -= 1
    state.paused += 1
    state.eagerly += 1
    try:
        return (
            run_module(args, count, cython.NULL)
            if of is torch
            else PyObject_Vectorcall(of.original, args, count, cython.NULL)
        )
    finally:
        state.eagerly -= 1
        state.paused -= 1


@cfunc
def _noted(batch: BatchRoom, module) -> tuple:
    """The batch's record of a module without hooks, or None."""
    found = batch.noted.get(ADDRESS(module))
    return found if type(found) is tuple and len(found) == 4 and found[1] is False else None


@cfunc
def _are_ready(args: Args, count: Py_ssize_t) -> bint:
    """True if a call can be given all these as they are: no tensor in them must become lazy."""
    k: Py_ssize_t
    for k in range(1, count):
        kind = type(item(args, k))
        if kind is torch.Array or isinstance(item(args, k), (tuple, list, dict)):
            return False
    return True


@cfunc
def _inside(state: StateNumbers, function, args: Args, count: Py_ssize_t):
    """Calls a module, by its forward where there is no function, inside of a sample: what it calls is captured."""
    state.inside += 1
    try:
        if function is None:
            return PyObject_VectorcallMethod("forward", args, count, cython.NULL)
        return PyObject_Vectorcall(function, args, count, cython.NULL)
    finally:
        state.inside -= 1


@cfunc
def _foreign(batch: BatchRoom, args: Args, count: Py_ssize_t):
    """The reason why a call is no node, if the class of an argument says so; else None."""
    k: Py_ssize_t
    found = None
    if batch.foreign:
        for k in range(1, count):
            kind = type(item(args, k))
            if found is None and kind is not torch.lazy.kind:
                found = batch.foreign.get(kind)
    return found


@cfunc
def _expand(state: StateNumbers, batch: BatchRoom, cell: CellSlots, why, plain: bint, args: Args, count: Py_ssize_t):
    """A call that is no node, inside of a sample. `plain`: as to all but modules that run as they are, LEFT."""
    module = item(args, 0)
    known: tuple = _noted(batch, module)
    if known is None or not _are_ready(args, count) or (plain and known[2] is not True):
        return LEFT
    result = _inside(state, None if known[2] is True else torch.original, args, count)
    torch.expanded(batch, cell, module, why)
    return result


@cfunc
def _refused(batch: BatchRoom, cell: CellSlots, own: dict):
    """The reason why a call in the present modes is no node, if the cell has one; else None."""
    if batch.fine or not cell.refused:
        return None
    return cell.refused.get((bool(is_learning()), own.get("training")))


@cfunc
def _is_repeated(batch: BatchRoom, cell: CellSlots, own: dict, args: Args, count: Py_ssize_t) -> bint:
    """True if an outermost call runs as the last one of its model did in this batch."""
    seen: tuple = batch.repeats
    if seen is None or seen[0] is not cell or seen[1] is not bool(is_learning()) or seen[2] is not own.get("training"):
        return False
    if seen[3] != batch.changes or batch.room < 0 or _is_special() or torch.traced_otherwise():
        return False
    return _foreign(batch, args, count) is not None or _refused(batch, cell, own) is not None


@cfunc
def _looked_up(batch: BatchRoom, cell: CellSlots, indices):
    """Entries of a table by numbers, as calls of this cell have looked them up in this batch; or LEFT."""
    learning = bool(is_learning())
    table = batch.tables.get((cell, learning, batch.changes))
    weight = cell.lookup[0]
    if table is None or table.weight is not weight or table.taped is not (learning and weight.requires_grad):
        return LEFT
    graph: GraphRows = batch.graph
    entries = graph.lookups.get(table)
    numbers: list = known_numbers(indices)
    if entries is None or numbers is None:
        return LEFT
    value = entries_at(graph, entries, numbers, table.size, table.row, table.taped)
    return LEFT if value is None else tensor_of(value)


@cfunc
def _in_sample(state: StateNumbers, batch: BatchRoom, cell: CellSlots, own: dict, args: Args, count: Py_ssize_t):
    """A call of a cell inside of a sample."""
    module = item(args, 0)
    why = _foreign(batch, args, count)
    if why is not None:
        return _expand(state, batch, cell, why, False, args, count)
    why = _refused(batch, cell, own)
    if why is not None:
        return _expand(state, batch, cell, why, True, args, count)
    if cell.lookup is not None:
        if count != 2 or batch.room < 0 or _noted(batch, module) is None:
            return LEFT
        found = _looked_up(batch, cell, item(args, 1))
        if found is LEFT:
            found = torch.look_up(cell, batch, item(args, 1), bool(is_learning()))
        return LEFT if found is None else found
    if batch.fine:  # nodes are operators: it runs, without PyTorch's look for hooks, of which there are none
        known: tuple = _noted(batch, module)
        ready: bint = known is not None and known[2] is True and batch.room >= 0 and _are_ready(args, count)
        return _inside(state, None, args, count) if ready else LEFT
    # Of what the batch has no records since something has last changed it finds none.
    return captured(torch, state, cell, module, None, args + 1, count - 1, None)


def call_module(args, count, keywords):
    """Stands before torch.nn.Module.__call__, or LEFT."""
    if torch.engine is None:
        return LEFT
    state: StateNumbers = state_here()
    if state.paused > 0 and state.trace is None:  # what runs eagerly costs no more than this
        return run_module(args, count, keywords)
    module = item(args, 0)
    own: dict = own_dict(module)
    cell = None if own is None else own.get(torch.key)
    batch: BatchRoom = state.batch
    if batch is None and state.trace is None and cell is None and own is not None:  # no part of a hybridized model
        return PyObject_Vectorcall(torch.original, args, count, keywords)
    if keywords != cython.NULL or type(cell) is not torch.Cell or not is_running(state):
        return LEFT
    if state.spare > 0 and state.inside == 0:
        return spare_call(torch, state, cell, 2 * is_learning(), args, count)
    if batch is None or not is_torch(batch):
        return LEFT
    if not unhooked(own, "_forward_hooks") or not unhooked(own, "_forward_pre_hooks"):
        return LEFT
    if state.inside == 0:
        if _is_repeated(batch, cell, own, args, count):
            return torch.repeated(batch, module, all_of(args + 1, count - 1))
        return LEFT
    return _in_sample(state, batch, cell, own, args, count)


@cfunc
def _found_in(module, name):
    """An attribute of a module of PyTorch's, as its class finds it: parts, parameters and buffers are no attributes.

    Python words an AttributeError for each before it asks Module.__getattr__ for them; from 3.12 on it does not.
    """
    kind = type(module)
    own: dict = own_dict(module) if type(name) is str else None
    if own is not None:
        shared, found = of_class(kind, name), own.get(name, LEFT)
        if shared is None:
            if found is LEFT:
                found = _part_in(own, name)
            if found is not LEFT:
                return found
        elif found is LEFT and PyFunction_Check(shared):
            return PyMethod_New(shared, module)
    try:
        return PyObject_GenericGetAttr(module, name)
    except AttributeError:
        otherwise = of_class(kind, "__getattr__")
    return otherwise(module, name)


def quick_attributes(kind, base):
    """Lets a class derived from torch.nn.Module, `base`, find what is its modules' sooner, unless it has its own way.

    Whoever changes that later gives the class Python's again.
    """
    if not isinstance(kind, type) or not isinstance(base, type):
        raise TypeError(f"quick_attributes() takes two classes, not {kind!r} and {base!r}")
    if kind is not base and issubclass(kind, base):
        if (
            of_class(kind, "__getattr__") is of_class(base, "__getattr__")
            and kind.__getattribute__ is object.__getattribute__
        ):
            find_by(kind, base, cython.cast(cython.p_void, _found_in))
