"""Views of lazy tensors: which functions return one, and the path from a tensor to a view of it."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

import torch

from gluonjit.engines.torch.arrays import LEARNABLE, dtype_named
from gluonjit.engines.torch.hooked import plain
from gluonjit.engines.torch.known import LIKE
from gluonjit.engines.torch.lazy import LazyTensor, noted
from gluonjit.engines.torch.operands import Key
from gluonjit.engines.torch.view_steps import PathStep, frozen, step_of
from gluonjit.graph import Spec
from gluonjit.graph.references import keys_of

_MOST = 4096


def path_of(key: Any) -> tuple[PathStep, ...]:
    """The steps to a view, of what LazyTensor has in `_k`: a step, a key of `[]`, or (what comes before, the last)."""
    return tuple([item if item.__class__ is PathStep else _indexing(item, True) for item in keys_of(key)])


def _indexing(key: Any, learning: bool) -> PathStep:
    return PathStep(torch.Tensor.__getitem__, (frozen(key.key if key.__class__ is Key else key),), (), None, learning)


_METHODS = (
    "view reshape view_as reshape_as transpose t permute movedim moveaxis swapaxes swapdims unsqueeze squeeze "
    "flatten unflatten ravel narrow select split chunk tensor_split split_with_sizes unbind hsplit vsplit dsplit "
    "diagonal expand expand_as broadcast_to unfold detach contiguous to float double half bfloat16 type_as type cpu "
    "adjoint as_strided atleast_1d atleast_2d atleast_3d __getitem__ positive view_as_real real"
).split()
VIEWING: set[Any] = {
    getattr(place, name) for name in _METHODS for place in (torch, torch.Tensor) if callable(getattr(place, name, None))
} | {getattr(torch.Tensor, name).__get__ for name in ("T", "mT", "H", "mH", "real", "data")}
"""Functions of which a result may share its memory with the first argument."""


DATA = torch.Tensor.data.__get__
"""The step from a tensor to its `data`."""
DETACHING = {
    "data": PathStep(DATA, (), (), None, True),
    "detach": PathStep(torch.Tensor.detach, (), (), None, True),
}
"""The steps from a tensor to one without its history."""


def linked(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], found: Any) -> Any:
    """Links what such a function has given: each part knows what it may be a view of."""
    tensor = args[0] if args else kwargs.get("input")
    if tensor.__class__ is not LazyTensor or (func is torch.Tensor.__getitem__ and not _is_basic(args[1])):
        return found
    several = isinstance(found, (tuple, list))
    for number, part in enumerate(found if several else (found,)):
        if part.__class__ is LazyTensor and part is not tensor and part._b is None:
            like = [item._v.spec.shape if item.__class__ is LazyTensor else item for item in args[1:]]
            given = (tensor, *like) if func in LIKE else args
            step = step_of(LIKE.get(func, func), given, kwargs, number if several else None) if args else None
            if step is not None:
                noted(part, tensor, step)
    return found


def _is_basic(key: Any) -> bool:
    """Tells whether indexing by a key gives a view, and no copy."""
    if key.__class__ is tuple:
        return all(map(_is_basic, key))
    return key is None or key is Ellipsis or key.__class__ in (int, slice)


def dummy(spec: Spec, taped: bool) -> Any:
    """A tensor of zeros that looks like this, and is no leaf where it learns."""
    found = torch.zeros(spec.shape, dtype=dtype_named(spec.dtype))
    return found.requires_grad_().clone() if taped and spec.dtype in LEARNABLE else found


_known: OrderedDict[Any, bool] = OrderedDict()


def is_alias(spec: Spec, path: tuple[PathStep, ...]) -> bool:
    """Tells whether what these steps give of a tensor shares its memory."""
    key = (spec, path)
    found = _known.get(key)
    if found is None:
        with plain():
            base = view = dummy(spec, False)
            for step in path:
                view = step.of(view)
        found = _known[key] = view.untyped_storage().data_ptr() == base.untyped_storage().data_ptr()
        while len(_known) > _MOST:
            _known.popitem(last=False)
    return found
