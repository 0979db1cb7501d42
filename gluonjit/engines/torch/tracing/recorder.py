"""Records a call: its operators are noted in a trace, on placeholders, and none runs."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

from gluonjit.engines.torch.framework.arrays import INDICES, device_named
from gluonjit.engines.torch.framework.originals import without_autocast
from gluonjit.engines.torch.operators.binding import draws
from gluonjit.engines.torch.operators.examples import regular
from gluonjit.engines.torch.operators.layers import CHECKING, MATRICES
from gluonjit.engines.torch.operators.table import FILLED, WITHOUT_HISTORY
from gluonjit.engines.torch.tracing.aten import (
    COPIED,
    NOT_LEARNED,
    WITHOUT_DERIVATIVE,
    functional,
    keeps_statistics,
    operator_of,
    reached_from,
    split_arguments,
    with_history,
    without_rule,
)
from gluonjit.engines.torch.tracing.recurrent import kept_whole
from gluonjit.engines.torch.tracing.traced_tensors import TraceTensor
from gluonjit.engines.torch.tracing.traced_writes import KnownNumbers, Writes
from gluonjit.hybrid.capture.assumed import is_caught
from gluonjit.hybrid.capture.guards.interrupts import watch
from gluonjit.hybrid.capture.structure import items_of, map_structure
from gluonjit.hybrid.run.state import LOCAL
from gluonjit.program.axes.values import numbered
from gluonjit.program.trace import NeedsValue, TraceBuilder, TraceOp

_ATEN = torch.ops.aten
_FEW = 8  # writes to a tensor that are recorded, though all that it holds is known

_BY_MEMORY = {
    _ATEN.detach_.default,
    _ATEN.resize_.default,
    _ATEN.resize_as_.default,
    _ATEN.set_.source_Tensor,
    _ATEN.as_strided.default,
    _ATEN.as_strided_copy.default,
    _ATEN.as_strided_scatter.default,
}
_WITHOUT_GRADIENT = {_ATEN.randint_like, _ATEN.linspace, _ATEN.logspace}
"""Operators that torch's functions of their names call without autograd, which has no derivative of them."""
_WITH_GRADIENT = {_ATEN._embedding_bag_forward_only.default: _ATEN._embedding_bag.default}
"""Operators that PyTorch takes where a placeholder, which never learns, stands for what may."""


class Tracer(KnownNumbers, Writes):
    """Records every operator called while it is active."""

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Leaves torch.compile alone; returning True would import all of it, which takes seconds."""
        return False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Records an operator and returns placeholders of its results."""
        notice = sys.getprofile() if self.follower is not None and self._plain else None
        if notice is None:
            return self.dispatched(func, args, kwargs)
        sys.setprofile(None)  # nothing of the user's runs, and Python runs twice as fast
        try:
            return self.dispatched(func, args, kwargs)
        finally:
            watch(notice)

    def dispatched(self, func: Any, args: Any, kwargs: Any) -> Any:
        known = operator_of(func)
        if not known.known or keeps_statistics(func, args):
            raise NeedsValue
        named = dict(zip(known.arguments, args), **(kwargs or {}))
        if known.by_numbers and not self._by_whole_numbers(func, args):
            return self._by_known_numbers(func, named)
        if func is _ATEN._linalg_check_errors.default:
            return self._check(self._position(named["info"]))
        written = None
        if func in _BY_MEMORY and (func is not _ATEN.as_strided.default or args[0].__class__ is TraceTensor):
            raise NeedsValue  # in which a batch has others beside it, or its history
        if known.mutable:
            written = self._written(func, named)
            if torch.Tag.inplace_view in func.tags:
                return self._reshape(func, functional(func), named, written, args, kwargs)
            if written.writes >= _FEW and self._write_known(func, named, written):
                return written
            self._tie(func, named)
            begin, position = len(self.trace.ops), written.position
            found = self._write(written, self._new_numbers(func, named, written))
            if self.learns:
                self.writes.append((begin, len(self.trace.ops), position, written.places, torch.is_grad_enabled()))
            return found
        if not known.random and not any(True for _ in items_of(named, torch.Tensor)):
            return self._made(func, named)
        if known.name == "lift_fresh.default":
            tensor = named["self"]
            return self._known_constant(tensor) if tensor.__class__ is not TraceTensor else tensor
        return self.record(func, named)

    def _check(self, info: int) -> None:
        """Lets the operator that says whether it has failed raise an error where it runs."""
        if is_caught(sys._getframe(1), RuntimeError):
            raise NeedsValue
        for number, op in enumerate(self.trace.ops):
            if info in op.outputs and op.name in CHECKING:
                attrs = tuple((name, value) for name, value in op.attrs if name != "check_errors")
                self.trace.ops[number] = op._replace(attrs=(*attrs, ("check_errors", True)))
                return
        raise NeedsValue

    def record(self, func: Any, named: dict[str, Any]) -> Any:
        if not self._stays(named.get("device")):
            raise NeedsValue
        for name in NOT_LEARNED.get(func, ()) if self.learns else ():
            if named.get(name) is not None and self._learns_now(self._position(named[name])):
                raise NeedsValue  # PyTorch refuses it
        if self.learns and func.overloadpacket in _WITHOUT_GRADIENT:
            named = {key: self._apart(value) for key, value in named.items()}
        func = _WITH_GRADIENT.get(func, func) if self.learns else func
        known = operator_of(func)

        def stand_in(value: Any) -> Any:
            if isinstance(value, torch.Tensor):
                like = self._shapes[self._position(value)]
                if known.name in MATRICES:
                    return regular(like)
                return torch.ones_like(like) if known.random else like  # which are probabilities, and deviations
            if isinstance(value, (list, tuple)):
                return [stand_in(item) for item in value]
            return torch.device("cpu") if isinstance(value, torch.device) else value

        bare = named.get(WITHOUT_DERIVATIVE.get(func, ""))
        other = without_rule(func, bare is not None and self.learns_at(self._position(bare)) is not False)
        if other is not None:
            by_position, by_name = split_arguments(func, named)
            begin = len(self.trace.ops)
            with without_autocast(), self:
                apart = other(*by_position, **by_name)
            if apart is not NotImplemented:  # as PyTorch's say for sizes that they are not for
                if func in COPIED:
                    self._note_views(func, named, [apart], False)
                # The parts of a composite are what PyTorch itself differentiates.
                return apart if other == func.decompose else self._tie(func, named, apart, begin)
        tensors: list[Any] = []
        attrs = tuple((key, numbered(value, torch.Tensor, tensors)) for key, value in named.items())
        inputs = list(map(self._position, tensors))
        given = {key: stand_in(value) for key, value in named.items()}
        found = func(**given)
        if known.random and draws(func, named):
            self.draws = True
        listed = list(found) if isinstance(found, (list, tuple)) else [found]
        if not all(isinstance(item, torch.Tensor) and item.layout is torch.strided for item in listed):
            raise NeedsValue
        made = not known.random and (self._made_of_nothing.issuperset(inputs) or known.name in FILLED)
        outputs = [self._new(item if made or item.dtype not in INDICES else torch.zeros_like(item)) for item in listed]
        name = known.name
        learning = outputs
        if self.learns and type(found) is tuple and not known.random:
            learning = [outputs[k] for k in sorted(with_history(func, given))] or outputs
        self._pass_on(inputs, [] if name in WITHOUT_HISTORY else learning)
        self.trace.ops.append(TraceOp(name, attrs, tuple(inputs), tuple(outputs)))
        self.loops.add(name, inputs, outputs)
        self.by_parts = self.by_parts or name == "unbind.int"
        if made:
            self._made_of_nothing.update(outputs)
        if self.loops.found and (self.by_parts or self.follower is None or bool(self.follower.asked)):
            self.looped = True
            if self.ends_in_loops:
                raise NeedsValue  # the rest of a sequence or a tree need not be traced
        if torch.is_grad_enabled() and not self.learns:
            raise NeedsValue
        if not torch.is_grad_enabled() and self.learns:
            outputs = [self._detached(position) for position in outputs]
        results = [self._tensor(position) for position in outputs]
        if known.views:
            self._note_views(func, named, results, isinstance(found, (list, tuple)))
        return type(found)(results) if isinstance(found, (list, tuple)) else results[0]

    def _tie(self, func: Any, named: dict[str, Any], apart: Any = None, begin: int = 0) -> Any:
        """Ties what stands for an operator's results to the arguments that it gives gradients to, be they zeros.

        Raises NeedsValue where PyTorch does not go backward to one.
        """
        if not self.learns or operator_of(func).random:
            return apart
        found = list(apart) if isinstance(apart, (list, tuple)) else [apart]

        def stand_in(value: Any) -> Any:
            return self._shapes[self._position(value)] if isinstance(value, torch.Tensor) else value

        given = map_structure(named, stand_in)
        for name, value in given.items():
            if isinstance(value, torch.Tensor) and value.dtype not in INDICES:
                place, reached = self._position(named[name]), reached_from(func, given, name)
                if reached is None and self.learns_at(place) is not False:
                    raise NeedsValue
                for k, result in enumerate(found if torch.is_grad_enabled() else ()):
                    if k in (reached or ()) and self.owns(result) and place not in self.origins(result.position, begin):
                        if self.learns_at(place) is not False:
                            found[k] = self._tensor(self._tied(result.position, place))
        return type(apart)(found) if isinstance(apart, (list, tuple)) else found[0]

    def _stays(self, device: Any) -> bool:
        """True if a result on this device is where the operands are; else it is no node's."""
        here = device_named(self.trace.device)
        return device is None or (device.type == here.type and device.index in (None, here.index))


@contextmanager
def recording(trace: TraceBuilder, constant: Callable[[Any], bool], taped: bool = False) -> Iterator[Tracer]:
    """Operators called in this region are recorded in `trace`, and none runs.

    taped: whether gradients go through any operand.
    """
    state = LOCAL.state
    recorder = Tracer(trace, constant, taped)
    outer = state.trace
    cached = torch.is_autocast_cache_enabled()
    whole = torch.backends.mha.get_fastpath_enabled()  # one operator for a layer, which cannot be taken apart
    try:
        state.trace = recorder
        torch.backends.mha.set_fastpath_enabled(False)
        torch.set_autocast_cache_enabled(False)  # of weights that are cast here, other calls would take placeholders
        # Leaving inference mode lets gradients be recorded, whatever held before.
        with torch.inference_mode(False), torch.set_grad_enabled(recorder.learns), kept_whole(), recorder:
            yield recorder
    finally:
        state.trace = outer
        torch.set_autocast_cache_enabled(cached)
        torch.backends.mha.set_fastpath_enabled(whole)
