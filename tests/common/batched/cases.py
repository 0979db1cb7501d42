"""Which rule cases batch: an operator's row has the cases in one launch, and those of them for any number of rows."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from batched.committed import Committed, Differences, Rows

ALONE, ONE_LAUNCH, ANY_ROWS = "alone", "one launch", "any rows"
RANKS = {ALONE: 0, ONE_LAUNCH: 1, ANY_ROWS: 2}


def rows_of(cases: Iterable[tuple[str, str, str]]) -> Rows:
    """Return rows of operators, cases of theirs, and how these run; of equal cases the one that runs worst."""
    found: dict[str, dict[str, str]] = {}
    for operator, case, how in cases:
        known = found.setdefault(operator, {})
        known[case] = min(how, known.get(case, how), key=RANKS.__getitem__)
    return {
        operator: {name: [case for case in known if known[case] == name] for name in RANKS if name in known.values()}
        for operator, known in found.items()
    }


def differences(before: Rows, now: Rows) -> Differences:
    """Return cases that run worse than committed, better, and new ones."""
    found = Differences([], [], [])
    known, today = _by_case(before), _by_case(now)
    for case, how in known.items():
        then, there = RANKS[how], today.get(case)
        if there is None:
            found.worse.append(f"{case}: there is no such case, and it was {how}")
        elif RANKS[there] != then:
            (found.worse if RANKS[there] < then else found.better).append(f"{case}: {there}, not {how}")
    found.new.extend(f"{case}: {how}, and not committed" for case, how in today.items() if case not in known)
    return found


def _by_case(rows: Rows) -> dict[str, str]:
    return {f"{operator}{case}": how for operator, row in rows.items() for how, cases in row.items() for case in cases}


def committed(engine: str) -> Committed:
    """Return the file of an engine."""
    return Committed(Path(__file__).with_name(f"{engine}.json"), differences)
