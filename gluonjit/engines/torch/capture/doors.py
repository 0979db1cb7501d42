"""Doors: calls of PyTorch functions that C captures without Python, if it was built, and how calls reach them.

A function has a door once a call of it was captured as a node, if it takes no other path through `ops.call_operator`,
or only one that C can distinguish by the arguments. Operators and methods of lazy tensors lead there, too: PyTorch's
argument parser takes longer than all that follows.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from types import MethodDescriptorType
from typing import Any

import torch
from torch._C import _is_torch_function_mode_enabled

from gluonjit.compiled import FAST
from gluonjit.engines.torch.capture.cells import DOORS
from gluonjit.engines.torch.framework import originals
from gluonjit.engines.torch.tracing.cell import Cell
from gluonjit.engines.torch.values.aliases import DATA, VIEWING
from gluonjit.engines.torch.values.known import LIKE
from gluonjit.engines.torch.values.lazy import LazyTensor

FREE, SUM, COPY, ROWS, STACK, VIEW, DETACH, PICK, WRITE = range(9)
"""Sorts of doors: a call is a node always, is none where it adds 0, copies, joins whole rows, or stacks arrays; is one
that gives views, where Python has made one of the same constants, of a tensor that looks so, or does so only where
nothing is recorded; picks rows by known numbers; or writes to its first argument, as a node of one of two cells: of a
tensor without history, or with one."""
SORTS: dict[Any, int] = {
    **dict.fromkeys(VIEWING - {torch.detach, torch.Tensor.detach, DATA, *LIKE}, VIEW),
    torch.Tensor.detach: DETACH,
    torch.Tensor.add: SUM,
    **dict.fromkeys((torch.clone, torch.Tensor.clone), COPY),
    torch.cat: ROWS,
    torch.concat: ROWS,
    torch.concatenate: ROWS,
    torch.stack: STACK,
    torch.Tensor.index_select: PICK,
    torch.index_select: PICK,
}
WITHOUT_A_SAY = frozenset({LazyTensor, torch.Tensor, torch.nn.Parameter, type(None), bool, int, float, str})
_SIGNS = "add sub mul truediv floordiv mod matmul pow".split()
_COMPARED = "lt le gt ge eq ne".split()
_READ = (
    ("c10", "_ZN3c108GradMode10is_enabledEv"),
    ("c10", "_ZN3c104impl31tls_is_dispatch_keyset_excludedENS_14DispatchKeySetE"),
    ("torch_cpu", "_ZN2at4impl22PythonTorchFunctionTLS18get_disabled_stateEv"),
    ("torch_cpu", "_ZN2at4impl22PythonTorchFunctionTLS9stack_lenEv"),
)
"""Where modes are read: whether gradients are recorded, and keys are excluded; what overrides functions."""


def admit(func: Any, cell: Cell) -> None:
    """Gives a function a door, where there are doors."""
    if FAST is not None and func not in DOORS:
        DOORS[func] = cell, SORTS.get(func, FREE)


def handled(public_api: Any, relevant_args: Any, /, *args: Any, **kwargs: Any) -> Any:
    """A function of PyTorch's that is written in Python, with a lazy tensor among its arguments.

    PyTorch looks for all classes that have a say, which takes longer than to capture the call; where no other class has
    one, it is not asked.
    """
    kinds = set(map(type, relevant_args))
    if LazyTensor not in kinds or not kinds <= WITHOUT_A_SAY or _is_torch_function_mode_enabled():
        return originals.handle_torch_function(public_api, relevant_args, *args, **kwargs)
    return LazyTensor.__torch_function__(public_api, (LazyTensor,), args, kwargs)


HANDLED = handled if FAST is None else FAST.handled


class _Probe(torch.Tensor):  # type: ignore[misc]
    """Says what PyTorch calls __torch_function__ with."""

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func, args, kwargs or {}


def build() -> None:
    """Puts doors in place of methods of lazy tensors."""
    assert FAST is not None
    LazyTensor.__torch_function__ = staticmethod(FAST.torch_function)  # type: ignore[method-assign]
    plain, equal = torch.empty(1), LazyTensor.__eq__
    probe = originals.make_subclass(_Probe, plain)
    for name in _SIGNS:
        method = getattr(torch.Tensor, f"__{name}__")
        _put(f"__{name}__", probe, (probe,))
        if hasattr(torch.Tensor, f"__i{name}__"):
            _put(f"__i{name}__", probe, (probe,))
        _put(f"__r{name}__", probe, (1.0,), _asked(method, plain, (probe,)), method)
    for name in (*_COMPARED, "neg", "abs"):
        _put(f"__{name}__", probe, (probe,) if name in _COMPARED else ())
    LazyTensor._equal, LazyTensor.__eq__ = LazyTensor.__eq__, equal  # type: ignore[method-assign]
    for name in dir(torch.Tensor):
        method = getattr(LazyTensor, name)
        if name[:1] != "_" and method.__class__ is MethodDescriptorType:  # what PyTorch calls __torch_function__ with
            setattr(LazyTensor, name, FAST.Hook("door", method, method))


def _asked(method: Callable[..., Any], first: Any, rest: tuple[Any, ...]) -> Any:
    """The function that PyTorch gives __torch_function__ for a method; None if it changes the arguments."""
    func, args, kwargs = method(first, *rest)
    same = len(args) == 1 + len(rest) and all(given is arg for given, arg in zip(args, (first, *rest)))
    return func if same and not kwargs else None


def _put(name: str, probe: Any, rest: tuple[Any, ...], left: Any = None, method: Any = None) -> None:
    original = getattr(torch.Tensor, name)
    func = _asked(original, probe, rest)
    if func is not None and (method is None or left is not None):
        setattr(LazyTensor, name, FAST.Hook("door", original, func, left, method))


def find_modes() -> None:
    """Lets C read PyTorch's modes in its libraries, where they are found, and says what its functions say."""
    keys = torch._C.DispatchKey.__members__
    casting = 0
    for name in keys:
        if name.startswith("Autocast"):
            casting |= torch._C.DispatchKeySet(keys[name]).raw_repr()
    try:
        found = [ctypes.cast(originals.symbol(*each), ctypes.c_void_p).value for each in _READ]
    except (AttributeError, OSError, StopIteration):
        return
    FAST.read_modes(*found, casting)
    if not _agree():
        FAST.read_modes(0, 0, 0, 0, 0)


def _agree() -> bool:
    """True if C reads what PyTorch's functions say, in each mode."""
    learning, casting = torch.is_grad_enabled(), torch.is_autocast_enabled("cpu")
    try:
        seen = []
        for on in (True, False):
            torch._C._set_grad_enabled(on)
            torch.set_autocast_enabled("cpu", on)
            seen.append(FAST.modes() == (on, originals.autocast(), originals.overridden()))
    finally:
        torch._C._set_grad_enabled(learning)
        torch.set_autocast_enabled("cpu", casting)
    with torch._C.DisableTorchFunctionSubclass():
        seen.append(FAST.modes()[2])
    with torch.overrides.BaseTorchFunctionMode():
        seen.append(FAST.modes()[2])
    return all(seen)
