"""From a NaN, or an infinite number, to the user's call that made it (option `check_finite`)."""

from __future__ import annotations

from gluonjit.hybrid.explain import finite
from gluonjit.hybrid.explain.provenance import Provenance


class FiniteCheck(finite.FiniteCheck):
    """Looks for numbers that are not finite in NDArrays."""

    def __init__(self, provenance: Provenance) -> None:
        super().__init__(provenance, lambda array: array.asnumpy())
