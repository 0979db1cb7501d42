"""Modules that were deleted, with the names that they defined: `tests/core/test_gone.py` keeps them away.

Where a module gave way to one for all engines, the place it must not come back to is named.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Gone:
    """A module, or a folder of modules, that is gone.

    path: where it was in `gluonjit/`.
    names: the functions and classes of each of its files.
    within: where nothing may define most of these.
    """

    path: str
    names: tuple[str, ...]
    within: str = ""

    @property
    def definitions(self) -> list[set[str]]:
        """What each file defined."""
        return [set(names.split()) for names in self.names]


GONE: tuple[Gone, ...] = ()
