"""Hostile calls of the parts in C: each ends in an exception, or in nothing that matters, and none in a crash."""

from __future__ import annotations

import pytest
from hostile_support import outcomes

from gluonjit.compiled import FAST, ROWS

pytestmark = pytest.mark.skipif(FAST is None or ROWS is None, reason="the parts in C are not there, or are left out")


@pytest.mark.parametrize(
    ("script", "cases", "raising"),
    [("hostile_rows.py", 700, 600), ("hostile_fast.py", 1200, 800), ("hostile_batches.py", 1000, 500)],
)
def test_hostile_calls_end_in_exceptions(script: str, cases: int, raising: int) -> None:
    found = outcomes(script)
    assert [case for case in found if case["wrong"]] == []
    assert len(found) >= cases
    assert sum(case["error"] is not None for case in found) >= raising
