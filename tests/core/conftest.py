"""What tests of either framework share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from frameworks_support import INSTALLED

from gluonjit.engines.numpy.engine import ENGINE, install
from gluonjit.hybrid.run.engine import ENGINES


@pytest.fixture(params=INSTALLED, scope="module")
def engine(request: pytest.FixtureRequest) -> str:
    """The name of each framework that is installed."""
    return str(request.param)


@pytest.fixture
def numpy_engine() -> Iterator[None]:
    """The engine on numpy, as long as a test runs."""
    install()
    yield
    ENGINE.clear_caches()
    ENGINES.remove(ENGINE)
