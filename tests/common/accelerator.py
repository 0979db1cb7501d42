"""A simulated accelerator: a device of PyTorch's for private use, whose memory the host cannot address.

Its tensors are plain ones (`torch.Tensor`), on "sim:0". Each storage has an address that no processor can follow, and
its bytes lie elsewhere. All operators come to one kernel, which runs them on the host's twins of their operands, and
sees what would go wrong, or slow, on a real device: `Fault` is raised for an operand of the host's, and for an address
whose storage is gone; `Accelerator.reads` says what brought numbers to the host, `Accelerator.sends` what brought some
from there.
"""

from __future__ import annotations

import ctypes
import sys
import weakref
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch.utils.backend_registration import _DummyBackendModule, _setup_privateuseone_for_python_backend

from gluonjit.engines.torch.framework import copy_on_write
from gluonjit.hybrid.capture.guards import owners

aten = torch.ops.aten
_FIRST, _APART = 1 << 52, 256  # the first address, and what addresses are multiples of
_TORCH = str(Path(torch.__file__).parent)
_HOST = torch.device("cpu")
_ON_HOST = torch._C.DispatchKeySet(torch._C.DispatchKey.CPU)
_TAGS = {torch.Tag.data_dependent_output, torch.Tag.dynamic_output_shape}


class Fault(RuntimeError):
    """Something that a real device would not do, or do only after a wait."""


class Accelerator:
    """The device's memory, and what came over it.

    reuse: whether new storages get addresses of such as are gone, as a caching allocator gives them. Without it each
    address is given out once, so that a stale one is known.
    """

    def __init__(self) -> None:
        self.reuse = False
        self.reads: list[str] = []
        self.sends: list[str] = []
        self.faults: list[str] = []
        self.launches = 0  # of kernels: views and room are none
        self._memory: dict[int, Any] = {}  # by address
        self._lazy: set[int] = set()  # addresses whose bytes are copied when they are written to
        self._gone: defaultdict[int, list[int]] = defaultdict(list)  # addresses, by how many bytes they had
        self._next = _FIRST

    @contextmanager
    def watched(self, reuse: bool = False) -> Iterator[Accelerator]:
        """Begin to count anew."""
        self.reads, self.sends, self.faults, self.launches, self.reuse = [], [], [], 0, reuse
        try:
            yield self
        finally:
            self.reuse = False

    def run(self, operator: Any, *args: Any, **kwargs: Any) -> Any:
        """Run an operator of ATen: the only kernel that there is."""
        self.launches += not _is_free(operator)
        if operator is aten._lazy_clone.default:
            return self._lazily(*args)
        for tensor in _written(operator, args, kwargs):
            self._before_write(tensor)
        if operator is aten.copy_.default:
            return self._copied(*args, **kwargs)
        call = _Call(self, operator)
        args, kwargs = call.given(args), call.given(kwargs)
        if _reads(operator, args):
            self.reads.append(f"{operator} {_asked()}")
        found = _function(operator, args)(*args, **kwargs)
        return [call.result(each) for each in found] if isinstance(found, (tuple, list)) else call.result(found)

    def _copied(self, target: Any, source: Any, non_blocking: bool = False) -> Any:
        if target.device != source.device:
            (self.reads if target.device == _HOST else self.sends).append(f"copy {tuple(source.shape)} {_asked()}")
        to, what = [each if each.device == _HOST else self.twin(each) for each in (target, source)]
        aten.copy_.default(to, what)
        return target

    def _lazily(self, tensor: Any) -> Any:
        """A tensor of the same bytes, at another address, until either is written to."""
        memory = self._memory[tensor.untyped_storage().data_ptr()]
        made = device_tensor(self.storage(memory), tensor)
        self._lazy |= {each.untyped_storage().data_ptr() for each in (tensor, made)}
        return made

    def is_lazy(self, tensor: Any) -> bool:
        """Whether a tensor has not been written to since it was cloned lazily."""
        return tensor.untyped_storage().data_ptr() in self._lazy

    def _before_write(self, tensor: Any) -> None:
        address = tensor.untyped_storage().data_ptr()
        if tensor.device.type != "sim" or address not in self._lazy:
            return
        self._lazy.remove(address)
        memory = self._memory[address]
        if any(memory is other for place, other in self._memory.items() if place != address):
            self._memory[address] = memory.clone()
            self.launches += 1

    def twin(self, tensor: Any) -> Any:
        """A tensor of the host's, on the same memory."""
        address = tensor.untyped_storage().data_ptr()
        memory = self._memory.get(address)
        if memory is None:
            raise self.fault(f"the address {address:#x}, at which there is no storage")
        made = aten.empty.memory_format([0], dtype=tensor.dtype, device=_HOST)
        return aten.set_.source_Storage_storage_offset(
            made, memory, tensor.storage_offset(), tensor.shape, tensor.stride()
        )

    def fault(self, what: str) -> Fault:
        """Note a fault, and make its error."""
        self.faults.append(f"{what} {_asked()}")
        return Fault(self.faults[-1])

    def storage(self, memory: Any) -> Any:
        """A storage of the device's whose bytes are these of the host's."""
        size = memory.nbytes()
        if self.reuse and self._gone[size]:
            address = self._gone[size].pop()
        else:
            address = self._next
            self._next += _APART * (1 + size // _APART)
        made = torch._C._construct_storage_from_data_pointer(address, torch.device("sim:0"), size)
        self._memory[address] = memory
        weakref.finalize(made, self._free, address)
        return made

    def _free(self, address: int) -> None:
        memory = self._memory.pop(address)
        self._lazy.discard(address)
        if any(memory is other for other in self._memory.values()):
            return
        ctypes.memset(memory.data_ptr(), 0xFF, memory.nbytes())  # not a number, in any type of floats
        self._gone[memory.nbytes()].append(address)


class _Call:
    """An operator's operands, on the host."""

    def __init__(self, device: Accelerator, operator: Any) -> None:
        self._device, self._operator = device, operator
        self._twins: dict[int, tuple[Any, Any]] = {}
        self._storages: dict[int, Any] = {}

    def given(self, value: Any) -> Any:
        """An argument as the host's operator takes it."""
        if isinstance(value, torch.Tensor):
            if value.device.type == "sim":
                return self._operand(value)
            if value.dim():
                text = f"{self._operator} with an operand on {value.device}, of shape {tuple(value.shape)},"
                raise self._device.fault(text)
        elif isinstance(value, torch.device):
            return _HOST
        elif isinstance(value, (tuple, list)):
            return [self.given(each) for each in value]
        elif isinstance(value, dict):
            return {key: self.given(each) for key, each in value.items()}
        return value

    def _operand(self, tensor: Any) -> Any:
        twin = self._device.twin(tensor)
        self._twins[id(twin)] = twin, tensor
        self._storages[twin.untyped_storage()._cdata] = tensor.untyped_storage()
        return twin

    def result(self, value: Any) -> Any:
        """A result, on the device: an operand that was written to, a view of one, or new."""
        if not isinstance(value, torch.Tensor):
            return value
        _, tensor = self._twins.get(id(value), (None, None))
        if tensor is not None and tensor.shape == value.shape:
            return tensor
        memory = value.untyped_storage()
        if tensor is not None:  # an operand that has been made larger, as results of unknown size are
            del self._storages[memory._cdata]
            memory = memory.clone()
        storage = self._storages.get(memory._cdata)
        if storage is None:
            storage = self._storages[memory._cdata] = self._device.storage(memory)
        return device_tensor(storage, value, tensor)


def _function(operator: Any, args: Any) -> Any:
    """What runs it on the host. Numbers come as such where they were tensors, and there are overloads for them."""
    kinds = [argument.type for argument in operator._schema.arguments]
    if any(isinstance(kind, torch.TensorType) and isinstance(each, (int, float)) for kind, each in zip(kinds, args)):
        return operator.overloadpacket
    return _BY_HAND.get(operator, operator)


def _lstm(inputs: Any, states: Any, memory: Any, bias: Any = None, other: Any = None) -> tuple[Any, Any, Any]:
    """A step of an LSTM, which accelerators have one operator for, and the host none."""
    gates = inputs + states if bias is None else inputs + states + bias + other
    i, f, g, o = gates.chunk(4, -1)
    gates = torch.cat([i.sigmoid(), f.sigmoid(), g.tanh(), o.sigmoid()], -1)
    i, f, g, o = gates.chunk(4, -1)
    after = f * memory + i * g
    return o * after.tanh(), after, gates


def _lstm_backward(hidden: Any, cell: Any, memory: Any, after: Any, gates: Any, bias: bool) -> tuple[Any, Any, Any]:
    i, f, g, o = gates.chunk(4, -1)
    hidden, cell = [torch.zeros_like(memory) if each is None else each for each in (hidden, cell)]
    cell = cell + hidden * o * (1 - after.tanh() ** 2)
    slopes = [cell * g * i * (1 - i), cell * memory * f * (1 - f), cell * i * (1 - g**2)]
    found = torch.cat([*slopes, hidden * after.tanh() * o * (1 - o)], -1)
    return found, cell * f, found.sum(0) if bias else None


_BY_HAND = {
    aten._thnn_fused_lstm_cell.default: _lstm,
    aten._thnn_fused_lstm_cell_backward_impl.default: _lstm_backward,
    aten.convolution_overrideable.default: aten.convolution.default,
}


def device_tensor(storage: Any, like: Any, made: Any = None) -> Any:
    """A tensor of the device on a storage, with the dtype and strides of another: a new one, or what is there."""
    made = torch._C._acc.create_empty_tensor([0], like.dtype) if made is None else made
    place = like.storage_offset(), like.shape, like.stride()
    return aten.set_.source_Storage_storage_offset.redispatch(_ON_HOST, made, storage, *place)


def _is_free(operator: Any) -> bool:
    """Whether an operator launches nothing: it makes room, or a view."""
    schema = operator._schema
    views = [each.alias_info is not None and not each.alias_info.is_write for each in schema.returns]
    return any(views) or schema.name in _FREE


_FREE = {f"aten::{name}" for name in "empty empty_strided empty_like new_empty set_ _lazy_clone resize_".split()}


def _written(operator: Any, args: Any, kwargs: Any) -> Iterator[Any]:
    """The tensors that an operator writes to."""
    for place, argument in enumerate(operator._schema.arguments):
        if argument.alias_info is not None and argument.alias_info.is_write:
            value = args[place] if place < len(args) else kwargs.get(argument.name)
            yield from [value] if isinstance(value, torch.Tensor) else value or ()


def _reads(operator: Any, args: Any) -> bool:
    """Whether the host waits for numbers: a single one, or those that tell how large a result is."""
    if operator is aten.index.Tensor:
        return any(each is not None and each.dtype in (torch.bool, torch.uint8) for each in args[1])
    return bool(_TAGS & set(operator.tags))


def _asked() -> str:
    """The lines from which this was called, outside of PyTorch, the last one first."""
    found: list[str] = []
    frame: Any = sys._getframe(2)
    while frame is not None and len(found) < 6:
        name = frame.f_code.co_filename
        if not name.startswith((_TORCH, __file__)):
            found.append(f"{Path(name).name}:{frame.f_lineno}")
        frame = frame.f_back
    return "at " + " < ".join(found)


def _as_built_in(device: Accelerator) -> None:
    """Let the device be what one of PyTorch's is: no code of the program's, and memory of an allocator."""
    owner_of_file, resizable = owners.owner_of_file, torch.UntypedStorage.resizable
    owners.owner_of_file = lambda name: owners.LIBRARY if name == __file__ else owner_of_file(name)  # type: ignore
    torch.UntypedStorage.resizable = lambda storage: storage.device.type == "sim" or resizable(storage)
    is_cow = torch._C._is_cow_tensor
    torch._C._is_cow_tensor = lambda tensor: device.is_lazy(tensor) if tensor.device.type == "sim" else is_cow(tensor)
    copy_on_write.DEVICES.add("sim")


class _Module(_DummyBackendModule):  # type: ignore
    """torch.sim: what else PyTorch asks of a device, once there is one."""

    def get_amp_supported_dtype(self) -> list[Any]:
        return [torch.float16, torch.bfloat16]


_made: list[Any] = []


def accelerator() -> Accelerator:
    """The device, one for a process."""
    if not _made:
        _setup_privateuseone_for_python_backend("sim", backend_module=_Module())
        found = Accelerator()
        _as_built_in(found)
        everything, few = torch.library.Library("_", "IMPL"), torch.library.Library("aten", "IMPL")
        everything.fallback(found.run, "PrivateUse1")
        own = aten.copy_.default, aten._lazy_clone.default, aten.convolution_overrideable.default
        for operator in own:  # which have a kernel for the rest
            few.impl(operator, partial(found.run, operator), "PrivateUse1")
        _made.extend([found, everything, few])
    device: Accelerator = _made[0]
    return device
