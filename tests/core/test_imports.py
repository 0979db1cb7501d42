"""Imports inside of the package: no circles, only down the table in docs/layout.md, and chains that grow no longer."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Callable, Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import NamedTuple

import pytest

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = "gluonjit"
LONGEST = 19  # modules, the first and the last counted: lower it where a chain becomes shorter
INSIDE = {  # imports inside of functions: what few callers need, and takes long to make
    ("gluonjit.hybrid.mapping.mapping", "gluonjit.hybrid.mapping.fibers"),  # greenlet is optional
}


class Import(NamedTuple):
    """One module names another in an import; `inside` of a function, so not before that is called."""

    by: str
    of: str
    line: int
    inside: bool


Graph = dict[str, set[str]]


def modules(root: Path, package: str) -> dict[str, Path]:
    """Every module of a package by its name."""
    found = {}
    for path in sorted((root / package).rglob("*.py")):
        parts = path.relative_to(root).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def statements(node: ast.AST, inside: bool = False) -> Iterator[tuple[ast.Import | ast.ImportFrom, bool]]:
    """Every import below a node, those for type checkers too, and whether it is in a function."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, (ast.Import, ast.ImportFrom)):
            yield child, inside
        yield from statements(child, inside or isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef)))


def named(statement: ast.Import | ast.ImportFrom, package: str) -> Iterator[str]:
    """The dotted names that a statement in this package may mean: `from a import b` is a.b, or b out of a."""
    if isinstance(statement, ast.Import):
        yield from (alias.name for alias in statement.names)
        return
    outer = package.split(".")[: len(package.split(".")) - statement.level + 1] if statement.level else []
    base = ".".join([*outer, *([statement.module] if statement.module else [])])
    yield from (f"{base}.{alias.name}" for alias in statement.names)


def module_of(name: str, known: dict[str, Path]) -> str | None:
    """The module that a dotted name is, or is a name out of; None for one of another package."""
    return name if name in known else module_of(name.rpartition(".")[0], known) if "." in name else None


def all_imports(root: Path = ROOT, package: str = PACKAGE) -> list[Import]:
    """Every import of one module of a package by another. What is imported by a string is not seen."""
    known, found = modules(root, package), []
    for by, path in known.items():
        folder = by if path.name == "__init__.py" else by.rpartition(".")[0]
        for statement, inside in statements(ast.parse(path.read_text(encoding="utf-8"))):
            for name in named(statement, folder):
                of = module_of(name, known)
                if of is not None and of != by:
                    found.append(Import(by, of, statement.lineno, inside))
    return found


def graph_of(imports: list[Import]) -> Graph:
    found: Graph = {}
    for each in imports:
        found.setdefault(each.by, set()).add(each.of)
    return found


def circle(graph: Graph) -> list[str]:
    """One circle, if there is any."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return [str(module) for module in error.args[1]]
    return []


def longest_chain(graph: Graph) -> tuple[str, ...]:
    """The longest chain of modules, each of which imports the next, in a graph without circles."""

    @cache
    def below(module: str) -> tuple[str, ...]:
        return (module, *max(map(below, sorted(graph.get(module, ()))), key=len, default=()))

    return max(map(below, sorted(graph)), key=len, default=())


def table() -> list[list[str]]:
    """The rows of the table in docs/layout.md: parts of the package, the highest first."""
    page = (ROOT / "docs" / "layout.md").read_text(encoding="utf-8")
    section = page.split("\n## Which way imports run\n")[1].split("\n## ")[0]
    lines = [line.split("|")[1] for line in section.splitlines() if line.startswith("| `")]
    return [[name.strip("/").replace("/", ".") for name in re.findall(r"`([\w/]+)`", line)] for line in lines]


def part_of(module: str, rows: list[list[str]]) -> str:
    """The entry of the table that a module belongs to; the package itself is `__init__`."""
    inner = module.partition(".")[2] or "__init__"
    found = [name for row in rows for name in row if inner == name or inner.startswith(name + ".")]
    return max(found, key=len, default="")


def against(imports: list[Import], rows: list[list[str]]) -> list[str]:
    """Imports that go up the table or along a row."""
    level = {name: number for number, row in enumerate(rows) for name in row}
    found = []
    for each in imports:
        by, of = (part_of(module, rows) for module in (each.by, each.of))
        if by != of and level[by] >= level[of]:
            found.append(f"{each.by}:{each.line} ({by}) imports {each.of} ({of})")
    return found


def test_every_module_is_in_the_table_once() -> None:
    rows = table()
    names = [name for row in rows for name in row]
    assert len(names) == len(set(names))
    bare = {"gluonjit.engines"}  # a docstring
    assert [module for module in modules(ROOT, PACKAGE) if not part_of(module, rows) and module not in bare] == []
    parts = {part_of(module, rows) for module in modules(ROOT, PACKAGE)}
    assert [name for name in names if name not in parts] == [], "in the table, but not there"


def test_imports_run_down_the_table() -> None:
    assert against(all_imports(), table()) == []


def test_the_contract_has_the_order_of_the_table() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    contracts = settings["tool"]["importlinter"]["contracts"]
    layers = next(contract["layers"] for contract in contracts if contract["type"] == "layers")
    names = [layer.strip("()").removeprefix("gluonjit.") for layer in layers]
    order = [name.partition(".")[0] for row in table() for name in row]
    assert names == [name for name in dict.fromkeys(order) if name in names]
    assert {"engines", "hybrid", "rows", "analysis", "graph", "errors"} <= set(names)


@pytest.mark.parametrize("package", [PACKAGE, "experiments"])
def test_no_imports_go_in_a_circle(package: str) -> None:
    assert circle(graph_of(all_imports(ROOT, package))) == []


def test_few_imports_wait_inside_of_functions() -> None:
    """Only where it saves something: not to get around a circle, as there is none with them either."""
    assert {(each.by, each.of) for each in all_imports() if each.inside} == INSIDE


def test_the_longest_chain_of_imports_grows_no_longer() -> None:
    chain = longest_chain(graph_of([each for each in all_imports() if not each.inside]))
    listed = "\n".join(chain)
    assert len(chain) <= LONGEST, f"{len(chain)} modules, each of which imports the next:\n{listed}"


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., list[Import]]:
    """Write a package `p` from sources by name, and find its imports."""

    def written(**sources: str) -> list[Import]:
        for name, source in {"__init__": "", "inner/__init__": "", **sources}.items():
            path = tmp_path / "p" / f"{name.replace('__in__', 'inner/')}.py"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(source, encoding="utf-8")
        return all_imports(tmp_path, "p")

    return written


def test_imports_are_found_however_they_are_written(write: Callable[..., list[Import]]) -> None:
    found = write(
        a="import p.b, os\nfrom p import c\nfrom p.d import name\nfrom .e import name",
        b="",
        c="",
        d="",
        e="def f():\n    from . import b\nclass C:\n    from . import d",
        __in__x="from ..c import y\nfrom . import z\nfrom .. import b",
        __in__z="if TYPE_CHECKING:\n    from p import a",
    )
    edges = {(each.by, each.of) for each in found if not each.inside}
    assert edges == {
        *(("p.a", f"p.{name}") for name in "bcde"),
        ("p.e", "p.d"),
        *(("p.inner.x", name) for name in ("p.c", "p.inner.z", "p.b")),
        ("p.inner.z", "p.a"),
    }
    assert [(each.by, each.of, each.line) for each in found if each.inside] == [("p.e", "p.b", 2)]
    assert longest_chain(graph_of(found)) == ("p.inner.x", "p.inner.z", "p.a", "p.e", "p.b")


def test_circles_are_found(write: Callable[..., list[Import]]) -> None:
    found = write(a="from p import b", b="from p.c import x", c="def f():\n    import p.a")
    assert circle(graph_of([each for each in found if not each.inside])) == []
    assert set(circle(graph_of(found))) == {"p.a", "p.b", "p.c"}


def test_imports_up_or_along_the_table_are_found(write: Callable[..., list[Import]]) -> None:
    found = write(a="import p.b\nimport p.c", b="import p.c\nimport p.a", c="import p.d", d="", __in__x="import p.a")
    rows = [["inner.x"], ["a"], ["b", "c"], ["d"]]
    assert against(found, rows) == ["p.b:1 (b) imports p.c (c)", "p.b:2 (b) imports p.a (a)"]
