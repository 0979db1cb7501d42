"""The page about the zoo, and the lines of its tables: by engine, by model."""

from __future__ import annotations

import re
from pathlib import Path

from experiments.bench.page import markers
from experiments.zoo.cli import ENGINES

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "zoo.md").read_text(encoding="utf-8")


def _lines(engine: str) -> dict[str, str]:
    begin, end = [PAGE.index(marker) for marker in markers(engine)]
    return dict(re.findall(r"^(?=\| `([\w-]+)` \|)(.*)$", PAGE[begin:end], flags=re.MULTILINE))


LINES = {engine: _lines(engine) for engine in ENGINES}
