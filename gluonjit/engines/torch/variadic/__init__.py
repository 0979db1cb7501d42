"""PyTorch cells that take any number of children as one kind; the part common to all engines is in hybrid.variadic."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from gluonjit.engines.torch.program import Built
from gluonjit.engines.torch.rules.values import NotBatchable
from gluonjit.engines.torch.variadic.building import build_variadic
from gluonjit.engines.torch.variadic.checking import agrees
from gluonjit.engines.torch.variadic.dialect import TorchDialect
from gluonjit.graph import Kind, Spec
from gluonjit.hybrid.capture.variadic import joining
from gluonjit.hybrid.capture.variadic.joining import TracedKind
from gluonjit.hybrid.capture.variadic.program import Variadic
from gluonjit.hybrid.capture.variadic.reading import Dialect
from gluonjit.hybrid.capture.variadic.roles import Roles
from gluonjit.hybrid.run.batch import Batch
from gluonjit.program.trace import Trace

__all__ = ["TracedKind", "is_operand", "join_kinds"]


def is_operand(item: Any) -> bool:
    """Tells whether an argument is an operand, and no parameter, which is a constant."""
    return isinstance(item, torch.Tensor) and not isinstance(item, torch.nn.Parameter)


class _Maker:
    """Implements `gluonjit.hybrid.capture.variadic.Maker`."""

    dialect: Dialect = TorchDialect()
    refusals: tuple[type[Exception], ...] = (NotBatchable,)
    of_rows = True

    def is_array(self, item: Any) -> bool:
        """Tells whether this is an operand: a parameter is a constant."""
        return is_operand(item)

    def current(self, kind: Kind) -> bool:
        """Cells forget all their kinds when their module has changed."""
        return True

    def build(self, variadic: Variadic, roles: Roles, trace: Trace) -> Built:
        """The program for all nodes of a step and all their children."""
        return build_variadic(variadic, roles, trace)

    def agrees(self, built: Built, members: Sequence[tuple[Kind, Roles]]) -> bool:
        """Tells whether it gives what the kinds' own programs give, on random numbers."""
        return agrees(built, members)

    def adopt(self, built: Built, kinds: Sequence[Kind]) -> None:
        """Its constants are those that it was made with: they are the same for all."""

    def program(self, built: Built) -> Any:
        """Returns what runs."""
        return built.program


_MAKER = _Maker()


def join_kinds(cell: Any, key: Any, args: Sequence[Any], specs: Sequence[Spec], new: TracedKind, batch: Batch) -> Kind:
    """The kind of a call, which runs together with those of other numbers of children where it is like them."""
    return joining.join(_MAKER, cell, key, args, specs, new, batch)
