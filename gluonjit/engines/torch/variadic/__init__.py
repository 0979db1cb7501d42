"""PyTorch cells that take any number of children as one kind; the part common to all engines is in hybrid.variadic."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch

from gluonjit.engines.torch.variadic.building import build_variadic
from gluonjit.engines.torch.variadic.dialect import TorchDialect
from gluonjit.hybrid.capture.variadic.joining import Maker, TracedKind, join
from gluonjit.program.trace import NotBatchable

__all__ = ["TracedKind", "is_operand", "join_kinds"]


def is_operand(item: Any) -> bool:
    """Tells whether an argument is an operand, and no parameter, which is a constant."""
    return isinstance(item, torch.Tensor) and not isinstance(item, torch.nn.Parameter)


join_kinds = partial(join, Maker(TorchDialect(), NotBatchable, True, is_operand, build_variadic))
"""The kind of a call, which runs together with those of other numbers of children where it is like them."""
