"""Operators of MXNet as instructions of batched programs, which are composed to Symbols at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import prod
from typing import Any, ClassVar

import mxnet as mx

from gluonjit.engines.mxnet.framework.symbols import apply
from gluonjit.graph.values import MODES
from gluonjit.program.axes import writer
from gluonjit.program.axes.row import SUM
from gluonjit.program.axes.values import ROWS, Instruction, NotBatchable, Shape, Values


class Writer(writer.Writer):
    """Composes symbols, one in each slot.

    learning: whether the program runs in training, or a backward pass may go through it; like: an operand that differs
    by node, of which the number of nodes is taken.
    """

    like: Values

    def __init__(self, learning: bool = False) -> None:
        super().__init__(0, self._compose)
        self.learning = learning
        self.symbols: dict[int, mx.sym.Symbol] = {}

    def value(self, symbol: mx.sym.Symbol, shape: Shape, dtype: str, mode: str, any_rows: bool = False) -> Values:
        """Notes a symbol of the nodes' values, which lie as `mode` says: that of a spec, or shared."""
        slot, self.slots = self.slots, self.slots + 1
        self.symbols[slot] = symbol
        if mode == "shared":
            return Values(slot, shape, dtype, None, shape)
        axes = MODES.index(mode)
        lead = ROWS if any_rows and axes == 1 else prod(shape[:axes])
        return Values(slot, shape, dtype, lead, shape[axes:])

    def symbol(self, val: Values) -> mx.sym.Symbol:
        """The symbol of a value."""
        return self.symbols[val.slot]

    def _compose(self, step: Instruction) -> None:
        found = step.function(*[self.symbols[slot] for slot in step.inputs])
        if len(step.outputs) == 1 and len(found) == 1:
            self.symbols[step.outputs[0]] = found
        else:
            self.symbols.update([(slot, found[k]) for k, slot in enumerate(step.outputs)])

    def bound(self, name: str, attrs: Mapping[str, Any], outputs: int) -> tuple[Callable[..., Any], str]:
        """An operator of MXNet as a function of its symbols."""
        return lambda *symbols: apply(name, symbols, attrs), name

    def spread(self, val: Values) -> Values:
        """The value of each node, also where it is the same for all: as a stack then."""
        if not val.shared:
            return val
        if self.like.packed:
            raise NotBatchable("what is the same for all samples cannot be repeated for rows of varying length")
        return val._replace(slot=self.emit("repeat", [val, self.stack(self.like)]), lead=1)

    def gathered(self, val: Values, how: str) -> Values:
        """One value for each node of one row for each of its children."""
        if val.dtype != "float32" or how not in (SUM, "mean"):
            raise NotBatchable(f"the {how} of {val.dtype} over the children")
        flat = self.form(val, 1, (prod(val.rest),))
        return flat._replace(slot=self.emit("segments", [flat], how))

    prims: ClassVar[Mapping[str, Callable[..., Any]]] = {
        "reshape": lambda symbol, rest: reshape(symbol, (-1, *rest)),
        "shape": lambda symbol, shape: reshape(symbol, shape),
        "permute": lambda symbol, order: apply("transpose", [symbol], {"axes": order}),
        "widen": lambda symbol, shape: apply("broadcast_to", [symbol], {"shape": (0, *shape)}),
        "repeat": lambda symbol, like: apply(
            "broadcast_like",
            [apply("expand_dims", [symbol], {"axis": 0}), like],
            {"lhs_axes": (0,), "rhs_axes": (0,)},
        ),
        "matrices": lambda one, other, many: apply("batch_dot" if many else "dot", [one, other], {}),
        "add": lambda one, other: apply("broadcast_add", [one, other], {}),
        "total": lambda *symbols: apply("add_n", symbols, {"num_args": len(symbols)}),
        "divide": lambda one, other: apply("broadcast_div", [one, other], {}),
        "pick": lambda symbol, owners: apply("take", [symbol, owners], {"axis": 0, "mode": "clip"}),
        "segments": lambda symbol, how: segment_sum(symbol) if how == SUM else _segment_mean(symbol),
        "scale": lambda symbol, factor: apply("_mul_scalar", [symbol], {"scalar": factor}),
        "cast": lambda symbol, dtype: apply("Cast", [symbol], {"dtype": dtype}),
    }


OWNERS, SEGMENTS = "owners", "segments"
"""The extra arguments of a program over children: whose child each is, and sparse ones in a matrix."""


def segment_sum(flat: mx.sym.Symbol) -> mx.sym.Symbol:
    """The sums of the rows of a matrix that belong together: a product with a sparse matrix of ones, one for each row,
    in its owner's column. MXNet has no other sum over segments whose gradient is as cheap."""
    # Transposed, so that the gradient is a plain product: MXNet makes a row-sparse array of the other one.
    ones = mx.sym.var(SEGMENTS, stype="csr")
    return apply("dot", [ones, flat], {"transpose_a": True, "forward_stype": "default"})


def _segment_mean(flat: mx.sym.Symbol) -> mx.sym.Symbol:
    column = apply("slice_axis", [flat], {"axis": 1, "begin": 0, "end": 1})
    return apply("broadcast_div", [segment_sum(flat), segment_sum(apply("ones_like", [column], {}))], {})


def reshape(symbol: mx.sym.Symbol, shape: Shape) -> mx.sym.Symbol:
    """Reshapes to sizes that are known, -1 for the nodes: MXNet's Reshape trusts them, and reads past the end."""
    return apply("Reshape", [symbol], {"shape": shape})
