"""Arguments of commands, and their exits. Unreadable arguments are argparse errors."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any


def whole(text: str, least: int = 0) -> int:
    """Read an integer."""
    try:
        value = int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not an integer") from None
    if value < least:
        raise argparse.ArgumentTypeError(f"{text} is less than {least}")
    return value


def count(text: str) -> int:
    """Read an integer of at least 1."""
    return whole(text, 1)


def counts(text: str) -> tuple[int, ...]:
    """Read a comma-separated list of integers of at least 1."""
    return tuple(count(part.strip()) for part in text.split(","))


def seconds(text: str) -> float:
    """Read a positive duration."""
    try:
        value = float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds") from None
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text} is not a positive number of seconds")
    return value


def names(text: str, known: Sequence[str], what: str) -> tuple[str, ...]:
    """Read a comma-separated list of distinct names out of `known`; `what` is the word for one, for errors."""
    found = tuple(name.strip() for name in text.split(","))
    for name in found:
        if name not in known:
            raise argparse.ArgumentTypeError(f"no {what} is called {name!r}; the {what}s are {', '.join(known)}")
    if len(set(found)) != len(found):
        raise argparse.ArgumentTypeError(f"a {what} is named twice in {text}")
    return found


def again(module: str, engine: str, given: Mapping[str, tuple[Any, Any]]) -> str:
    """Return the command that measures the same again; `given` has each option's value and its default."""
    chosen = "".join(f" --{name} {value}" for name, (value, usual) in given.items() if value != usual)
    return f"python -m experiments.{module} --engine {engine}{chosen}"


def add_data(parser: argparse.ArgumentParser, folder: str = "the data sets", samples: str = "samples") -> None:
    """Add where the samples are, and how many of them are used."""
    parser.add_argument("--data-dir", metavar="DIR", help=f"the folder of {folder} (or GLUONJIT_DATA)")
    parser.add_argument("--limit", type=count, metavar="N", help=f"use only the first N {samples}")


def ended(run: Callable[[], Sequence[str]], *errors: type[Exception]) -> int:
    """Run a command that returns faults; return the exit code: 0 for none, 1 for faults or errors, 130 for Ctrl-C."""
    try:
        faults = run()
    except KeyboardInterrupt:
        print("\ninterrupted; nothing was written", file=sys.stderr)
        return 130
    except errors as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    for fault in faults:
        print(f"fault: {fault}", file=sys.stderr)
    return 1 if faults else 0
