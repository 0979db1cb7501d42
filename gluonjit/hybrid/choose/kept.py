"""Files next to the calibration with the decisions for a model, so that the next process starts from them.

A model is identified by its signature: the classes and the code of its blocks, the shapes of its parameters, its
options, the machine and the versions. A file that cannot be read or written counts as absent.
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from types import FunctionType
from typing import Any, NamedTuple

from gluonjit.hybrid.choose.choosing import Chooser, chooser_of
from gluonjit.hybrid.choose.costs import cache_folder, machine
from gluonjit.hybrid.choose.pacing import Paces, paces_for
from gluonjit.hybrid.options import Options
from gluonjit.replaced import code_of
from gluonjit.writing import read_regular, replace_file

_FORM = 1  # of the file
_MOST = 256  # files
_LARGEST = 1 << 20  # bytes of one
_NAME, _BEGIN = re.compile(r"-[0-9a-f]{16}\.json$"), b'{\n "form": '  # by which a file is known
_BROKEN = (ValueError, LookupError, TypeError, ArithmeticError, RecursionError)

_last: dict[Path, Paces] = {}  # of the last models in this process


class BlockDescription(NamedTuple):
    """One block of a model: its name in it, its class, and its own parameters: shape, type and device."""

    name: str
    type: type
    parameters: list[str]


@dataclass
class ChoiceFile:
    """The file of one model, and its state in this process."""

    _path: Path
    _model: str
    _paces: Paces
    _chooser: Chooser

    def load(self) -> None:
        """Starts from the state of an earlier process."""
        try:
            known = json.loads(read_regular(self._path, _LARGEST))
            if known["form"] == _FORM:
                origin = f"{known['day']}, {self._path}"
                self._paces.restore(known["paces"], origin)
                self._chooser.restore(known["choices"], origin)
        except (OSError, *_BROKEN):
            pass  # it is learned anew, and written over

    def save(self) -> None:
        """Writes the current state. Other processes may write at the same time: the last one wins."""
        known = {
            "form": _FORM,
            "model": self._model,
            "day": date.today().isoformat(),
            "paces": self._paces.saved_state(),
            "choices": self._chooser.saved_state(),
        }
        with suppress(OSError):
            self._path.parent.mkdir(parents=True, exist_ok=True)
            replace_file(self._path, json.dumps(known, indent=1).encode())
            _forget_old(self._path.parent)


def recalled(options: Options, engine: Any, described: Iterable[BlockDescription]) -> Paces:
    """Makes the paces of a model: they start from its stored state, and what this process learns is stored.

    What is not decided goes on where the last model of this sort in this process has come to.
    """
    paces = paces_for(options)
    if not paces.open or paces.named:
        return paces
    blocks = list(described)
    name = blocks[0].type.__name__
    try:
        readable = re.sub(r"\W", "_", name, flags=re.ASCII)[:64]  # a class may have any name
        path = cache_folder() / "choices" / f"{readable}-{_signature(options, engine, blocks)}.json"
    except RuntimeError:  # there is no home
        return paces
    chooser = chooser_of(options)
    kept = ChoiceFile(path, name, paces, chooser)
    kept.load()
    for pace, before in zip(paces.phases, _last.pop(path, paces).phases):
        pace.follow(before)
    _last[path] = paces
    if len(_last) > _MOST:
        _last.pop(next(iter(_last)))
    paces.tell(kept.save)
    chooser.told = kept.save
    return paces


def _forget_old(folder: Path) -> None:
    files = [path for path in folder.glob("*.json") if _NAME.search(path.name)]
    if len(files) > _MOST:
        files = [path for path in files if _is_choice(path)]
    for path in sorted(files, key=lambda path: path.stat().st_mtime)[: max(len(files) - _MOST, 0)]:
        path.unlink(missing_ok=True)


def _is_choice(path: Path) -> bool:
    """True if this module has written the file."""
    try:
        return not path.is_symlink() and read_regular(path, _LARGEST).startswith(_BEGIN)
    except (OSError, ValueError):
        return False


def _signature(options: Options, engine: Any, blocks: Sequence[BlockDescription]) -> str:
    """Returns the digest of everything that a choice depends on and that is known before the first call."""
    facts = [sys.version, engine.name, repr(sorted(engine.versions.items())), *machine()]
    facts.append(repr(options))
    facts += [f"{block.name} {block.type.__module__}.{block.type.__qualname__} {block.parameters}" for block in blocks]
    digest = hashlib.sha256("\n".join(facts).encode(errors="backslashreplace"))
    for type_ in dict.fromkeys(base for block in blocks for base in block.type.__mro__):
        for code in _code(type_):
            digest.update(code)
    return digest.hexdigest()[:16]


def _code(type_: type) -> Iterator[bytes]:
    """Returns the code of a class's own methods: an edited model is another one."""
    for name, item in vars(type_).items():
        if isinstance(item, FunctionType):
            code = code_of(item)
            plain = [each for each in code.co_consts if isinstance(each, (str, int, float))]
            yield f"{name} {code.co_names} {plain}".encode()
            yield code.co_code
