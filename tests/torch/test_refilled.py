"""Inputs whose buffer the program refills for each sample."""

from __future__ import annotations

import pytest
from refilled import REFILLS, check_refilled


@pytest.mark.parametrize("inference", [False, True], ids=["", "inference mode"])
@pytest.mark.parametrize("name", REFILLS)
def test_each_sample_has_the_numbers_that_one_buffer_had_at_its_call(name: str, inference: bool) -> None:
    assert check_refilled("cpu", name, inference) <= 4
