"""A committed file: its rows, what differs from them, and writing them, one a line."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from gluonjit.writing import write_whole

Rows = dict[str, Any]
CHANGED = "changed"  # the key of the reasons for which rows became worse


class Differences(NamedTuple):
    """Lines about rows that are worse than the committed ones, that are better, and that are not committed."""

    worse: list[str]
    better: list[str]
    new: list[str]


class Committed(NamedTuple):
    """One of the files. `compare` has what differs between its rows and those of now."""

    path: Path
    compare: Callable[[Rows, Rows], Differences]

    def read(self) -> Rows:
        """Return the rows; none where there is no file yet."""
        return {name: row for name, row in self._all().items() if name != CHANGED}

    def differences(self, now: Rows) -> Differences:
        """Return what differs now."""
        return self.compare(self.read(), now)

    def write(self, now: Mapping[str, Any], because: str = "") -> None:
        """Write the rows of now. Raises ValueError where one is worse and no reason is given."""
        worse = self.differences(dict(now)).worse
        if worse and not because:
            raise ValueError("\n".join([f"{self.path.name}: give a reason, --because REASON, for", *worse]))
        reasons = dict(self._all().get(CHANGED, {}))
        if worse:
            reasons[because] = worse
        rows = {**({CHANGED: reasons} if reasons else {}), **dict(sorted(now.items()))}
        lines = [f"{json.dumps(name)}: {json.dumps(row)}" for name, row in rows.items()]
        write_whole(self.path, ("{\n" + ",\n".join(lines) + "\n}\n").encode())

    def _all(self) -> Rows:
        found: Rows = json.loads(self.path.read_text(encoding="utf-8")) if self.path.exists() else {}
        return found
