"""The shape of the tree: its four parts, which way imports run, and what nothing may do."""

from __future__ import annotations

import ast
import importlib
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from frameworks_support import FRAMEWORKS, INSTALLED

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parents[2]
LINKS = ("hybrid", "analysis")
# All but the engines: these work with numpy alone.
FRAMEWORK_FREE = (
    "graph",
    "rows",
    "program",
    "analysis",
    "hybrid",
    "errors",
    "install",
    "commands",
    "compiled",
    "writing",
    "__main__",
)


def sources(*folders: str) -> list[Path]:
    return sorted(path for folder in folders for path in (ROOT / folder).rglob("*.py"))


def imports(path: Path) -> Iterator[tuple[str, list[str], int]]:
    """Module, names and line of every absolute import in a file, those inside functions too."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from ((alias.name, [], node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            yield node.module or "", [alias.name for alias in node.names], node.lineno


def settings() -> Any:
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", LINKS)
def test_the_root_links_to_a_part_of_the_package(name: str) -> None:
    link = ROOT / name
    assert link.is_symlink()
    assert link.readlink() == Path("gluonjit") / name
    assert (link / "__init__.py").is_file()


def test_the_root_shows_the_four_parts() -> None:
    assert all((ROOT / name).is_dir() for name in ("gluonjit", "hybrid", "analysis", "experiments"))


def test_nothing_imports_through_the_links() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{line}: {module}"
        for path in sources("gluonjit", "experiments", "tests")
        for module, _, line in imports(path)
        if module.split(".")[0] in LINKS
    ]
    assert not found, "import gluonjit.hybrid or gluonjit.analysis instead"


@pytest.mark.parametrize("tool", ["ruff", "mypy", "pytest"])
def test_tools_skip_the_links(tool: str) -> None:
    given = settings()["tool"]
    skipped = {
        "ruff": given["ruff"]["extend-exclude"],
        "mypy": given["mypy"]["exclude"][0],
        "pytest": given["pytest"]["ini_options"]["norecursedirs"],
    }[tool]
    assert all(any(name in entry for entry in [skipped, *skipped]) for name in LINKS)


def test_every_folder_of_the_package_is_a_package() -> None:
    folders = {path.parent for path in sources("gluonjit")}
    assert [folder for folder in folders if not (folder / "__init__.py").is_file()] == []


def test_errors_import_nothing() -> None:
    assert [module for module, _, _ in imports(ROOT / "gluonjit" / "errors.py")] == ["__future__"]


def test_all_but_the_engines_import_no_framework() -> None:
    paths = [path for name in FRAMEWORK_FREE for path in [ROOT / "gluonjit" / f"{name}.py"] if path.is_file()]
    paths += sources(*(f"gluonjit/{name}" for name in FRAMEWORK_FREE))
    found = [
        f"{path.relative_to(ROOT)}:{line}: {module}"
        for path in paths
        for module, _, line in imports(path)
        if module.split(".")[0] in FRAMEWORKS
    ]
    assert not found


def test_all_but_the_engines_import_where_no_framework_is() -> None:
    modules = [
        ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
        for path in sources("gluonjit")
        if "engines" not in path.parts and path.name != "__main__.py"
    ]
    code = f"import importlib, sys\nfor name in {FRAMEWORKS}: sys.modules[name] = None\n"
    code += f"for name in {modules}: importlib.import_module(name)"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr


def test_experiments_use_only_public_names() -> None:
    import gluonjit

    public = {*gluonjit.__all__, "writing"}  # files are written in one way
    found = []
    for path in sources("experiments"):
        if path.name == "plants.py" and ROOT / "experiments" / "fuzz" in path.parents:
            continue  # it builds faults into the inside, which has to be found by the rest of the fuzzer
        if path == ROOT / "experiments" / "tradeoff" / "processor.py":
            continue  # it changes the clock of the inside
        for module, names, line in imports(path):
            if module.split(".")[0] != "gluonjit":
                continue
            # "import gluonjit.graph" reaches inside, unless graph itself is public.
            parts = module.split(".")[1:]
            if len(parts) > 1 or (parts and parts[0] not in public) or (not parts and not public.issuperset(names)):
                found.append(f"{path.relative_to(ROOT)}:{line}: {module} {names}")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "gluonjit":
                if node.attr not in public and not node.attr.startswith("__"):
                    found.append(f"{path.relative_to(ROOT)}:{node.lineno}: gluonjit.{node.attr}")
    assert not found, f"public are {sorted(public)}"


def test_public_names_exist() -> None:
    import gluonjit

    assert [name for name in gluonjit.__all__ if not hasattr(gluonjit, name)] == []


def test_the_version_is_the_same_everywhere() -> None:
    import gluonjit

    version = settings()["project"]["version"]
    assert getattr(gluonjit, "__version__", version) == version
    assert f"\n## {version}" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert f"\nversion: {version}\n" in (ROOT / "CITATION.cff").read_text(encoding="utf-8")


PAGE = (ROOT / "docs/layout.md").read_text(encoding="utf-8")


def test_the_page_names_every_file() -> None:
    named = set(re.findall(r"\w+", " ".join(re.findall(r"`([^`]+)`", PAGE))))
    files = [
        path for path in (ROOT / "gluonjit").rglob("*") if path.suffix in (".py", ".c") and path.stem != "__init__"
    ]
    assert len(files) > 200
    assert {path.relative_to(ROOT).as_posix() for path in files if path.stem not in named} == set()


def test_a_folder_has_at_most_fifteen_modules() -> None:
    modules = Counter(path.parent for path in (ROOT / "gluonjit").rglob("*") if path.suffix in (".py", ".c"))
    assert len(modules) > 30
    assert {folder.relative_to(ROOT).as_posix(): count for folder, count in modules.items() if count > 15} == {}


def test_the_page_names_the_functions_that_stages_enter_at() -> None:
    entries = re.findall(r"`(gluonjit[\w.]+):([\w.]+)`", PAGE)
    assert len(entries) >= 12
    for module, path in entries:
        if any(f".{name}." in module for name in set(FRAMEWORKS) - set(INSTALLED)):
            continue
        found = importlib.import_module(module)
        for name in path.split("."):
            found = getattr(found, name)
        assert callable(found)
