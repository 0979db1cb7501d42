"""Building blocks for cells that are called with any number of children; this module imports no framework."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any


def sum_over(F: Any, children: Sequence[Any], each: Callable[..., Any]) -> Any:
    """Returns the sum of `each(child)` over the children, for a cell that treats its children alike.

    F: the `F` of `hybrid_forward` (mx.nd or mx.sym).
    children: arrays, or tuples of arrays that become several arguments of `each`.
    each: a function that returns one array, of the same shape for every child.

    Such a cell is one kind for any number of children (see docs/guide.md): `each` runs once for all children of all
    nodes of a level, and the sums are segment sums. Eagerly this is `F.add_n(*[each(child) for child in children])`.

    Child-sum Tree-LSTM (Tai, Socher and Manning 2015, equations 2 to 8)::

        total = gluonjit.nn.sum_over(F, children, lambda h, c: h)
        kept = gluonjit.nn.sum_over(F, children, lambda h, c: F.sigmoid(f_x + F.FullyConnected(h, u_f, ...)) * c)

    Raises ValueError if there are no children: the cell must handle leaves itself.
    """
    if not children:
        raise ValueError(
            "gluonjit.nn.sum_over(F, children, each): a sum needs at least 1 child, and there are 0. Next: let "
            "the cell test `if children:`, and leave the sum out for a leaf."
        )
    return F.add_n(*[each(*child) if isinstance(child, (tuple, list)) else each(child) for child in children])
