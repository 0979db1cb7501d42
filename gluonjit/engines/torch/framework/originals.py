"""PyTorch's own functions, as they were before this package wrapped them."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from contextlib import nullcontext
from functools import partial, reduce
from operator import or_
from pathlib import Path
from typing import Any

import torch
from torch._C._functorch import peek_interpreter_stack
from torch.nn.parallel import distributed
from torch.nn.utils import stateless

from gluonjit.graph.modes import RECORDING
from gluonjit.graph.recorder import Uncaptured
from gluonjit.hybrid.run.state import LOCAL

original_call = torch.nn.Module.__call__
handle_torch_function = torch.overrides.handle_torch_function
original_tensor_requires_grad = torch.Tensor.requires_grad_
original_register_hook = torch.Tensor.register_hook
original_retain_grad = torch.Tensor.retain_grad
REQUIRES_GRAD = torch.Tensor.requires_grad
"""The slot in which a tensor has whether it requires gradients."""
GRAD = torch.Tensor.grad
"""That of its gradient."""
DATA = torch.Tensor.data
"""That of its numbers, without history."""
data_of: Callable[[Any], Any] = DATA.__get__
"""Gives these, and tells nobody."""
original_setattr = torch.nn.Module.__setattr__
original_function_apply = torch.autograd.Function.__dict__["apply"]
original_backward = torch.autograd.backward
original_grad = torch.autograd.grad
original_saved_enter = torch.autograd.graph.saved_tensors_hooks.__enter__
original_saved_exit = torch.autograd.graph.saved_tensors_hooks.__exit__
original_compile = torch.compile
original_script_function = torch._C.ScriptFunction.__call__
original_script_method = torch._C.ScriptMethod.__call__
original_functional_call = stateless._functional_call
original_find_tensors = distributed._find_tensors
run_backward = torch.autograd.Variable._execution_engine.run_backward
"""(results, gradients, keep_graph, create_graph, inputs, allow_unreachable, accumulate_grad): what both of them call;
`torch.autograd.grad` would import sympy, which takes a second."""
autocast = torch._C._is_any_autocast_enabled
without_autocast = torch._C._DisableAutocast
_SORTS = ("forward_pre", "forward", "backward_pre", "backward")
GLOBAL_HOOKS = tuple(getattr(torch.nn.modules.module, f"_global_{sort}_hooks") for sort in _SORTS)
"""The hooks of all modules, by sort."""
make_subclass = torch.Tensor._make_subclass
make_wrapper = torch.Tensor._make_wrapper_subclass


def is_distributed() -> bool:
    """True if this process trains together with others."""
    return bool(torch.distributed.is_available() and torch.distributed.is_initialized())


def functions_named(names: str, places: tuple[Any, ...] = (torch, torch.Tensor)) -> frozenset[Any]:
    """The functions that have one of these names in any of the places."""
    found = [getattr(place, name, None) for name in names.split() for place in places]
    return frozenset(filter(callable, found))


_KEYS = torch._C.DispatchKey.__members__
_CASTING = reduce(or_, [torch._C.DispatchKeySet(key) for name, key in _KEYS.items() if name.startswith("Autocast")])
_NOTHING = nullcontext()


def above() -> Any:
    """A region in which autograd records, if gradients are: PyTorch's C++ may ask for numbers where it does not."""
    if not torch._C._dispatch_tls_is_dispatch_key_excluded(_KEYS["AutogradFunctionality"]):
        return _NOTHING
    included = torch._C._dispatch_tls_local_include_set() | torch._C.DispatchKeySet(_KEYS["ADInplaceOrView"])
    return torch._C._ForceDispatchKeyGuard(included, torch._C._dispatch_tls_local_exclude_set() & _CASTING)


def hooks_everywhere() -> bool:
    """True if there are hooks of all modules."""
    return any(GLOBAL_HOOKS)


def current_mode() -> int:
    """The mode of this thread: whether gradients are recorded. Whether it trains is each module's own."""
    return RECORDING if torch.is_grad_enabled() else 0


_PYTHON = torch._C.DispatchKey.Python
_is_excluded, _is_inference = torch._C._dispatch_tls_is_dispatch_key_excluded, torch.is_inference_mode_enabled
_functions, _dispatchers = torch._C._len_torch_function_stack, torch._C._len_torch_dispatch_stack
_backward = torch._C._current_graph_task_id


def flags() -> tuple[Any, ...]:
    """The rest of what this thread has in force: modes, autocast, transforms, and the backward pass under way."""
    casts = None
    if autocast():
        casts = [(torch.is_autocast_enabled(name), torch.get_autocast_dtype(name)) for name in ("cpu", "cuda")]
    below = _is_excluded(_PYTHON)  # what C++ asks runs there
    return _is_inference(), casts, _functions(), _dispatchers(), peek_interpreter_stack(), _backward(), below


def symbol(library: str, name: str) -> Any:
    """A function of one of PyTorch's libraries. Raises AttributeError, OSError or StopIteration where there is none."""
    return getattr(ctypes.PyDLL(str(next((Path(torch.__file__).parent / "lib").glob(f"lib{library}.*")))), name)


def _receiver(name: str, result: Any, *given: Any) -> Callable[..., Any]:
    """A function of what receives warnings of this thread's C++, which lies on the stack of whoever called that."""
    try:
        found = symbol("c10", f"_ZN3c1012WarningUtils19{name}")
    except (AttributeError, OSError, StopIteration):
        return lambda *_: None
    found.restype, found.argtypes = result, given
    return found  # type: ignore[no-any-return]


held = _receiver("get_warning_handlerEv", ctypes.c_void_p)
hold = _receiver("set_warning_handlerEPNS_14WarningHandlerE", None, ctypes.c_void_p)


class _Learning:
    """Context inside of `plain` in which operators are recorded."""

    __slots__ = ()

    def __enter__(self) -> None:
        torch._C._set_grad_enabled(True)

    def __exit__(self, *error: object) -> None:
        torch._C._set_grad_enabled(False)


LEARNING = _Learning()


_SET_GRAD = tuple([partial(torch._C._set_grad_enabled, enabled) for enabled in (False, True)])


class plain(Uncaptured):
    """Context in which operators run at once, are not part of the program, and are recorded if `learning`.

    Nothing is cast: what was captured under torch.autocast has its casts in it.
    """

    __slots__ = ("_learning",)

    def __init__(self, learning: bool = False) -> None:
        self.local = LOCAL
        self._learning = learning

    def ways(self) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        """Returns what leaves the modes of the program, and what goes back to them."""
        there, back = (_SET_GRAD[self._learning],), (_SET_GRAD[torch.is_grad_enabled()],)
        if autocast():  # each costs as much as all the rest here
            there, back = _around(without_autocast(), there, back)
        if torch.is_inference_mode_enabled():  # what is made in it could not be used to learn later
            there, back = _around(torch.inference_mode(False), there, back)
        return there, back


def _around(region: Any, there: tuple[Any, ...], back: tuple[Any, ...]) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    return (region.__enter__, *there), (*back, partial(region.__exit__, None, None, None))


def overridden() -> bool:
    """True if functions go to a TorchFunctionMode first, or not to the classes of their arguments."""
    return torch._C._len_torch_function_stack() > 0 or not torch._C._is_torch_function_enabled()
