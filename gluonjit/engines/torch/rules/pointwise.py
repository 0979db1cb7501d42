"""Elementwise operators, with broadcasting."""

from __future__ import annotations

import torch

from gluonjit.engines.torch.rules.values import ANY, NotBatchable, OperatorCall, Shape, Val, call_operator

_CASTS = frozenset("add sub mul div pow maximum minimum where addcmul addcdiv lerp rsub".split())


def pointwise(call: OperatorCall) -> list[Val]:
    """Elements of all nodes at once: in any layout that operands share."""
    vals = call.vals()
    shape = call.shape
    if len(call.outputs) != 1 and any(out[0] != shape for out in call.outputs):
        raise NotBatchable(f"{call.name}: results of different shapes")
    changed = _cast(call, vals)
    batched = [val for val in changed.values() if not val.shared]
    lead, rest = _common(call, batched, [val for val in changed.values() if val.shared], shape)
    placed = {}
    for position, val in changed.items():
        if val.shared:
            placed[position] = val
        elif val.shape == shape:
            placed[position] = call.form(val, lead, rest)
        else:
            placed[position] = _broadcast(call, val, shape, lead, rest)
    return call.results(_replaced(call, placed), lead, rest)


def masked(call: OperatorCall) -> list[Val]:
    """masked_fill by a tensor with one element, possibly one per sample."""
    if call["value"].shared:
        return pointwise(call)
    if call["value"].dtype != call["self"].dtype and call["value"].dtype.startswith("complex"):
        raise NotBatchable(
            f"{call.name}: a complex number into {call['self'].dtype}, which PyTorch refuses by its value"
        )
    args = {"condition": call["mask"], "self": call["value"], "other": call["self"]}
    return pointwise(OperatorCall("where.self", torch.ops.aten.where.self, args, call.outputs, call.writer))


def _cast(call: OperatorCall, vals: list[Val]) -> dict[int, Val]:
    """Values by position, of one dtype: one node's single number counts for less than an array of numbers."""
    found = dict(enumerate(vals))
    dtypes = {val.dtype for val in vals if val.dtype != "bool"}
    if len(dtypes) > 1:
        base = call.name.split(".")[0]
        if base not in _CASTS:
            raise NotBatchable(f"{call.name}: operands of different dtypes, {', '.join(sorted(dtypes))}")
        wanted = call.outputs[0][1]
        found = {k: val if val.dtype == "bool" else call.cast(val, wanted) for k, val in found.items()}
    return found


def _common(call: OperatorCall, batched: list[Val], shared: list[Val], shape: Shape) -> tuple[int, Shape]:
    """The form in which the result lies."""
    whole = [val for val in batched if val.shape == shape]
    if any(val.lead == ANY for val in batched):
        if any(val.lead != ANY or val.rank != len(shape) for val in batched):
            raise NotBatchable(f"{call.name}: it mixes the rows of a sample")
        if any(val.rank == len(shape) and val.shape[0] != 1 for val in shared):
            raise NotBatchable(f"{call.name}: an operand that is the same for all samples has an entry for each row")
        if any(val.shape[0] != shape[0] for val in batched):
            raise NotBatchable(f"{call.name}: rows are broadcast")
        return (ANY, whole[0].rest) if len(whole) == len(batched) and _fits(shared, whole[0]) else (ANY, shape[1:])
    if whole and len(whole) == len(batched) and _fits(shared, whole[0]):
        first = whole[0]
        assert first.lead is not None
        return first.lead, first.rest
    return 1, shape


def _fits(shared: list[Val], val: Val) -> bool:
    """Tells whether these broadcast against the value in its form as they do against its shape."""
    for other in shared:
        axes = len(other.shape)
        if axes and (len(val.rest) < axes or val.rest[len(val.rest) - axes :] != val.shape[val.rank - axes :]):
            return False
    return True


def _broadcast(call: OperatorCall, val: Val, shape: Shape, lead: int, rest: Shape) -> Val:
    if lead == ANY:
        return call.form(val, ANY, val.shape[1:])
    if (lead, rest) != (1, shape):
        raise NotBatchable(f"{call.name}: {val.shape} against {shape}")
    return call.aligned(val, len(shape))


def _replaced(call: OperatorCall, placed: dict[int, Val]) -> dict[str, object]:
    """The arguments with these values, in order."""
    values = iter(placed[k] for k in range(len(placed)))
    args: dict[str, object] = {}
    for name, value in call.args.items():
        if isinstance(value, Val):
            args[name] = next(values)
        elif isinstance(value, tuple) and any(isinstance(item, Val) for item in value):
            args[name] = tuple([next(values) if isinstance(item, Val) else item for item in value])
    return args


def filled(call: OperatorCall) -> list[Val]:
    """A tensor created like another: in its layout."""
    (val,) = call.vals()
    if val.shape != call.shape:
        raise NotBatchable(f"{call.name}: another shape")
    slot = call.again({"self": val})
    return [call.result(slot, val.lead, val.rest)]


def made_like(call: OperatorCall) -> list[Val]:
    """new_zeros and similar functions: of any size, with the dtype and device of another; the same for all nodes."""
    shape, dtype = call.outputs[0]
    func = call.func
    args = {name: value for name, value in call.args.items() if name != "self"}
    first, *rest = call.vals()
    if rest:
        raise NotBatchable(f"{call.name}: with several tensors")
    slot = call_operator(call.writer, func, {"self": first, **args})
    return [Val(slot, shape, dtype, None, shape)]
