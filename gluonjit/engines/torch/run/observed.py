"""Results with hooks, as a backward pass through their batch comes to them (see `observing`)."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from gluonjit.analysis.plan import Place
from gluonjit.hybrid.run.state import LOCAL
from gluonjit.rows.stretches import StepStretch


class HookedResult(NamedTuple):
    """A result with hooks: where its rows lie, its shape, and the hooks, that of `retain_grad` last."""

    place: Place
    shape: tuple[int, ...]
    hooks: OrderedDict[int, Callable[[Any], Any]]
    last: list[Callable[[Any], None]]

    def run(self, rows: Any) -> None:
        """Runs the hooks on the rows' gradient, which the program sees as anywhere else; they may replace it."""
        state = LOCAL.state
        before, state.paused = state.paused, 0
        try:
            for hook in [*self.hooks.values(), *self.last]:
                found = hook(rows.clone().reshape(self.shape))
                if found is not None:
                    rows.copy_(found.detach().reshape(rows.shape))
        finally:
            state.paused = before


def apart(steps: list[Any], observed: dict[int, list[HookedResult]]) -> Iterator[tuple[Any, int, list[HookedResult]]]:
    """Gives what ran, the last first, with the number of its last step and what is observed of that step's results.

    Steps that ran in C in one go are parted after each of those.
    """
    for ran in reversed(steps):
        if not isinstance(ran, StepStretch):
            yield ran, ran.number, observed.get(ran.number, [])
            continue
        end = len(ran.steps)
        for k in range(end - 1, -1, -1):
            if k == 0 or ran.steps[k - 1] in observed:
                part = ran.part(k, end)
                yield part, part.steps[-1], observed.get(part.steps[-1], [])
                end = k
