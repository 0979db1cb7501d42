"""Parts in C are built wherever they can be: without them tests of capture in C are left out, and say nothing."""

from __future__ import annotations

import shutil
from importlib.util import find_spec

import pytest

from gluonjit.compiled import load

_CAN = find_spec("Cython") is not None and any(map(shutil.which, ("cc", "gcc", "clang")))


@pytest.mark.skipif(not _CAN, reason="there is no Cython, or no compiler")
@pytest.mark.parametrize("name", ["_blocks", "_fast", "_ordering", "_paths", "_placing", "_rows", "_tables"])
def test_a_part_was_built(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GLUONJIT_PURE", raising=False)
    part, reason = load(name)
    assert part is not None, reason
