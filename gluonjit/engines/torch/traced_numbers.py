"""Numbers that follow from nothing: they are the same in every call of a signature, so that a trace may read them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from gluonjit.engines.torch.aten import (
    operator_of,
)
from gluonjit.engines.torch.traced_tensors import Positions, TraceTensor
from gluonjit.engines.torch.views import detaches
from gluonjit.hybrid.capture.structure import items_of, map_structure
from gluonjit.program.trace import NeedsValue

_UNFILLED = {torch.ops.aten.empty, torch.ops.aten.empty_strided}
_MANY = 2  # times as many rows as there are indices
_MASKS = (torch.bool, torch.uint8)


class KnownNumbers(Positions):
    """The positions of which a trace knows the numbers."""

    def _by_whole_numbers(self, func: Any, args: Any) -> bool:
        """Tells whether the shape of a call's result depends on no value: it indexes by integers, for one.

        Not where a module's call takes few rows of many by an argument: outside of one node these are references, and
        a node would have all rows as an operand.
        """
        if func is torch.ops.aten.one_hot.default:
            return bool(args[1] >= 0)
        if func is not torch.ops.aten.index.Tensor:
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
        if func is torch.ops.aten.index.Tensor:
            return self.dispatched(func, (named["self"], self._without_masks(named["self"], named["indices"])), None)
        if func is torch.ops.aten.masked_select.default and named["mask"].shape == named["self"].shape:
            return self._by_known_numbers(
                torch.ops.aten.index.Tensor, {"self": named["self"], "indices": [named["mask"]]}
            )
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
        base = written if written.base is None else written.base
        others = list(items_of([value for value in named.values() if value is not written], torch.Tensor))
        known = {base.position, *map(self._position, others)} <= self._made_of_nothing
        if not known or operator_of(func).random or detaches(written.path):
            return False
        whole = self._shapes[base.position].clone()
        part = whole
        for step in written.path:
            part = step.of(part)

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
