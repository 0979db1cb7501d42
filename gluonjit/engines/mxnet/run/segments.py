"""Segments, an additional operand of programs over children: the node that each child belongs to."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import mxnet as mx
import numpy as np
from mxnet.base import _LIB, check_call
from mxnet.context import Context
from mxnet.ndarray import NDArray
from mxnet.ndarray.sparse import CSRNDArray, _new_alloc_handle

from gluonjit.analysis.forms import Index
from gluonjit.engines.mxnet.framework.originals import slice_rows


class Segments:
    """Owners and sparse matrices of several steps, for which `arities` are the numbers of children node by node.

    All numbers travel to the device as three arrays, of which each step's are parts.
    """

    def __init__(self, arities: Sequence[Index], context: Context) -> None:
        self._context = context
        self._children = [int(counts.sum()) for counts in arities]
        self._nodes = [len(counts) for counts in arities]
        most = max(self._children)
        owners = np.concatenate([np.repeat(np.arange(len(counts)), counts) for counts in arities])
        self._owners = mx.nd.array(owners.astype(np.int32), ctx=context, dtype="int32")
        # Where rows begin that have one entry each, and in which columns that is.
        self._numbers = mx.nd.array(np.concatenate([np.arange(most + 1), owners]), ctx=context, dtype="int64")
        self._ones = mx.nd.ones(most, ctx=context)
        self._first = np.cumsum([0, *self._children]).tolist()
        self._columns = most + 1

    def of(self, step: int) -> list[Any]:
        """Returns the owner of each child in a step, and a matrix (children, nodes) of ones there."""
        children, nodes, first = self._children[step], self._nodes[step], self._first[step]
        types = [np.int64, np.int64]
        shapes = [(children + 1,), (children,)]
        matrix = CSRNDArray(
            _new_alloc_handle("csr", (children, nodes), self._context, False, np.float32, types, shapes)
        )
        _copy(matrix, slice_rows(self._ones, 0, children), -1)
        _copy(matrix, slice_rows(self._numbers, 0, children + 1), 0)
        _copy(matrix, slice_rows(self._numbers, self._columns + first, self._columns + first + children), 1)
        return [slice_rows(self._owners, first, first + children), matrix]


def _copy(matrix: CSRNDArray, part: NDArray, number: int) -> None:
    """Fills one of the arrays of a sparse matrix: -1 its entries, 0 where rows begin, 1 their columns."""
    check_call(_LIB.MXNDArraySyncCopyFromNDArray(matrix.handle, part.handle, ctypes.c_int(number)))
