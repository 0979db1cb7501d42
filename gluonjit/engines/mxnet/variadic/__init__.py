"""MXNet cells that take any number of children as one kind; the part common to all engines is in hybrid.variadic."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from mxnet.ndarray import NDArray

from gluonjit.engines.mxnet.program import Built, current, program_of
from gluonjit.engines.mxnet.variadic.building import build_variadic
from gluonjit.engines.mxnet.variadic.dialect import MXNetDialect
from gluonjit.graph import Kind
from gluonjit.hybrid.capture.variadic.joining import Maker, TracedKind
from gluonjit.hybrid.capture.variadic.joining import join as join_made
from gluonjit.program.trace import NotBatchable

__all__ = ["TracedKind", "join"]


def _is_array(item: Any) -> bool:
    return isinstance(item, NDArray)


def _adopt(built: Built, kinds: Sequence[Kind]) -> None:
    """Makes the program's parameters those of all."""
    built.program.parameters = [pair for kind in kinds for pair in program_of(kind).parameters]


join = partial(
    join_made,
    Maker(MXNetDialect(), NotBatchable, False, _is_array, build_variadic, current, _adopt),
)
"""The kind of a call, which runs together with those of other numbers of children where it is like them."""
