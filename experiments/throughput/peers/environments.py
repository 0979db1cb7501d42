"""The environments of the peers, each in its own folder, created if missing."""

from __future__ import annotations

import subprocess
import sys
import venv
from pathlib import Path
from typing import NamedTuple

FOLDER = Path(__file__).resolve().parents[3] / ".venv-peers"
STAMP = ".requirements"  # what was installed; another list makes the environment anew


class PeerError(Exception):
    """A peer cannot be installed or does not answer; the message says what and what to do."""


class Needs(NamedTuple):
    """A peer's installation: its folder's name, pinned requirements, and the Python it has wheels for."""

    folder: str
    requirements: tuple[str, ...]
    python: tuple[int, int] | None = None


NEEDS = {
    "dynet": Needs("dynet", ("dynet38==2.2", "numpy==1.26.4", "cython==3.3.1"), (3, 11)),
    # Any other pin of torch pulls in gigabytes for GPUs.
    "torch-handbatched-ownbwd": Needs("torch", ("torch==2.13.0", "numpy>=1.26,<3")),
}


def python_of(peer: str, folder: Path = FOLDER) -> Path:
    """Return the interpreter of a peer's environment, which is made first where it is missing."""
    needs = NEEDS[peer]
    if needs.python and sys.version_info[:2] != needs.python:
        wanted, here = (".".join(map(str, version)) for version in (needs.python, sys.version_info[:2]))
        raise PeerError(f"{peer}: {needs.requirements[0]} only has wheels for Python {wanted}, this is {here}")
    place = folder / needs.folder
    python, stamp = place / "bin" / "python", place / STAMP
    listed = "\n".join(needs.requirements)
    if not (stamp.is_file() and python.exists() and stamp.read_text(encoding="utf-8") == listed):
        print(
            f"{peer}: installing {', '.join(needs.requirements)} into {place.parent.name}/{place.name}, once",
            flush=True,
        )
        _make(peer, place, python, needs.requirements)
        stamp.write_text(listed, encoding="utf-8")
    return python.absolute()


def _make(peer: str, place: Path, python: Path, requirements: tuple[str, ...]) -> None:
    """Make an environment and install into it; pip's last words explain a failure."""
    try:
        venv.create(place, clear=True, with_pip=True, symlinks=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise PeerError(f"{peer}: {place} cannot be created: {error}") from error
    command = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-input"]
    done = subprocess.run([*command, *requirements], capture_output=True, text=True, check=False)
    if done.returncode:
        last = " / ".join(done.stderr.strip().splitlines()[-3:])
        raise PeerError(f"{peer}: pip could not install {', '.join(requirements)} into {place}: {last}")
