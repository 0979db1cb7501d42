"""From a NaN, or an infinite number, to the user's call that made it (option `check_finite`)."""

from __future__ import annotations

from typing import Any

import torch

from gluonjit.hybrid.explain import finite
from gluonjit.hybrid.explain.provenance import Provenance


class FiniteCheck(finite.FiniteCheck):
    """Looks for numbers that are not finite in tensors."""

    def __init__(self, provenance: Provenance) -> None:
        super().__init__(provenance, _numbers)


def _numbers(tensor: Any) -> Any:
    """The numbers on the host; numpy does not know bfloat16."""
    plain = tensor.detach()
    return (plain.float() if plain.dtype is torch.bfloat16 else plain).cpu().numpy()
