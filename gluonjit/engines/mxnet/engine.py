"""MXNet as an engine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import mxnet as mx
from mxnet.ndarray import NDArray

from gluonjit.engines.mxnet.capture.cells import capture_cell
from gluonjit.engines.mxnet.framework.arrays import VERSIONS
from gluonjit.engines.mxnet.framework.originals import current_mode, set_mode
from gluonjit.engines.mxnet.framework.semantics import as_captured, is_numpy
from gluonjit.engines.mxnet.run.inference import clear_inferred, inferred_count
from gluonjit.engines.mxnet.run.memory import Session
from gluonjit.engines.mxnet.run.results import numbers_of
from gluonjit.engines.mxnet.tracing.cell import Cell, any_lazy
from gluonjit.engines.mxnet.tracing.kinds import clear_constants
from gluonjit.engines.mxnet.tracing.opkinds import clear_kinds, kind_count, sum_kind
from gluonjit.engines.mxnet.values.bridge import bridged
from gluonjit.engines.mxnet.values.operands import clear_numbers
from gluonjit.engines.mxnet.values.replacing import AddressRanges
from gluonjit.engines.mxnet.values.weights import clear_parts
from gluonjit.engines.mxnet.verifying import verify
from gluonjit.graph import Value
from gluonjit.hybrid.run.protocol import Adapter
from gluonjit.hybrid.run.state import LOCAL, settle


class MXNetEngine(Adapter):
    """MXNet 1.9.1, of which an array that is captured is a lazy NDArray."""

    name, title = "mxnet", "MXNet"
    array, block = NDArray, mx.gluon.Block
    versions = VERSIONS
    reuses = True
    current_mode = staticmethod(current_mode)
    set_mode = staticmethod(set_mode)

    def flags(self) -> int:
        return LOCAL.state.numpy

    wait = staticmethod(mx.nd.waitall)
    sum_kind = staticmethod(sum_kind)
    account = staticmethod(AddressRanges)
    session = staticmethod(Session)
    with_history = staticmethod(bridged)
    waits = staticmethod(any_lazy)
    verify = staticmethod(verify)
    cells = Cell

    def force(self, value: Value) -> NDArray:
        """The numbers of a value, without history; runs its batch if that has not run."""
        settle(value)
        with as_captured(0):
            return numbers_of(value)

    def capture(
        self, cell: Cell, owner: Any, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        if not kwargs:
            return capture_cell(cell, owner, function, args)
        names, plain = tuple(kwargs), len(args)

        def run(*given: Any) -> Any:
            return function(*given[:plain], **dict(zip(names, given[plain + 1 :])))

        run.__wrapped__ = function  # type: ignore[attr-defined]  # what a follower goes through
        return capture_cell(cell, owner, run, (*args, " ".join(names), *kwargs.values()))

    def hybridize(self, net: Any, dynamic_batch: bool, options: dict[str, Any]) -> None:
        """Turns dynamic batching of a block on or off."""
        net.hybridize(dynamic_batch=dynamic_batch, **options)

    def add_n(self, arrays: Sequence[NDArray]) -> NDArray:
        """The sum of arrays of one shape."""
        if not is_numpy(arrays[0]):
            return mx.nd.add_n(*arrays)
        return mx.nd.add_n(*[array.as_nd_ndarray() for array in arrays]).as_np_ndarray()

    def cache_info(self) -> dict[str, int]:
        """Entries in caches: of operators (4,096 at most), and of shapes."""
        return {**super().cache_info(), "operators": kind_count(), "shapes": inferred_count()}

    def clear_caches(self) -> None:
        """Forgets all kinds."""
        super().clear_caches()
        clear_kinds()
        clear_inferred()
        clear_numbers()
        clear_parts()
        clear_constants()


ENGINE = MXNetEngine()
