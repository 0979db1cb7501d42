"""Knowledge of PyTorch for cells made from source: which functions only return a result, and which parts are layers."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import torch
from torch.overrides import get_ignored_functions

from gluonjit.engines.torch.capture.cells import capture, open_batch
from gluonjit.engines.torch.capture.making import CREATING
from gluonjit.engines.torch.capture.records import ASKED, NotOneNode
from gluonjit.engines.torch.framework.arrays import FLOATS
from gluonjit.engines.torch.framework.layers import is_layer, is_plain
from gluonjit.engines.torch.framework.originals import hooks_everywhere
from gluonjit.engines.torch.tracing.cell import Cell
from gluonjit.engines.torch.values.lazy import LazyTensor, waits
from gluonjit.engines.torch.values.operands import is_made
from gluonjit.hybrid.capture.guards.facts import ABSENT, class_attribute
from gluonjit.hybrid.capture.outlining.known import LAYER, LOOKUP, WEIGHT, FrameworkFunctions, is_among

_NOT = set(
    """alpha_dropout apply argwhere as_subclass backward batch_norm bernoulli bincount clone compile cpu cuda data_ptr
    dense_dim detach dim dropout dropout1d dropout2d dropout3d dsmm element_size embedding embedding_bag equal
    allclose feature_alpha_dropout feature_dropout fractional_max_pool2d fractional_max_pool3d get_device
    gumbel_softmax gru gru_cell histc histogram index_select instance_norm item lstm lstm_cell map masked_select
    multi_head_attention_forward multinomial ndimension nelement nonzero normal numel numpy poisson
    requires_grad retain_grad rnn_relu rnn_tanh rrelu scaled_dot_product_attention share_memory size sparse_dim
    storage stride to tolist type typename unique unique_consecutive untyped_storage""".split()
)
"""Functions and methods that write, draw, read numbers, give no tensor, make no new one, or cost nothing."""
_NO_PREFIX = tuple("_ is_ new_ rand to_ has_ sparse_ cudnn_ miopen_ mkldnn_ quantized fake_".split())
_LIKE = "tensor zeros ones full zeros_like ones_like".split()
_CREATING = {*[CREATING[name] for name in _LIKE], *[getattr(torch, name) for name in [*_LIKE, "arange", "eye"]]}
_IN_PYTHON = [getattr(torch.nn.functional, name) for name in "sigmoid tanh hardsigmoid hardswish".split()]
"""Functions that call a method, which alone PyTorch lets other classes override."""
_SPACES = (
    (torch, torch.__all__),
    (torch.functional, torch.functional.__all__),
    *[(space, dir(space)) for space in (torch.nn.functional, torch.linalg, torch.fft, torch.special)],
)
"""Where these are, and their names."""
_NONE: dict[str, Any] = {}


def _only_gives_a_result(function: Any) -> bool:
    name = getattr(function, "__name__", "_")
    return name not in _NOT and not name.endswith("_") and not name.startswith(_NO_PREFIX)


@cache
def _functions() -> frozenset[Any]:
    """Functions that only give a result, of those that PyTorch lets other classes override; it lists them slowly."""
    ignored = get_ignored_functions()
    found = set(_IN_PYTHON)
    for space, names in _SPACES:
        for function in [vars(space).get(name) for name in names if name[0].islower()]:
            if callable(function) and function not in ignored and _only_gives_a_result(function):
                found.add(function)
    return frozenset(found)


@cache
def _is_method(name: str) -> bool:
    """Tells the same of a method of tensors."""
    method = getattr(torch.Tensor, name, None)
    if not callable(method) or getattr(object, name, None) == method or method in get_ignored_functions():
        return False
    return _only_gives_a_result(method)


def _is_captured(arg: Any) -> bool:
    """False of what the program has made by itself, or numbers it knows: operators on these alone run at once."""
    return arg.__class__ is LazyTensor and not is_made(arg) and (arg._c is None or arg._v.spec.dtype in FLOATS)


class _Torch(FrameworkFunctions):
    """PyTorch."""

    arrays, lazy = frozenset({torch.Tensor, LazyTensor}), LazyTensor
    attaching = frozenset({"register_hook", "retain_grad"})
    sizing = frozenset({"size", "dim", "numel", "ndimension"})
    engine, cells = "torch", Cell
    tracing = staticmethod(torch.compiler.is_compiling)
    method, waits = staticmethod(_is_method), staticmethod(waits)
    parts = staticmethod(torch.nn.Module.modules)

    def captured(self, args: Any) -> bool:
        return any(self.captured(arg) if arg.__class__ is list else _is_captured(arg) for arg in args)

    def function(self, item: Any) -> bool:
        return is_among(item, _functions())

    def creates(self, item: Any) -> bool:
        return is_among(item, _CREATING)

    def part(self, owner: Any, name: str) -> str:
        space = owner.__dict__
        if name in space or class_attribute(type(owner), name) is not ABSENT or "_modules" not in space:
            return ""
        if isinstance(space["_parameters"].get(name), torch.nn.Parameter):
            return WEIGHT
        module = space["_modules"].get(name)
        if module is None or hooks_everywhere():
            return ""
        if type(module) is torch.nn.Embedding:
            return LOOKUP if module.max_norm is None and is_plain(module) else ""
        return LAYER if is_layer(module) else ""

    def holder(self, owner: Any, names: list[str]) -> Any:
        found = torch.nn.Module()
        for name in names:
            for space in ("_parameters", "_modules"):
                if name in owner.__dict__[space]:
                    found.__dict__[space][name] = owner.__dict__[space][name]
        return found

    def same(self, holder: Any, owner: Any, names: list[str]) -> bool:
        return all(
            holder.__dict__[space].get(name) is owner.__dict__[space].get(name)
            for name in names
            for space in ("_parameters", "_modules")
        )

    def node(
        self, cell: Cell, holder: Any, function: Any, args: tuple[Any, ...], refused: Callable[[str], None]
    ) -> Any:
        try:
            return capture(cell, holder, function, args, _NONE, open_batch(cell.options))
        except NotOneNode as refusal:
            why = str(refusal)
        if why not in ASKED:
            refused(why)
        return None


KNOWN = _Torch()
