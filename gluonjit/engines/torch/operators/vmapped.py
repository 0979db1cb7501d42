"""Calls that no row can run for many nodes: what `torch.func.vmap` does for them, recorded for any number of nodes."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from gluonjit.engines.torch.framework.arrays import device_named, name_of_dtype, zeros_of
from gluonjit.engines.torch.operators.binding import Writer, operator_named
from gluonjit.engines.torch.operators.examples import regular
from gluonjit.graph.values import intern_spec
from gluonjit.program.axes.row import Application
from gluonjit.program.axes.values import Values, numbered
from gluonjit.program.sizes import LengthRule, NotDerivable, at_lengths, line_through
from gluonjit.program.trace import MalformedTrace, Trace, TraceBuilder, TraceOp

_COUNTS = (5, 7, 11)  # of nodes, of which sizes and numbers that follow from them are told
_HALF = ("float16", "bfloat16")
_VIEWS = ("view.default", "_unsafe_view.default", "_reshape_alias.default")


def vmapped(call: Application) -> list[Values] | None:
    """The results of a call for all nodes, or None where vmap refuses or loops."""
    if any(val.packed for val in call.vals):
        return None
    writer = call.writer
    assert isinstance(writer, Writer)
    vals = [val if val.shared else writer.stack(val) for val in call.vals]
    function, _ = writer.bound(call.name, call.attrs, len(call.outs))
    try:
        traces = [_traced(function, vals, count) for count in _COUNTS]
        if any(_look(trace) != _look(traces[0]) for trace in traces) or traces[0].consts:
            raise NotDerivable
        rules = [line_through(each, [(count,) for count in _COUNTS]) for each in zip(*map(_arguments, traces))]
    except (RuntimeError, LookupError, ValueError, NotDerivable, MalformedTrace):
        return None
    if any(val.dtype in _HALF for val in vals) and sum(map(_computes, traces[0].ops)) > 1:
        return None  # each result in between would be rounded, as those of the operator itself are not
    slots = {position: val.slot for position, val in enumerate(vals)}
    for op, rule in zip(traces[0].ops, rules):
        made = _written(writer, op, rule, [slots[position] for position in op.inputs])
        slots.update(zip(op.outputs, made))
    return call.made([slots[position] for position in traces[0].results])


def _computes(op: TraceOp) -> bool:
    """True if an operator gives more than another view of its operand."""
    (first, *_) = operator_named(op.name)._schema.returns
    return first.alias_info is None


def _look(trace: Trace) -> Any:
    return [(op.name, op.inputs, op.outputs) for op in trace.ops], trace.results


def _arguments(trace: Trace) -> list[Any]:
    return [op.attrs for op in trace.ops]


def _written(writer: Writer, op: TraceOp, rule: Any, slots: Sequence[int]) -> tuple[int, ...]:
    name, attrs = op.name, dict(rule)
    if name in _VIEWS:  # which ask for more than is known of how values lie
        name, attrs = "reshape.default", {"self": attrs["self"], "shape": attrs["size"]}
    placed = any(argument.name == "device" for argument in operator_named(name)._schema.arguments)
    if placed and (not op.inputs or attrs.get("device") is not None):
        attrs["device"] = device_named(writer.device)
    if not _differs(rule):
        function, text = writer.bound(name, attrs, len(op.outputs))
        return writer.add(function, slots, text, len(op.outputs))
    items = tuple(attrs.items())

    def sized(count: int, *tensors: Any) -> Any:
        return writer.bound(name, dict(at_lengths(items, {0: count})), len(op.outputs))[0](*tensors)

    return writer.add(sized, slots, f"{name}{items!r}", len(op.outputs), True)


def _differs(rule: Any) -> bool:
    return isinstance(rule, LengthRule) or (rule.__class__ is tuple and any(map(_differs, rule)))


def _traced(function: Callable[..., Any], vals: Sequence[Values], count: int) -> Trace:
    """The operators of ATen that vmap calls for so many nodes."""
    specs = [intern_spec(v.shape if v.shared else (count, *v.shape), v.dtype, "cpu", "stack") for v in vals]
    tensors = [regular(zeros_of(spec)) for spec in specs]

    def each(*given: Any) -> Any:
        found = function(*given)
        return tuple(found) if isinstance(found, (list, tuple)) else (found,)

    mode = _Recording(TraceBuilder(specs), tensors)
    dims = tuple(None if val.shared else 0 for val in vals)
    with _without_loops(), torch.no_grad(), mode:
        found = torch.func.vmap(each, in_dims=dims)(*tensors)
    return mode.builder.finish([mode.place(result) for result in found])


@contextmanager
def _without_loops() -> Iterator[None]:
    """Lets vmap refuse what it can run for one sample after the other alone."""
    switch = torch._C._functorch._set_vmap_fallback_enabled
    before = torch._C._functorch._is_vmap_fallback_enabled()
    switch(False)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        switch(before)


class _Recording(TorchDispatchMode):  # type: ignore[misc]
    """Notes the operators of ATen that are called; tensors are known by identity."""

    def __init__(self, builder: TraceBuilder, tensors: Sequence[Any]) -> None:
        super().__init__()
        self.builder = builder
        self._places = {id(tensor): position for position, tensor in enumerate(tensors)}
        self._kept = list(tensors)

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # asks nothing of it, and does not import it

    def place(self, tensor: Any) -> int:
        """The position of a tensor. Raises KeyError for one that is not known."""
        return self._places[id(tensor)]

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        found = func(*args, **(kwargs or {}))
        if func._schema.is_mutable:
            raise NotDerivable
        tensors: list[Any] = []
        names = [each.name for each in func._schema.arguments]
        given = {**dict(zip(names, args)), **(kwargs or {})}
        attrs = tuple((name, numbered(value, torch.Tensor, tensors)) for name, value in given.items())
        results = list(found) if isinstance(found, (list, tuple)) else [found]
        shaped = [(tuple(each.shape), name_of_dtype(each.dtype)) for each in results]
        made = self.builder.op(str(func).removeprefix("aten."), attrs, list(map(self.place, tensors)), shaped)
        self._places.update({id(each): position for each, position in zip(results, made)})
        self._kept += results
        return found
