"""Modules that are gone stay away, under another name too."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

from gone_modules import GONE, Gone

PACKAGE = Path(__file__).resolve().parents[2] / "gluonjit"
SHARE, LEAST = 0.5, 2  # a module that defines this share of a file's names, and this many, is that file


@cache  # each source is looked at once, not for each module that is gone
def definitions(source: str) -> set[str]:
    """The functions and classes at the top of a source."""
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    return {node.name for node in ast.parse(source).body if isinstance(node, kinds)}


def returned(gone: Gone, sources: dict[str, str]) -> list[str]:
    """Each path that is the one of a module that is gone, or that defines most of its names."""
    found = [path for path in sources if path == gone.path + ".py" or path.startswith(gone.path + "/")]
    for path, source in sources.items():
        if not path.startswith(gone.within):
            continue
        names = definitions(source)
        found += [path for old in gone.definitions if len(names & old) >= max(LEAST, SHARE * len(old))]
    return sorted(set(found))


def test_modules_that_are_gone_stay_away() -> None:
    sources = {path.relative_to(PACKAGE).as_posix(): path.read_text(encoding="utf-8") for path in PACKAGE.rglob("*.py")}
    assert len(sources) > 100
    assert {gone.path: returned(gone, sources) for gone in GONE if returned(gone, sources)} == {}


def test_every_file_has_names_to_be_known_by() -> None:
    assert all(len(names) >= LEAST for gone in GONE for names in gone.definitions)


def test_a_module_is_found_under_its_name_and_under_another() -> None:
    old, other = "class Player: ...\ndef play(): ...\ndef stop(): ...", "class Player: ...\ndef run(): ..."
    gone = Gone("engines/player", ("Player play stop",))
    assert returned(gone, {"engines/player.py": other}) == ["engines/player.py"]
    assert returned(gone, {"engines/player/plans.py": other}) == ["engines/player/plans.py"]
    assert returned(gone, {"rows/again.py": old, "rows/players.py": other}) == ["rows/again.py"]
    within = Gone("engines/player", ("Player play stop",), within="engines/")
    assert returned(within, {"program/player.py": old, "engines/torch/again.py": old}) == ["engines/torch/again.py"]


def test_the_fast_path_of_capture_is_not_in_c() -> None:
    here = {path.name for path in (PACKAGE / "native").iterdir() if path.suffix in {".c", ".h"}}
    assert here == {"slots.h", "stack.h", "tensors.c"}
