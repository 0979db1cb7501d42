"""The tables of the documentation: one line per kind of call, and one per plan."""

from __future__ import annotations

from collections.abc import Sequence

from experiments.bench.page import joined
from experiments.host.launching import Launched, Shared
from experiments.host.measure import Row
from experiments.host.planning import Planned

HEAD = ("call", "nodes", "eager", "captured", "with gradients: eager", "captured", "before gluonjit")
PLANS = ("samples", "nodes", "launches", "planning", "analysis of a flush")
STEPS = ("one more step of a chain: forward", "backward", "steps in C")
FLUSHES = ("a flush of one call beyond its launch", "recorded", "after other work")
PHASES = {"train": "training", "inference": "inference"}
SHARES = ("workload", "batch", "", "a minibatch", "in row programs")


def line(without: Row, gradients: Row) -> str:
    """Return the line of a sort of call."""
    cells = (
        without.sort,
        f"{without.nodes:,.0f}" if without.nodes == round(without.nodes) else f"{without.nodes:.2f}",
        *(f"{time:.2f} {without.unit}" for row in (without, gradients) for time in (row.eager, row.captured)),
        "" if gradients.door is None else f"{gradients.door:.2f} {gradients.unit}",
    )
    return joined(cells)


def tables(
    rows: Sequence[Row], plans: Sequence[Planned], steps: Launched | None, shares: Sequence[Shared], command: str
) -> str:
    """Return all tables in Markdown, below the command that makes them."""
    calls = [line(*rows[place : place + 2]) for place in range(0, len(rows), 2)]
    planned = [joined((str(each.samples), f"{each.nodes:,}", str(each.launches), *_times(each))) for each in plans]
    head = [joined(HEAD), joined(["---", *["---:"] * (len(HEAD) - 1)]), *calls]
    found = [f"`{command}", "", *head, "", joined(PLANS), joined(["---:"] * len(PLANS)), *planned]
    if steps is not None:
        cells = f"{steps.forward:.1f} µs", f"{steps.backward:.1f} µs", f"{steps.in_c:.0%}"
        found += ["", joined(STEPS), joined(["---:"] * len(STEPS)), joined(cells)]
        times = [f"{time:,.0f} µs" for time in (steps.flush, steps.recorded, steps.cold)]
        found += ["", joined(FLUSHES), joined(["---:"] * len(FLUSHES)), joined(times)]
    if shares:
        found += ["", joined(SHARES), joined(["---", "---:", "---", "---:", "---:"]), *map(_share, shares)]
    return "\n".join(found)


def _share(row: Shared) -> str:
    share = f"{row.row_ms / row.ms:.0%}"
    return joined((row.workload, str(row.batch_size), PHASES[row.phase], f"{row.ms:.1f} ms", share))


def _times(planned: Planned) -> tuple[str, str]:
    return f"{planned.planning:.2f} µs", f"{planned.analysis:.2f} µs"
