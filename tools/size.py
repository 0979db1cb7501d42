"""Count the tokens of all that an installed gluonjit holds: `python -m tools.size [CHECKOUT]`.

Comments, docstrings and line breaks do not count, so that neither explaining more nor writing longer lines changes the
figure. What counts is what git tracks of `gluonjit/`, and `setup.py`, under "build". A row per folder shows files,
lines, tokens of Python and tokens of C; the last row is the total. `tests/core/test_size.py` holds its limit.
"""

from __future__ import annotations

import io
import re
import subprocess
import sys
import tokenize
from collections.abc import Iterator, Sequence
from dataclasses import astuple, dataclass
from pathlib import Path

C_SUFFIXES = frozenset({".c", ".h", ".cpp", ".inc"})
DATA_SUFFIXES = frozenset({".json", ".toml", ".txt"})
PYTHON_SUFFIXES = frozenset({".py", ".pyx", ".pyi", ".pxd", ".pxi"})

_BREAKS = frozenset({tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT})
_FREE = _BREAKS | {tokenize.COMMENT, tokenize.NL, tokenize.ENCODING, tokenize.ENDMARKER}
_C_COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL)
_WORD = re.compile(r'"(?:\\.|[^"\\])*"|\'(?:\\.|[^\'\\])*\'|\w+|[^\s\w]')
_QUOTES = ('"', "'", 'r"""')
# From Python 3.12 on, a formatted string is several tokens; it counts as one, as before.
_OPENS, _CLOSES = getattr(tokenize, "FSTRING_START", None), getattr(tokenize, "FSTRING_END", None)


@dataclass
class Size:
    """Files, lines, tokens of Python and tokens of C of a folder."""

    files: int = 0
    lines: int = 0
    python: int = 0
    c: int = 0

    @property
    def tokens(self) -> int:
        """All tokens together."""
        return self.python + self.c

    def __add__(self, other: Size) -> Size:
        return Size(*(a + b for a, b in zip(astuple(self), astuple(other))))


def sizes(root: Path) -> dict[str, Size]:
    """Return the size of each folder of the package in a checkout, by name."""
    found: dict[str, Size] = {}
    for name in sorted(_tracked(root)):
        path = root / name
        if not path.is_symlink() and path.is_file() and path.suffix in C_SUFFIXES | DATA_SUFFIXES | PYTHON_SUFFIXES:
            folder = _folder(name)
            found[folder] = found.get(folder, Size()) + _size(path)
    return found


def total(root: Path) -> Size:
    """Return the size of the whole package in a checkout."""
    return sum(sizes(root).values(), Size())


def python_tokens(text: str) -> int:
    """Count the tokens of Python source, or of what is almost Python, without comments and docstrings."""
    try:
        return sum(_counted(text))
    except (tokenize.TokenError, SyntaxError):
        return len(_WORD.findall(text))


def c_tokens(text: str) -> int:
    """Count the tokens of C source without comments."""
    return len(_WORD.findall(_C_COMMENT.sub(" ", text)))


def _counted(text: str) -> Iterator[bool]:
    begins, nested = True, 0
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type in _FREE:
            begins = begins or token.type in _BREAKS
            continue
        nested -= token.type == _CLOSES
        docstring = token.type == tokenize.STRING and begins and token.line.strip().startswith(_QUOTES)
        yield not docstring and not nested and token.type != _CLOSES
        nested += token.type == _OPENS
        begins = False


def _size(path: Path) -> Size:
    text = path.read_text(encoding="utf-8", errors="replace")
    lines = text.count("\n")
    if path.suffix in C_SUFFIXES:
        return Size(1, lines, 0, c_tokens(text))
    count = len(_WORD.findall(text)) if path.suffix in DATA_SUFFIXES else python_tokens(text)
    return Size(1, lines, count, 0)


def _tracked(root: Path) -> list[str]:
    command = ["git", "ls-files", "gluonjit", "setup.py"]
    return subprocess.run(command, cwd=root, capture_output=True, text=True, check=True).stdout.splitlines()


def _folder(name: str) -> str:
    first, *rest = name.split("/")
    if not rest:
        return "build"
    depth = 2 if rest[0] == "engines" and len(rest) > 2 else 1
    return "/".join([first, *rest[:-1][:depth]])


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table."""
    given = sys.argv[1:] if arguments is None else arguments
    found = sizes(Path(given[0] if given else "."))
    found["all"] = sum(found.values(), Size())
    for folder, size in found.items():
        print(
            f"{folder:24s} {size.files:4d} files {size.lines:6d} lines {size.python:7d} tokens of Python "
            f"{size.c:6d} of C {size.tokens:7d} together"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
