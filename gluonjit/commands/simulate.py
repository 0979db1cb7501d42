"""``python -m gluonjit simulate``: predicts the flushes of a trace, without a framework."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from gluonjit.analysis.costs.coefficients import Coefficients, CoefficientsError
from gluonjit.analysis.costs.model import CostModel
from gluonjit.analysis.schedulers import SCHEDULERS
from gluonjit.analysis.simulation import Simulated, simulated
from gluonjit.analysis.trace_file import read_trace
from gluonjit.errors import TraceError
from gluonjit.writing import write_whole

# Column, field, and how it is shown.
_COLUMNS = (
    ("granularity", "granularity", "{}"),
    ("scheduler", "scheduler", "{}"),
    ("sharing", "sharing", "{}"),
    ("batch size", "batch_size", "{}"),
    ("nodes", "nodes", "{}"),
    ("launches", "launches", "{}"),
    ("lower bound", "lower_bound", "{}"),
    ("critical path", "critical_path", "{}"),
    ("gathers", "gathers", "{}"),
    ("gathered kB", "gathered_bytes", "{:.1f}"),
    ("arenas kB", "arena_bytes", "{:.1f}"),
    ("analysis ms", "analysis_ms", "{:.2f}"),
    ("predicted ms", "forward_ms", "{:.2f}"),
    ("in training ms", "training_ms", "{:.2f}"),
)
_TEXT = 3  # columns to the left


def main(
    path: str, schedulers: Sequence[str], batch_sizes: Sequence[int], output: str | None, costs: str | None = None
) -> int:
    """Prints a table, and writes it as JSON to `output`; 1 for a trace that cannot be used, 2 for bad arguments."""
    unknown = [name for name in schedulers if name not in SCHEDULERS]
    if unknown:
        return _failed(f"no scheduler is called {unknown[0]!r}; the schedulers are {', '.join(sorted(SCHEDULERS))}", 2)
    if output is not None and not Path(output).parent.is_dir():
        return _failed(f"--json {output}: the folder {Path(output).parent} does not exist", 2)
    try:
        model = CostModel(Coefficients.load(Path(costs)) if costs is not None else None)
    except (CoefficientsError, OSError) as error:
        return _failed(f"--costs {costs}: {error}. Next: python -m gluonjit calibrate --output {costs}", 1)
    rows: list[Simulated] = []
    stopped = False
    try:
        for row in simulated(read_trace(path), schedulers or sorted(SCHEDULERS), model, batch_sizes):
            rows.append(row)
    except TraceError as error:
        return _failed(str(error), 1)
    except KeyboardInterrupt:
        stopped = True
    print(table(rows))
    if output is not None:
        result = {"trace": Path(path).name, "rows": [asdict(row) for row in rows]}
        try:
            write_whole(Path(output), json.dumps(result, indent=1).encode() + b"\n")
        except OSError as error:
            return _failed(f"--json {output}: {error.strerror or error}", 1)
    return _failed(f"stopped after {len(rows)} rows", 130) if stopped else 0


def table(rows: Sequence[Simulated]) -> str:
    """The rows as text."""
    lines = [[name for name, _, _ in _COLUMNS]]
    lines += [[_shown(getattr(row, field), how) for _, field, how in _COLUMNS] for row in rows]
    widths = [max(len(line[column]) for line in lines) for column in range(len(_COLUMNS))]
    return "\n".join(
        "  ".join(
            text.ljust(width) if column < _TEXT else text.rjust(width)
            for column, (text, width) in enumerate(zip(line, widths))
        ).rstrip()
        for line in lines
    )


def _shown(value: Any, how: str) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "on" if value else "off"
    return how.format(value / 1e3 if how == "{:.1f}" else value)


def _failed(why: str, code: int) -> int:
    print(f"python -m gluonjit simulate: {why}", file=sys.stderr)
    return code
