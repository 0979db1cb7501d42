"""From a NaN, or an infinite number, to the user's call that made it (option `check_finite`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from gluonjit.errors import NotFiniteError
from gluonjit.hybrid.explain.provenance import Provenance


@dataclass
class FiniteCheck:
    """Looks for numbers that are not finite after each part of a flush (option `check_finite`).

    `numbers` gives the engine's arrays as arrays of numpy.
    """

    _provenance: Provenance
    _numbers: Callable[[Any], Any]
    _consts: set[int] = field(default_factory=set)

    def inputs(self, arena: int, begin: int, rows: Any) -> None:
        """Checks the inputs."""
        bad = self._first_bad(rows)
        if bad is not None:
            use = self._provenance.first_use(arena, begin + bad)
            raise NotFiniteError(f"An input is not finite: the {use}, reads it. {self._look(rows, bad)}")

    def weights(self, number: int, consts: Sequence[Any]) -> None:
        """Checks the weights that a step reads, each once per flush."""
        for array in consts:
            if id(array) in self._consts:
                continue
            self._consts.add(id(array))
            bad = self._first_bad(array)
            if bad is not None:
                first = self._provenance.describe(*self._provenance.node(number, 0))
                raise NotFiniteError(
                    f"A weight of shape {tuple(array.shape)} is not finite: the {first}, reads it. "
                    f"{self._look(array, bad)} Check the optimizer step before this minibatch."
                )

    def results(self, number: int, results: Sequence[Any]) -> None:
        """Checks the results of a step with finite operands."""
        for place, rows in zip(self._provenance.plan.steps[number].places, results):
            bad = self._first_bad(rows)
            if bad is not None:
                made = self._provenance.describe(*self._provenance.producer(place.arena, place.begin + bad))
                raise NotFiniteError(
                    f"The first result that is not finite is that of the {made}. {self._look(rows, bad)}"
                )

    def head(self, gradient: Any) -> None:
        """Checks a gradient with which backward begins."""
        if self._first_bad(gradient) is not None:
            raise NotFiniteError(f"Backward was given a gradient of shape {tuple(gradient.shape)} that is not finite")

    def gradients(self, number: int, arenas: Sequence[Any], consts: Sequence[Any]) -> None:
        """Checks the results of a step's backward with finite gradients."""
        provenance = self._provenance
        for gather in provenance.plan.steps[number].gathers:
            gradient = arenas[gather.place.arena]
            if gradient is None:
                continue
            positions = np.arange(gather.place.begin, gather.place.end) if gather.index is None else gather.index
            numbers = self._numbers(gradient)
            wrong = positions[~np.isfinite(numbers[positions].reshape(len(positions), -1)).all(axis=1)]
            if len(wrong):
                user = provenance.describe(*provenance.user(number, gather.place.arena, int(wrong[0])))
                raise NotFiniteError(
                    f"The first gradient that is not finite, in the order of backward, is that of the operands of "
                    f"the {user}. {self._look(gradient, int(wrong[0]))}"
                )
        for gradient in consts:
            if gradient is not None and self._first_bad(gradient) is not None:
                first = provenance.describe(*provenance.node(number, 0))
                raise NotFiniteError(
                    f"The gradient of a weight of shape {tuple(gradient.shape)} is not finite after the backward of a "
                    f"step of {provenance.plan.steps[number].count} calls, of which the first is the {first}"
                )

    def _first_bad(self, array: Any) -> int | None:
        """The first row of an array that holds a NaN or an Inf."""
        numbers = np.atleast_1d(self._numbers(array))
        if numbers.dtype.kind != "f":
            return None
        finite = np.isfinite(numbers.reshape(len(numbers), -1)).all(axis=1)
        return None if finite.all() else int(np.argmin(finite))

    def _look(self, array: Any, row: int) -> str:
        numbers = np.atleast_1d(self._numbers(array))[row]
        wrong = numbers[~np.isfinite(numbers)]
        return f"It holds {wrong.size} of {numbers.size} numbers like {np.ravel(wrong)[0]}."
