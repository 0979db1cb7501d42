"""Roles: the operands of a call that are those of children."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from gluonjit.graph.values import Spec
from gluonjit.program.trace import Shaped


class Roles(NamedTuple):
    """The operands of each role, child by child; with `of_rows` a role has one operand, with a row for each child."""

    roles: tuple[tuple[int, ...], ...]
    of_rows: bool = False

    def count(self, specs: Sequence[Spec]) -> int:
        """The number of children."""
        return specs[self.roles[0][0]].rows if self.of_rows else len(self.roles[0])

    def positions(self) -> set[int]:
        """All operands of children."""
        return {position for role in self.roles for position in role}

    def shaped(self, spec: Spec) -> Shaped:
        """Shape and dtype of one child's operand."""
        return ((1, *spec.row_shape), spec.dtype) if self.of_rows else (spec.shape, spec.dtype)
