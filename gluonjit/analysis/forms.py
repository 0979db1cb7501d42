"""A kind as integers, computed once."""

from __future__ import annotations

from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from gluonjit.compiled import filled
from gluonjit.graph.kinds import Kind

Index = npt.NDArray[np.int64]


class KindForm(NamedTuple):
    """The rows of a node of a kind.

    sizes: the rows of each operand; columns: where those of each begin among all, and after the last their `width`:
    how many there are; height: the rows of its results. numbers: what `lay_out` needs: how many children a node has,
    and from there on (places are counted from the next number) how many groups of operands, how many results, where
    each group begins; for each result the row that it begins with and how many it has; then group by group the number
    of its roles, where each of them begins, and of each role the number of its columns, and these.
    """

    sizes: tuple[int, ...]
    columns: tuple[int, ...]
    width: int
    height: int
    numbers: Any


def form_of(kind: Kind) -> KindForm:
    """The form of a kind, which keeps it."""
    form: KindForm | None = kind.form
    if form is None:
        sizes = tuple([spec.rows for spec in kind.operands])
        columns = (0, *accumulate(sizes))
        listed = filled([kind.arity, *_numbers(kind, columns)])
        form = kind.form = KindForm(sizes, columns, columns[-1], kind.rows, listed)
    return form


def _numbers(kind: Kind, columns: tuple[int, ...]) -> list[int]:
    found = [len(kind.groups), len(kind.outputs)] + [0] * len(kind.groups)
    for output in kind.outputs:
        found += [output.offset, output.spec.rows]
    for number, roles in enumerate(kind.groups):
        begin = found[2 + number] = len(found)
        found += [len(roles)] + [0] * len(roles)
        for k, role in enumerate(roles):
            found[begin + 1 + k] = at = len(found)
            found.append(0)
            for position in role:
                found += range(columns[position], columns[position + 1])
            found[at] = len(found) - at - 1
    return found
