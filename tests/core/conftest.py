"""What tests of either framework share."""

from __future__ import annotations

import pytest
from frameworks_support import INSTALLED


@pytest.fixture(params=INSTALLED, scope="module")
def engine(request: pytest.FixtureRequest) -> str:
    """The name of each framework that is installed."""
    return str(request.param)
