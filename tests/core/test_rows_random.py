"""Random row programs in C: each instruction gives what numpy gives of what it read."""

from __future__ import annotations

import pytest
from rows_random import RandomProgram
from rows_support import KERNELS, each_kernel, rows

kernels = pytest.fixture(params=KERNELS, autouse=True)(each_kernel)


@pytest.mark.parametrize("group", range(20))
def test_random_programs_give_what_numpy_gives(group: int) -> None:
    programs = [RandomProgram(10 * group + k) for k in range(10)]
    blocks = [int(program.random.integers(1, 25)) for program in programs]
    for program, block in zip(programs, blocks):
        program.run(block)
        program.verify()


def test_random_programs_have_every_operation() -> None:
    found = {instruction[0] for seed in range(200) for instruction in RandomProgram(seed).code}
    assert found == set(rows.OPS.values()) - {rows.OPS["WHOLE"]}  # which is given bits, in test_rows
