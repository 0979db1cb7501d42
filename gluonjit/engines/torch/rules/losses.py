"""Losses: elementwise, then summed or averaged for each node."""

from __future__ import annotations

from math import prod
from typing import Any

import torch

from gluonjit.engines.torch.rules.pointwise import pointwise
from gluonjit.engines.torch.rules.values import ANY, NotBatchable, OperatorCall, Val

NONE, MEAN, SUM = 0, 1, 2


def elementwise(call: OperatorCall) -> list[Val]:
    """mse_loss and similar losses: the operator without its sum, then one sum per node."""
    reduction = call.get("reduction", MEAN)
    dtype = call.outputs[0][1]
    vals = call.vals()
    whole = tuple(torch.broadcast_shapes(*[val.shape for val in vals]))
    args = {**call.args, "reduction": NONE}
    if not any(val.lead == ANY for val in vals):  # these operators do not broadcast, or warn that they do
        for name, val in call.args.items():
            if isinstance(val, Val) and val.shared and val.shape == whole:
                args[name] = call.spread(val)
    (each,) = pointwise(OperatorCall(call.name, call.func, args, [(whole, dtype)], call.writer))
    if reduction == NONE:
        return [each]
    if each.lead == ANY:
        raise NotBatchable(f"{call.name}: it mixes the rows of a sample")
    flat = call.form(each, 1, (prod(whole),))
    return call.emitted(_total if reduction == SUM else _average, [flat])


def _total(flat: torch.Tensor) -> torch.Tensor:
    return flat.sum(1)


def _average(flat: torch.Tensor) -> torch.Tensor:
    return flat.mean(1)


def nll(call: OperatorCall) -> list[Val]:
    """nll_loss_forward: of one vector and a class, or of rows with a class each."""
    scores, target, weight = call["self"], call["target"], call.get("weight")
    if not isinstance(target, Val) or scores.shared or target.shared or len(scores.shape) > 2:
        raise NotBatchable(f"{call.name}: unsupported operands")
    if scores.lead == ANY or target.lead == ANY:
        raise NotBatchable(f"{call.name}: it mixes the rows of a sample")
    rows = prod(scores.shape[:-1])
    static = (rows, call["reduction"], call["ignore_index"])
    operands = [call.form(scores, rows, scores.shape[-1:]), call.form(target, rows, ())]
    if weight is not None:
        operands.append(weight if weight.shared else call.stack(weight))
    loss, total = call.emit(_nll, operands, *static, outputs=2)
    shape = call.shape
    lead = (rows, ()) if shape else (1, ())
    return [call.result(loss, *lead), call.result(total, 1, (), 1)]


def _nll(scores: Any, target: Any, *rest: Any) -> tuple[Any, Any]:
    """Losses of all nodes, and the weights that they are averaged by."""
    *given, rows, reduction, ignored = rest
    weight = given[0] if given else None
    counted = target != ignored
    picked = torch.where(counted, target, torch.zeros_like(target))
    each = -scores.gather(1, picked[:, None]).squeeze(1)
    weights = counted.to(scores.dtype) if weight is None else _weight_of(weight, picked, rows) * counted
    each = torch.where(counted, each * weights if weight is not None else each, torch.zeros_like(each))
    totals = weights.view(-1, rows).sum(1)
    if reduction == NONE:
        return each, totals
    summed = each.view(-1, rows).sum(1)
    return (summed, totals) if reduction == SUM else (summed / totals, totals)


def _weight_of(weight: Any, classes: Any, rows: int) -> Any:
    """The weight of each row's class; where nodes bring weights of their own these are (nodes, classes)."""
    if weight.dim() == 1:
        return weight[classes]
    return weight.repeat_interleave(rows, 0).gather(1, classes[:, None]).squeeze(1)
