"""A mechanism of the library, and how it is turned off in a process."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module, util
from pathlib import Path
from typing import Any

from tools.size import c_tokens, python_tokens

PACKAGE = Path(__file__).resolve().parents[2] / "gluonjit"


@dataclass(frozen=True)
class Mechanism:
    """A part of the library that could be missing, and programs would still be right.

    files: its modules and folders, in `gluonjit/`.
    without: options that turn it off, and `on`, those that turn it on.
    returns: "module:function" that return this instead, by what the caller takes for "not this time".
    passes: "module:function" that return their argument of this number.
    empties: "module:table" of functions whose entries are dropped: all, or those of another table.

    One that nothing turns off is measured by whether a program comes to it.
    """

    name: str
    files: tuple[str, ...]
    without: Mapping[str, Any] = field(default_factory=dict)
    on: Mapping[str, Any] = field(default_factory=dict)
    returns: Mapping[str, Any] = field(default_factory=dict)
    passes: Mapping[str, int] = field(default_factory=dict)
    empties: Mapping[str, str] = field(default_factory=dict)

    @property
    def can_be_off(self) -> bool:
        """True if something turns it off."""
        return bool(self.without or self.returns or self.passes or self.empties)

    def paths(self) -> list[Path]:
        """Return its files."""
        found: list[Path] = []
        for name in self.files:
            path = PACKAGE / name
            found += path.rglob("*.[pch]*") if path.is_dir() else [path]
        return sorted(path for path in found if path.suffix in (".py", ".c", ".h"))

    def tokens(self) -> int:
        """Return its size, as `tools.size` counts."""
        count = 0
        for path in self.paths():
            text = path.read_text(encoding="utf-8")
            count += python_tokens(text) if path.suffix == ".py" else c_tokens(text)
        return count

    def turn_off(self) -> None:
        """Patch the library in this process. What belongs to a framework that is not installed is passed over."""
        for target, value in self.returns.items():
            _set(target, _returning(value))
        for target, number in self.passes.items():
            _set(target, _passing(number))
        for target, other in self.empties.items():
            _drop(target, other)


def _set(target: str, value: Any) -> None:
    module, name = target.split(":")
    if _is_there(module):
        owner = import_module(module)
        assert hasattr(owner, name), f"{target} is no longer there: experiments/mechanisms/table.py"
        setattr(owner, name, value)


def _drop(target: str, other: str) -> None:
    module, name = target.split(":")
    if not _is_there(module):
        return
    table = getattr(import_module(module), name)
    for key in list(getattr(import_module(other.split(":")[0]), other.split(":")[1]) if other else table):
        if isinstance(table, set):
            table.discard(key)
        else:
            table.pop(key, None)


def _is_there(module: str) -> bool:
    parts = module.split(".")
    return parts[1] != "engines" or util.find_spec(parts[2]) is not None


def _returning(value: Any) -> Any:
    return lambda *given, **named: value


def _passing(number: int) -> Any:
    return lambda *given, **named: given[number]
