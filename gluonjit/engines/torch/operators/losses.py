"""Rules of losses of classes."""

from __future__ import annotations

from math import prod
from typing import Any

import torch

from gluonjit.engines.torch.operators.moving import sums
from gluonjit.program.axes.row import RATIO, Application, RowPooling
from gluonjit.program.axes.row import SUM as SUM_UP
from gluonjit.program.axes.values import Values

NONE, MEAN, SUM = 0, 1, 2


def nll(call: Application) -> list[Values]:
    """nll_loss_forward: of one vector and a class, or of rows with a class each."""
    scores, target, weight = call.val("self"), call.val("target"), call.val("weight")
    if scores.shared or target.shared or scores.rank > 2:
        raise call.refuse("unsupported operands")
    if scores.packed and not call.writer.sized:
        raise call.mixed_rows
    writer, rows = call.writer, prod(scores.shape[:-1])
    vals = [writer.form(scores, rows, scores.shape[-1:]), writer.form(target, rows, ())]
    if weight is not None:
        if scores.packed and not weight.shared:
            raise call.refuse("weights differ by sample")
        vals.append(weight if weight.shared else writer.stack(weight))
    segments = [writer.need(what, rows) for what in ("owners", "begins")] if scores.packed else []
    static = (0 if segments else rows, call.attrs["reduction"], call.attrs["ignore_index"])
    loss, total = writer.apply(_nll, [*vals, *segments], *static, outputs=2)
    return [Values(loss, *call.outs[0], rows if call.shape else 1, ()), Values(total, *call.outs[1], 1, ())]


def nll_of_row(call: Application, scores: Any, target: Any, *weight: Any) -> Any:
    """The loss of one row, which its mean and its sum are, too; not the weight that it is divided by."""
    if weight or call.get("ignore_index", -100) >= 0:
        raise call.refuse("with weights, or a class that does not count")
    return -scores.pick(target)


def pooled(call: Application) -> RowPooling | None:
    """Losses of rows with a class each: one by one, their sum, or that by the sum of the weights."""
    if not call.val("self").packed or not call.val("target").packed:
        return None
    reduction, dtype = call.attrs["reduction"], call.outs[0][1]
    outs = [(() if reduction else (1,), dtype), ((), dtype)]
    hows = {NONE: "", MEAN: RATIO, SUM: SUM_UP}
    return RowPooling(outs, [hows[reduction], SUM_UP], {"reduction": SUM} if reduction else {})


def smoothed(call: Application, a: Any, b: Any) -> Any:
    """The square of a difference up to a limit, and linear from there on."""
    limit = float(call.get("beta", call.get("delta", 1.0)))
    if limit <= 0.0:
        raise call.refuse(f"a limit of {limit}")
    apart = (a - b).do("ABS")
    near = apart.limited(None, limit)
    found = near.do("SQUARE") * (0.5 / limit) + (apart - near)
    return found * limit if call.name == "huber_loss.default" else found


def _nll(scores: Any, target: Any, *rest: Any) -> tuple[Any, Any]:
    """Losses of all nodes, and the weights that they are averaged by."""
    *given, rows, reduction, ignored = rest
    segments = () if rows else given[-2:]
    weight = given[0] if len(given) > len(segments) else None
    counted = target != ignored
    picked = torch.where(counted, target, torch.zeros_like(target))
    each = -scores.gather(1, picked[:, None]).squeeze(1)
    weights = counted.to(scores.dtype) if weight is None else _weight_of(weight, picked, rows) * counted
    each = torch.where(counted, each * weights if weight is not None else each, torch.zeros_like(each))
    totals = sums(weights, *segments) if segments else weights.view(-1, rows).sum(1)
    if reduction == NONE:
        return each, totals
    summed = sums(each, *segments) if segments else each.view(-1, rows).sum(1)
    return (summed, totals) if reduction == SUM else (summed / totals, totals)


def _weight_of(weight: Any, classes: Any, rows: int) -> Any:
    """The weight of each row's class; where nodes bring weights of their own these are (nodes, classes)."""
    if weight.dim() == 1:
        return weight[classes]
    return weight.repeat_interleave(rows, 0).gather(1, classes[:, None]).squeeze(1)
