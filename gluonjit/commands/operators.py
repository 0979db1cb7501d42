"""``python -m gluonjit rules``: how each operator runs for many samples at once."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Any

from gluonjit.hybrid.explain.listing import as_markdown, as_text

ENGINES = {"mxnet": "MXNet", "torch": "PyTorch"}
_COMMAND = "python -m gluonjit rules"


def main(kind: str | None = None, names: Sequence[str] = (), markdown: bool = False, engine: str | None = None) -> int:
    """Prints the tables of operator rules, of one engine or of those that are installed.

    Returns 1 where none of them can be imported, 2 for an operator or a kind that none of them has.
    """
    wanted = [engine] if engine else [name for name in ENGINES if _installed(name)] or list(ENGINES)
    if markdown and len(wanted) > 1:
        return _fail(2, f"--markdown prints the page of one engine: add --engine {' or --engine '.join(wanted)}")
    listings = {name: listing for name in wanted if (listing := _listing(name)) is not None}
    if not listings:
        return 1
    found, wrong = _select(listings, kind, names)
    if wrong:
        return _fail(2, *wrong)
    for name, rows in found.items():
        if markdown:
            print(as_markdown(rows, listings[name].PAGE))
            continue
        if len(found) > 1:
            print(f"{ENGINES[name]}:")
        print(as_text(rows))
    return 0


def _installed(engine: str) -> bool:
    try:
        return importlib.util.find_spec(engine) is not None
    except ImportError:
        return False


def _listing(engine: str) -> Any:
    """The module that lists an engine's rules, or None, and why is said."""
    try:
        import_module(engine)
        return import_module(f"gluonjit.engines.{engine}.operators.listing")
    except (ImportError, OSError) as error:
        _fail(
            1,
            f"the rules are those of {ENGINES[engine]}'s operators, but {engine} cannot be imported ("
            f"{type(error).__name__}: {error}). Next: pip install 'gluonjit[{engine}]', then python -m gluonjit "
            "doctor.",
        )
        return None


def _select(listings: dict[str, Any], kind: str | None, names: Sequence[str]) -> tuple[dict[str, list[Any]], list[str]]:
    """The lines of each engine that has any; what is wrong with names, or a kind, that no engine knows."""
    found: dict[str, list[Any]] = {engine: [] for engine in listings}
    wrong: list[str] = []
    asked: list[str | None] = [*names] if names else [None]
    for name in asked:
        errors = []
        for engine, listing in listings.items():
            try:
                found[engine] += listing.select(kind, [name] if name else [])
            except LookupError as error:
                errors.append(str(error.args[0]))
        if len(errors) == len(listings):
            wrong += errors
    return {engine: sorted(set(rows)) for engine, rows in found.items() if rows}, wrong


def _fail(code: int, *lines: str) -> int:
    for line in lines:
        print(f"{_COMMAND}: {line}", file=sys.stderr)
    return code
