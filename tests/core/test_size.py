"""The size of the package: tokens without comments and docstrings, held by a limit that only falls."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tools.size import Size, c_tokens, main, python_tokens, sizes, total

ROOT = Path(__file__).resolve().parents[2]
LIMIT = 464_308  # lowered where a change takes something away; `python -m tools.size` shows the present size


def _in_git() -> bool:
    done = subprocess.run(["git", "ls-files", "gluonjit"], cwd=ROOT, capture_output=True, text=True)
    return done.returncode == 0 and bool(done.stdout)


@pytest.mark.skipif(not _in_git(), reason="git says what belongs to the package, and this is no checkout of it")
def test_the_package_is_within_its_limit() -> None:
    assert total(ROOT).tokens <= LIMIT


def test_what_git_tracks_is_counted_by_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = {
        "setup.py": "x = 1\n",
        "gluonjit/__init__.py": "x = 1\n",
        "gluonjit/engines/mxnet/operators/axes.py": "def f(): ...\n",
        "gluonjit/native/rows/pack.c": "int x;\n",
        "gluonjit/native/text.md": "not counted\n",
        "tests/test_one.py": "not = counted\n",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    (tmp_path / "gluonjit/link.py").symlink_to("__init__.py")
    subprocess.run("git init -q && git add -A", cwd=tmp_path, shell=True, check=True)
    (tmp_path / "gluonjit/untracked.py").write_text("x = 1\n")
    assert sizes(tmp_path) == {
        "gluonjit": Size(1, 1, 3, 0),
        "gluonjit/engines/mxnet": Size(1, 1, 6, 0),
        "gluonjit/native": Size(1, 1, 0, 3),
        "build": Size(1, 1, 3, 0),
    }
    assert main([str(tmp_path)]) == 0
    assert capsys.readouterr().out.splitlines()[-1].endswith("15 together")


@pytest.mark.parametrize(
    "source, count",
    [
        ("x = 1\n", 3),
        ("x = 1  # one\n\n\n# two\n", 3),
        ('"""A module."""\nx = (\n    1\n)\n', 5),
        ('def f():\n    """Nothing."""\n    return "text"\n', 7),
        ('class A:\n    r"""A class."""\n\n    x = """text"""\n', 6),
        ("x = f'{a} and {b!r:>{width}}' + 'text'\n", 5),
        ("cdef struct a:\n    int * b 'never closed\n", 11),
    ],
)
def test_tokens_of_python(source: str, count: int) -> None:
    assert python_tokens(source) == count


def test_tokens_of_c() -> None:
    assert c_tokens('/* a\n b */ int x = 1; // one\nprintf("a b");\n') == 10
