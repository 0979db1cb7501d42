"""Knowledge of MXNet for reused calls (`hybrid.capture.reuse.reusing`)."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import numpy as np
from mxnet.ndarray import NDArray

from gluonjit.engines.mxnet.capture.cells import recorded
from gluonjit.engines.mxnet.framework.arrays import spec_of
from gluonjit.engines.mxnet.framework.blocks import blocks_of
from gluonjit.engines.mxnet.run.results import Imported, is_learned
from gluonjit.engines.mxnet.tracing.cell import Cell
from gluonjit.engines.mxnet.values.lazy import Lazy, LazyArray, wrap
from gluonjit.engines.mxnet.values.lazy_np import wrap_np
from gluonjit.engines.mxnet.values.lookups import Table
from gluonjit.engines.mxnet.values.operands import leaf, made_from_nothing
from gluonjit.graph import Record, Spec, Value
from gluonjit.hybrid.capture.reuse.cache import NotReusable
from gluonjit.hybrid.capture.reuse.reusable import ArraySource, Reusing
from gluonjit.hybrid.run.batch import Batch
from gluonjit.hybrid.run.state import LOCAL


class _MXNetReusing(Reusing):
    """Calls of blocks. What changes a block forgets what its calls have captured, at once."""

    array, lazy = NDArray, Lazy
    weight_table = Table.of
    learns = staticmethod(is_learned)
    key_of = staticmethod(spec_of)

    def modes(self) -> Any:
        """Recording and training, and MXNet's semantics."""
        state = LOCAL.state
        return state.mode, state.numpy

    def why_not(self, net: Any) -> str:
        """Names hooks, which run for each call."""
        hooks = any(inner._forward_hooks or inner._forward_pre_hooks for inner in blocks_of(net))
        return "a block in it has forward hooks, which run for each call" if hooks else ""

    def watched(self, batch: Batch, net: Any, arrays: list[Any]) -> Any:
        """Returns a plain region: operators report themselves what is not part of a graph."""
        return nullcontext()

    def wrapped(self, value: Value, kind: type) -> Any:
        """A captured array of either interface."""
        return wrap(value) if kind is LazyArray else wrap_np(value)

    def link(self, view: Any, base: Any, key: Any) -> None:
        """Lets an array be this view of another, which has views from then on."""
        base._k = True
        view._b, view._k = base, key

    def record(self, batch: Batch, known: Any) -> Record | None:
        """The record of a signature that was met before; None where its kind has other rows than these operands."""
        found = recorded(batch, known.signature, known.mode)
        if found is None or not found.kind.apart or not isinstance(known.signature[0], Cell):
            return found
        return found if [each for each in known.signature if isinstance(each, Spec)] == [*found.kind.operands] else None

    def source(self, batch: Batch, payload: Any) -> ArraySource:
        """The arguments of an operator without operands, or the array itself."""
        if isinstance(payload, Imported):
            raise NotReusable("it uses a result of an earlier batch")
        for key, created in batch.created.items():
            if created is payload:
                return ArraySource(key, "made")
        return ArraySource(payload, "array")

    def leaf(self, batch: Batch, source: ArraySource) -> Value:
        """The value of an array, or of what an operator gives."""
        return leaf(batch, made_from_nothing(batch, source.what) if source.way == "made" else source.what)

    def alike(self, one: Any, other: Any) -> bool:
        """True if two arrays have the same numbers: they may be made anew for each call."""
        return (
            one.shape == other.shape
            and one.dtype == other.dtype
            and bool(np.array_equal(one.asnumpy(), other.asnumpy()))
        )


REUSING = _MXNetReusing()
