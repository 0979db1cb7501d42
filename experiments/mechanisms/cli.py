"""The command line: run the collection without each mechanism, and write docs/mechanisms.md.

First all programs run as they are, which notes the files of the library that each comes to. Then, for each mechanism,
the programs that come to its files run without it, in a process of its own; habits only where few others do. Every
program is compared with eager execution, and its launches are counted; with `--rounds N` those of the zoo and of others
are also timed, in processor time, in turns with a process that has all mechanisms. Each mechanism's figures for a part
of the collection are a file in `results/mechanisms/`: a run that was interrupted goes on where it was. `--fresh` begins
anew.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

from experiments.bench.arguments import ended, names, whole
from experiments.bench.environment import environment
from experiments.bench.files import write_json
from experiments.coverage import FORCED
from experiments.coverage.collection import ROOT, SOURCES
from experiments.mechanisms.mechanism import PACKAGE, Mechanism
from experiments.mechanisms.page import PAGE, page
from experiments.mechanisms.table import MECHANISMS
from experiments.mechanisms.working import Worker

FOLDER = ROOT / "results" / "mechanisms"
TIMED = ("zoo", "programs")  # the parts whose programs take long enough
STARTS = 5  # times that the first minibatches run
FEW = 20  # programs that come to a mechanism: habits run, which are many, where there are fewer
PLACES = "places.json"
Cell = dict[str, dict[str, Any]]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; 0 is success, 1 a file that cannot be written, 2 bad arguments, 130 Ctrl-C."""
    return ended(lambda: _run(_parser().parse_args(arguments)), OSError, ValueError)


def _run(options: argparse.Namespace) -> list[str]:
    if options.fresh:
        shutil.rmtree(options.folder, ignore_errors=True)
    chosen = [each for each in MECHANISMS if options.match in each.name]
    usual = {source: _cell(options, None, source, {}) for source in options.sources}
    found: dict[str, dict[str, Cell]] = {}
    for mechanism in chosen:
        cells: dict[str, Cell] = {}
        found[mechanism.name] = cells
        for source in sorted(options.sources, key="habits".__eq__):
            if source != "habits" or sum([len(cell) for cell in cells.values()]) < FEW:
                cells[source] = _cell(options, mechanism, source, usual[source])
    if options.match == "":
        places = json.loads((options.folder / PLACES).read_text(encoding="utf-8"))
        PAGE.write_text(page(MECHANISMS, usual, found, places), encoding="utf-8")
        print(f"written: {PAGE}")
    return []


def _cell(options: argparse.Namespace, mechanism: Mechanism | None, source: str, usual: Cell) -> Cell:
    """Return the figures of a part of the collection without a mechanism, from its file if there is one."""
    label = "usual" if mechanism is None else mechanism.name.replace(" ", "-").replace(",", "")
    path: Path = options.folder / f"{label}.{source}.json"
    if path.exists():
        cell: Cell = json.loads(path.read_text(encoding="utf-8"))
        return cell
    if mechanism is None:
        found = _usual(source)
    else:
        found = _without(mechanism, source, usual, options.rounds)
    write_json(path, found)
    _note_place(options.folder / PLACES)
    print(f"{label}: {len(found)} programs of {source}", flush=True)
    return found


def _usual(source: str) -> Cell:
    worker = Worker(None)
    try:
        programs = worker.ask("names", source)
        found = {name: _measured(worker, name, FORCED, "measure") for name in programs}
        for name, row in found.items():
            row["files"] = worker.ask("reached", name, FORCED) if "error" not in row else []
        return found
    finally:
        worker.close()


def _without(mechanism: Mechanism, source: str, usual: Cell, rounds: int) -> Cell:
    """Return the figures of the programs that come to a mechanism's files, and would run without it."""
    files = {path.relative_to(PACKAGE).as_posix() for path in mechanism.paths()}
    reaching = [name for name, row in usual.items() if not files or mechanism.on or files & set(row["files"])]
    if not mechanism.can_be_off or not reaching:
        return {name: {} for name in reaching}
    on, off = {**FORCED, **mechanism.on}, {**FORCED, **mechanism.without}
    found: Cell = {}
    worker = Worker(mechanism)
    other = Worker(None) if mechanism.on or (rounds and source in TIMED) else None
    try:
        for each in (worker, other):
            if each is not None:
                each.ask("names", source)
        for name in reaching:
            row = {"with": usual[name] if other is None else _measured(other, name, on, "measure")}
            row["without"] = _measured(worker, name, off, "measure")
            row["with"] = {key: value for key, value in row["with"].items() if key != "files"}
            if other is not None and rounds and source in TIMED and "error" not in row["without"]:
                _add_times(row, ((worker, off), (other, on)), name, rounds)
            found[name] = row
            if row["without"].get("died"):
                worker = Worker(mechanism)
                worker.ask("names", source)
    finally:
        worker.close()
        if other is not None:
            other.close()
    return found


def _measured(worker: Worker, name: str, options: Any, what: str) -> dict[str, Any]:
    try:
        measured: dict[str, Any] = worker.ask(what, name, dict(options))
        return measured
    except RuntimeError as error:
        return {"error": str(error)}
    except EOFError:
        return {"error": "the process has died", "died": True}


def _add_times(row: dict[str, Any], asked: Sequence[tuple[Worker, dict[str, Any]]], name: str, rounds: int) -> None:
    """Add processor time without over that with, in turns: of the first minibatches, and of later ones.

    asked: the process without the mechanism and that with it, each with its options.
    """
    try:
        row["first"] = _in_turns([(worker, ("start", name, options)) for worker, options in asked], STARTS)
        row["later"] = _in_turns([(worker, ("seconds",)) for worker, _ in asked], rounds)
    except (RuntimeError, EOFError) as error:
        row["untimed"] = str(error)


def _in_turns(asked: Sequence[tuple[Worker, tuple[Any, ...]]], rounds: int) -> dict[str, float]:
    """Return what the first of two processes says over what the second says: the median, and the lower quartile."""
    ratios = []
    for number in range(rounds):
        found = [worker.ask(*what) for worker, what in (asked if number % 2 else asked[::-1])]
        ratios.append(found[0] / found[1] if number % 2 else found[1] / found[0])
    return {"median": median(ratios), "low": sorted(ratios)[len(ratios) // 4]}


def _note_place(path: Path) -> None:
    """Note with the figures by which version of the library, and where, they are measured."""
    known = json.loads(path.read_text(encoding="utf-8")) if path.exists() else []
    commit = subprocess.run(["git", "rev-parse", "--short=8", "HEAD"], cwd=ROOT, capture_output=True, text=True)
    now = {"commit": commit.stdout.strip(), **environment()}
    for changing in ("affinity", "omp_num_threads", "gluonjit", "gluonnlp"):
        del now[changing]
    if now not in known:
        write_json(path, [*known, now])


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m experiments.mechanisms", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument(
        "--rounds", type=whole, default=0, metavar="N", help="minibatches timed in turns (default: none)"
    )
    parser.add_argument("--match", default="", metavar="TEXT", help="only mechanisms whose name contains this")
    parser.add_argument(
        "--sources", type=lambda text: names(text, SOURCES, "source"), default=SOURCES, help="parts of the collection"
    )
    parser.add_argument("--folder", type=Path, default=FOLDER, help="where figures are kept (results/mechanisms)")
    parser.add_argument("--fresh", action="store_true", help="forget earlier figures")
    return parser
