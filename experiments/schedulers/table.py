"""The tables of the documentation."""

from __future__ import annotations

from collections.abc import Sequence

from experiments.bench.page import joined
from experiments.schedulers import layouts as compared
from experiments.schedulers.measuring import NAMES, OTHERS, Excess, Row


def graphs(rows: Sequence[Row]) -> str:
    """Return a line for each graph: launches by scheduler, over the bound in brackets, planning time and speed."""
    others = [name for name in OTHERS if any(name in row.launches for row in rows)]
    head = ["graph", "nodes", "lower bound", *NAMES, *others, *[f"ms: {name}" for name in NAMES]]
    head += [f"samples/s: {name}" for name in NAMES]
    lines = [joined(head), joined(["---", *["---:"] * (len(head) - 1)])]
    for row in rows:
        launches = [
            f"{row.launches[name]} ({row.launches[name] / row.bound:.2f})"
            if name in NAMES
            else str(row.launches.get(name, ""))
            for name in (*NAMES, *others)
        ]
        times = [f"{row.ms[name]:.2f}" if name in row.ms else "" for name in NAMES]
        rates = [f"{row.rates[name]:,.0f}" if name in row.rates else "" for name in NAMES]
        lines.append(joined([f"`{row.name}`", f"{row.nodes:,}", str(row.bound), *launches, *times, *rates]))
    return "\n".join(lines)


def random_graphs(rows: Sequence[Excess], count: int) -> str:
    """Return a line for each scheduler."""
    head = [f"{count:,} random graphs", "launches over the fewest", "in the worst graph", "graphs with more"]
    lines = [joined(head), joined(["---", *["---:"] * 3])]
    lines += [joined([row.scheduler, f"{row.total:.2%}", f"{row.worst:.0%}", f"{row.share:.2%}"]) for row in rows]
    return "\n".join(lines)


def layouts(rows: Sequence[compared.Row]) -> str:
    """Return a line for each graph: gathers, their bytes and ms, by layout, and the gain that the trees are at most."""
    names = "library", "each operand by itself", "PQ trees"
    head = ["graph", "launches", *[f"{what}: {name}" for what in ("gathers", "kB") for name in names]]
    head += ["ms", f"ms of gathers: {names[0]}", f"ms of gathers: {names[2]}", "gain at most"]
    lines = [joined(head), joined(["---", *["---:"] * (len(head) - 1)])]
    for row in rows:
        of = row.ours, row.single, row.trees
        cells = [f"`{row.name}`", str(row.launches), *[str(each[0]) for each in of]]
        cells += [*[f"{each[1] / 1e3:,.1f}" for each in of], f"{row.ms:.1f}"]
        lines.append(joined([*cells, f"{row.ours[2]:.2f}", f"{row.trees[2]:.2f}", f"{row.most:.1%}"]))
    return "\n".join(lines)
