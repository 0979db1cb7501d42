"""MXNet as an engine: gathers, steps and the results of a flush."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import mxnet as mx
import numpy as np
import numpy.typing as npt
from mxnet.ndarray import NDArray

from gluonjit.engines.mxnet.arrays import context_of
from gluonjit.engines.mxnet.cell import Cell, any_lazy, cells_known
from gluonjit.engines.mxnet.cells import capture_cell
from gluonjit.engines.mxnet.hooked import (
    current_mode,
    original_set_recording,
    original_set_training,
    slice_rows,
)
from gluonjit.engines.mxnet.lookups import Table
from gluonjit.engines.mxnet.ops import clear_kinds, kind_count, sum_kind
from gluonjit.engines.mxnet.program import join, piece
from gluonjit.graph import Kind, Leaf, Spec, Value
from gluonjit.hybrid import LOCAL, Batch
from gluonjit.hybrid.batch import results_of
from gluonjit.hybrid.functions import CellFunction


@contextmanager
def _as_captured(mode: int) -> Iterator[None]:
    """Run under the recording and training flags under which something was captured, and capture nothing."""
    state = LOCAL.state
    recording, training = original_set_recording(mode >= 2), original_set_training(mode & 1)
    state.paused += 1
    try:
        yield
    finally:
        state.paused -= 1
        original_set_recording(recording)
        original_set_training(training)


class MXNetEngine:
    """Implements `gluonjit.hybrid.Engine` on MXNet 1.9.1."""

    name = "mxnet"

    def current_mode(self) -> int:
        """2 * recording + training of this thread."""
        return current_mode()

    def sum_kind(self, spec: Spec, count: int) -> Kind:
        """The kind that adds up `count` arrays of this spec."""
        return sum_kind(spec, count)

    def leaf_chunk(self, leaves: Sequence[Leaf], mode: int) -> NDArray:
        """The rows of these leaves: the array itself where it is the only one and has rows."""
        first = leaves[0]
        if len(leaves) == 1 and first.spec.mode == "rows":
            return first.payload
        with _as_captured(mode):
            return join(first.spec, [leaf.payload for leaf in leaves])

    def lookup_chunk(self, table: Table, spec: Spec, indices: Sequence[Any], mode: int) -> NDArray:
        """Rows of a weight, or integers of the host."""
        if table.weight is None:
            return mx.nd.array(np.array(indices), ctx=context_of(spec.device), dtype=spec.dtype)
        with _as_captured(mode if table.taped else 0):
            index = mx.nd.array(np.array(indices, dtype=np.int64), ctx=context_of(spec.device), dtype="int32")
            attrs = dict(table.attrs)
            attrs.pop("name", None)
            return mx.nd.Embedding(index, table.weight, **attrs)

    def upload(self, indices: Sequence[npt.NDArray[np.int64]], device: str) -> list[NDArray]:
        """Index arrays on the device: they travel as one array, of which each gets its part."""
        with _as_captured(0):
            packed = mx.nd.array(
                np.concatenate(indices).astype(np.int32), ctx=context_of(device), dtype="int32"
            )
            ends = np.cumsum([len(index) for index in indices]).tolist()
            return [slice_rows(packed, end - len(index), end) for index, end in zip(indices, ends)]

    def concat(self, sources: Sequence[NDArray], mode: int) -> NDArray:
        """Chunks one after the other."""
        with _as_captured(mode):
            return mx.nd.concat(*sources, dim=0)

    def take(self, pool: NDArray, index: NDArray, mode: int) -> NDArray:
        """Rows of a chunk."""
        with _as_captured(mode):
            return mx.nd.take(pool, index)

    def run_step(self, kind: Kind, operands: Sequence[NDArray], count: int, mode: int) -> list[NDArray]:
        """The results of `count` nodes."""
        with _as_captured(mode):
            results: list[NDArray] = kind.program(operands, count)
            return results

    def force(self, value: Value) -> NDArray:
        """The numbers of a value; runs its batch if that has not run."""
        if value.graph is not None and isinstance(value.graph.owner, Batch):
            value.graph.owner.flush("a value was read")
            LOCAL.state.close()
        return self.materialize(value)

    def materialize(self, value: Value) -> NDArray:
        """A flushed value as an array, with its history if it was captured under recording."""
        spec = value.spec
        with _as_captured(2 if value.taped else 0):
            if value.result is not None:
                chunk, row, _ = value.result
                return piece(chunk, spec, row)
            results = results_of(value)
            rows = value.row_list()
            pieces = [
                slice_rows(
                    results.chunks[results.chunk[row]],
                    int(results.position[row]),
                    int(results.position[row]) + 1,
                )
                for row in rows
            ]
            whole = pieces[0] if len(pieces) == 1 else mx.nd.concat(*pieces, dim=0)
            return whole if spec.mode == "rows" else whole.reshape(spec.shape)

    def wants(self, args: Sequence[Any]) -> bool:
        """Inside a dynamically batched block or `batching`, or where an argument waits for its batch."""
        state = LOCAL.state
        return bool(state.inside or (state.explicit and state.batch) or any_lazy(args))

    def call_cell(self, function: CellFunction, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Capture a call of a function declared with `gluonjit.cell`."""
        cell = function.caches.get(self.name)
        if cell is None:
            cell = function.caches[self.name] = Cell(function.name, LOCAL.state.options)
        owner = args[0] if args and isinstance(args[0], mx.gluon.Block) else None
        if not kwargs:
            return capture_cell(cell, owner, function.function, args)
        names, plain = tuple(kwargs), len(args)

        def run(*given: Any) -> Any:
            return function.function(*given[:plain], **dict(zip(names, given[plain + 1 :])))

        return capture_cell(cell, owner, run, (*args, " ".join(names), *kwargs.values()))

    def owns(self, array: Any) -> bool:
        """Whether this is an NDArray."""
        return isinstance(array, NDArray)

    def add_n(self, arrays: Sequence[NDArray]) -> NDArray:
        """The sum of arrays of one shape."""
        return mx.nd.add_n(*arrays)

    def cache_info(self) -> dict[str, int]:
        """Entries in the caches of operators and of cells."""
        return {"operators": kind_count(), "cells": sum(len(cell.kinds) for cell in cells_known())}

    def clear_caches(self) -> None:
        """Forget all kinds."""
        clear_kinds()
        for cell in cells_known():
            cell.clear()

    def wait(self) -> None:
        """Wait until all work handed over is done."""
        mx.nd.waitall()


ENGINE = MXNetEngine()
