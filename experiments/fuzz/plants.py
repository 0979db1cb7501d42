"""Faults to build into gluonjit on purpose: a fuzzer that finds none of them finds nothing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import gluonjit
from experiments.fuzz.framework import Framework


@contextmanager
def planted(framework: Framework, name: str | None) -> Iterator[None]:
    """Build a fault in for a region; None builds in none."""
    patches = framework.plants[name]() if name else []
    originals = [(owner, what, getattr(owner, what)) for owner, what, _ in patches]
    gluonjit.clear_caches()
    for owner, what, replacement in patches:
        setattr(owner, what, replacement)
    try:
        yield
    finally:
        for owner, what, original in originals:
            setattr(owner, what, original)
        gluonjit.clear_caches()
