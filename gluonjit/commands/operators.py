"""``python -m gluonjit rules``: how each operator runs for many samples at once."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Any

from gluonjit.commands import failed
from gluonjit.hybrid.explain.listing import as_markdown, as_text
from gluonjit.install.compat import is_found

ENGINES = {"mxnet": "MXNet", "torch": "PyTorch"}


def main(kind: str | None = None, names: Sequence[str] = (), markdown: bool = False, engine: str | None = None) -> int:
    """Prints the tables of operator rules, of one engine or of those that are installed.

    Returns 1 where none of them can be imported, 2 for an operator or a kind that none of them has.
    """
    wanted = [engine] if engine else [name for name in ENGINES if is_found(name)] or list(ENGINES)
    if markdown and len(wanted) > 1:
        engines = " or --engine ".join(wanted)
        return failed("rules", f"--markdown prints the page of one engine: add --engine {engines}", code=2)
    listings = {name: listing for name in wanted if (listing := _listing(name)) is not None}
    if not listings:
        return 1
    found, wrong = _select(listings, kind, names)
    if wrong:
        return failed("rules", *wrong, code=2)
    for name, rows in found.items():
        if markdown:
            print(as_markdown(rows, listings[name].PAGE))
            continue
        if len(found) > 1:
            print(f"{ENGINES[name]}:")
        print(as_text(rows))
    return 0


def _listing(engine: str) -> Any:
    """The module that lists an engine's rules, or None, and why is said."""
    try:
        import_module(engine)
        return import_module(f"gluonjit.engines.{engine}.listing")
    except (ImportError, OSError) as error:
        failed(
            "rules",
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
