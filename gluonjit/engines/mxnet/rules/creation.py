"""Operators whose result follows from attributes and shapes alone: the same for every sample."""

from __future__ import annotations

import math

from .rule import OperatorCall, Rule, rules_of
from .symbols import apply
from .values import SHARED, NotBatchable, Val


def constant(call: OperatorCall) -> list[Val]:
    """Emitted once, as it stands."""
    if not call.shape:
        raise NotBatchable(f"{call.name}: a value without axes, the same for all samples")
    return call.deliver(call.same([]), SHARED)


def arange_like(call: OperatorCall) -> list[Val]:
    """Emits as many numbers as the data, or one of its axes, has entries."""
    if call.data.poly:
        raise NotBatchable("arange_like of rows of varying length")
    count = math.prod(call.shape)
    repeat = call.attrs.integer("repeat", 1)
    start, step = call.attrs.number("start", 0.0), call.attrs.number("step", 1.0)
    steps = -(-count // repeat)
    limits = {"start": start, "stop": start + step * (steps - 0.5), "step": step}
    numbers = apply("_arange", [], {**limits, "repeat": repeat, "dtype": call.dtype})
    if steps * repeat != count:
        numbers = apply("slice_axis", [numbers], {"axis": 0, "begin": 0, "end": count})
    return call.deliver(apply("Reshape", [numbers], {"shape": call.shape}), SHARED)


def shape_array(call: OperatorCall) -> list[Val]:
    return _integers(call, call.data.shape)


def size_array(call: OperatorCall) -> list[Val]:
    return _integers(call, (math.prod(call.data.shape),))


def _integers(call: OperatorCall, numbers: tuple[int, ...]) -> list[Val]:
    if call.data.poly:
        raise NotBatchable(f"{call.name} of rows of varying length")
    dtype = call.dtype
    each = [apply("_full", [], {"shape": (1,), "value": number, "dtype": dtype}) for number in numbers]
    return call.deliver(apply("Concat", each, {"dim": 0, "num_args": len(each)}), SHARED)


RULES: dict[str, Rule] = {
    **rules_of(
        """_zeros _ones _full _arange _eye _linspace _npi_zeros _npi_ones _npi_arange _npi_eye _npi_identity
        _npi_indices _npi_logspace _npi_hanning _npi_hamming _npi_blackman""",
        constant,
        "constant",
    ),
    "_contrib_arange_like": Rule("constant", arange_like, notes="the known shape's numbers"),
    "shape_array": Rule("constant", shape_array, notes="the known shape"),
    "size_array": Rule("constant", size_array, notes="the known size"),
}
