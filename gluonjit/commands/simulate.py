"""``python -m gluonjit simulate``: predicts the flushes of a trace, without a framework."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from gluonjit.analysis.costs.coefficients import Coefficients, CoefficientsError
from gluonjit.analysis.costs.model import CostModel
from gluonjit.analysis.schedulers import SCHEDULERS
from gluonjit.analysis.simulate.simulation import Simulated, simulated
from gluonjit.analysis.simulate.trace_file import read_trace
from gluonjit.commands import failed
from gluonjit.errors import TraceError
from gluonjit.hybrid.explain.listing import aligned
from gluonjit.writing import write_whole

_TITLES = {
    "gathered_bytes": "gathered kB",
    "arena_bytes": "arenas kB",
    "forward_ms": "predicted ms",
    "training_ms": "in training ms",
}
"""Of columns that are not called as their fields are."""


def main(
    path: str, schedulers: Sequence[str], batch_sizes: Sequence[int], output: str | None, costs: str | None = None
) -> int:
    """Prints a table, and writes it as JSON to `output`; 1 for a trace that cannot be used, 2 for bad arguments."""
    unknown = [name for name in schedulers if name not in SCHEDULERS]
    if unknown:
        known = ", ".join(sorted(SCHEDULERS))
        return failed("simulate", f"no scheduler is called {unknown[0]!r}; the schedulers are {known}", code=2)
    if output is not None and not Path(output).parent.is_dir():
        return failed("simulate", f"--json {output}: the folder {Path(output).parent} does not exist", code=2)
    try:
        model = CostModel(Coefficients.load(Path(costs)) if costs is not None else None)
    except (CoefficientsError, OSError) as error:
        why = f"--costs {costs}: {error}. Next: python -m gluonjit calibrate --output {costs}"
        return failed("simulate", why)
    rows: list[Simulated] = []
    stopped = False
    try:
        for row in simulated(read_trace(path), schedulers or sorted(SCHEDULERS), model, batch_sizes):
            rows.append(row)
    except TraceError as error:
        return failed("simulate", str(error))
    except KeyboardInterrupt:
        stopped = True
    print(table(rows))
    if output is not None:
        result = {"trace": Path(path).name, "rows": [asdict(row) for row in rows]}
        try:
            write_whole(Path(output), json.dumps(result, indent=1).encode() + b"\n")
        except OSError as error:
            return failed("simulate", f"--json {output}: {error.strerror or error}")
    return failed("simulate", f"stopped after {len(rows)} rows", code=130) if stopped else 0


def table(rows: Sequence[Simulated]) -> str:
    """The rows as text."""
    names = [field.name for field in fields(Simulated)]
    head = [_TITLES.get(name, name.replace("_", " ")) for name in names]
    lines = aligned([head, *[[_shown(name, getattr(row, name)) for name in names] for row in rows]], range(3))
    return "\n".join(lines)


def _shown(name: str, value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "on" if value else "off"
    if name.endswith("bytes"):
        return f"{value / 1e3:.1f}"
    return f"{value:.2f}" if isinstance(value, float) else str(value)
