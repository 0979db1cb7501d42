"""CTC loss: its lengths are numbers that are known at the call, and what it is made of is captured."""

from __future__ import annotations

from math import inf
from typing import Any

import torch

from gluonjit.engines.torch.known import known
from gluonjit.engines.torch.lazy import LazyTensor, waits


def ctc_loss(
    log_probs: Any,
    targets: Any,
    input_lengths: Any,
    target_lengths: Any,
    blank: int = 0,
    reduction: str = "mean",
    zero_infinity: bool = False,
) -> Any:
    """Captures a call, as PyTorch takes it apart. None where its lengths are pending, or nothing else is."""
    lengths, wanted = _numbers(input_lengths), _numbers(target_lengths)
    if lengths is None or wanted is None or not waits((log_probs, targets)) or log_probs.device.type != "cpu":
        return None
    alone = log_probs.dim() == 2
    given = log_probs.unsqueeze(1) if alone else log_probs
    found = torch._ctc_loss(given, targets, lengths, wanted, blank, zero_infinity)[0]
    if zero_infinity:
        found = found.masked_fill(found == inf, 0.0)
    if alone:
        found = found.squeeze(0)
    if reduction == "sum":
        return found.sum()
    if reduction != "mean":
        return found
    least = [max(number, 1) for number in wanted]
    return (found / (least[0] if len(set(least)) == 1 else torch.tensor(least, dtype=found.dtype))).mean()


def _numbers(lengths: Any) -> list[int] | None:
    """Returns lengths as numbers of Python; None of those that are pending."""
    if lengths.__class__ is LazyTensor:
        lengths = known(lengths)
    if isinstance(lengths, torch.Tensor):
        return None if not lengths.is_cpu else [int(number) for number in lengths.reshape(-1).tolist()]
    return [int(number) for number in lengths] if isinstance(lengths, (list, tuple)) else None


CTC = {torch.nn.functional.ctc_loss: ctc_loss}
"""PyTorch's function, and what captures it."""
