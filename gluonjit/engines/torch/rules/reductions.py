"""Operators along dimensions: sums, norms, softmax, sorting."""

from __future__ import annotations

from math import prod
from typing import Any

from gluonjit.engines.torch.rules.shapes import along, axis
from gluonjit.engines.torch.rules.values import NotBatchable, OperatorCall, Shape, Val


def reduced(call: OperatorCall) -> list[Val]:
    """Over one, several or all dimensions; a single one in any layout."""
    val = call["self"]
    rank = val.rank
    dims = _dims(call, rank)
    if dims is None or not rank:
        return _over_all(call, val)
    if len(dims) == 1:
        placed, back = along(call, val, dims[0])
        given: Any = (back,) if isinstance(call.get("dim"), tuple) else back
        rest = _without(placed.rest, len(placed.rest) + back, call.get("keepdim", False))
        return call.results({"self": placed, "dim": given}, placed.lead, rest)
    placed = call.stack(val)
    return call.results({"self": placed, "dim": tuple([dim + 1 for dim in dims])}, placed.lead, call.shape)


def _dims(call: OperatorCall, rank: int) -> list[int] | None:
    """The dimensions, or None for all."""
    given = call.get("dim", -1 if call.name in _LAST else None)
    if given is None or given == () or not rank:
        return None
    return [axis(rank, dim) for dim in (given if isinstance(given, tuple) else (given,))]


_LAST = {"kthvalue.default", "mode.default"}
"""Operators that go along the last dimension where none is given."""


def _over_all(call: OperatorCall, val: Val) -> list[Val]:
    if call.get("keepdim", False) or len(call.outputs) > 1:
        raise NotBatchable(f"{call.name}: over all dimensions")
    flat = call.form(val, 1, (prod(val.shape),))
    over = OVER_ALL.get(call.name)
    if over is not None:  # an operator that knows no dimensions
        return call.emitted(over, [flat], *_extras(call))
    return call.rerun({"self": flat, "dim": (1,) if _takes_several(call) else 1})


def _takes_several(call: OperatorCall) -> bool:
    kinds = {argument.name: str(argument.type) for argument in call.func._schema.arguments}
    return "List" in kinds.get("dim", "")


def _extras(call: OperatorCall) -> list[Any]:
    return [call["dtype"]] if call.get("dtype") is not None else []


def _without(rest: Shape, where: int, keep: bool) -> Shape:
    return (*rest[:where], *((1,) if keep else ()), *rest[where + 1 :])


def kept(call: OperatorCall) -> list[Val]:
    """Softmax, cumsum and sort: along one dimension that is kept."""
    val = call["self"]
    if not val.shape:
        raise NotBatchable(f"{call.name}: of a scalar")
    placed, back = along(call, val, call.get("dim", -1))
    sizes = {shape[len(shape) + back] for shape, _ in call.outputs}
    where = len(placed.rest) + back
    rest = (*placed.rest[:where], sizes.pop(), *placed.rest[where + 1 :])
    return call.results({"self": placed, "dim": back}, placed.lead, rest)


def transformed(call: OperatorCall) -> list[Val]:
    """Fourier transforms along some dimensions."""
    val = call["self"]
    dims = tuple([axis(val.rank, dim) + 1 for dim in call["dim"]])
    return call.rerun({"self": call.stack(val), "dim": dims})


def _sum(flat: Any, dtype: Any = None) -> Any:
    return flat.sum(1, dtype=dtype)


def _mean(flat: Any, dtype: Any = None) -> Any:
    return flat.mean(1, dtype=dtype)


def _prod(flat: Any, dtype: Any = None) -> Any:
    return flat.prod(1, dtype=dtype)


def _largest(flat: Any) -> Any:
    return flat.amax(1)


def _smallest(flat: Any) -> Any:
    return flat.amin(1)


def _any(flat: Any) -> Any:
    return flat.any(1)


def _all(flat: Any) -> Any:
    return flat.all(1)


OVER_ALL = {
    "sum.default": _sum,
    "mean.default": _mean,
    "prod.default": _prod,
    "max.default": _largest,
    "min.default": _smallest,
    "any.default": _any,
    "all.default": _all,
    "_is_any_true.default": _any,
    "_is_all_true.default": _all,
}
