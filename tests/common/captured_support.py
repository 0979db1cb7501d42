"""What some programs capture, as JSON, in a fresh process with and without the part in C; of either framework."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import gluonjit
from gluonjit.compiled import FAST
from gluonjit.graph import Graph, line_of
from gluonjit.hybrid import LOCAL

ROOT = Path(__file__).resolve().parents[2]
Program = Callable[[], list[Any]]


def fresh(*command: str, pure: bool) -> str:
    """What a fresh process prints that captures in Python, or as it was built."""
    done = subprocess.run(
        [sys.executable, *command],
        cwd=ROOT,
        env={**os.environ, "GLUONJIT_PURE": "1" if pure else "0", "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def assert_captured_alike(script: str, nodes: int) -> None:
    """A script that ends with `tell` says the same with and without the part in C; its "tree" has more such nodes."""
    in_c, in_python = (json.loads(fresh("-W", "ignore", script, pure=pure)) for pure in (False, True))
    assert (in_c.pop("compiled"), in_python.pop("compiled")) == (True, False)
    assert in_c.keys() == in_python.keys()
    for name in in_python:
        assert in_c[name] == in_python[name], name
    assert sum(len(record["bases"]) for record in in_c["tree"]["records"]) > nodes


def tell(programs: Mapping[str, Program], numbers: Callable[[Any], Any], **more: Any) -> None:
    """Run programs one by one and print all about them; `numbers` of an array are lists."""
    told: dict[str, Any] = {"compiled": FAST is not None, **more}
    LOCAL.state.flush("the end")
    for name, program in programs.items():
        results = [part for part in program() if part is not None]
        batch = LOCAL.state.batch
        assert batch is not None, name
        told[name] = described(batch.graph, [part for part in results if hasattr(part, "_v")])
        told[f"{name}, room"] = round(batch.room, 9)
        LOCAL.state.flush("the end")
        told[f"{name}, numbers"] = [numbers(part) for part in results]
        report = gluonjit.explain()
        told[f"{name}, report"] = [report.calls, report.nodes, report.launches, dict(report.unbatched)]
    print(json.dumps(told))


def described(graph: Graph, results: list[Any]) -> dict[str, Any]:
    """All that there is in a graph, by value."""
    return {
        "records": [
            {
                "kind": record.kind.name,
                "mode": record.mode,
                "calls": record.calls,
                "operands": record.operands,
                "depths": record.depths,
                "bases": record.bases,
                "lines": [str(line_of(origin)) for origin in record.origins],
                "values": [
                    [str((v.rows, v.depth, v.spec, v.taped)) for v in record.values(node)]
                    for node in range(len(record))
                ],
            }
            for record in graph.records.values()
        ],
        "rows": graph.rows,
        "copies": [list(rows) for rows in graph.copies],
        "leaves": [(leaf.base, str(leaf.spec), leaf.taped) for leaf in graph.leaves.values()],
        "lookups": [list(entries.items()) for entries in graph.lookups.values()],
        "marks": graph.marks,
        "singles": [(str(place), value.rows, str(value.spec)) for place, value in graph.single_rows.items()],
        "results": [str((type(part).__name__, part._v.rows, part._v.spec, part._v.depth)) for part in results],
    }
