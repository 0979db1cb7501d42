"""The command line. Nothing heavy is imported before it is understood."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from fnmatch import fnmatchcase
from importlib import import_module
from pathlib import Path

from experiments.bench.arguments import count
from experiments.bench.engines import ENGINES
from experiments.bench.environment import limit_threads
from experiments.conformance.outcome import Record
from experiments.conformance.run import Results, Setting, compare_all
from experiments.conformance.table import line, sorted_out, table


def main(arguments: Sequence[str] | None = None) -> int:
    """Compare; 0 is no difference, 1 differences or no file, 2 bad arguments, 130 Ctrl-C without them."""
    options = _parser().parse_args(arguments)
    limit_threads()
    setting = Setting(options.engine, options.samples, options.seconds, options.memory)
    results = Results(options.results, setting)
    try:
        records = results.read() if options.resume or options.summary else []
        interrupted = False if options.summary else _compare(options, setting, results, records)
    except (OSError, ValueError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    print(f"\n{table(records, options.engine)}")
    if sorted_out(records, options.engine)[0]:
        return 1
    return 130 if interrupted else 0


def _compare(options: argparse.Namespace, setting: Setting, results: Results, records: list[Record]) -> bool:
    """Compare what is named and not yet known, into `records` and the file; True after Ctrl-C."""
    known = {record.name for record in records}
    wanted = _names(options)
    left = [name for name in wanted if name not in known]
    print(f"{len(left)} of {len(wanted)} to compare, {options.jobs} at once; results in {results.path}", flush=True)
    with results.open(options.resume) as file:
        try:
            for number, record in enumerate(compare_all(left, setting, options.jobs), 1):
                file.write(record.to_line())
                records.append(record)
                print(line(record, options.engine, number, len(left)), flush=True)
        except KeyboardInterrupt:
            print("\ninterrupted; --resume goes on", file=sys.stderr)
            return True
    return False


def _names(options: argparse.Namespace) -> list[str]:
    engine = import_module(f"experiments.conformance.on_{options.engine}")
    groups = options.groups or engine.GROUPS
    unknown = [group for group in groups if group not in engine.GROUPS]
    if unknown:
        raise ValueError(f"no group is called {unknown[0]!r}; the groups of {options.engine} are {engine.GROUPS}")
    found = [f"{group} {name}" for group in groups for name in engine.names(group, options.chains)]
    patterns = options.names
    if patterns:
        found = [name for name in found if any(fnmatchcase(name.split(" ", 1)[1], pattern) for pattern in patterns)]
    if not found:
        raise ValueError(f"nothing matches {' '.join(patterns or groups)}")
    part, parts = options.part
    return found[part::parts]


def _part(text: str) -> tuple[int, int]:
    part, _, parts = text.partition("/")
    if not (part.isdigit() and parts.isdigit() and 0 <= int(part) < int(parts)):
        raise argparse.ArgumentTypeError(f"{text!r} is not I/N with I from 0 to N - 1")
    return int(part), int(parts)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m experiments.conformance", description=__doc__)
    parser.add_argument("--engine", choices=ENGINES, default="torch")
    parser.add_argument("--groups", nargs="+", metavar="GROUP", help="operator, module, chain (torch); all otherwise")
    parser.add_argument("--names", nargs="+", metavar="PATTERN", help='only these, such as "nn.functional.*"')
    parser.add_argument("--samples", type=count, default=2, metavar="N", help="inputs of each operator")
    parser.add_argument("--chains", type=count, default=300, metavar="N", help="random chains of operators")
    parser.add_argument("--part", type=_part, default=(0, 1), metavar="I/N", help="every N-th name from the I-th on")
    parser.add_argument("--jobs", type=count, default=1, metavar="N", help="processes at once")
    parser.add_argument("--seconds", type=count, default=120, metavar="S", help="of computing for one name, at most")
    parser.add_argument("--memory", type=count, default=12, metavar="GB", help="of a process's addresses, at most")
    parser.add_argument(
        "--results", type=Path, default=Path("results/conformance.jsonl"), metavar="FILE", help="a line for each name"
    )
    parser.add_argument("--resume", action="store_true", help="leave out what the file of results holds")
    parser.add_argument("--summary", action="store_true", help="print the table of the file, and run nothing")
    return parser
