"""Something to compare that hangs, crashes or differs as its name says."""

from __future__ import annotations

import os
from collections.abc import Callable

from experiments.conformance.outcome import Finding, Record


def prepare() -> None:
    """Nothing has to be set."""


def check(group: str, name: str, samples: int, at: Callable[[str], None]) -> Record:
    """Do what the name says."""
    at(f"case of {name}")
    if name == "crashes":
        os._exit(3)
    while name == "hangs":
        pass
    findings = [Finding("case", "value", "1 instead of 2")] if name == "differs" else []
    return Record(name, cases=samples, equal=samples - len(findings), findings=findings)
