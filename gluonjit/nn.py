"""Building blocks for cells that are called with any number of children; no framework is imported here."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any


def sum_over(F: Any, children: Sequence[Any], each: Callable[..., Any]) -> Any:
    """The sum of what `each` makes of a child, for a cell that treats its children alike.

    F: what `hybrid_forward` was given (mx.nd or mx.sym); children: arrays, or tuples of arrays that become several
    arguments of `each`; each: gives one array of a shape that is the same for all. Written so, a cell is one kind
    whatever the number of children (see docs/guide.md): `each` runs once for all children of all nodes of a level, and
    the sums are sums over segments. Eagerly it is `F.add_n(*[each(child) for child in children])`.

    Child-sum Tree-LSTM (Tai, Socher and Manning 2015, equations 2 to 8)::

        total = gluonjit.nn.sum_over(F, children, lambda h, c: h)
        kept = gluonjit.nn.sum_over(F, children, lambda h, c: F.sigmoid(f_x + F.FullyConnected(h, u_f, ...)) * c)

    Raises ValueError where there are no children: what a leaf has instead is the cell's to say.
    """
    if not children:
        raise ValueError(
            "gluonjit.nn.sum_over(F, children, each): there are 0 children, and at least 1 is needed for a sum. "
            "Next: let the cell ask `if children:`, and leave the sum out for a leaf."
        )
    return F.add_n(*[each(*child) if isinstance(child, (tuple, list)) else each(child) for child in children])
