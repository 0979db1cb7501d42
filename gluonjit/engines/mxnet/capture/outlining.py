"""Knowledge of MXNet for cells made from source: which functions only return a result, and which parts are layers."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from mxnet import gluon, nd
from mxnet.gluon.parameter import ParameterDict
from mxnet.ndarray import NDArray

from gluonjit.engines.mxnet.capture.cells import capture_cell
from gluonjit.engines.mxnet.framework.blocks import blocks_of
from gluonjit.engines.mxnet.framework.symbols import MAY_FAIL, RANDOM, STATEFUL, canonical
from gluonjit.engines.mxnet.operators.table import ROWS_OF
from gluonjit.engines.mxnet.tracing.cell import Cell
from gluonjit.engines.mxnet.values.computing import waits
from gluonjit.engines.mxnet.values.lazy import LazyArray
from gluonjit.hybrid.capture.guards.facts import ABSENT, class_attribute
from gluonjit.hybrid.capture.outlining.known import LAYER, LOOKUP, FrameworkFunctions, is_among
from gluonjit.hybrid.run.engine import engine_of
from gluonjit.hybrid.run.state import LOCAL

_KINDS = frozenset({"elementwise", "reduction", "shape", "product", "layer"})
_NOT = RANDOM | STATEFUL | MAY_FAIL | {"Reshape"}
"""Operators that draw, write, raise as values say, or give a view."""


def _only_gives_a_result(name: str) -> bool:
    """True of a function or method that calls an operator with a row, and does nothing else."""
    try:
        operator = canonical(name)
    except ValueError:
        return False
    return operator in ROWS_OF and operator not in _NOT and ROWS_OF[operator].kind in _KINDS


_FUNCTIONS = {item for name, item in vars(nd).items() if callable(item) and _only_gives_a_result(name)}
_METHODS = frozenset(name for name in dir(NDArray) if _only_gives_a_result(name))
_FUNCTIONS.update([nd.add, nd.subtract, nd.multiply, nd.divide, nd.maximum, nd.minimum])
_CREATING = {nd.array, nd.zeros, nd.ones, nd.arange}
_LAYERS = (
    gluon.nn.Sequential,
    gluon.nn.HybridSequential,
    gluon.nn.Dense,
    gluon.nn.Activation,
    gluon.nn.LayerNorm,
    gluon.nn.LeakyReLU,
    gluon.nn.Conv2D,
    gluon.nn.Flatten,
)


class _MXNetFunctions(FrameworkFunctions):
    """MXNet, with classic arrays."""

    arrays = frozenset({NDArray, LazyArray})
    engine, cells = "mxnet", Cell
    parts = staticmethod(blocks_of)

    def function(self, item: Any) -> bool:
        return callable(item) and is_among(item, _FUNCTIONS)

    def method(self, name: str) -> bool:
        return name in _METHODS

    def waits(self, args: tuple[Any, ...]) -> bool:
        return any(isinstance(arg, LazyArray) and waits(arg) for arg in args)

    def creates(self, item: Any) -> bool:
        return callable(item) and is_among(item, _CREATING)

    def part(self, owner: Any, name: str) -> str:
        block = owner.__dict__.get(name)
        if (
            class_attribute(type(owner), name) is not ABSENT
            or not isinstance(block, gluon.Block)
            or not _is_plain(block)
        ):
            return ""
        if type(block) is gluon.nn.Embedding:
            return LOOKUP
        return LAYER if _is_layer(block) else ""

    def holder(self, owner: Any, names: list[str]) -> Any:
        found = gluon.Block.__new__(gluon.Block)  # a block that is made counts for the names of others
        parts = OrderedDict((name, owner.__dict__[name]) for name in names)
        found.__dict__.update(_prefix="", _params=ParameterDict(""), _reg_params={}, _children=parts, **parts)
        found.__dict__.update(_forward_hooks=OrderedDict(), _forward_pre_hooks=OrderedDict())
        return found

    def same(self, holder: Any, owner: Any, names: list[str]) -> bool:
        return all(holder.__dict__[name] is owner.__dict__.get(name) for name in names)

    def node(
        self, cell: Cell, holder: Any, function: Any, args: tuple[Any, ...], refused: Callable[[str], None]
    ) -> Any:
        state = LOCAL.state
        if state.numpy or state.batch is None or state.batch.engine is not engine_of("mxnet"):
            return None
        found = capture_cell(cell, holder, function, args)
        if cell.expanded:
            refused(next(iter(cell.expanded.values())))
        return found


def _is_layer(block: Any) -> bool:
    """True if a call of a block is sure to be computed from its arguments and weights alone."""
    return type(block) in _LAYERS and all(_is_plain(part) and _is_layer(part) for part in block._children.values())


def _is_plain(block: Any) -> bool:
    """True if a call of a block does what its class says: nothing was replaced."""
    return not block._forward_hooks and not block._forward_pre_hooks and "forward" not in block.__dict__


KNOWN = _MXNetFunctions()
