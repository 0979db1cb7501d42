"""Values that the numbers of inputs alone decide, read in the middle of a sample."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import mxnet as mx
import numpy as np
from mxnet.ndarray import NDArray

from gluonjit.engines.mxnet.arrays import context_of
from gluonjit.engines.mxnet.history import is_learned
from gluonjit.engines.mxnet.modes import as_captured
from gluonjit.engines.mxnet.program import interpret, join, program_of
from gluonjit.engines.mxnet.results import Imported
from gluonjit.engines.mxnet.semantics import as_shape, classic, piece, shapes
from gluonjit.graph import Kind, Leaf, Spec, intern_spec
from gluonjit.graph.modes import TRAINING
from gluonjit.hybrid.run.decided import KEY, DecidedValues, NeedsMore, batch_to_ask


def decided(lazy: Any, constant: bool = False) -> NDArray | None:
    """A pending array, if its numbers follow from inputs by a few calls, for who reads them; else None.

    constant: whether only from inputs that gradients do not go on to.
    """
    batch, value = batch_to_ask(), lazy._v
    if batch is None or value.graph is not batch.graph:
        return None
    with as_captured(0):
        try:
            reader = _Values(batch.graph, {} if constant else batch.created.setdefault(KEY, {}))
            reader.constant = constant
            rows = reader.rows(value.rows, value.spec.rows)
        except NeedsMore:
            return None
        found: NDArray = lazy._in_kind(piece(rows, value.spec, 0))
    return found


def as_decided(item: Any, constant: bool = False) -> Any:
    """This part of an index, or operand, or the array that it is if it waits and follows from (`constant`) inputs."""
    found = decided(item, constant) if getattr(item, "_v", None) is not None and item._c is None else None
    return item if found is None else found


class _Values(DecidedValues):
    """Computes values one by one, by MXNet's own operators."""

    constant = False

    def joined(self, parts: Sequence[NDArray]) -> NDArray:
        first = parts[0]
        shape = (sum([len(part) for part in parts]), *first.shape[1:])
        spec = intern_spec(shape, np.dtype(first.dtype).name, str(first.context), "rows")
        return join(spec, parts, None)

    def called(self, record: Any, operands: Sequence[Any], place: int) -> Sequence[NDArray | None]:
        kind: Kind = record.kind
        program = program_of(kind)
        if kind.call is None or program.may_fail:
            raise NeedsMore
        call = kind.call.part(range(len(kind.operands)), [kind.call.results[place]])
        if call.consts:  # weights
            raise NeedsMore
        read = call.used()
        given: list[Any] = [None] * len(kind.operands)
        for k, (rows, spec) in enumerate(zip(operands, kind.operands)):
            if k in read:
                given[k] = piece(self.rows(rows, spec.rows), spec, 0)
        found: list[NDArray | None] = [None] * len(kind.outputs)
        with as_captured(record.mode & TRAINING), shapes(program.numpy):
            found[place] = _as_rows(interpret(call, given)[0], kind.outputs[place].spec)
        return found

    def leaf_rows(self, leaf: Leaf) -> NDArray:
        payload, earlier = leaf.payload, isinstance(leaf.payload, Imported)
        array = payload.array if earlier else payload
        learns = payload.tape is not None if earlier else leaf.taped and is_learned(payload)
        if array.stype != "default" or (learns and self.constant):
            raise NeedsMore
        return _as_rows(classic(array), leaf.spec)

    def entry_rows(self, table: Any, entries: Sequence[Any]) -> NDArray:
        """The rows of the host's numbers, each by its value."""
        if table.weight is not None:
            raise NeedsMore
        numbers = np.array(entries).reshape(len(entries), *[1] * table.axes)
        return mx.nd.array(numbers, ctx=context_of(table.device), dtype=table.dtype)


def _as_rows(array: NDArray, spec: Spec) -> NDArray:
    """An array of this spec as rows of an arena."""
    shape = (spec.rows, *spec.row_shape)
    return array if array.shape == shape else as_shape(array, shape)
