"""Names and docstrings: a class name has one meaning in the package, and docstrings begin plainly."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "gluonjit"
ENGINES = ("mxnet", "torch")
# Openings of subordinate clauses and adverbials: a docstring begins with a verb or a noun.
OPENINGS = frozenset(
    "Aside As At Because Beside Besides But By For From How If In Not Of On Since So That To What When Where Whether "
    "Which Who Whose Why With Without".split()
)


def classes(source: str) -> dict[str, set[str]]:
    """The public classes of a source, with the names of their bases."""
    return {
        node.name: {ast.unparse(base).split("[")[0].split(".")[-1] for base in node.bases}
        for node in ast.parse(source).body
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    }


def part(path: str) -> str:
    """The part that a file is of: engines have a file, or a folder, of one name for the same part."""
    first, *rest = Path(path).parts
    if first != "engines" or rest[0] not in ENGINES:
        return path
    return "/".join(["engines", *(rest[1:-1] or rest[1:])])


def derives(name: str, bases: set[str], all_bases: dict[str, set[str]]) -> bool:
    """Tell whether a class has one of this name among its ancestors."""
    seen: set[str] = set()
    while bases - seen:
        seen |= bases
        bases = set().union(*(all_bases[base] for base in bases))
    return name in seen


def clashes(sources: dict[str, str]) -> Iterator[str]:
    """The class names that stand for several things.

    Twins are one thing: a class of both engines in the same part, and an engine's that derives from the core's.
    """
    owners: dict[str, dict[str, set[str]]] = defaultdict(dict)
    all_bases: dict[str, set[str]] = defaultdict(set)
    for path, source in sources.items():
        for name, bases in classes(source).items():
            owners[name][path] = bases
            all_bases[name] |= bases
    for name, found in sorted(owners.items()):
        core = any(not path.startswith("engines/") for path in found)
        parts = {part(path) for path, bases in found.items() if not (core and derives(name, bases, all_bases))}
        if len(parts) > 1:
            yield f"{name}: {', '.join(sorted(found))}"


def test_a_class_name_has_one_meaning() -> None:
    sources = {path.relative_to(PACKAGE).as_posix(): path.read_text(encoding="utf-8") for path in PACKAGE.rglob("*.py")}
    assert len(sources) > 200
    assert not list(clashes(sources))


def test_two_meanings_are_found_and_twins_are_not() -> None:
    form, step, derived = "class Form: ...", "class Step: ...", "class Step(base.Step): ..."
    assert list(clashes({"rows/blocks.py": form, "analysis/forms.py": form})) == [
        "Form: analysis/forms.py, rows/blocks.py"
    ]
    assert len(list(clashes({"engines/torch/tape.py": form, "engines/torch/step.py": form}))) == 1
    assert len(list(clashes({"engines/torch/tape.py": step, "analysis/plan.py": step}))) == 1
    assert not list(clashes({"engines/torch/tape.py": form, "engines/mxnet/tape.py": form}))
    assert not list(clashes({"engines/torch/operators/rule.py": form, "engines/mxnet/operators/values.py": form}))
    assert not list(clashes({"engines/torch/tape.py": derived, "analysis/plan.py": step}))


def openings(source: str) -> Iterator[tuple[int, str]]:
    """The lines of classes and functions whose docstrings begin with a word of `OPENINGS`, and that word."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            first = (ast.get_docstring(node) or "").split(" ")[0]
            if first in OPENINGS:
                yield node.lineno, first


@pytest.mark.parametrize("folder", ["gluonjit", "experiments"])
def test_a_docstring_begins_with_a_verb_or_a_noun(folder: str) -> None:
    found = [
        f"{path.relative_to(ROOT)}:{line}: {word}"
        for path in sorted((ROOT / folder).rglob("*.py"))
        for line, word in openings(path.read_text(encoding="utf-8"))
    ]
    assert not found


def test_openings_are_found() -> None:
    source = 'class A:\n    """Which it is."""\n    def f(self):\n        """Return it, as it is."""\n'
    assert list(openings(source)) == [(1, "Which")]
