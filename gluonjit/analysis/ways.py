"""The way in which a flush is captured and scheduled."""

from __future__ import annotations

from typing import NamedTuple


class Setting(NamedTuple):
    """The way in which a flush is captured and scheduled."""

    granularity: str
    sharing: bool
    scheduler: str

    def __str__(self) -> str:
        return f"{self.granularity}, {self.scheduler}, sharing {'on' if self.sharing else 'off'}"
