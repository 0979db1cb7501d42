"""Measure one workload at every granularity, scheduler, sharing and batch size, side by side in one run."""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from experiments.bench.arguments import add_data, count, counts, seconds, whole
from experiments.bench.engines import ENGINES
from experiments.bench.environment import environment, limit_threads, threads
from experiments.tradeoff import WITHOUT, ZOO
from experiments.workloads import NAMES

BATCH_SIZES = (1, 4, 16, 64, 256, 1024)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run; 0 is success, 1 a failure that is explained, 2 bad arguments, 130 an interruption."""
    parser = _parser()
    options = parser.parse_args(arguments)
    if options.workload in WITHOUT[options.engine]:
        parser.error(f"no workload is called {options.workload!r} on {options.engine}")
    limit_threads()
    from experiments.data.errors import DataError

    try:
        return _run(options)
    except KeyboardInterrupt:
        print("\ninterrupted before anything was measured; nothing was written", file=sys.stderr)
        return 130
    except (DataError, OSError, ValueError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1


def _run(options: argparse.Namespace) -> int:
    """Measure, print and write."""
    import gluonjit
    from experiments.bench.engines import engine_of
    from experiments.bench.files import write_json
    from experiments.bench.page import put
    from experiments.data.errors import DataError
    from experiments.tradeoff.configurations import configurations
    from experiments.tradeoff.measuring import Measurement
    from experiments.tradeoff.plot import draw  # now, as a package that is missing should not cost a whole run
    from experiments.tradeoff.summary import row_of, table

    engine = engine_of("tradeoff", options.engine)
    workload = engine.load(options.workload, options.data_dir, options.seed, options.limit)
    print(f"data: {workload.note}; {len(workload.train)} samples")
    largest = max(options.batch_sizes)
    if len(workload.train) < largest:
        raise DataError(
            Path(options.workload), None, f"{len(workload.train)} samples do not fill {largest} of --batch-sizes"
        )
    if options.calibration:
        _calibrate(options.engine, options.calibration)
    measurement = Measurement(engine, workload, configurations(), options.seed)
    interrupted = False
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", gluonjit.errors.GluonJITWarning)  # slow ways are run on purpose
        try:
            measurement.run(options.batch_sizes, options.repeats, options.seconds)
        except KeyboardInterrupt:
            if not any(timing.runs for timing in measurement.timings):
                raise
            interrupted = True
    rows = [row_of(options.workload, timing) for timing in measurement.timings if timing.runs]
    result = _result(options, workload.note, rows, interrupted)
    print(table(rows, result["summary"]))
    if options.markdown:
        put(options.markdown, options.engine, page(result), f"tradeoff, {options.workload}")
    if options.json:
        write_json(options.json, result)
    if options.plot:
        draw(result, options.plot)
    if interrupted:
        written = [str(path) for path in (options.json, options.plot, options.markdown) if path]
        print(f"\ninterrupted: {len(rows)} rows were measured; written to: {', '.join(written) or 'nothing'}")
    return 130 if interrupted else 0


def _calibrate(engine: str, duration: float) -> None:
    """Calibrate this machine if that is not stored yet, in a separate process, by the clock of this one."""
    options = ("--engine", engine, "--if-missing", "--seconds", f"{duration:g}")
    by = ["experiments.tradeoff.processor"] if time.perf_counter is time.process_time else []
    command = [sys.executable, "-m", *by, "gluonjit", "calibrate", *options]
    if subprocess.run(command, check=False).returncode:
        print("not calibrated: predictions begin with default costs", file=sys.stderr)


def _result(options: argparse.Namespace, note: str, rows: list[dict[str, Any]], interrupted: bool) -> dict[str, Any]:
    """Return the dictionary to write."""
    from experiments.tradeoff.summary import summary

    return {
        "engine": options.engine,
        "workload": options.workload,
        "note": note,
        "command": _command(options),
        "interrupted": interrupted,
        "clock": "processor time" if time.perf_counter is time.process_time else "elapsed time",
        "date": time.strftime("%Y-%m-%d"),
        "threads": threads(),
        "environment": environment(),
        "summary": summary(rows),
        "rows": rows,
    }


def page(result: dict[str, Any]) -> str:
    """Return the part of the documentation that a result makes."""
    from experiments.tradeoff.summary import markdown

    made, count = result["environment"], result["threads"]
    versions = ", ".join(f"{name} {made[name]}" for name in ("python", "torch", "mxnet", "numpy") if made[name])
    where = f"On {made['cpu']}, {count} thread{'s' * (count > 1)}, {result['clock']}, {result['date']}; {versions}."
    return "\n".join([f"`{result['command']}`", "", markdown(result["rows"], result["summary"]), "", where])


def _command(options: argparse.Namespace) -> str:
    """Return the command that measures this again."""
    sizes = ",".join(map(str, options.batch_sizes))
    limit = f" --limit {options.limit}" if options.limit else ""
    engine = "" if options.engine == "mxnet" else f" --engine {options.engine}"
    return (
        f"python -m experiments.tradeoff{engine} --workload {options.workload} --batch-sizes {sizes} "
        f"--repeats {options.repeats} --seconds {options.seconds:g} --seed {options.seed}{limit}"
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m experiments.tradeoff", description=__doc__)
    parser.add_argument("--engine", choices=ENGINES, default="mxnet", help="the framework that the models are in")
    parser.add_argument("--workload", choices=(*NAMES, *ZOO), required=True)
    parser.add_argument("--batch-sizes", type=_counts, default=BATCH_SIZES, metavar="N,N,...", help="ascending")
    parser.add_argument("--repeats", type=count, default=5, help="minibatches that are timed in each way, each twice")
    parser.add_argument(
        "--seconds", type=seconds, default=4.0, help="a way whose minibatch takes longer is repeated three times only"
    )
    parser.add_argument(
        "--calibration",
        type=_duration,
        default=15.0,
        metavar="SECONDS",
        help="how long to calibrate where that was not done; 0: not at all",
    )
    add_data(parser)
    parser.add_argument("--seed", type=whole, default=0)
    parser.add_argument("--json", type=Path, metavar="PATH", help="write the rows here")
    parser.add_argument("--plot", type=Path, metavar="PATH", help="draw them here")
    parser.add_argument("--markdown", type=Path, metavar="PATH", help="write the table into this page, at its markers")
    return parser


def _duration(text: str) -> float:
    """Read a number of seconds, or 0."""
    return 0.0 if text.strip() == "0" else seconds(text)


def _counts(text: str) -> tuple[int, ...]:
    """Read a comma-separated list of ascending numbers."""
    found = counts(text)
    if list(found) != sorted(set(found)):
        raise argparse.ArgumentTypeError(f"{text} is not ascending")
    return found
