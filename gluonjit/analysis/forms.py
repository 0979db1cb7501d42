"""A kind as integers, computed once."""

from __future__ import annotations

from itertools import accumulate
from typing import Any, NamedTuple

from gluonjit.compiled import filled
from gluonjit.graph.kinds import Kind, Split


class Product(NamedTuple):
    """A product of a call that is split.

    begin: the column of its argument; left: rows of results from its own to the last product's; column: that of its
    results in the rest.
    """

    kind: Kind
    begin: int
    left: int
    column: int


class SplitCall(NamedTuple):
    """A call as the products and the rest that it runs as.

    kind, rest: of the rest; kept: the columns of the call that it has; left: rows of all products; nodes, width: so
    many more nodes than the call itself, and operands of these and the rest.
    """

    kind: Kind
    rest: KindForm
    kept: Any
    left: int
    products: tuple[Product, ...]
    nodes: int
    width: int


class KindForm(NamedTuple):
    """The rows of a node of a kind.

    sizes: the rows of each operand; columns: where those of each begin among all, and after the last their `width`:
    how many there are; height: the rows of its results. numbers: what `lay_out` needs: how many children a node has,
    and from there on (places are counted from the next number) how many groups of operands, how many results, where
    each group begins; for each result the row that it begins with and how many it has; then group by group the number
    of its roles, where each of them begins, and of each role the number of its columns, and these. cut: what it runs
    as, where that is more than one node.
    """

    sizes: tuple[int, ...]
    columns: tuple[int, ...]
    width: int
    height: int
    numbers: Any
    cut: SplitCall | None


def form_of(kind: Kind) -> KindForm:
    """The form of a kind, which keeps it."""
    form: KindForm | None = kind.form
    if form is None:
        sizes = tuple([spec.rows for spec in kind.operands])
        columns = (0, *accumulate(sizes))
        listed = filled([kind.arity, *_numbers(kind, columns)])
        form = kind.form = KindForm(sizes, columns, columns[-1], kind.rows, listed, _cut(kind.split, columns))
    return form


def _cut(split: Split | None, columns: tuple[int, ...]) -> SplitCall | None:
    if split is None:
        return None
    kept = [row for of in split.kept for row in range(columns[of], columns[of + 1])]
    rest, column = form_of(split.rest), len(kept)
    left = total = sum([kind.rows for _, kind in split.products])
    products = []
    for argument, kind in split.products:
        products.append(Product(kind, columns[argument], left, column))
        left -= kind.rows
        column += sum([output.spec.rows for output in kind.outputs])
    width = rest.width + sum([form_of(kind).width for _, kind in split.products])
    return SplitCall(split.rest, rest, filled(kept), total, tuple(products), len(products), width)


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
