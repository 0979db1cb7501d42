"""Reports of the results, as a dictionary for JSON, a table, and a figure."""

from __future__ import annotations

import platform
from pathlib import Path
from typing import Any

import numpy
import torch

import gluonjit
from experiments.bench.files import save_figure
from experiments.bench.table import label
from experiments.gpu import PHASES
from experiments.gpu.measuring import Found, Wanted

MEASURES = ("workload", "hidden", "batch", "phase", "system", "samples/s", "of floor", "kernels", "GPU busy")


def result_of(wanted: Wanted, found: Found, command: str, seconds: float) -> dict[str, Any]:
    """Return everything to store."""
    return {
        "command": command,
        "device": device_of(wanted.device),
        "versions": versions(),
        "tf32": bool(torch.backends.cuda.matmul.allow_tf32),
        "seconds": seconds,
        "gemm_gflops": found.rates.products,
        "bandwidth_gb_s": found.rates.gigabytes,
        "notes": found.notes,
        "correctness": found.correctness,
        "floors": found.floors,
        "skipped": found.skipped,
        "rows": found.rows,
    }


def device_of(device: str) -> dict[str, Any]:
    """Describe the device."""
    if not device.startswith("cuda"):
        return {"name": "cpu", "threads": torch.get_num_threads()}
    found = torch.cuda.get_device_properties(device)
    return {
        "name": found.name,
        "memory_gib": found.total_memory / 2**30,
        "multiprocessors": found.multi_processor_count,
        "capability": f"{found.major}.{found.minor}",
    }


def versions() -> dict[str, str | None]:
    """Name the versions of the software involved."""
    return {
        "gluonjit": gluonjit.__version__,
        "torch": str(torch.__version__),
        "cuda": torch.version.cuda,
        "cudnn": str(torch.backends.cudnn.version()) if torch.backends.cudnn.is_available() else None,
        "numpy": numpy.__version__,
        "python": platform.python_version(),
    }


def table(result: dict[str, Any]) -> str:
    """Return the rows as text, and what is missing."""
    floors = {_key(floor): floor["samples_per_s"] for floor in result["floors"]}
    lines = [_line(MEASURES)]
    for row in result["rows"]:
        floor = floors[_key({**row, "sharing": bool(row["sharing"])})]
        kernels, busy = row["kernels_per_minibatch"], row["gpu_busy"]
        cells = (row["workload"], row["hidden"], row["batch_size"], row["phase"], label(row))
        shown = (f"{row['samples_per_s']:,.0f}", f"{row['samples_per_s'] / floor:.1%}")
        lines.append(
            _line((*cells, *shown, "" if kernels is None else f"{kernels:,.0f}", "" if busy is None else f"{busy:.0%}"))
        )
    best, name = max(result["gemm_gflops"].values()), result["device"]["name"]
    lines.append(f"products {best:,.0f} GFLOP/s, copies {result['bandwidth_gb_s']:,.0f} GB/s, {name}")
    lines += [f"left out: {why}" for why in dict.fromkeys(_why(skipped) for skipped in result["skipped"])]
    return "\n".join(lines)


def _key(row: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(row[name] for name in ("workload", "hidden", "batch_size", "phase", "sharing"))


def _why(skipped: dict[str, Any]) -> str:
    """Say what is missing and why; a system without any row is named once."""
    if "system" in skipped and "agree" not in skipped["why"]:
        return f"{skipped['system']}: {skipped['why']}"
    named = [f"{name} {value}" for name, value in skipped.items() if name != "why"]
    return f"{', '.join(named)}: {skipped['why']}"


def _line(cells: tuple[Any, ...]) -> str:
    widths = (15, 8, 7, 11, 30)
    left = "".join(f"{cell!s:<{width}}" for cell, width in zip(cells, widths))
    return left + "".join(f"{cell:>11}" for cell in cells[len(widths) :])


def draw(result: dict[str, Any], path: Path) -> str | None:
    """Draw samples a second against the hidden size, a panel for each workload and phase; say why not, if not."""
    try:
        import matplotlib
    except ImportError:
        return "no figure: matplotlib is not installed"
    matplotlib.use("Agg")
    from matplotlib import pyplot

    names = list(dict.fromkeys(row["workload"] for row in result["rows"]))
    if not names:
        return "no figure: nothing was measured"
    size = _middle(sorted({row["batch_size"] for row in result["rows"]}))
    rows = [row for row in result["rows"] if row["batch_size"] == size]
    figure, grid = pyplot.subplots(
        len(PHASES), len(names), figsize=(4.5 * len(names), 7), layout="constrained", squeeze=False, sharex=True
    )
    for phase, panels in zip(PHASES, grid):
        for name, panel in zip(names, panels):
            here = [row for row in rows if (row["workload"], row["phase"]) == (name, phase)]
            for system in dict.fromkeys(label(row) for row in here):
                points = sorted((row["hidden"], row["samples_per_s"]) for row in here if label(row) == system)
                panel.plot(*zip(*points), marker="o", label=system)
            floors = [floor for floor in result["floors"] if (floor["workload"], floor["phase"]) == (name, phase)]
            points = sorted(
                (floor["hidden"], floor["samples_per_s"])
                for floor in floors
                if floor["batch_size"] == size and not floor["sharing"]
            )
            panel.plot(*zip(*points), linestyle="--", color="#888888", label="floor, nothing shared")
            panel.set(xscale="log", yscale="log", title=f"{name}, {phase}, batch {size}")
            panel.set(xlabel="hidden size", ylabel="samples a second")
            sizes = [hidden for hidden, _ in points]
            panel.set_xticks(sizes, [str(hidden) for hidden in sizes])
            panel.minorticks_off()
    figure.legend(*grid[0][0].get_legend_handles_labels(), loc="outside lower center", ncols=4, fontsize=8)
    figure.suptitle(result["device"]["name"])
    save_figure(figure, path, 150)
    pyplot.close(figure)
    return None


def _middle(sizes: list[int]) -> int:
    return sizes[len(sizes) // 2]
