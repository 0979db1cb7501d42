"""The table of a run, and the list of what differs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from experiments.conformance.compare import SILENT
from experiments.conformance.exceptions import Exempt, exempt
from experiments.conformance.outcome import Finding, Record

COLUMNS = ("names", "cases", "equal", "refused alike", "batched", "silent", "loud", "exceptions", "skipped")


def line(record: Record, engine: str, number: int, count: int) -> str:
    """One line about an operator."""
    kinds = Counter(finding.kind for finding in record.findings if not exempt(engine, record.name, finding))
    said = ", ".join(f"{count} {kind}" for kind, count in kinds.items()) or "equal"
    return f"{number}/{count} {record.name}: {said} ({record.cases} cases, {record.seconds} s)"


def sorted_out(records: Sequence[Record], engine: str) -> tuple[list[tuple[Record, Finding]], Counter[Exempt]]:
    """Findings that no exception documents, and how often each exception came."""
    left: list[tuple[Record, Finding]] = []
    exempted: Counter[Exempt] = Counter()
    for record in records:
        for finding in record.findings:
            known = exempt(engine, record.name, finding)
            if known is None:
                left.append((record, finding))
            else:
                exempted[known] += 1
    return left, exempted


def table(records: Sequence[Record], engine: str) -> str:
    """A Markdown table, a row for each group of names; then exceptions, then what differs."""
    groups: dict[str, list[Record]] = {}
    for record in records:
        groups.setdefault(record.name.split(" ")[0], []).append(record)
    rows = [_row(name, group, engine) for name, group in groups.items()]
    rows.append(_row("all", records, engine)) if len(groups) > 1 else None
    lines = [f"| | {' | '.join(COLUMNS)} |", f"| --- |{' ---: |' * len(COLUMNS)}", *rows]
    left, exempted = sorted_out(records, engine)
    lines += [""] * bool(exempted) + [f"{count} x {each.names}: {each.reason}" for each, count in exempted.items()]
    lines += [""] * bool(left) + [f"{r.name}, {f.case}: {f.kind}: {f.text}" for r, f in left]
    return "\n".join(lines)


def _row(name: str, records: Sequence[Record], engine: str) -> str:
    left, exempted = sorted_out(records, engine)
    silent = sum(finding.kind in SILENT for _, finding in left)
    figures = (
        *(len(records), sum(r.cases for r in records), sum(r.equal for r in records)),
        *(sum(r.refused for r in records), sum(r.batched for r in records)),
        *(silent, len(left) - silent, sum(exempted.values()), sum(not r.cases for r in records)),
    )
    return f"| {name} | {' | '.join(map(str, figures))} |"
