"""Runs many cases, one after the other, and collects the findings."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field
from threading import Timer
from typing import Any

from tqdm import tqdm

import gluonjit
from experiments.fuzz.case import Case
from experiments.fuzz.counts import Counts, counting
from experiments.fuzz.framework import framework
from experiments.fuzz.habits import draw_side_by_side, draw_with_habits
from experiments.fuzz.judge import Judge, Verdict
from experiments.fuzz.plants import planted
from experiments.fuzz.script import script
from experiments.fuzz.shrink import shrink


@dataclass
class Failure:
    """A case that differs: its number, the kind of difference, what differs, and the shrunk program."""

    case: int
    kind: str
    message: str
    program: str


@dataclass
class Findings:
    """Counts of runs and findings; `as_json` is written to the file."""

    seed: int
    cases: int = 0
    discarded: int = 0
    failures: list[Failure] = field(default_factory=list)
    counts: Counts = field(default_factory=Counts)
    interrupted: bool = False

    def as_json(self) -> dict[str, Any]:
        """The findings as plain data."""
        return {
            "cases": self.cases,
            "failures": [asdict(failure) for failure in self.failures],
            "operators": dict(sorted(self.counts.operators.items())),
            "nodes": self.counts.nodes,
            "nodes_batched": self.counts.nodes_batched,
            "discarded": self.discarded,
            "seed": self.seed,
        }


@dataclass(frozen=True)
class Setting:
    """A run to make: the cases of a seed, with a planted fault or none.

    seconds: for shrinking one failure; most: failures after which to stop, None for never; without: habits
    to leave out; turns: whether every other stretch of calls runs eagerly; side: whether samples run side by side.
    """

    seed: int
    numbers: Iterable[int]
    plant: str | None = None
    seconds: float = 20.0
    most: int | None = None
    quiet: bool = False
    engine: str = "mxnet"
    without: tuple[str, ...] = ()
    turns: bool = False
    side: bool = False


HANGS = 120.0
"""Seconds after which a case is said to hang."""


def fuzz(
    setting: Setting,
    on_hang: Callable[[Findings], None] | None = None,
    on_failure: Callable[[Failure], None] | None = None,
) -> Findings:
    """Run the cases; an interruption ends the run and keeps the findings so far.

    A case that hangs does so inside a framework, where nothing can end it: `on_hang` gets what was found, and has to
    end the process. `on_failure` gets each failure when it has been cut down.
    """
    findings = Findings(setting.seed)
    chosen = framework(setting.engine)
    judge = Judge(chosen)
    bar = tqdm(setting.numbers, unit="case", leave=False, disable=True if setting.quiet else None)
    with planted(chosen, setting.plant):
        try:
            for number in bar:
                failure = examine(judge, setting, number, findings, on_hang)
                if failure is not None:
                    findings.failures.append(failure)
                    if on_failure is not None:
                        on_failure(failure)
                    bar.set_postfix(failures=len(findings.failures))
                    if setting.most is not None and len(findings.failures) >= setting.most:
                        break
        except KeyboardInterrupt:
            findings.interrupted = True
        finally:
            bar.close()
    return findings


def _hangs(case: Case, number: int, findings: Findings, on_hang: Callable[[Findings], None] | None) -> None:
    message = f"the case did not end within {HANGS:.0f} seconds; not shrunk"
    findings.failures.append(Failure(number, "hang", message, repr(case)))
    if on_hang is not None:
        on_hang(findings)


def examine(
    judge: Judge,
    setting: Setting,
    number: int,
    findings: Findings,
    on_hang: Callable[[Findings], None] | None = None,
) -> Failure | None:
    """Run one case and count it; a failure is shrunk."""
    if setting.side:
        case = draw_side_by_side(judge.framework.choices, setting.seed, number)
    else:
        case = draw_with_habits(judge.framework.choices, setting.seed, number, setting.without)
    if setting.turns:
        case = case._replace(way=case.way.turning(number))
    watch = Timer(HANGS, _hangs, (case, number, findings, on_hang))
    watch.daemon = True
    watch.start()
    try:
        with counting(findings.counts, judge.framework.operators()):
            verdict = judge.verdict(case)
    finally:
        watch.cancel()
    findings.cases += 1
    findings.discarded += verdict.kind == "discarded"
    if not verdict.failed:
        return None
    return explained(judge, case, number, verdict, setting.seconds)


def explained(judge: Judge, case: Case, number: int, verdict: Verdict, seconds: float) -> Failure:
    """The failure of a case with its smallest program."""

    def fails(candidate: Case) -> bool:
        return judge.verdict(candidate, fresh=True).kind == verdict.kind

    message = verdict.message
    if fails(case):
        case = shrink(case, fails, seconds)
        message = judge.verdict(case, fresh=True).message
    else:
        message += " (only after the cases before it: what they left in caches has a part in it; not shrunk)"
    gluonjit.clear_caches()
    rendered = judge.render(case)
    return Failure(
        number, verdict.kind, message, script(judge.framework, rendered, case.way.dtype, judge.tolerance(rendered))
    )
