# cython: language_level=3, nonecheck=True, binding=False
"""Calls of code that has cells in it: the question for its cells, and calls of these.

In Cython's pure-Python mode, as `graph/recorder` (`entering.pxd` has the types).
"""

from __future__ import annotations

from sys import gettrace

try:
    import cython
except ImportError:
    from gluonjit import standin as cython

if not cython.compiled:
    from gluonjit.graph.recorder import BatchRoom, StateNumbers


class AsWritten:
    """Context in which no cells are made from source, so that every call of a program is seen."""

    def __init__(self) -> None:
        self.depth = 0

    def __enter__(self):
        self.depth += 1

    def __exit__(self, *error):
        self.depth -= 1


class Entry:
    """The entry of a method, or of a free function: it returns the cells for a call, or None if that runs unchanged.

    local: has the state of this thread. `methods` are names of the owner's methods that the cells rest on, each with
    a weak reference to what it has to be; `helpers` functions, each with where it is found; `cells_of(batch, owner)`
    finds the cells when they are first asked for. A free function has no owner, and may be what opens the batch: then
    it gets its last cells, which ask by themselves whether they may be captured.
    """

    def __init__(self, local, as_written: AsWritten):
        self.local, self.as_written = local, as_written
        self.methods = []
        self.helpers = []
        self.cells = None

    def __call__(self, owner=None):
        state: StateNumbers = self.local.state
        if state.paused or self.as_written.depth or state.trace is not None:
            return None
        if state.batch is None or (owner is not None and state.inside <= 0):
            if self.cells is None or gettrace() is not None:  # who follows the lines sees those of the program
                return None
            for space, name, helper in self.helpers:
                if space.get(name) is not helper:
                    return None
            return self.cells
        batch: BatchRoom = state.batch
        known: dict = batch.outlined
        place = (id(self), id(owner))
        found = known.get(place)
        if found is None or found[1] != batch.changes:
            found = known[place] = (self.cells_of(batch, owner), batch.changes, owner)
            if owner is None:
                self.cells = found[0]
        if self.methods:
            space, kind = owner.__dict__, owner.__class__
            for name, function in self.methods:
                if getattr(kind, name, None) is not function() or name in space:
                    return None
        return found[0]


class MadeCall:
    """The call of a made cell in its method: returns what it captures, or None if the method continues unchanged.

    quick(cell, holder, args, {}): captures as nearly every call is, or gives None; None where it was not built.
    otherwise(args): captures any call. The holder of the parts is the first argument of both. grown(): is told where
    a call has had a signature of its own; is_first(args): tells whether this one runs as it was written; may(args):
    whether its operators would be captured, where neither the method that calls it tells, nor a `lazy` array without
    numbers; `calls` counts all of them.
    """

    def __init__(self, cell, holder, quick, otherwise) -> None:
        self.cell, self.holder, self.quick, self.otherwise = cell, holder, quick, otherwise
        self.grown = self.is_first = self.may = self.lazy = None
        self.calls = 0
        self.signatures = 0
        self.no_names = {}

    def __call__(self, *args):
        if self.may is not None:
            for arg in args:
                if arg.__class__ is self.lazy and arg._c is None:
                    break
            else:
                if not self.may(args):
                    return None
        self.calls += 1
        given: tuple = (self.holder, *args)
        if self.quick is not None:
            found = self.quick(self.cell, self.holder, given, self.no_names)
            if found is not None:
                return found
        if self.is_first(given):
            return None
        found = self.otherwise(given)
        if len(self.cell.kinds) != self.signatures:
            self.signatures = len(self.cell.kinds)
            self.grown()
        return found
