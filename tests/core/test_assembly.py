"""Row programs as arrays of integers: how much each of them holds."""

from __future__ import annotations

import pytest
from rows_support import OPS

from gluonjit.rows.assembly import MOST_COLUMNS, CallingConvention, compiled
from gluonjit.rows.program import NODE, Builder, NotFusable


def test_columns_and_registers_have_31_bits_each() -> None:
    way = CallingConvention(frozenset([0]), frozenset([0]), frozenset([0]), frozenset([0]))
    builder = Builder()
    wide = builder.operand(NODE, MOST_COLUMNS)
    program = builder.finish([builder.emit("COPY", wide.part(MOST_COLUMNS - 1, MOST_COLUMNS))])
    made = compiled(program, way, OPS)
    assert (MOST_COLUMNS - 1) << 32 in made.forward.code[:, 2]
    builder = Builder()
    wide = builder.operand(NODE, MOST_COLUMNS + 1)
    program = builder.finish([builder.emit("COPY", wide.part(0, 1))])
    with pytest.raises(NotFusable, match="rows of more than 2147483647 numbers"):
        compiled(program, way, OPS)
