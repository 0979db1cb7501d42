"""Calls of models, and of their methods, from outside of samples: each is one sample, captured or run eagerly."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from functools import partial
from typing import Any

from gluonjit.hybrid.capture.arguments import LentArguments
from gluonjit.hybrid.capture.capturing import run_eagerly, sampled
from gluonjit.hybrid.capture.outlining.known import FrameworkFunctions
from gluonjit.hybrid.capture.outlining.outlines import place
from gluonjit.hybrid.choose.pacing import begin, note_order
from gluonjit.hybrid.run.batch import Batch
from gluonjit.hybrid.run.engine import engine_of
from gluonjit.hybrid.run.state import LOCAL

_PLAIN = (int, float, bool, str, type(None))
_MOST = 64  # items of arguments that are looked at


def shape_of(args: Sequence[Any], look: Callable[[Any], Hashable]) -> Hashable:
    """Returns what calls of one shape have in common; None where an argument is no array, plain constant or list."""
    found: list[Hashable] = []
    pending = [args]
    while pending:
        for arg in pending.pop():
            if arg.__class__ is tuple or arg.__class__ is list:
                pending.append(arg)
                found.append((arg.__class__, len(arg)))
            else:
                found.append(arg if isinstance(arg, _PLAIN) else look(arg))
                if found[-1] is None and arg is not None:
                    return None
        if len(found) > _MOST:
            return None
    return tuple(found)


class OutermostCalls:
    """Runs such calls. An engine derives from it.

    engine: its name; known: what it says of its framework to cells made from source.

    * `records()`: true if gradients are recorded on this thread.
    * `opened(owner, cell)`: returns the open batch for an outermost call of a model, whose weights it knows.
    * `lazy(arg)`: returns what a method is given for an argument where its calls are captured: arrays are lazy
      there.
    """

    records: Callable[..., bool]
    opened: Callable[..., Batch]
    lazy: Callable[..., Any]
    engine = ""
    known: FrameworkFunctions

    def look(self, arg: Any) -> Hashable:
        """Returns an array's shape and dtype; None of anything else, or where loops are not captured whole."""
        return None

    def versions(self, owner: Any) -> list[int]:
        """Counts the writes to each weight of a model; nothing where a program cannot write to them in its calls."""
        return []

    def entered(self, owner: Any, cell: Any, method: Any, /, *args: Any, **kwargs: Any) -> Any:
        """Runs a method of a model that was called from outside of samples."""
        if cell.asked:
            return run_eagerly(cell, cell.asked[0], method, owner, *args, **kwargs)
        captured = partial(self._captured, method)
        if cell.chooses and (cell.paces.named or not LOCAL.state.explicit):
            return self.paced(method, captured, owner, cell, args, kwargs)
        return captured(owner, cell, args, kwargs)

    def _captured(self, method: Any, owner: Any, cell: Any, args: Any, kwargs: Any) -> Any:
        """Calls a method on one sample, and captures what it calls."""
        batch = self.opened(owner, cell)
        return sampled(batch, self._placed, batch, method, owner, args, kwargs)

    def _placed(self, batch: Batch, method: Any, owner: Any, args: Any, kwargs: Any) -> Any:
        place(batch, owner, self.known)
        lent = LentArguments((*args, *kwargs.values()), self.lazy)
        try:
            return lent.returned(method(owner, *lent.args[: len(args)], **dict(zip(kwargs, lent.args[len(args) :]))))
        finally:
            lent.give_back()

    def paced(
        self, eagerly: Callable[..., Any], captured: Callable[..., Any], owner: Any, cell: Any, args: Any, kwargs: Any
    ) -> Any:
        """Runs a call in the way that is faster: `eagerly(owner, *args)`, or `captured(owner, cell, args, kwargs)`."""
        state = LOCAL.state
        training = self.records()
        if state.spare > 0 and state.spare_of is cell.paces and state.spare_mode == 2 * training:
            state.spare -= 1
            state.paused += 1
            state.eagerly += 1
            try:
                return eagerly(owner, *args, **kwargs)
            finally:
                state.paused -= 1
                state.eagerly -= 1
        stretch = begin(state, cell.paces, training, engine_of(self.engine))
        eager = stretch.eager
        if stretch.timed and stretch.pace.decided is None:
            stretch.pace.shapes.append(shape_of((*args, *kwargs.values()), self.look))
        state.paused += eager
        state.eagerly += eager
        try:
            before = self.versions(owner) if eager and stretch.watched else None
            found = eagerly(owner, *args, **kwargs) if eager else captured(owner, cell, args, kwargs)
            if before is not None and self.versions(owner) != before:  # the next call depends on the order of samples
                note_order()
            return found
        finally:
            pauses = eager + stretch.pauses
            state.paused -= pauses
            state.eagerly -= pauses
            stretch.pauses = False
            if stretch.timed:
                stretch.leave()
