"""MXNet cells that take any number of children as one kind; the part common to all engines is in hybrid.variadic."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mxnet.ndarray import NDArray

from gluonjit.engines.mxnet.program import Built, current, program_of
from gluonjit.engines.mxnet.rules.values import NotBatchable
from gluonjit.engines.mxnet.variadic.building import build_variadic
from gluonjit.engines.mxnet.variadic.checking import agrees
from gluonjit.engines.mxnet.variadic.dialect import MXNetDialect
from gluonjit.graph import Kind, Spec
from gluonjit.hybrid.capture.variadic import joining
from gluonjit.hybrid.capture.variadic.joining import TracedKind
from gluonjit.hybrid.capture.variadic.program import Variadic
from gluonjit.hybrid.capture.variadic.reading import Dialect
from gluonjit.hybrid.capture.variadic.roles import Roles
from gluonjit.hybrid.run.batch import Batch
from gluonjit.program.trace import Trace

__all__ = ["TracedKind", "join"]


class _Maker:
    """Implements `gluonjit.hybrid.capture.variadic.Maker`."""

    dialect: Dialect = MXNetDialect()
    refusals: tuple[type[Exception], ...] = (NotBatchable,)
    of_rows = False

    def is_array(self, item: Any) -> bool:
        """Tells whether this is an NDArray."""
        return isinstance(item, NDArray)

    def current(self, kind: Kind) -> bool:
        """Tells whether the parameters still are the arrays that the program was traced with."""
        return current(kind)

    def build(self, variadic: Variadic, roles: Roles, trace: Trace) -> Built:
        """The program as one symbolic graph."""
        return build_variadic(variadic, roles, trace)

    def agrees(self, built: Built, members: Sequence[tuple[Kind, Roles]]) -> bool:
        """Tells whether it gives what the kinds' own programs give, on random numbers."""
        return agrees(built, [(kind, roles.roles) for kind, roles in members])

    def adopt(self, built: Built, kinds: Sequence[Kind]) -> None:
        """The program's parameters are those of all."""
        built.program.parameters = [pair for kind in kinds for pair in program_of(kind).parameters]

    def program(self, built: Built) -> Any:
        """The graph."""
        return built.program


_MAKER = _Maker()


def join(cell: Any, key: Any, args: Sequence[Any], specs: Sequence[Spec], new: TracedKind, batch: Batch) -> Kind:
    """The kind of a call, which runs together with those of other numbers of children where it is like them."""
    return joining.join(_MAKER, cell, key, args, specs, new, batch)
