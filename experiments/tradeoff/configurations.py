"""The ways of batching that are compared."""

from __future__ import annotations

from itertools import product
from typing import Any, NamedTuple

import gluonjit

GRANULARITIES = ("op", "cell")
SCHEDULERS = gluonjit.Options.SCHEDULERS
MOST_NODES = 10_000_000  # so that every minibatch is one flush


class Configuration(NamedTuple):
    """Options of `hybridize(dynamic_batch=True)`; "auto" leaves them to the library."""

    granularity: str
    scheduler: str
    sharing: bool | str

    @property
    def options(self) -> dict[str, Any]:
        """The options as keyword arguments: where the library chooses, among ways to batch."""
        granularity = "batched" if self.automatic else self.granularity
        return {**self._asdict(), "granularity": granularity, "max_nodes": MOST_NODES}

    @property
    def label(self) -> str:
        """The name in progress and tables."""
        if self.automatic:
            return "auto"
        return f"{self.granularity}, {self.scheduler}, sharing {'on' if self.sharing else 'off'}"

    @property
    def automatic(self) -> bool:
        """True if the library chooses."""
        return self.sharing == "auto"

    @property
    def usable(self) -> bool:
        """True if the installed version knows these options."""
        try:
            gluonjit.Options().updated("hybridize(dynamic_batch=True)", self.options)
        except gluonjit.errors.OptionError:
            return False
        return True


def configurations() -> list[Configuration]:
    """All ways that the installed version knows, the automatic one last; without sharing only cells by depth."""
    fixed = [Configuration(*chosen, True) for chosen in product(GRANULARITIES, SCHEDULERS)]
    found = [*fixed, Configuration("cell", "depth", False), Configuration("auto", "auto", "auto")]
    return [each for each in found if each.usable]
