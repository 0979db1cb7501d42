"""Views: how one derives from its base, and how a write to it changes the base, as operators without writes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch

from gluonjit.program.trace import NeedsValue


class ViewStep(NamedTuple):
    """A view operator of ATen: its arguments but the first, by name, and which of its results."""

    func: Any
    named: dict[str, Any]
    output: int | None

    def of(self, parent: Any) -> Any:
        """The view of a tensor."""
        (first, *_) = self.func._schema.arguments
        found = self.func(**{**self.named, first.name: parent})
        return found if self.output is None else found[self.output]


def through(path: tuple[ViewStep, ...], base: Any, part: Any) -> Any:
    """Returns a base with `part` in place of its view. Raises NeedsValue if that is not known of this view."""
    parents = [base]
    for step in path[:-1]:
        parents.append(step.of(parents[-1]))
    for step, parent in zip(reversed(path), reversed(parents)):
        put_back = _PUT_BACK.get(step.func)
        if put_back is None:
            raise NeedsValue
        part = put_back(parent, part, step)
    return part


def detaches(path: tuple[ViewStep, ...]) -> bool:
    """True if no gradient goes through a view."""
    return any(step.func is _ATEN.detach.default for step in path)


def _between(parent: Any, part: Any, dim: int, begin: int) -> Any:
    """A tensor with another one in place of what begins there along an axis."""
    size, end = parent.shape[dim], begin + part.shape[dim]
    pieces = [parent.narrow(dim, 0, begin)] if begin else []
    pieces.append(part)
    if end < size:
        pieces.append(parent.narrow(dim, end, size - end))
    return pieces[0] if len(pieces) == 1 else torch.cat(pieces, dim)


def _select(parent: Any, part: Any, step: ViewStep) -> Any:
    """`select`, and one of the results of `unbind`."""
    dim = step.named.get("dim", 0) % parent.dim()
    return _between(parent, part.unsqueeze(dim), dim, step.named.get("index", step.output) % parent.shape[dim])


def _slice(parent: Any, part: Any, step: ViewStep) -> Any:
    named = step.named
    dim = named.get("dim", 0) % parent.dim()
    begin, _, by = slice(named.get("start"), named.get("end"), named.get("step", 1)).indices(parent.shape[dim])
    if by == 1:
        return _between(parent, part, dim, begin) if part.shape[dim] else parent
    rows = list(parent.unbind(dim))
    rows[begin : begin + part.shape[dim] * by : by] = part.unbind(dim)
    return torch.stack(rows, dim)


def _split(parent: Any, part: Any, step: ViewStep) -> Any:
    sizes = step.named.get("split_size", step.named.get("split_sizes"))
    assert step.output is not None
    begin = step.output * sizes if isinstance(sizes, int) else sum(list(sizes or ())[: step.output])
    return _between(parent, part, step.named.get("dim", 0) % parent.dim(), begin)


def _permute(parent: Any, part: Any, step: ViewStep) -> Any:
    dims = [dim % parent.dim() for dim in step.named["dims"]]
    return part.permute([dims.index(dim) for dim in range(len(dims))])


def _expand(parent: Any, part: Any, step: ViewStep) -> Any:
    if part.numel() != parent.numel():  # one number in several places
        raise NeedsValue
    return part.reshape(parent.shape)


_ATEN = torch.ops.aten
_PUT_BACK: dict[Any, Callable[[Any, Any, ViewStep], Any]] = {
    _ATEN.select.int: _select,
    _ATEN.slice.Tensor: _slice,
    _ATEN.split.Tensor: _split,
    _ATEN.split_with_sizes.default: _split,
    _ATEN.unbind.int: _select,
    **dict.fromkeys(
        (
            _ATEN.view.default,
            _ATEN._reshape_alias.default,
            _ATEN._unsafe_view.default,
            _ATEN.unsqueeze.default,
            _ATEN.squeeze.default,
            _ATEN.squeeze.dim,
            _ATEN.squeeze.dims,
        ),
        lambda parent, part, step: part.reshape(parent.shape),
    ),
    _ATEN.expand.default: _expand,
    _ATEN.t.default: lambda parent, part, step: part.t(),
    _ATEN.transpose.int: lambda parent, part, step: part.transpose(step.named["dim0"], step.named["dim1"]),
    _ATEN.permute.default: _permute,
    **dict.fromkeys((_ATEN.detach.default, _ATEN.alias.default), lambda parent, part, step: part),
}
"""By the operator of a view: the base, given it as it was, the view as it is now, and the step between them."""
