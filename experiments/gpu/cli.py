"""Measure the PyTorch models on a GPU: gluonjit, batched by hand, and sample by sample; training and inference."""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import NamedTuple

from experiments.bench.arguments import count, counts, names, seconds, whole
from experiments.gpu import BATCH_SIZES, HIDDEN, SYSTEMS, WORKLOADS


class Sizes(NamedTuple):
    """The measurements of a run where nothing else is asked."""

    hidden: tuple[int, ...]
    batch_sizes: tuple[int, ...]
    repeats: int


WHOLE, QUICK = Sizes(HIDDEN, BATCH_SIZES, 5), Sizes((16,), (8,), 1)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run; 0 is success, 1 a failure that is explained, 2 bad arguments, 130 an interruption."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    options = _parser().parse_args(given)
    began = perf_counter()
    try:
        import torch
    except ImportError as error:
        print(f"error: {error}; install PyTorch for the device, for example pip install torch", file=sys.stderr)
        return 1
    if options.device.startswith("cuda") and not torch.cuda.is_available():
        print(
            f"error: --device {options.device}, but PyTorch {torch.__version__} finds no GPU; "
            "install a build for CUDA, or try --device cpu --quick",
            file=sys.stderr,
        )
        return 1
    for backend in (torch.backends.cuda.matmul, torch.backends.cudnn):
        backend.allow_tf32 = options.tf32
    return _run(options, shlex.join(["python", "-m", "experiments.gpu", *given]), began)


def _run(options: argparse.Namespace, command: str, began: float) -> int:
    """Measure, show and save."""
    from experiments.bench.files import write_json
    from experiments.data.errors import DataError
    from experiments.gpu.measuring import Wanted, run
    from experiments.gpu.report import draw, result_of, table

    usual = QUICK if options.quick else WHOLE
    wanted = Wanted(
        options.device,
        options.workloads,
        options.hidden or usual.hidden,
        options.batch_size or usual.batch_sizes,
        options.systems,
        options.repeats or usual.repeats,
        options.minutes,
        options.seed,
        options.quick,
        options.data_dir,
    )
    try:
        result = result_of(wanted, run(wanted), command, perf_counter() - began)
    except KeyboardInterrupt:
        print("\ninterrupted; nothing was written", file=sys.stderr)
        return 130
    except DataError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    print(table(result))
    if options.json:
        write_json(options.json, result)
    if options.plot:
        said = draw(result, options.plot)
        if said:
            print(said)
    wrong = [found for found in result["correctness"] if not found["agrees"]]
    if wrong:
        print(f"error: {len(wrong)} systems disagree with the CPU", file=sys.stderr)
    return 1 if wrong else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m experiments.gpu", description=__doc__)
    parser.add_argument("--device", default="cuda", help="a PyTorch device; cpu only tries the command")
    parser.add_argument("--quick", action="store_true", help="small sizes, one repeat")
    parser.add_argument("--minutes", type=seconds, default=7.5, help="time after which no new sizes start")
    _names(parser, "--workloads", WORKLOADS, "workload")
    _names(parser, "--systems", SYSTEMS, "system")
    parser.add_argument("--hidden", type=counts, metavar="N,N,...", help=f"hidden sizes, {_shown(HIDDEN)}")
    parser.add_argument("--batch-size", type=counts, metavar="N,N,...", help=f"{_shown(BATCH_SIZES)}")
    parser.add_argument("--repeats", type=count, help="timed minibatches per system (5)")
    parser.add_argument("--tf32", action="store_true", help="allow TF32 products in all systems")
    parser.add_argument("--data-dir", metavar="DIR", help="the folder of the data sets (or GLUONJIT_DATA)")
    parser.add_argument("--seed", type=whole, default=0)
    parser.add_argument("--json", type=Path, metavar="PATH", help="write the rows to this file")
    parser.add_argument(
        "--plot", type=Path, metavar="PATH", help="write the figure to this file, if matplotlib is installed"
    )
    return parser


def _names(parser: argparse.ArgumentParser, option: str, known: Sequence[str], what: str) -> None:
    parser.add_argument(
        option, type=partial(names, known=known, what=what), default=tuple(known), help=f"of {', '.join(known)}; all"
    )


def _shown(sizes: Sequence[int]) -> str:
    return f"{', '.join(map(str, sizes))} by default"
