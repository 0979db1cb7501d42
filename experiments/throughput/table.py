"""Tables and text for the results of a run: rates, ratios, floors, and the gain of each optimization."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from experiments.bench import table as shared
from experiments.bench.table import BASELINES, FLOORS, PHASE_NAMES, Row, label, rate
from experiments.throughput import ABLATED, PEERS

# Floors are known for this alone.
FLOORS_HOLD = ("treelstm-sick", 256, 1)
ALL_FLOORS = {**FLOORS, ("dynet", "train"): 1900, ("dynet", "inference"): 3500}
FLOORS_OF = {"mxnet": ALL_FLOORS, "torch": {key: ALL_FLOORS[key] for key in ALL_FLOORS if key[0] == "dynet"}}
ALL_BASELINES = (*BASELINES, *dict.fromkeys(peer for peers in PEERS.values() for peer in peers))


def findings(result: Mapping[str, Any]) -> dict[str, Any]:
    """Return by batch size the ratios of a run, or the reason why it has none; and the gains of switches."""
    ratios, gains = {}, {}
    workload, size_of_floors, one = FLOORS_HOLD
    checked = [row for row in result["rows"] if row["batch_size"] == size_of_floors]
    known = result["workload"] == workload and result["threads"] == one and bool(checked)
    under: list[str] = (
        shared.findings(checked, FLOORS_OF[result.get("engine", "mxnet")])["under_floor"] if known else []
    )
    for size in _sizes(result["rows"]):
        rows = [row for row in result["rows"] if row["batch_size"] == size]
        if not under:
            kept = [row for row in rows if not _is_ablation(row)]
            ratios[str(size)] = shared.ratios_of(kept, ALL_BASELINES)
            gains[str(size)] = _gains(rows)
    return {"floors_checked": known, "under_floor": under, "ratios": ratios, "gains": gains}


def _sizes(rows: Sequence[Row]) -> list[int]:
    return sorted({row["batch_size"] for row in rows})


def _is_ablation(row: Row) -> bool:
    return str(row["system"]).startswith(ABLATED)


def _gains(rows: Sequence[Row]) -> dict[str, dict[str, float]]:
    """Return by switch and phase how many times faster the system is with it than without."""
    gains: dict[str, dict[str, float]] = {}
    for row in rows:
        with_it = rate(rows, "dynamic", row["phase"])
        if _is_ablation(row) and with_it:
            gains.setdefault(row["system"][len(ABLATED) :], {})[row["phase"]] = with_it / row["samples_per_s"]
    return gains


def table(result: Mapping[str, Any]) -> str:
    """Return all tables as text."""
    lines = []
    for size in _sizes(result["rows"]):
        rows = [row for row in result["rows"] if row["batch_size"] == size]
        lines += ["", f"{result['workload']}, batch {size}", *shared.rates(rows, "samples/s")]
        lines += [_floor(found, rows) for found in result["floor"] if found["batch_size"] == size]
        lines += shared.claims(result["ratios"].get(str(size), {}), result["workload"].startswith("treelstm-"))
        lines += _gain_lines(result["gains"].get(str(size), {}))
    rates = ", ".join(f"{name} {found:.0f}" for name, found in result["gemm_gflops"].items())
    lines += ["", f"products on this core, GFLOP/s: {rates}"]
    lines += [f"{label}: {_noted(notes)}" for label, notes in result.get("notes", {}).items()]
    lines += [f"left out: {why}" for why in result["left_out"].values()]
    lines += [f"not fit for claims: {why}" for why in result["under_floor"]]
    if not result["floors_checked"]:
        workload, size, threads = FLOORS_HOLD
        lines.append(f"sanity floors are known only for {workload}, batch {size}, {threads} thread: not checked")
    return "\n".join(lines)


def _noted(notes: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {what}" for what, count in notes.items())


def _floor(found: Mapping[str, Any], rows: Sequence[Row]) -> str:
    """Describe the time of a step's products alone, and how near the best row of the same sharing comes."""
    sharing = "equal work once" if found["sharing"] else "nothing shared"
    text = (
        f"floor, {PHASE_NAMES[found['phase']]}, {sharing}: {found['mega_multiply_adds']:.2f} M multiply-adds a sample, "
        f"{found['samples_per_s']:,.0f} samples/s"
    )
    same = [row for row in rows if row["phase"] == found["phase"] and bool(row["sharing"]) == found["sharing"]]
    if not same:
        return text
    best = max(same, key=lambda row: row["samples_per_s"])
    return f"{text}; {label(best)} is at {best['samples_per_s'] / found['samples_per_s']:.0%} of it"


def _gain_lines(gains: Mapping[str, Mapping[str, float]]) -> list[str]:
    """Return the gain of each optimization as a table."""
    if not gains:
        return []
    lines = [f"{'what is left out':<24} {'training':>9} {'inference':>10}   (dynamic, times faster than without)"]
    for switch, found in gains.items():
        cells = [f"{found[phase]:.2f}x" if phase in found else "" for phase in PHASE_NAMES]
        lines.append(f"{switch:<24} {cells[0]:>9} {cells[1]:>10}")
    return lines
