"""``python -m gluonjit calibrate``: measures the costs of this machine, for predictions."""

from __future__ import annotations

import importlib
import sys
import time
from pathlib import Path

from gluonjit.analysis.costs.coefficients import Coefficients
from gluonjit.analysis.costs.measured import Measured
from gluonjit.analysis.costs.model import CostModel
from gluonjit.commands import failed
from gluonjit.hybrid.choose.costs import calibration_file, machine, use_model
from gluonjit.hybrid.run.calibration import measure
from gluonjit.hybrid.run.engine import engine_of

_BAR = 30
_UNITS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns"), (1e-12, "ps"))


def main(engine: str, seconds: float, output: Path | None, missing: bool = False) -> int:
    """Measures, stores and shows, with `missing` only where nothing is stored.

    Returns 1 where the engine cannot be used or the file not written, 130 when interrupted.
    """
    try:
        importlib.import_module(engine)
        found = engine_of(engine)
    except (ImportError, OSError) as error:
        return failed(
            "calibrate",
            f"{engine} cannot be imported ({type(error).__name__}: {error}). "
            f"Next: pip install 'gluonjit[{engine}]', then python -m gluonjit doctor.",
        )
    path = output or calibration_file(engine, found.versions)
    if missing and path.exists():
        return 0
    print(f"measuring {engine} for about {seconds:g} s; run nothing else meanwhile")
    try:
        bench = importlib.import_module(f"gluonjit.engines.{engine}.calibration").BENCH
        measured = measure(found, bench, seconds, _show)
    except KeyboardInterrupt:
        print(file=sys.stderr)
        return failed("calibrate", "interrupted, nothing was stored", code=130)
    print(file=sys.stderr)
    coefficients = measured.calibrated(Coefficients())
    made = {
        "engine": engine,
        "versions": dict(found.versions),
        "machine": machine(),
        "time": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
    }
    try:
        coefficients.save(path, made, follow=output is not None)
    except OSError as error:
        why = f"{path} cannot be written ({error}). Next: --output PATH, or set GLUONJIT_CACHE to a folder."
        return failed("calibrate", why)
    use_model(engine, CostModel(coefficients))
    _print_table(measured)
    print(f"\nstored in {path}")
    return 0


def _show(share: float) -> None:
    """A line on stderr that is written over and over; nothing where that is not a terminal."""
    if sys.stderr.isatty():
        full = round(share * _BAR)
        print(f"\r[{'#' * full}{' ' * (_BAR - full)}] {100 * share:3.0f} %", end="", file=sys.stderr, flush=True)


def _print_table(measured: Measured) -> None:
    for part, row in measured.fitted().items():
        print(f"\n{part}: {row.points} different amounts, off by {100 * row.error:.0f} % in the mean")
        for name, seconds in row.seconds.items():
            print(f"  {name:<20} {readable(seconds):>10}")


def readable(seconds: float) -> str:
    """A time with three digits and a unit."""
    for size, unit in _UNITS:
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return "0"
