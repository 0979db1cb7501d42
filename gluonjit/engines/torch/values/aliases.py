"""Views of lazy tensors: which functions return one, the path from a tensor to a view of it, and writes of a look.

After a write that changes how a tensor looks, not its numbers, it is a view of what it was before. Views that were
taken before are of that, too: `transpose_` changes none of them.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import torch

from gluonjit.engines.torch.framework.arrays import LEARNABLE, zeros_of
from gluonjit.engines.torch.framework.originals import functions_named, plain
from gluonjit.engines.torch.tracing.view_steps import PathStep, frozen, show, step_of
from gluonjit.engines.torch.values.known import LIKE
from gluonjit.engines.torch.values.lazy import UNSEEN, LazyTensor, noted, wrap
from gluonjit.engines.torch.values.operands import is_input, is_made
from gluonjit.graph import Spec
from gluonjit.graph.references import keys_of
from gluonjit.graph.slices import Key
from gluonjit.hybrid.capture.structure import Args, Kwargs
from gluonjit.hybrid.run.engine import engine_of
from gluonjit.hybrid.run.state import LOCAL


def path_of(key: Any) -> tuple[PathStep, ...]:
    """The steps to a view, of what LazyTensor has in `_k`: a step, a key of `[]`, or (what comes before, the last)."""
    return tuple([item if isinstance(item, PathStep) else _indexing(item) for item in keys_of(key)])


def _indexing(key: Any) -> PathStep:
    return PathStep(torch.Tensor.__getitem__, (frozen(key.key if key.__class__ is Key else key),), (), None, True)


_METHODS = (
    "view reshape view_as reshape_as transpose t permute movedim moveaxis swapaxes swapdims unsqueeze squeeze "
    "flatten unflatten ravel narrow select split chunk tensor_split split_with_sizes unbind hsplit vsplit dsplit "
    "diagonal expand expand_as broadcast_to unfold detach contiguous to float double half bfloat16 type_as type cpu "
    "adjoint as_strided atleast_1d atleast_2d atleast_3d __getitem__ positive view_as_real real"
)
VIEWING = functions_named(_METHODS) | {
    getattr(torch.Tensor, name).__get__ for name in ("T", "mT", "H", "mH", "real", "data")
}
"""Functions of which a result may share its memory with the first argument."""


DATA = torch.Tensor.data.__get__
"""The step from a tensor to its `data`."""
DETACHING = {
    "data": PathStep(DATA, (), (), None, True),
    "detach": PathStep(torch.Tensor.detach, (), (), None, True),
}
"""The steps from a tensor to one without its history."""


def linked(func: Any, args: Args, kwargs: Kwargs, found: Any) -> Any:
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
    """True if indexing by a key gives a view, and no copy."""
    if key.__class__ is tuple:
        return all(map(_is_basic, key))
    return key is None or key is Ellipsis or key.__class__ in (int, slice)


def dummy(spec: Spec, taped: bool) -> Any:
    """A tensor of zeros that looks like this, and is no leaf where it learns."""
    found = zeros_of(spec)
    return found.requires_grad_().clone() if taped and spec.dtype in LEARNABLE else found


@lru_cache(maxsize=4096)
def is_alias(spec: Spec, path: tuple[PathStep, ...]) -> bool:
    """True if what these steps give of a tensor shares its memory."""
    with plain():
        base = dummy(spec, False)
        view = show(base, path)
    return bool(view.untyped_storage().data_ptr() == base.untyped_storage().data_ptr())


def _shares(base: Any, path: tuple[PathStep, ...]) -> bool:
    """True if what these steps give of a lazy tensor shares its memory."""
    there = base._c
    try:
        if there is None or there.is_contiguous():
            return is_alias(base._v.spec, path)
        with plain():
            return bool(show(there, path).untyped_storage().data_ptr() == there.untyped_storage().data_ptr())
    except RuntimeError:
        if is_input(base):  # of one that lies otherwise `reshape` gives a copy
            return False
    engine_of("torch").lay(base, path)  # type: ignore[attr-defined]
    return True  # of a result that lies otherwise in eager execution, or none at all


MOVING = set("resize_ resize_as_ set_ as_strided_ squeeze_ unsqueeze_ t_ transpose_ swapaxes_ swapdims_".split())
"""Names of methods after which a tensor may look otherwise, or have other memory: earlier views are of what it was."""


class Moved(NamedTuple):
    """The `_k` of a tensor that is no view: its state `before` it moved, and its `count` of writes then."""

    count: Any
    before: Any


def moves(lazy: Any) -> None:
    """Leaves a tensor's value to the views that were taken of it: it gets other memory next."""
    if lazy._b is None and not is_made(lazy):
        _hide(lazy)
    batch = LOCAL.state.batch
    if batch is not None and lazy._c is not None:  # of which PyTorch counts no write
        for place in [place for place in batch.imports if place == id(lazy._c) or place.__class__ is tuple]:
            del batch.imports[place]


def _hide(lazy: Any) -> None:
    """Lets another tensor have the value that this one has, and what was before."""
    hidden = wrap(lazy._v)
    hidden._c, hidden._k = lazy._c, lazy._k
    if lazy._c is not None:
        with torch.inference_mode(lazy._c.is_inference()), torch.enable_grad():
            hidden._c = lazy._c.view(lazy._c.shape)
    hidden._n = (lazy._n or 0) + 1
    lazy._k = Moved(lazy._n, hidden)


def base_of(lazy: Any) -> tuple[Any, tuple[PathStep, ...]]:
    """Finds the base of a lazy tensor that is a view, and the path to it; otherwise the tensor itself."""
    base = _base_now(lazy)
    if base is None:
        return lazy, ()
    path = path_of(lazy._k)
    if _shares(base, path):
        return base, path
    lazy._b = lazy._n = None  # a copy, which lies as its last step says
    lazy._k = path[-1]
    return lazy, ()


def _base_now(lazy: Any) -> Any:
    """Finds what a view is a view of, also if that has changed its look since."""
    base = lazy._b
    while base is not None:
        if base._b is not None:  # a view by now, of what it was
            lazy._b = base = base._b
        elif base._k.__class__ is Moved and (lazy._n is UNSEEN or (lazy._n or 0) <= (base._k.count or 0)):
            lazy._b = base = base._k.before
        else:
            break
    return base
