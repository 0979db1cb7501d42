"""Times planning per node: by itself, on a saved trace, and in a flush, from its report."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

import gluonjit
from experiments.host import WAY
from experiments.host.measure import Trees
from experiments.host.sorts import Engine

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Planned:
    """Microseconds a node, medians of the rounds.

    planning: from captured nodes to the plan; analysis: what the report of a flush says of its analysis, which is
    planning, and what the report and its warnings are made of.
    """

    samples: int
    nodes: int
    launches: int
    rounds: int
    planning: float
    analysis: float


def plan(engine: Engine, samples: int, rounds: int, seed: int) -> Planned:
    """Capture samples of the TreeModel, with gradients, and plan them. Raises ValueError if that fails."""
    trees, draw = Trees(engine, samples, seed), np.random.RandomState(seed)
    _captured(engine, trees, draw, None)  # programs are traced
    rows, analysis = [], []
    with TemporaryDirectory() as folder:
        for _ in range(rounds):
            trace = Path(folder) / "trace"
            report = _captured(engine, trees, draw, trace)
            analysis.append(1e3 * report.ms["analysis"] / report.nodes)
            rows.append(_simulated(trace))
    return Planned(
        samples=samples,
        nodes=round(median(row["nodes"] for row in rows)),
        launches=round(median(row["launches"] for row in rows)),
        rounds=rounds,
        planning=median(1e3 * row["analysis_ms"] / row["nodes"] for row in rows),
        analysis=median(analysis),
    )


def _captured(engine: Engine, trees: Trees, draw: np.random.RandomState, trace: Path | None) -> gluonjit.Report:
    """Capture samples, save them, and run them."""
    kept: Sequence[Any] = []
    given = trees.draw(draw)
    with engine.gradients(True), gluonjit.batching(**WAY) as batch:
        kept = [trees.nets[1](tokens, tree) for tokens, tree in given]
        if trace is not None:
            batch.save_trace(trace)
    del kept
    return batch.report


def _simulated(trace: Path) -> dict[str, Any]:
    """Plan a trace where no framework is; the command plans it three times, and gives the least."""
    figures = trace.with_name("figures.json")
    command = [sys.executable, "-m", "gluonjit", "simulate", "--scheduler", WAY["scheduler"], "--json"]
    done = subprocess.run([*command, str(figures), str(trace)], cwd=ROOT, capture_output=True, text=True)
    if done.returncode:
        raise ValueError(f"simulate: {done.stderr.strip()}")
    (row,) = json.loads(figures.read_text(encoding="utf-8"))["rows"]
    found: dict[str, Any] = row
    return found
