"""The committed table: reading it, writing it, and what is worse now than in it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from experiments.coverage.counting import Counts
from gluonjit.writing import write_whole

PATH = Path(__file__).with_name("table.json")
Rows = dict[str, dict[str, Any]]
CHANGED = "changed"  # the key of a row's reasons for being worse than it was


def read() -> Rows:
    """Return the committed rows, by program."""
    rows: Rows = json.loads(PATH.read_text(encoding="utf-8"))
    return rows


def worse(row: Mapping[str, Any], now: Counts) -> list[str]:
    """Return what is worse than in a row: fewer nodes, more launches, other reasons."""
    found = []
    if now.nodes < row["nodes"]:
        found.append(f"{now.nodes} nodes, not {row['nodes']}")
    if now.launches > row["launches"]:
        found.append(f"{now.launches} launches, not {row['launches']}")
    return found + [f"no node: {reason}" for reason in now.reasons if reason not in row["reasons"]]


def faults(rows: Rows, counted: Mapping[str, Counts]) -> Iterator[str]:
    """Yield a line for each program that is worse than its row, or has none."""
    for name, now in counted.items():
        found = worse(rows[name], now) if name in rows else ["it has no row: --write"]
        if found:
            yield f"{name}: {'; '.join(found)}"


def updated(rows: Rows, counted: Mapping[str, Counts], because: str) -> Rows:
    """Return rows with new counts; the reason is noted in those that are worse."""
    changed = dict(rows)
    for name, now in counted.items():
        row: dict[str, Any] = now.to_json()
        notes = list(rows.get(name, {}).get(CHANGED, ()))
        if because and name in rows and worse(rows[name], now):
            notes.append(because)
        changed[name] = {**row, CHANGED: notes} if notes else row
    return changed


def write(rows: Rows) -> None:
    """Write the rows, one a line."""
    lines = [f"{json.dumps(name)}: {json.dumps(row)}" for name, row in sorted(rows.items())]
    write_whole(PATH, ("{\n" + ",\n".join(lines) + "\n}\n").encode())
