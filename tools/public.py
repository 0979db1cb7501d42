"""Write down what users may rely on: `python -m tools.public [--write]`.

What counts as public: the names of `gluonjit` with their parameters and defaults, the options with their values, the
methods and keys of a report, error and warning classes, and the commands of `python -m gluonjit`. The committed
snapshot is `tests/core/public.json`; `tests/core/test_public.py` fails where the library differs from it. Without
`--write` the command prints the differences. With it, additions are entered, and what is no longer there moves to the
list "gone": the test then wants an error of the library for it that says what to use instead.
"""

from __future__ import annotations

import argparse
import dataclasses
import inspect
import json
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import gluonjit
from gluonjit.__main__ import _parser
from gluonjit.hybrid import options

SNAPSHOT = Path(__file__).resolve().parents[1] / "tests" / "core" / "public.json"
# Of the many methods of these, those that the documentation names.
METHODS = {
    gluonjit.Batch: ("flush", "report", "save_trace"),
    gluonjit.Report: ("lower_bound", "predicted", "steps", "to_chrome_trace", "to_dict", "to_dot", "to_json"),
}
INTERNAL = {"Batch.flush(reason)", "Batch.flush(middle)", "Batch.flush(removed)"}

Entries = dict[str, str]


def public() -> Entries:
    """Return an entry for everything public, such as "parameter add_n(arrays)": "required"."""
    found = dict(entry for part in (_names, _options, _errors, _report, _commands) for entry in part())
    return dict(sorted(found.items()))


def read() -> tuple[Entries, Entries]:
    """Return the snapshot: what is public, and what once was."""
    known = json.loads(SNAPSHOT.read_text(encoding="utf-8"))
    return known["public"], known["gone"]


def differences(known: Entries, now: Entries) -> list[str]:
    """Return a line for each entry that was added, removed or changed."""
    return [
        f"{name}: {known.get(name, '(none)')} -> {now.get(name, '(none)')}"
        for name in sorted({*known, *now})
        if known.get(name) != now.get(name)
    ]


def _names() -> Iterator[tuple[str, str]]:
    for name in gluonjit.__all__:
        found = getattr(gluonjit, name)
        yield f"name {name}", _sort(found)
        if inspect.isfunction(found):
            yield from _parameters(name, found)
    yield "name nn.sum_over", "function"
    yield from _parameters("nn.sum_over", gluonjit.nn.sum_over)
    yield from _methods("Batch", gluonjit.Batch)
    yield from _methods("Report", gluonjit.Report)


def _sort(found: Any) -> str:
    return "class" if inspect.isclass(found) else "module" if inspect.ismodule(found) else "function"


def _methods(owner: str, type_: type) -> Iterator[tuple[str, str]]:
    for name in METHODS[type_]:
        found = inspect.getattr_static(type_, name, None)
        yield f"method {owner}.{name}", "function" if inspect.isfunction(found) else "value"
        if inspect.isfunction(found):
            yield from _parameters(f"{owner}.{name}", found)


def _parameters(owner: str, function: Any) -> Iterator[tuple[str, str]]:
    for parameter in inspect.signature(function).parameters.values():
        if parameter.name != "self" and f"{owner}({parameter.name})" not in INTERNAL:
            default = "required" if parameter.default is parameter.empty else repr(parameter.default)
            any_number = parameter.kind in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL)
            yield f"parameter {owner}({parameter.name})", "any" if any_number else default


def _options() -> Iterator[tuple[str, str]]:
    for option in dataclasses.fields(gluonjit.Options):
        yield f"option {option.name}", repr(option.default)
        wanted = options._RULES[option.name][1]
        if wanted.startswith("must be one of"):
            for value in re.findall(r"'(\w+)'", wanted):
                yield f"value {option.name}={value}", "accepted"
    for name in gluonjit.Options.SWITCHES:
        yield f"value without={name}", "accepted"
    for name in gluonjit.Options.SCHEDULERS:
        yield f"name Options.SCHEDULERS.{name}", "offered"


def _errors() -> Iterator[tuple[str, str]]:
    for name, found in vars(gluonjit.errors).items():
        if inspect.isclass(found):
            yield f"error {name}", ", ".join(base.__name__ for base in found.__bases__)


def _report() -> Iterator[tuple[str, str]]:
    known = gluonjit.Report().to_dict()
    for name, value in known.items():
        yield f"key {name}", type(value).__name__
        if isinstance(value, dict):
            yield from ((f"key {name}.{inner}", type(each).__name__) for inner, each in value.items())


def _commands() -> Iterator[tuple[str, str]]:
    for action in _parser()._actions:
        for name, command in (action.choices or {}).items() if isinstance(action.choices, dict) else ():
            for argument in command._actions:
                label = argument.option_strings[-1] if argument.option_strings else argument.dest
                if label != "--help":
                    yield f"command {name} {label}", repr(argument.default)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; 1 where the snapshot differs and is not written."""
    parser = argparse.ArgumentParser(prog="python -m tools.public", description=__doc__.partition("\n")[0])
    parser.add_argument("--write", action="store_true", help="make the snapshot what is public now")
    chosen = parser.parse_args(arguments)
    now = public()
    known, gone = read() if SNAPSHOT.exists() else ({}, {})
    found = differences(known, now)
    print("\n".join(found) or f"{len(now)} entries, as in {SNAPSHOT.name}")
    if chosen.write:
        gone = {name: value for name, value in {**gone, **known}.items() if name not in now}
        text = json.dumps({"public": now, "gone": dict(sorted(gone.items()))}, indent=1)
        SNAPSHOT.write_text(text + "\n", encoding="utf-8")
    return 1 if found and not chosen.write else 0


if __name__ == "__main__":
    sys.exit(main())
