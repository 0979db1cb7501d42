"""A cell's program: the operators of ATen that it calls, recorded once on placeholders of known shape."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from gluonjit.engines.torch.arrays import device_named, dtype_named, name_of_dtype
from gluonjit.engines.torch.hooked import make_wrapper
from gluonjit.engines.torch.rules import rule_of
from gluonjit.graph import Spec
from gluonjit.hybrid import LOCAL

Attrs = tuple[tuple[str, Any], ...]
Shaped = tuple[tuple[int, ...], str]
RANDOM = torch.Tag.nondeterministic_seeded
DETACH = "detach.default"


class NeedsValue(Exception):
    """The traced function reads a tensor's numbers, writes to one from outside, or uses one that may differ."""


class Operand(int):
    """In attributes: the argument is the input of this number."""

    def __repr__(self) -> str:
        return f"input {int(self)}"


class TraceOp(NamedTuple):
    """One operator: `inputs` and `outputs` are positions in the trace's list of shapes.

    name: as ATen has it, with the overload: "add.Tensor"; attrs: its arguments by name, in which tensors are Operands.
    """

    name: str
    attrs: Attrs
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]


class Trace:
    """One program. Operands come first in `shapes`, then constants and results as they appear."""

    def __init__(self, operands: Sequence[Spec]) -> None:
        self.operands = tuple(operands)
        self.device = operands[0].device if operands else "cpu"
        self.shapes: list[Shaped] = [(spec.shape, spec.dtype) for spec in operands]
        self.consts: list[tuple[int, Any]] = []
        self.ops: list[TraceOp] = []


class TraceTensor(torch.Tensor):
    """What a traced function is given: a tensor that stands for a position of a trace."""

    __slots__ = ("meta", "position", "recorder")
    __torch_function__ = torch._C._disabled_torch_function_impl

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Reached where the recorder does not stand before it: the tensor has left its trace."""
        raise NeedsValue


class Recorder(TorchDispatchMode):  # type: ignore[misc]
    """Records every operator called while it is active.

    `constant(tensor)` says whether a tensor from outside is the same in every call, as a parameter is.
    """

    def __init__(self, trace: Trace, constant: Callable[[Any], bool]) -> None:
        super().__init__()
        self.trace = trace
        self.draws = False
        self._constant = constant
        self._known: dict[int, int] = {}
        self._metas: list[Any] = [
            torch.empty(spec.shape, dtype=dtype_named(spec.dtype), device="meta") for spec in trace.operands
        ]
        self._viewed: set[int] = set()  # positions that share their memory with others
        self.learns = torch.is_grad_enabled()

    def placeholders(self) -> list[TraceTensor]:
        """The operands."""
        return [self._tensor(position) for position in range(len(self.trace.operands))]

    def _tensor(self, position: int) -> TraceTensor:
        meta = self._metas[position]
        found: TraceTensor = make_wrapper(
            TraceTensor,
            meta.shape,
            strides=meta.stride(),
            storage_offset=meta.storage_offset(),
            dtype=meta.dtype,
            device=device_named(self.trace.device),
        )
        found.meta, found.position, found.recorder = meta, position, self
        return found

    def owns(self, tensor: Any) -> bool:
        """Whether a tensor was computed in this trace, or is an operand of it."""
        return tensor.__class__ is TraceTensor and tensor.recorder is self

    def _position(self, tensor: Any) -> int:
        if tensor.__class__ is TraceTensor:
            if tensor.recorder is not self:
                raise NeedsValue
            return int(tensor.position)
        found = self._known.get(id(tensor))
        if found is None:
            if not self._constant(tensor):
                raise NeedsValue
            found = self._new_constant(tensor)
        return found

    def _new_constant(self, tensor: Any) -> int:
        position = self._new(torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device="meta"))
        self._known[id(tensor)] = position
        self.trace.consts.append((position, tensor))
        return position

    def _new(self, meta: Any) -> int:
        self._metas.append(meta)
        self.trace.shapes.append((tuple(meta.shape), name_of_dtype(meta.dtype)))
        return len(self._metas) - 1

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Record an operator and return placeholders of its results."""
        schema = func._schema
        if func.namespace not in ("aten", "prim") or torch.Tag.dynamic_output_shape in func.tags:
            raise NeedsValue
        named = dict(zip([argument.name for argument in schema.arguments], args), **(kwargs or {}))
        written = None
        if schema.is_mutable:
            written = self._written(func, named)
            func = _functional(func)
            named = dict(zip([argument.name for argument in func._schema.arguments], named.values()))
        if not _tensors(named.values()) and RANDOM not in func.tags:
            return self._made(func, named)
        if func._schema.name == "aten::lift_fresh":
            tensor = named["self"]
            return self._tensor(self._new_constant(tensor)) if tensor.__class__ is not TraceTensor else tensor
        return self._record(func, named, written)

    def _made(self, func: Any, named: dict[str, Any]) -> Any:
        """A tensor made from nothing is the same in each call."""
        made = func(**named)
        return self._tensor(self._new_constant(made)) if isinstance(made, torch.Tensor) else made

    def _record(self, func: Any, named: dict[str, Any], written: TraceTensor | None) -> Any:
        inputs: list[int] = []

        def placed(value: Any) -> Any:
            if isinstance(value, torch.Tensor):
                inputs.append(self._position(value))
                return Operand(len(inputs) - 1)
            if isinstance(value, (list, tuple)):
                return tuple([placed(item) for item in value])
            return value

        def stand_in(value: Any) -> Any:
            if isinstance(value, torch.Tensor):
                return self._metas[self._position(value)]
            if isinstance(value, (list, tuple)):
                return [stand_in(item) for item in value]
            return torch.device("meta") if isinstance(value, torch.device) else value

        other = without_rule(func)
        if other is not None and written is None:
            with self:
                return other(**named)
        attrs = tuple([(key, placed(value)) for key, value in named.items()])
        found = func(**{key: stand_in(value) for key, value in named.items()})
        if RANDOM in func.tags:
            self.draws = True
        listed = list(found) if isinstance(found, (list, tuple)) else [found]
        if not all(isinstance(meta, torch.Tensor) for meta in listed):
            if any(isinstance(meta, torch.Tensor) for meta in listed):
                raise NeedsValue
            return found
        outputs = [self._new(meta) for meta in listed]
        self.trace.ops.append(TraceOp(_name(func), attrs, tuple(inputs), tuple(outputs)))
        if any(result.alias_info is not None for result in func._schema.returns):
            self._viewed.update(inputs, outputs)
        if not torch.is_grad_enabled() and self.learns:
            outputs = [self._detached(position) for position in outputs]
        elif torch.is_grad_enabled() and not self.learns:
            raise NeedsValue
        if written is not None:
            written.position, written.meta = outputs[0], self._metas[outputs[0]]
            return written
        results = [self._tensor(position) for position in outputs]
        return type(found)(results) if isinstance(found, (list, tuple)) else results[0]

    def _detached(self, position: int) -> int:
        result = self._new(self._metas[position])
        self.trace.ops.append(TraceOp(DETACH, (("self", Operand(0)),), (position,), (result,)))
        return result

    def _written(self, func: Any, named: dict[str, Any]) -> TraceTensor:
        """The tensor that an operator writes to, where that can be told from a new value."""
        arguments = func._schema.arguments
        writes = [argument.name for argument in arguments if argument.alias_info and argument.alias_info.is_write]
        target = named.get(writes[0])
        if len(writes) != 1 or writes[0] != arguments[0].name or target.__class__ is not TraceTensor:
            raise NeedsValue
        if target.position < len(self.trace.operands) or target.position in self._viewed:
            raise NeedsValue
        return target  # type: ignore[no-any-return]


def _tensors(values: Any) -> list[Any]:
    found = []
    for value in values:
        if isinstance(value, torch.Tensor):
            found.append(value)
        elif isinstance(value, (list, tuple)):
            found += _tensors(value)
    return found


def _name(func: Any) -> str:
    name: str = str(func)
    return name.removeprefix("aten.")


def without_rule(func: Any) -> Any:
    """For an operator that has no rule a function that does the same with others, if PyTorch has one."""
    if rule_of(_name(func)) is not None:
        return None
    from torch._decomp import decomposition_table  # takes a while to import, and most programs need none of it

    return decomposition_table.get(func)


_FUNCTIONAL = {"bernoulli_.float": "bernoulli.p", "normal_.default": "normal_functional.default"}


def _functional(func: Any) -> Any:
    """The operator that gives a new tensor where this one writes to its first argument."""
    name = _name(func)
    base, _, overload = _FUNCTIONAL.get(name, name.replace("_.", ".")).partition(".")
    found = getattr(getattr(torch.ops.aten, base, None), overload, None)
    if found is None or found._schema.is_mutable:
        raise NeedsValue
    return found


@contextmanager
def recording(trace: Trace, constant: Callable[[Any], bool]) -> Iterator[Recorder]:
    """Operators called in this region are recorded in `trace`, and none runs."""
    state = LOCAL.state
    recorder = Recorder(trace, constant)
    outer, state.trace = state.trace, recorder
    try:
        # Leaving inference mode lets gradients be recorded, whatever held before.
        with torch.inference_mode(False), torch.set_grad_enabled(recorder.learns), recorder:
            yield recorder
    finally:
        state.trace = outer
