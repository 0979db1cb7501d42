"""Writes to tensors of a traced call: each is a new position, which views of the same memory show.

Numbers that follow from nothing are the same in every call of a signature, so that a trace may read them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch

from gluonjit.engines.torch.framework.arrays import dtype_named
from gluonjit.engines.torch.framework.buffers import note_written
from gluonjit.engines.torch.run.saved import Write, overwritten
from gluonjit.engines.torch.tracing.aten import ASSIGNING, functional, operator_of
from gluonjit.engines.torch.tracing.traced_tensors import Positions, TraceTensor
from gluonjit.engines.torch.tracing.view_steps import show
from gluonjit.hybrid.capture.structure import items_of, map_structure
from gluonjit.program.trace import NeedsValue

_ATEN = torch.ops.aten


class ViewStep(NamedTuple):
    """A view operator of ATen: its arguments but the first, by name, and which of its results.

    A view derives from its base by such steps, and a write to it changes the base by operators without writes.
    """

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
    **dict.fromkeys(
        (_ATEN.detach.default, _ATEN.alias.default, _ATEN.contiguous.default), lambda parent, part, step: part
    ),
}
"""By the operator of a view: the base, given it as it was, the view as it is now, and the step between them."""


_UNFILLED = {_ATEN.empty, _ATEN.empty_strided}
_MANY = 2  # times as many rows as there are indices
_MASKS = (torch.bool, torch.uint8)


class KnownNumbers(Positions):
    """The positions of which a trace knows the numbers."""

    def _by_whole_numbers(self, func: Any, args: Any) -> bool:
        """True if the shape of a call's result depends on no value: it indexes by integers, for one.

        Not where a module's call takes few rows of many by an argument: outside of one node these are references, and
        a node would have all rows as an operand.
        """
        if func is _ATEN.one_hot.default:
            return bool(args[1] >= 0)
        if func is not _ATEN.index.Tensor:
            return False
        if any(item is not None and item.dtype in _MASKS for item in args[1]):
            return False
        rows = args[1][0]
        few = rows is not None and _MANY * rows.numel() < args[0].shape[0]
        return not (few and rows.__class__ is TraceTensor and rows.outside and self.follower is not None)

    def _by_known_numbers(self, func: Any, named: dict[str, Any]) -> Any:
        """Computes what follows from numbers made of nothing, which are the same in each call of these sizes.

        In calls of other sizes they are others, so these are not derived from this one. Raises NeedsValue.
        """
        if func is _ATEN.index.Tensor:
            return self.dispatched(func, (named["self"], self._without_masks(named["self"], named["indices"])), None)
        if func is _ATEN.masked_select.default and named["mask"].shape == named["self"].shape:
            return self._by_known_numbers(_ATEN.index.Tensor, {"self": named["self"], "indices": [named["mask"]]})
        found = func(**{name: self.numbers(value) for name, value in named.items()})
        self._ask()
        if isinstance(found, (list, tuple)):
            return type(found)(map(self._known_constant, found))
        return self._known_constant(found) if isinstance(found, torch.Tensor) else found

    def _without_masks(self, tensor: Any, indices: Sequence[Any]) -> list[Any]:
        """Indices with the numbers of what masks choose in place of these. Raises NeedsValue, without masks too."""
        if not any(item is not None and item.dtype in _MASKS for item in indices):
            raise NeedsValue
        found: list[Any] = []
        for item in indices:
            if item is None or item.dtype not in _MASKS:
                found.append(item)
                continue
            if item.shape != tensor.shape[len(found) : len(found) + item.dim()]:
                raise NeedsValue  # PyTorch refuses it
            found += map(self._known_constant, self.numbers(item).nonzero().unbind(1))
        self._ask()
        return found

    def known_numbers(self, tensor: TraceTensor) -> Any:
        """The numbers of a tensor, which the program reads. Raises NeedsValue where they are not made of nothing."""
        found = self.numbers(tensor)
        self._ask()
        return found

    def numbers(self, value: Any) -> Any:
        """The numbers of what was made of nothing; other arguments as they are. Raises NeedsValue."""
        if not isinstance(value, torch.Tensor):
            return value
        position = self._position(value)
        if position not in self._made_of_nothing:
            raise NeedsValue
        return self._shapes[position]

    def _ask(self) -> None:
        if self.follower is not None:
            self.follower.asked.append(object())  # which is like that of no other call

    def _write_known(self, func: Any, named: dict[str, Any], written: TraceTensor) -> bool:
        """Writes known numbers to known ones, as a loop that fills a mask does; returns False where some are not known.

        The result is a constant: a program does not run hundreds of writes each time.
        """
        base = written.root
        others = list(items_of([value for value in named.values() if value is not written], torch.Tensor))
        known = {base.position, *map(self._position, others)} <= self._made_of_nothing
        if not known or operator_of(func).random or detaches(written.path):
            return False
        whole = self._shapes[base.position].clone()
        part = show(whole, written.path)
        func(**map_structure(named, lambda value: part if value is written else self.numbers(value)))
        base.position = self._known_constant(whole).position
        base.writes += 1
        base.places.add(base.position)
        return True

    def _made(self, func: Any, named: dict[str, Any]) -> Any:
        """A tensor made from nothing is the same in each call: of one that is not filled nobody may read a number."""
        made = func(**named)
        if func.overloadpacket in _UNFILLED:
            made.zero_()
        return self._known_constant(made) if isinstance(made, torch.Tensor) else made

    def _known_constant(self, tensor: Any) -> TraceTensor:
        position = self._new_constant(tensor)
        self._made_of_nothing.add(position)
        return self._tensor(position)


class Writes(Positions):
    """The writes of a trace, and the views that show them."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.writes: list[Write] = []  # see `saved.overwritten`

    def overwrites(self) -> bool:
        """True if it writes over what is saved for a backward pass, as far as that can be told."""
        return overwritten(self.trace, self._shapes, self.learns_at, self.writes)

    def _new_numbers(self, func: Any, named: dict[str, Any], written: TraceTensor) -> int:
        """Returns the position of what an operator writes, as a separate tensor."""
        assign = ASSIGNING.get(func)
        if assign is not None:
            with self:
                return self._position(assign(written, *[value for name, value in named.items() if name != "self"][:1]))
        defaults = {argument.name: argument.default_value for argument in func._schema.arguments}
        func = functional(func)
        wanted = {argument.name for argument in func._schema.arguments}
        for argument in func._schema.arguments:
            if argument.name not in named and not argument.has_default_value():
                named[argument.name] = defaults[argument.name]
        found = self.record(func, {name: value for name, value in named.items() if name in wanted})
        if not isinstance(found, torch.Tensor):
            raise NeedsValue
        return self._position(found)

    def _reshape(self, func: Any, other: Any, named: dict[str, Any], written: Any, args: Any, kwargs: Any) -> Any:
        """`squeeze_` for one: the placeholder itself has another shape from now on, and is a view of what it was."""
        if any(view.base is written for view in self._views):
            raise NeedsValue
        found = self.record(other, named)
        if written.base is not None:
            written.path = found.path
        self._views = [view for view in self._views if view is not found]
        written.position = found.position
        written.places.add(found.position)
        with torch._C._DisableTorchDispatch():
            func(*args, **(kwargs or {}))
        return written

    def lying(self, tensor: TraceTensor) -> TraceTensor:
        found = self._tensor(self.place_of(tensor))
        self._note_views(_ATEN.contiguous.default, {"self": tensor}, [found], False)
        return found

    def _note_views(self, func: Any, named: dict[str, Any], results: list[TraceTensor], several: bool) -> None:
        """Remembers what these are views of."""
        first = operator_of(func).arguments[0]
        parent = named[first]
        rest = {name: value for name, value in named.items() if name != first}
        for number, result in enumerate(results):
            if parent.__class__ is not TraceTensor:  # a parameter, or another constant
                result.outside = True
                continue
            self._views.append(result)
            result.base = parent.root
            result.path = (*parent.path, ViewStep(func, rest, number if several else None))
            result.outside, result.writes = parent.outside, result.base.writes
            result.places = parent.places
            result.places.add(result.position)

    def _write(self, target: TraceTensor, position: int) -> TraceTensor:
        """A tensor of this trace has the numbers of this position from now on, and so has what shares its memory."""
        if self.trace.shapes[position] != self.trace.shapes[target.position]:
            position = self._as_before(target, position)
        base = target.root
        detached = detaches(target.path)
        if detached and torch.is_grad_enabled() and self.learns_at(position) is not False:
            raise NeedsValue  # it has a history of its own from now on, beside that of its base
        quiet = self.learns and (detached or not torch.is_grad_enabled())
        if target.base is None:
            found = position
        else:
            with self:
                found = through(target.path, base, self._tensor(position)).position
        base.position = self._replaced(base.position, found) if quiet else self._after(base.position, found)
        base.writes += 1
        target.places.update((position, base.position))
        if target.base is not None and base.position == found:
            target.position, target.writes = position, base.writes
        return target

    def _after(self, before: int, found: int) -> int:
        """Ties what is written over all of a tensor to its history: its gradients are zeros then, and not none."""
        if self._status(before) is False and not self._through.get(before):
            return found  # it was made from nothing
        if before in self.origins(found) or self.learns_at(before) is False:
            return found
        return self._tied(found, before)

    def _tied(self, found: int, before: int) -> int:
        """The numbers of one position, with a gradient of zeros for another."""
        with self:
            new, old = self._tensor(found), self._tensor(before)
            old = old if old.shape == new.shape else old.reshape(-1)[0]
            return int(torch.where(torch.ones_like(new, dtype=torch.bool), new, old.to(new.dtype)).position)

    def _as_before(self, target: TraceTensor, position: int) -> int:
        """Casts what is written to the dtype of its target. Raises NeedsValue if PyTorch refuses."""
        (shape, _), (before, dtype) = self.trace.shapes[position], self.trace.shapes[target.position]
        wanted = dtype_named(dtype)
        if shape != before or not torch.can_cast(self._shapes[position].dtype, wanted):
            raise NeedsValue
        with self:
            return int(self._tensor(position).to(wanted).position)

    def _apart(self, value: Any) -> Any:
        return self._tensor(self._detached(self._position(value))) if isinstance(value, torch.Tensor) else value

    def _replaced(self, before: int, after: int) -> int:
        """Replaces what was written to without gradients: it has the new numbers, and the gradient that it had."""
        if self.learns_at(before) is False:
            return self._detached(after)
        nothing = self._added("sub.Tensor", before, self._detached(before))
        return self._added("add.Tensor", nothing, self._detached(after))

    def _written(self, func: Any, named: dict[str, Any]) -> TraceTensor:
        """The tensor that an operator writes to, which this call has made. Raises NeedsValue if it is another."""
        arguments = func._schema.arguments
        writes = [argument.name for argument in arguments if argument.alias_info and argument.alias_info.is_write]
        target = named.get(writes[0])
        if target is not None and target.__class__ is not TraceTensor:
            note_written(target)
        if len(writes) != 1 or target.__class__ is not TraceTensor or target.recorder is not self or target.outside:
            raise NeedsValue
        if writes[0] != arguments[0].name and (
            torch.is_grad_enabled()
            and any(self.learns_at(self._position(item)) for item in items_of(named, torch.Tensor))
        ):
            raise NeedsValue  # PyTorch refuses out= where something learns
        if target.learning != torch.is_grad_enabled() and torch.is_grad_enabled() and target.base is not None:
            raise NeedsValue  # a view that was made without gradients
        self.place_of(target)
        return target
