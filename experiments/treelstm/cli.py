"""The command line: `train`, `compare` and `agree`. Nothing heavy is imported before it is understood."""

from __future__ import annotations

import argparse
import logging
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from experiments.bench.arguments import add_data, count, names, seconds, whole
from experiments.bench.engines import ENGINES
from experiments.bench.environment import limit_threads
from experiments.treelstm import MODES

DATA = ("builtin", "sick")
ALL_MODES = tuple(dict.fromkeys(mode for modes in MODES.values() for mode in modes))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; 0 is success, 1 an explained failure, 2 bad arguments or checkpoints, 130 an interruption."""
    logging.basicConfig(format="%(message)s", level=logging.INFO)
    parser = _parser()
    options = parser.parse_args(arguments)
    if getattr(options, "resume", False) and not options.checkpoint:
        parser.error("--resume needs --checkpoint DIR, the folder of the run to go on with")
    _check_modes(parser, options)
    limit_threads(options.threads)
    try:
        return options.run(options)
    except KeyboardInterrupt:
        more = "; a run with --checkpoint goes on after its last whole epoch with --resume"
        print("\ninterrupted" + (more if options.run is _train else "; nothing was written"))
        return 130
    except _explained() as error:
        from experiments.treelstm.checkpoint import DamagedCheckpoint

        print(f"error: {error}", file=sys.stderr)
        return 2 if isinstance(error, DamagedCheckpoint) else 1
    except OSError as error:
        place = f"{error.filename}: " if error.filename is not None else ""
        print(f"error: {place}{error.strerror or error}; choose another place", file=sys.stderr)
        return 1


def _explained() -> tuple[type[Exception], ...]:
    """Return the faults that are a user's to mend, so that their message is enough."""
    from experiments.bench.agreement import Disagreement
    from experiments.bench.base import MissingSystem
    from experiments.data.errors import DataError
    from experiments.treelstm.checkpoint import CheckpointError

    return DataError, Disagreement, CheckpointError, MissingSystem


def _train(options: argparse.Namespace) -> int:
    from experiments.treelstm.train import Outputs, Setting, train

    setting = Setting(
        options.mode, options.data, options.epochs, options.batch_size, options.seed, options.limit, options.engine
    )
    outputs = Outputs(options.data_dir, options.checkpoint, options.resume, options.json)
    result = train(setting, outputs)
    print(
        f"test: Pearson {result['test_pearson']:.4f}, Spearman {result['test_spearman']:.4f}, "
        f"MSE {result['test_mse']:.4f}"
    )
    return 0


def _compare(options: argparse.Namespace) -> int:
    from experiments.treelstm.compare import Comparison, compare

    compare(
        Comparison(
            options.data,
            options.modes,
            options.batch_size,
            options.repeats,
            options.seed,
            options.seconds,
            options.limit,
            options.data_dir,
            options.json,
            options.plot,
            options.engine,
        )
    )
    return 0


def _agree(options: argparse.Namespace) -> int:
    from experiments.treelstm.agree import Agreement, agree

    result = agree(
        Agreement(
            options.data,
            options.systems,
            options.batches,
            options.batch_size,
            options.seed,
            options.limit,
            options.data_dir,
            options.json,
            options.engine,
        )
    )
    print("they agree" if result["agree"] else "they do not agree")
    return 0 if result["agree"] else 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m experiments.treelstm", description=__doc__)
    commands = parser.add_subparsers(required=True, metavar="command")
    train = _command(commands, "train", _train, "train one mode and test it")
    train.add_argument("--mode", choices=ALL_MODES, required=True)
    train.add_argument("--epochs", type=count, required=True)
    train.add_argument("--checkpoint", type=Path, metavar="DIR", help="keep the run here, epoch by epoch")
    train.add_argument("--resume", action="store_true", help="go on where --checkpoint ends")
    train.set_defaults(batch_size=25)
    compare = _command(commands, "compare", _compare, "throughput of several modes side by side")
    compare.add_argument("--modes", type=_modes, help="comma-separated: " + _listed())
    compare.add_argument("--repeats", type=count, default=5)
    compare.add_argument("--seconds", type=seconds, default=1.0, help="of each measurement, about")
    compare.add_argument("--plot", type=Path, metavar="PATH", help="draw the results here")
    compare.set_defaults(batch_size=256)
    agree = _command(commands, "agree", _agree, "whether modes compute what the imperative program does")
    agree.add_argument("--systems", type=_modes, default=("dynamic",), help="comma-separated modes")
    agree.add_argument("--batches", type=count, default=20)
    agree.set_defaults(batch_size=25)
    return parser


def _command(
    commands: argparse._SubParsersAction, name: str, run: Callable[[argparse.Namespace], int], text: str
) -> argparse.ArgumentParser:
    """Add a command with the options that all have."""
    command: argparse.ArgumentParser = commands.add_parser(name, help=text, description=text)
    command.add_argument("--engine", choices=ENGINES, default=ENGINES[0])
    command.add_argument("--data", choices=DATA, default="builtin", help="builtin is generated and synthetic")
    add_data(command, "sick/ and glove/", "pairs of each split")
    command.add_argument("--batch-size", type=count)
    command.add_argument("--seed", type=whole, default=0)
    command.add_argument("--json", type=Path, metavar="PATH", help="write the results here")
    command.add_argument("--threads", type=count, help="threads of an operator (else OMP_NUM_THREADS, else 1)")
    command.set_defaults(run=run)
    return command


def _modes(text: str) -> tuple[str, ...]:
    return names(text, ALL_MODES, "mode")


def _listed() -> str:
    """Name the modes of each engine."""
    return "; ".join(f"{', '.join(modes)} on {engine}" for engine, modes in MODES.items())


def _check_modes(parser: argparse.ArgumentParser, options: argparse.Namespace) -> None:
    """Refuse modes that the engine has not; without any, `compare` takes the first four."""
    if "modes" in options and options.modes is None:
        options.modes = MODES[options.engine][:4]
    asked = [options.mode] if "mode" in options else options.modes if "modes" in options else options.systems
    for mode in asked:
        if mode not in MODES[options.engine]:
            parser.error(f"no mode is called {mode!r} on {options.engine}; the modes are {_listed()}")
