"""Knowledge of PyTorch for reused calls (`hybrid.capture.reuse.reusing`).

Functions of tensors that are not pending are not part of a graph and are not captured. So a recorded call runs under a
mode that sees each of them, and one that a later call would have to run itself is a reason not to reuse the call.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import blake2b
from sys import _getframe
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from gluonjit.engines.torch.capture.cells import casts
from gluonjit.engines.torch.capture.records import found_again, signature_of
from gluonjit.engines.torch.framework.arrays import bytes_of, look_of
from gluonjit.engines.torch.framework.originals import REQUIRES_GRAD, autocast
from gluonjit.engines.torch.framework.targets import WRITES, target_of
from gluonjit.engines.torch.run.program import program_of
from gluonjit.engines.torch.values.known import is_whole
from gluonjit.engines.torch.values.lazy import LazyTensor, wrap
from gluonjit.engines.torch.values.lookups import Table
from gluonjit.engines.torch.values.operands import current, leaf
from gluonjit.graph import Record, Value
from gluonjit.hybrid.capture.reuse.cache import NotReusable, refuse
from gluonjit.hybrid.capture.reuse.reusable import ArraySource, Reusing
from gluonjit.hybrid.capture.structure import items_of
from gluonjit.hybrid.run.batch import Batch
from gluonjit.hybrid.run.state import LOCAL

_READING = frozenset("item tolist numpy equal allclose is_nonzero __array__ __contains__".split())
_READING |= {f"__{kind}__" for kind in ("bool", "int", "float", "complex", "index")}
_OWN = ("gluonjit.",)
_SHORT = 256


class _FunctionWatch(TorchFunctionMode):  # type: ignore[misc]
    """Sees functions of PyTorch's on tensors that do not wait, called by the program.

    own: arguments and weights by address, which are others in the next call, or have other numbers.
    """

    def __init__(self, own: dict[int, Any]) -> None:
        super().__init__()
        self._own = own

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        state = LOCAL.state
        if state.recorded is None or state.trace is not None or state.paused or _is_ours(_getframe(1)):
            return func(*args, **kwargs)
        tensors = list(items_of((args, kwargs), torch.Tensor))
        if any(tensor.__class__ is LazyTensor for tensor in tensors):  # it is captured, or says by itself why not
            return func(*args, **kwargs)
        name = getattr(func, "__name__", str(func))
        if kwargs.get("generator") is not None:
            refuse("it draws random numbers")
        if isinstance(target_of(func, name, args, kwargs), torch.Tensor):
            refuse(WRITES)
        if name in _READING and not all(map(is_whole, tensors)):
            refuse("it reads numbers of a tensor")
        found = func(*args, **kwargs)
        if any(id(tensor) in self._own for tensor in tensors) and next(items_of(found, torch.Tensor), None) is not None:
            refuse(f"{name} of parameters or arguments alone runs when it is called")
        return found


def _is_ours(frame: Any) -> bool:
    """True if a call is one of the library's own."""
    return str(frame.f_globals.get("__name__", "")).startswith(_OWN)


def _drawn() -> list[Any]:
    """The states of PyTorch's generators."""
    found = [torch.get_rng_state()]
    if torch.cuda.is_initialized():
        found += torch.cuda.get_rng_state_all()
    return found


class _PyTorch(Reusing):
    """Calls of modules. What they are made of is looked at once a batch, and when something has changed."""

    array, lazy = torch.Tensor, LazyTensor
    weight_table = Table.of
    learns = staticmethod(REQUIRES_GRAD.__get__)

    def modes(self) -> Any:
        """Modes of the thread: whether gradients are recorded, what casts, and dtypes."""
        modes = torch.is_grad_enabled(), torch.is_inference_mode_enabled(), torch.get_default_dtype()
        return (*modes, casts() if autocast() else ())

    def flags(self, net: Any) -> Any:
        """Modules that train, and weights that learn."""
        trains = [module.training for module in net.modules()]
        return bytes(trains), bytes([tensor.requires_grad for tensor in net.parameters()])

    def parts(self, net: Any) -> list[Any]:
        """Modules, and their weights and buffers, with the dtypes of these."""
        found: list[Any] = []
        for module in net.modules():
            found.append(module)
            for tensor in (*module._parameters.values(), *module._buffers.values()):
                found += [tensor, None if tensor is None else tensor.dtype]
        return found

    def why_not(self, net: Any) -> str:
        """Names hooks, which run for each call."""
        hooks = LOCAL.state.batch.noted.get(id(net), (net, True))[1]  # type: ignore[union-attr]
        return "a module in it has hooks, which run for each call" if hooks else ""

    def key_of(self, array: Any) -> Any:
        """Its spec, whether it learns, and integers on the host, which may be read at any time."""
        look = look_of(array)
        numbers = bytes_of(look, array) if is_whole(array) else b""
        if len(numbers) > _SHORT:
            numbers = blake2b(numbers).digest()
        return look.spec, array.requires_grad, numbers

    @contextmanager
    def watched(self, batch: Batch, net: Any, arrays: list[Any]) -> Iterator[None]:
        """Returns a region in which functions of existing tensors are seen, and draws are noticed."""
        own = {id(array): array for array in arrays if not is_whole(array)}
        before = _drawn()
        with _FunctionWatch({**batch.parameters, **own}):
            yield
        after = _drawn()
        if len(before) != len(after) or not all(map(torch.equal, before, after)):
            refuse("it draws random numbers")

    def value_of(self, array: Any, batch: Batch) -> Value | None:
        """The value of a captured tensor, a view of what has been written to taken anew. Raises NotReusable."""
        current(array)
        if array._b is not None and array._b._c is not None:
            raise NotReusable("it returns a view of an argument")
        return super().value_of(array, batch)

    def wrapped(self, value: Value, kind: type) -> Any:
        """A captured tensor."""
        return wrap(value)

    def link(self, view: Any, base: Any, key: Any) -> None:
        """Lets a tensor be this view of another."""
        view._b, view._k, view._n = base, key, base._n

    def signature(self, batch: Batch, key: Any, record: Record) -> Any:
        """The signature as its cell has it, for all batches, and the module whose call it is."""
        if record.kind.operator:
            for tensor in program_of(record.kind).consts:
                known = id(tensor) in batch.parameters and not tensor.requires_grad
                if known and not isinstance(tensor, torch.nn.Parameter):
                    raise NotReusable("it uses a buffer outside of any cell")
        return signature_of(batch, record)

    def record(self, batch: Batch, known: Any) -> Record | None:
        """The record of such a signature."""
        return found_again(batch, *known.signature)

    def source(self, batch: Batch, payload: Any) -> ArraySource:
        """The tensor itself, as it will be then."""
        return ArraySource(payload.tensor, "array")

    def leaf(self, batch: Batch, source: ArraySource) -> Value:
        """The value of a tensor."""
        return leaf(batch, source.what, source.mode)

    def alike(self, one: Any, other: Any) -> bool:
        """True if two tensors have the same numbers: they may be made anew for each call."""
        return one.dtype is other.dtype and torch.equal(one, other)


REUSING = _PyTorch()
