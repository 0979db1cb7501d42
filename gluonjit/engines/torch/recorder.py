"""Recording a call: its operators are noted in a trace, on placeholders, and none runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from gluonjit.engines.torch.arrays import FLOATS, device_named, dtype_named, name_of_dtype
from gluonjit.engines.torch.aten import functional, keeps_statistics, name_of, split_arguments, without_rule
from gluonjit.engines.torch.hooked import make_wrapper, without_autocast
from gluonjit.engines.torch.trace import DETACH, RANDOM, NeedsValue, Operand, Trace, TraceOp
from gluonjit.hybrid import LOCAL

_BY_NUMBERS = {torch.Tag.dynamic_output_shape, torch.Tag.data_dependent_output}


class TraceTensor(torch.Tensor):  # type: ignore[misc]
    """What a traced function is given: a tensor that stands for a position of a trace."""

    __slots__ = ("position", "recorder")
    __torch_function__ = torch._C._disabled_torch_function_impl

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Reached where the recorder does not stand before it: the tensor has left its trace."""
        raise NeedsValue

    @property
    def requires_grad(self) -> bool:
        """Whether gradients go through it, where that holds for all calls of this signature."""
        found = self.recorder.learned(self.position)
        if found is None:
            raise NeedsValue
        return bool(found)

    @requires_grad.setter
    def requires_grad(self, wanted: bool) -> None:
        raise NeedsValue

    def _attached(self, *args: Any, **kwargs: Any) -> Any:
        """What is attached to one call's tensor, or asked of its history."""
        raise NeedsValue

    register_hook = register_post_accumulate_grad_hook = retain_grad = requires_grad_ = backward = _attached
    is_leaf = retains_grad = property(_attached)
    grad_fn = grad = property(_attached, _attached)


class Recorder(TorchDispatchMode):  # type: ignore[misc]
    """Records every operator called while it is active.

    `constant(tensor)` says whether a tensor from outside is the same in every call, as a parameter is.
    """

    def __init__(self, trace: Trace, constant: Callable[[Any], bool], taped: bool) -> None:
        super().__init__()
        self.trace = trace
        self.draws = False
        self.follower: Any = None  # what sees to Python's state, where the user's code is recorded
        self._constant = constant
        self._known: dict[int, int] = {}
        # What operators run on to tell the shapes of their results. Not of device "meta": in Python, PyTorch's kernels
        # for that one import its compiler, which takes seconds.
        self._shapes: list[Any] = [torch.zeros(spec.shape, dtype=dtype_named(spec.dtype)) for spec in trace.operands]
        self._sharing: dict[int, set[int]] = {}  # for positions that share their memory with others all of those
        self._outdated: set[int] = set()  # positions whose memory was written to by way of another
        self.learns = torch.is_grad_enabled()
        # Of one operand the signature says whether gradients go through it, of several whether through any.
        status = (len(trace.operands) == 1 or None) if taped and self.learns else False
        self._learned: dict[int, bool | None] = dict.fromkeys(range(len(trace.operands)), status)

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """To leave torch.compile alone: to say so with True would import all of it, which takes seconds."""
        return False

    def placeholders(self) -> list[TraceTensor]:
        """The operands."""
        return [self._tensor(position) for position in range(len(self.trace.operands))]

    def _tensor(self, position: int) -> TraceTensor:
        like = self._shapes[position]
        found: TraceTensor = make_wrapper(
            TraceTensor,
            like.shape,
            strides=like.stride(),
            storage_offset=like.storage_offset(),
            dtype=like.dtype,
            device=device_named(self.trace.device),
        )
        found.position, found.recorder = position, self
        return found

    def owns(self, tensor: Any) -> bool:
        """Whether a tensor was computed in this trace, or is an operand of it."""
        return tensor.__class__ is TraceTensor and tensor.recorder is self and tensor.position not in self._outdated

    def learned(self, position: int) -> bool | None:
        """Whether gradients go through a position; None where that is not the same in all calls."""
        return self._learned.get(position, False) if self.trace.shapes[position][1] in FLOATS else False

    def _pass_on(self, inputs: Sequence[int], outputs: Sequence[int]) -> None:
        found = {self.learned(position) for position in inputs} if torch.is_grad_enabled() else set()
        self._learned.update(dict.fromkeys(outputs, True if True in found else None if None in found else False))

    def _position(self, tensor: Any, viewing: bool = False) -> int:
        if tensor.__class__ is TraceTensor:
            if tensor.recorder is not self or (tensor.position in self._outdated and not viewing):
                raise NeedsValue
            return int(tensor.position)
        found = self._known.get(id(tensor))
        if found is None:
            if not self._constant(tensor):
                raise NeedsValue
            found = self._new_constant(tensor)
        return found

    def _new_constant(self, tensor: Any) -> int:
        position = self._new(tensor.detach().cpu())
        self._known[id(tensor)] = position
        self._learned[position] = self.learns and tensor.requires_grad
        self.trace.consts.append((position, tensor))
        return position

    def _new(self, like: Any) -> int:
        self._shapes.append(like)
        self.trace.shapes.append((tuple(like.shape), name_of_dtype(like.dtype)))
        return len(self._shapes) - 1

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Record an operator and return placeholders of its results."""
        schema = func._schema
        if (
            keeps_statistics(func, args)
            or func.namespace not in ("aten", "prim")
            or not _BY_NUMBERS.isdisjoint(func.tags)
        ):
            raise NeedsValue
        named = dict(zip([argument.name for argument in schema.arguments], args), **(kwargs or {}))
        written = None
        reshaping = None
        if schema.is_mutable:
            written = self._written(func, named)
            reshaping = func if torch.Tag.inplace_view in func.tags else None
            defaults = {argument.name: argument.default_value for argument in schema.arguments}
            func = functional(func)
            for argument in func._schema.arguments:
                if argument.name not in named and not argument.has_default_value():
                    named[argument.name] = defaults[argument.name]
        if not _tensors(named.values()) and RANDOM not in func.tags:
            return self._made(func, named)
        if func._schema.name == "aten::lift_fresh":
            tensor = named["self"]
            return self._tensor(self._new_constant(tensor)) if tensor.__class__ is not TraceTensor else tensor
        found = self._record(func, named, written)
        if reshaping is not None:  # `squeeze_` for one: the placeholder itself has another shape from now on
            with torch._C._DisableTorchDispatch():
                reshaping(*args, **(kwargs or {}))
        return found

    def _made(self, func: Any, named: dict[str, Any]) -> Any:
        """A tensor made from nothing is the same in each call."""
        made = func(**named)
        return self._tensor(self._new_constant(made)) if isinstance(made, torch.Tensor) else made

    def _record(self, func: Any, named: dict[str, Any], written: TraceTensor | None) -> Any:
        if func is torch.ops.aten.as_strided.default:
            raise NeedsValue  # it looks at memory, in which a batch has others beside it
        inputs: list[int] = []
        viewing = any(result.alias_info is not None for result in func._schema.returns)

        def placed(value: Any) -> Any:
            if isinstance(value, torch.Tensor):
                inputs.append(self._position(value, viewing))
                return Operand(len(inputs) - 1)
            if isinstance(value, (list, tuple)):
                return tuple([placed(item) for item in value])
            return value

        def stand_in(value: Any) -> Any:
            if isinstance(value, torch.Tensor):
                return self._shapes[self._position(value, viewing)]
            if isinstance(value, (list, tuple)):
                return [stand_in(item) for item in value]
            return torch.device("cpu") if isinstance(value, torch.device) else value

        other = without_rule(func) if written is None else None
        if other is not None:
            by_position, by_name = split_arguments(func, named)
            with without_autocast(), self:
                return other(*by_position, **by_name)
        attrs = tuple([(key, placed(value)) for key, value in named.items()])
        found = func(**{key: stand_in(value) for key, value in named.items()})
        if RANDOM in func.tags:
            self.draws = True
        listed = list(found) if isinstance(found, (list, tuple)) else [found]
        if not all(isinstance(item, torch.Tensor) for item in listed):
            raise NeedsValue
        outputs = [self._new(item) for item in listed]
        self._pass_on(inputs, [] if func._schema.name == "aten::detach" else outputs)
        self.trace.ops.append(TraceOp(name_of(func), attrs, tuple(inputs), tuple(outputs)))
        if viewing:
            self._share((*inputs, *outputs))
            if not self._outdated.isdisjoint(inputs):  # autograd looks at the base of a view that was written to
                self._outdated.update(outputs)
        if not torch.is_grad_enabled() and self.learns:
            if written is not None and written.position in inputs:
                outputs = [self._replaced(int(written.position), outputs[0])]
            else:
                outputs = [self._detached(position) for position in outputs]
        elif torch.is_grad_enabled() and not self.learns:
            raise NeedsValue
        if written is not None:
            written.position = outputs[0]
            return written
        results = [self._tensor(position) for position in outputs]
        return type(found)(results) if isinstance(found, (list, tuple)) else results[0]

    def _detached(self, position: int) -> int:
        return self._added(DETACH, position)

    def _replaced(self, before: int, after: int) -> int:
        """What was written to without gradients has the new numbers, and the gradient that it had."""
        change = self._detached(self._added("sub.Tensor", after, before))
        return self._added("add.Tensor", before, change)

    def _added(self, name: str, *inputs: int) -> int:
        result = self._new(self._shapes[inputs[0]])
        with torch.set_grad_enabled(name != DETACH):
            self._pass_on(inputs, [result])
        attrs = tuple([(argument, Operand(k)) for k, argument in enumerate(("self", "other")[: len(inputs)])])
        self.trace.ops.append(TraceOp(name, attrs, inputs, (result,)))
        return result

    def _written(self, func: Any, named: dict[str, Any]) -> TraceTensor:
        """The tensor that an operator writes to, where that can be told from a new value."""
        arguments = func._schema.arguments
        writes = [argument.name for argument in arguments if argument.alias_info and argument.alias_info.is_write]
        target = named.get(writes[0])
        if len(writes) != 1 or writes[0] != arguments[0].name or target.__class__ is not TraceTensor:
            raise NeedsValue
        shared = self._sharing.get(target.position, {target.position})
        if min(shared) < len(self.trace.operands) or not shared.isdisjoint(
            position for position, _ in self.trace.consts
        ):
            raise NeedsValue
        self._outdated.update(shared - {target.position})
        return target

    def _share(self, positions: Sequence[int]) -> None:
        whole = set(positions).union(*[self._sharing.get(position, ()) for position in positions])
        self._sharing.update(dict.fromkeys(whole, whole))


def _tensors(values: Any) -> list[Any]:
    found = []
    for value in values:
        if isinstance(value, torch.Tensor):
            found.append(value)
        elif isinstance(value, (list, tuple)):
            found += _tensors(value)
    return found


@contextmanager
def recording(trace: Trace, constant: Callable[[Any], bool], taped: bool = False) -> Iterator[Recorder]:
    """Operators called in this region are recorded in `trace`, and none runs.

    taped: whether gradients go through any operand.
    """
    state = LOCAL.state
    recorder = Recorder(trace, constant, taped)
    outer, state.trace = state.trace, recorder
    cached = torch.is_autocast_cache_enabled()
    try:
        torch.set_autocast_cache_enabled(False)  # of weights that are cast here, other calls would take placeholders
        # Leaving inference mode lets gradients be recorded, whatever held before.
        with torch.inference_mode(False), torch.set_grad_enabled(recorder.learns), recorder:
            yield recorder
    finally:
        torch.set_autocast_cache_enabled(cached)
        state.trace = outer
