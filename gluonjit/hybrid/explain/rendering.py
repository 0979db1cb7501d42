"""A report as text, as a page, as JSON, as a graph of steps and as a timeline."""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Any

import numpy as np

from gluonjit.analysis.plan import Plan
from gluonjit.hybrid.explain.listing import aligned
from gluonjit.writing import write_whole

_MOST_STEPS = 40


Report = Any
"""A `report.Report`, which imports this."""
Table = list[Sequence[Any]]
_KINDS = ("kind", "calls", "nodes", "launches", "calls per launch")
_WAYS = ("way", "nodes", "launches", "analysis ms", "execution ms", "predicted ms per sample")
_STEPS = ("step", "nodes", "launches", "gathered", "ms", "first captured at")
_NOTES = {
    "alone": "runs alone",
    "unbatched": "not one node",
    "by_number": "one kind per number of children",
    "outlined": "made from source",
    "distrusted": "runs one by one",
    "unchecked": "not compared with its operators",
}


def to_text(report: Report) -> str:
    """The report as tables of text."""
    lines = _summary(report)
    lines += ["", *_aligned(_KINDS, _kind_rows(report))]
    if chosen := _chosen(report):
        lines += ["", chosen, *_aligned(_WAYS, _way_rows(report))]
    steps = _step_rows(report)
    if steps:
        lines += ["", "steps of the last flush:", *_aligned(_STEPS, steps[:_MOST_STEPS])]
    if len(steps) > _MOST_STEPS:
        lines.append(f"  ... and {len(steps) - _MOST_STEPS} more")
    notes = _notes(report)
    return "\n".join(lines + ([""] if notes else []) + notes)


def to_html(report: Report) -> str:
    """The report as a page for notebooks."""
    parts = [f"<p>{escape(line)}</p>" for line in _summary(report)]
    parts.append(_html_table(_KINDS, _kind_rows(report)))
    if chosen := _chosen(report):
        parts.append(f"<p>{escape(chosen)}</p>" + _html_table(_WAYS, _way_rows(report)))
    steps = _html_table(_STEPS, _step_rows(report))
    parts.append(f"<details><summary>steps of the last flush</summary>{steps}</details>")
    parts.append("<ul>" + "".join(f"<li>{escape(note)}</li>" for note in _notes(report)) + "</ul>")
    return "<div>" + "".join(parts) + "</div>"


def _chosen(report: Report) -> str:
    """The line on the choice; empty if there was none."""
    choice = report.choice
    if choice is None or not (choice.estimates or choice.origin):
        return ""
    return f"chosen: {choice.setting}" + (f" (kept from {choice.origin})" if choice.origin else "")


def _summary(report: Report) -> list[str]:
    head = (
        f"{report.calls} calls, {report.nodes} nodes run ({report.shared} shared, {report.dropped} dropped) in "
        f"{report.launches} launches, {report.fused} of them in C (lower bound {report.lower_bound}), "
        f"{report.flushes} flush(es), {report.gathers} gathers of {_size(report.gathered)}"
    )
    times = ", ".join(f"{part} {value:.1f}" for part, value in report.ms.items())
    cache = f"batched graphs: {report.cache['hits']} from the cache, {report.cache['misses']} made"
    reuse = report.reuse
    reused = f"reused calls: {reuse.hits} ({reuse.checked} checked), {reuse.misses} captured to be reused"
    answered, flushed = report.reads["answered"], report.reads["flushed"]
    reads = f"read in samples: {answered} known values, {flushed} that had to run"
    lines = [head, f"ms: {times}", cache, *([reused] if reuse.hits or reuse.misses else [])]
    lines += [reads] if any(report.reads.values()) else []
    return [*lines, *report.ways]


def _kind_rows(report: Report) -> Table:
    busiest = sorted(report.kinds.items(), key=lambda item: -item[1].launches)
    return [
        (name, row.calls, row.nodes, row.launches, f"{row.calls / row.launches:.1f}" if row.launches else "")
        for name, row in busiest
    ]


def _way_rows(report: Report) -> Table:
    """Lists the cost model's prediction of each way; those that cannot pay have no figures."""
    rows: Table = []
    for way in report.choice.estimates:
        costs, flushes = way.costs, way.flushes
        execution = costs.total - costs.capture - costs.analysis
        figures = (costs.analysis / flushes * 1e3, execution / flushes * 1e3, way.per_sample * 1e3)
        counts = (f"{way.nodes / flushes:.0f}", f"{way.launches / flushes:.1f}")
        rows.append((str(way.setting), *counts, *[f"{figure:.2f}" for figure in figures]))
    return rows + [(name, "", "", "", "", why) for name, why in report.choice.ruled_out.items()]


def _step_rows(report: Report) -> Table:
    return [
        (row.name, row.nodes, row.launches, _size(row.gathered) if row.gathered else "", f"{row.ms:.2f}", row.line)
        for row in report.steps
    ]


def _notes(report: Report) -> list[str]:
    notes = [f"{said}: {name}: {why}" for of, said in _NOTES.items() for name, why in getattr(report, of).items()]
    for why in dict.fromkeys(report.unfused.values()):
        notes.append(f"not in C: {', '.join(name for name in report.unfused if report.unfused[name] == why)}: {why}")
    notes += [f"apart: {name}: {why}" for name, why in report.apart.items()]
    notes += [f"not reused, {count} x: {why}" for why, count in report.reuse.refused.items()]
    return notes + [f"flushed {count} x: {reason}" for reason, count in report.reasons.items()]


def _size(count: int) -> str:
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= size:
            return f"{count / size:.1f} {unit}"
    return f"{count} B"


def _aligned(head: Sequence[str], rows: Table) -> list[str]:
    left = (0, len(head) - 1) if head is _STEPS else (0,)
    return [f"  {line}" for line in aligned([head, *[[*map(str, row)] for row in rows]], left)]


def _html_table(head: Sequence[str], rows: Table) -> str:
    top = "".join(f"<th>{escape(name)}</th>" for name in head)
    body = "".join("<tr>" + "".join(f"<td>{escape(str(cell))}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table><tr>{top}</tr>{body}</table>"


def write_trace(report: Report, path: Path) -> None:
    """Writes the timeline in the Trace Event Format."""
    events = [
        {
            "name": event.name,
            "cat": event.part,
            "ph": "X",
            "ts": event.begin * 1e6,
            "dur": (event.end - event.begin) * 1e6,
            "pid": 0,
            "tid": event.part,
        }
        for event in report.timeline
    ]
    write_whole(path, json.dumps({"traceEvents": events, "displayTimeUnit": "ms"}).encode())


def write_dot(report: Report, path: Path) -> None:
    """Writes the last flush's steps as boxes; arrows are labelled with the numbers of rows passed."""
    lines = ["digraph steps {", "  node [shape=box];"]
    if report.last is not None:
        plan = report.last.plan
        for number, row in enumerate(report.steps):
            label = f"{row.name}\\n{row.nodes} nodes" + (f"\\nalone: {row.alone}" if row.alone else "")
            lines.append(f"  step{number} [label={json.dumps(label, ensure_ascii=False)}];".replace("\\\\n", "\\n"))
        arrows = _arrows(plan)
        if any(source < 0 for source, _ in arrows):
            lines.append("  inputs [shape=ellipse];")
        for (source, target), count in sorted(arrows.items()):
            begin = f"step{source}" if source >= 0 else "inputs"
            lines.append(f'  {begin} -> step{target} [label="{count}"];')
    write_whole(path, "\n".join([*lines, "}", ""]).encode())


def _arrows(plan: Plan) -> dict[tuple[int, int], int]:
    """Counts rows passed from step to step; -1 stands for inputs."""
    made: list[list[tuple[int, int]]] = [[] for _ in plan.arenas]  # (first row, step) of what each arena holds
    for chunk in plan.inputs:
        made[chunk.place.arena].append((chunk.place.begin, -1))
    for number, step in enumerate(plan.steps):
        for place in step.places:
            made[place.arena].append((place.begin, number))
    found: dict[tuple[int, int], int] = {}
    for number, step in enumerate(plan.steps):
        for gather in step.gathers:
            place = gather.place
            begins = [begin for begin, _ in made[place.arena]]
            positions = np.arange(place.begin, place.end) if gather.index is None else gather.index
            for position in positions.tolist():
                source = made[place.arena][bisect_right(begins, position) - 1][1]
                found[source, number] = found.get((source, number), 0) + 1
    return found
