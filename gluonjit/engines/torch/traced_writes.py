"""Writes to tensors of a traced call: each is a new position, which views of the same memory show."""

from __future__ import annotations

from typing import Any

import torch

from gluonjit.engines.torch.arrays import dtype_named
from gluonjit.engines.torch.aten import (
    ASSIGNING,
    functional,
    operator_of,
)
from gluonjit.engines.torch.buffers import note_written
from gluonjit.engines.torch.saved import Write, overwritten
from gluonjit.engines.torch.traced_tensors import Positions, TraceTensor
from gluonjit.engines.torch.views import ViewStep, detaches, through
from gluonjit.hybrid.capture.structure import items_of
from gluonjit.program.trace import NeedsValue


class Writes(Positions):
    """The writes of a trace, and the views that show them."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.writes: list[Write] = []  # see `saved.overwritten`

    def overwrites(self) -> bool:
        """Tells whether it writes over what is saved for a backward pass, as far as that can be told."""
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
            result.base = parent if parent.base is None else parent.base
            result.path = (*parent.path, ViewStep(func, rest, number if several else None))
            result.outside, result.writes = parent.outside, result.base.writes
            result.places = parent.places
            result.places.add(result.position)

    def _write(self, target: TraceTensor, position: int) -> TraceTensor:
        """A tensor of this trace has the numbers of this position from now on, and so has what shares its memory."""
        if self.trace.shapes[position] != self.trace.shapes[target.position]:
            position = self._as_before(target, position)
        base = target if target.base is None else target.base
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
