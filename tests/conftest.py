"""What all tests have in common: nothing runs eagerly by the library's own choice, except where a test is of that."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from gluonjit.hybrid import pacing


@pytest.fixture(autouse=True)
def batched() -> Iterator[None]:
    """Keeps outermost calls batched, whatever they take: most tests count what was captured."""
    pacing.HERE.stretch = None
    pacing.FORCED[:] = [lambda: False]
    yield
    pacing.FORCED.clear()
