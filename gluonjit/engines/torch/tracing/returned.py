"""The results of a traced call: each at a place among the node's values, with what they have in common."""

from __future__ import annotations

from typing import Any

import torch

from gluonjit.engines.torch.framework.originals import plain
from gluonjit.engines.torch.tracing.effects import PLAIN
from gluonjit.engines.torch.tracing.traced_tensors import TraceTensor
from gluonjit.engines.torch.tracing.view_steps import PathStep, frozen, show
from gluonjit.hybrid.capture.guards.sizes import plain as plain_number
from gluonjit.hybrid.capture.structure import Constant, Repeated, ResultPlace, items_of, map_structure

EXPANDS = torch.ops.aten.expand.default


class UnknownResult(Exception):
    """A result that can be no part of a node's."""


class ReturnedTensors:
    """ReturnedTensors that have been met so far, in the order in which the program returns them."""

    def __init__(self, recorder: Any) -> None:
        self.places: list[int] = []
        self._recorder = recorder
        self._met: dict[int, int] = {}  # by the address of a tensor, its place
        self._tensors: list[Any] = []
        self._repeats = False

    def placed(self, result: Any, showing: bool) -> Any:
        """Returns a result with places for its tensors: of arguments what is left of -1 after one.

        showing: whether the place of a view of an argument says so. Raises UnknownResult.
        """
        structure = map_structure(result, self._place)
        views: dict[int, Any] = {}
        for tensor in tuple(self._tensors):
            if showing and tensor.base is not None and not tensor.outside and _overlaps(tensor):
                self._place(tensor.base)
            place, learns = self._met[id(tensor)], self._recorder.gives_history(tensor.position)
            if showing and tensor.base is not None and tensor.outside:
                self._met[id(tensor.base)] = ~tensor.base.position
            if id(tensor.base) in self._met:
                views[place] = (*self._view_of(tensor), learns)
            elif not learns:
                views[place] = (None, (), False)
        if not views:
            return structure
        return map_structure(
            structure, lambda at: ResultPlace.of(at, views[at]) if at.__class__ is int and at in views else at
        )

    def _place(self, item: Any) -> Any:
        if isinstance(item, torch.Size):
            return Constant(torch.Size(map(plain_number, item)))
        if isinstance(item, PLAIN):
            return Constant(plain_number(item))
        if not isinstance(item, torch.Tensor):
            raise UnknownResult(f"a {type(item).__name__}, which is neither a tensor nor a plain constant")
        recorder = self._recorder
        if not recorder.owns(item):
            raise UnknownResult(f"a {type(item).__name__} that is not computed from its arguments")
        if item.__dict__:
            raise UnknownResult(f"a tensor of which it sets an attribute, {next(iter(item.__dict__))!r}")
        if id(item) in self._met:
            self._repeats = True
            return Repeated(self._met[id(item)])
        position = recorder.place_of(item)
        if position < len(recorder.trace.operands):
            return ~position if item.base is None else ResultPlace.of(~position)  # by `contiguous`
        if position not in self.places:
            self.places.append(position)
        found = self._met[id(item)] = self.places.index(position)
        self._tensors.append(item)
        return found

    def _view_of(self, view: Any) -> tuple[int, tuple[PathStep, ...]]:
        """Finds which other result this one shows, and the steps from that to it. Raises UnknownResult."""
        try:
            named = [tuple([(name, frozen(item)) for name, item in step.named.items()]) for step in view.path]
        except TypeError:
            raise UnknownResult("a view by the numbers of a tensor, and the tensor that it shows") from None
        steps = [PathStep(step.func, (), each, step.output, view.learning) for step, each in zip(view.path, named)]
        if steps[-1].func is EXPANDS:  # to the sizes of the result, which may differ from call to call
            steps[-1] = steps[-1]._replace(kwargs=())
        return self._met[id(view.base)], tuple(steps)

    def share_memory(self, apart: bool) -> bool:
        """True if results have entries in common, other than by what `placed` notes.

        apart: or these too: a result that stands at two places, or a view of another.
        """
        found = [
            tensor
            for tensor in self._tensors
            if apart or (tensor.base is not None and id(tensor.base) not in self._met)
        ]
        return (apart and self._repeats) or any(
            one.root is other.root and torch.isin(_entries(one), _entries(other)).any()
            for k, one in enumerate(found)
            for other in found[:k]
        )


def gives_views(result: Any, arguments: bool) -> bool:
    """True if a call gives nothing but views of arguments, or what it has written to.

    Or, unless the very `arguments` may be given, one of these.
    """
    tensors = list(items_of(result, TraceTensor))
    mixed = not all(item.outside for item in tensors)
    return any(item.outside and (item.writes or not (arguments if item.base is None else mixed)) for item in tensors)


def _overlaps(tensor: Any) -> bool:
    """True if several entries are one in memory, as in what is expanded."""
    return any(size > 1 and not stride for size, stride in zip(tensor.shape, tensor.stride()))


def _entries(view: Any) -> Any:
    """The numbers of the entries of its base that a view shows."""
    base = view.root
    with plain():
        numbers = torch.empty_strided(base.shape, base.stride(), dtype=torch.int64)
        numbers.copy_(torch.arange(base.numel()).reshape(base.shape))
        return show(numbers, view.path).flatten()
