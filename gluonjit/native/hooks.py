# cython: language_level=3, nonecheck=True, initializedcheck=False, binding=False
"""Fast paths tried before a function of Python: hooks in its place, cells, and functions that stay what they are."""

from __future__ import annotations

import cython
from cython import Py_ssize_t, cfunc

__all__ = ["Celled", "Hook", "quick_cells", "quicken", "watch_calls"]

_WAYS = ("call", "item", "numpy_item", "operator", "verify", "numpy_verify", "door", "entry")


@cfunc
def _tried(hook: Hook, args: Args, count: Py_ssize_t):
    """Tries the way named before the function, or LEFT."""
    way: cython.int = hook._way
    if way == 0:
        return call_block(args, count)
    if way == 1 or way == 2:
        kind = mxnet.lazy if way == 1 else mxnet.lazy_np
        return slice_of(kind, item(args, 0), item(args, 1)) if count == 2 and kind is not None else LEFT
    if way == 3:
        return call_operator(args, count)
    if way < 6:
        return verified(args, count, way == 5)
    if way == 7:
        return entry_of_weight(item(args, 0), item(args, 1)) if count == 2 else LEFT
    # A method of lazy tensors, which goes by PyTorch's parser of arguments.
    if hook._left is None or count != 2 or type(item(args, 1)) is not torch.Array:
        return operate(hook._func, hook.__wrapped__, args, count)
    turned = (item(args, 1), item(args, 0))  # Python asks the right one first, as its class is the other's and more
    return operate(hook._left, hook._method, items_of(turned), 2)


@cfunc
def _call_hook(self, args: Args, flags: cython.size_t, keywords: Pointer):
    hook: Hook = self
    count: Py_ssize_t = PyVectorcall_NARGS(flags)
    if keywords == cython.NULL and count > 0 and package.local is not None:
        found = _tried(hook, args, count)
        if found is not LEFT:
            return found
    Py_EnterRecursiveCall(" in a hook")  # of a hook of a hook
    try:
        return PyObject_Vectorcall(hook.__wrapped__, args, flags, keywords)
    finally:
        Py_LeaveRecursiveCall()


@cython.trashcan(True)
@cython.cclass
class Hook:
    """Stands in the place of a function, and calls it where the way named before it does not apply.

    func: of a method of lazy tensors, what PyTorch calls __torch_function__ with; left and method: of a reflected sign,
    where both are tensors, what PyTorch calls it with, and PyTorch's method. Raises ValueError for another way.
    """

    def __init__(self, way: str, function, func=None, left=None, method=None):
        if way not in _WAYS:
            raise ValueError(f"there is no fast path {way}")
        self._way = _WAYS.index(way)
        self._before = _call_hook
        self.__wrapped__, self._func, self._left, self._method = function, func, left, method

    def __get__(self, instance, owner):
        return self if instance is None else PyMethod_New(self, instance)

    def __getattribute__(self, name):
        """Returns an attribute: whatever else is asked for is the function's, as its name, its code."""
        if name != "__doc__":
            try:
                return PyObject_GenericGetAttr(self, name)
            except AttributeError:
                pass
        Py_EnterRecursiveCall(" in an attribute of a hook")
        try:
            return getattr(self.__wrapped__, name)
        finally:
            Py_LeaveRecursiveCall()


@cfunc
def _captured(cell: Celled, args: Args, count: Py_ssize_t):
    """Captures a call inside of a sample whose first array or block is of the framework of the open batch; or LEFT."""
    if package.local is None or cell.caches is None or count == 0:
        return LEFT
    state: StateNumbers = state_here()
    batch: BatchRoom = state.batch
    if batch is None or state.inside <= 0 or not is_running(state):
        return LEFT
    of: FrameworkNames = torch if is_torch(batch) else mxnet
    found = cell.caches.get("torch" if of is torch else "mxnet")
    if of.Cell is None or type(found) is not of.Cell or cython.cast(CellSlots, found).lookup is not None:
        return LEFT
    first = item(args, 0)
    kind = type(first)
    if kind is of.lazy.kind or kind is of.other.kind:
        return captured(of, state, found, None, None, args, count, None)
    if not isinstance(first, of.Block):
        return LEFT
    return captured(of, state, found, first, None, args, count, None)


@cfunc
def _call_celled(self, args: Args, flags: cython.size_t, keywords: Pointer):
    count: Py_ssize_t = PyVectorcall_NARGS(flags)
    function = of_class(type(self), "__call__")
    if function is None:
        raise TypeError(f"{self!r} cannot be called")
    if keywords == cython.NULL and function is _behind:
        found = _captured(self, args, count)
        if found is not LEFT:
            return found
    passed: Py_ssize_t = count
    if keywords != cython.NULL:
        passed += len(cython.cast(tuple, keywords))
    given = (self, *all_of(args, passed))
    Py_EnterRecursiveCall(" in a cell")
    try:
        return PyObject_Vectorcall(function, items_of(given), count + 1, keywords)
    finally:
        Py_LeaveRecursiveCall()


class Celled:
    """A function whose calls are captured: a base of what is declared a cell. `caches`: what engines know about it."""

    def __cinit__(self):
        self._before = _call_celled

    def __get__(self, instance, owner):
        return self if instance is None else PyMethod_New(self, instance)


_behind = None  # CellFunction.__call__


def quick_cells(kind):
    """Lets calls of what is of this class, which derives from Celled, try the fast path first."""
    global _behind
    if not isinstance(kind, type) or not issubclass(kind, Celled) or kind is Celled:
        raise TypeError(f"quick_cells() takes a class that derives from Celled, not {kind!r}")
    _behind = of_class(kind, "__call__")
    call_by(kind, 0)


@cfunc
def _before_call(function, args: Args, flags: cython.size_t, keywords: Pointer):
    if PyVectorcall_NARGS(flags) > 0 and package.local is not None:
        found = call_module(args, PyVectorcall_NARGS(flags), keywords)
        if found is not LEFT:
            return found
    return _as_it_was(function, args, flags, keywords)


@cfunc
def _before_attribute(function, args: Args, flags: cython.size_t, keywords: Pointer):
    if keywords == cython.NULL and PyVectorcall_NARGS(flags) == 2:
        found = part_of(item(args, 0), item(args, 1))
        if found is not LEFT:
            return found
    return _as_it_was(function, args, flags, keywords)


def quicken(way: str, function):
    """Lets calls of a function try a fast path first, "call" or "attribute" of modules. It stays what it is.

    torch.compile reads its code.
    """
    global _as_it_was
    if not PyFunction_Check(function):
        raise TypeError(f"quicken() takes a function of Python, not {function!r}")
    if way not in ("call", "attribute"):
        raise ValueError(f"there is no fast path {way}")
    before: Before = _before_call if way == "call" else _before_attribute
    old: Before = cython.cast(Before, exchange_call(function, cython.cast(cython.p_void, before)))
    if old != _before_call and old != _before_attribute:
        _as_it_was = old
    return function


_passed_over = {}


def _before_line(notice, frame, what, arg):
    """Sees only calls of Python's functions, for sys.setprofile.

    Python makes a dict of a frame's names for each call and return of anything before a function of Python is asked,
    and after.
    """
    if what == PyTrace_CALL and code_at(frame) not in _passed_over:
        told = notice  # which may end its own watch, and with it itself
        try:
            told(cython.cast(object, frame), "call", None)
        except BaseException:
            PyEval_SetProfile(cython.NULL, cython.NULL)
            raise
    return 0


def watch_calls(notice, known: dict):
    """Calls notice(frame, "call", None) before the first line of each function of Python, until sys.setprofile is used.

    known: code that is passed over, by address.
    """
    global _passed_over
    if not callable(notice):
        raise TypeError(f"watch_calls() takes a function, not {notice!r}")
    _passed_over = known
    PyEval_SetProfile(cython.cast(cython.p_void, _before_line), cython.cast(Pointer, notice))


@cfunc
def _called_fast(hook: Hook, cell: Celled) -> cython.void:
    """Has instances of both classes called by what they hold for that."""
    call_by(Hook, cython.cast(Py_ssize_t, cython.address(hook._before)) - ADDRESS(hook))
    call_by(Celled, cython.cast(Py_ssize_t, cython.address(cell._before)) - ADDRESS(cell))


_called_fast(Hook("door", None), Celled())
