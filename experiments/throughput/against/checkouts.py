"""Checkouts of this repository: their validation, their commit, and their compiled modules."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from sysconfig import get_config_var

from experiments.throughput.peers.environments import PeerError

HERE = Path(__file__).resolve().parents[3]
NEEDED = ("gluonjit/__init__.py", "experiments/throughput/on_torch.py", "setup.py")
MODULES = ("_fast", "_rows")


def checkout_of(given: str) -> Path:
    """Return the folder of a checkout whose modules in C are built. Raises PeerError if it is none."""
    folder = Path(given).expanduser().resolve()
    missing = [name for name in NEEDED if not (folder / name).is_file()]
    if missing:
        raise PeerError(f"--against {given}: not a checkout of gluonjit, {missing[0]} is missing")
    build(folder)
    return folder


def build(folder: Path) -> None:
    """Build a checkout's compiled modules where they are missing or older than a source, and say so."""
    why = _unbuilt(folder)
    if not why:
        return
    print(f"{folder.name}: building its modules in C, {why}", flush=True)
    command = [sys.executable, "setup.py", "-q", "build_ext", "--inplace"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    why = _unbuilt(folder)
    if done.returncode or why:
        last = " / ".join(done.stderr.strip().splitlines()[-3:])
        raise PeerError(f"{folder.name}: its modules in C could not be built, {why or 'setup.py failed'}: {last}")


def _unbuilt(folder: Path) -> str:
    """Return the reason why modules must be built, or nothing."""
    native = folder / "gluonjit" / "native"
    sources = [path for ending in ("*.c", "*.h") for path in native.rglob(ending)]
    owned = {name: [path for path in sources if (path.parent.name == "rows") == (name == "_rows")] for name in MODULES}
    compiled = folder / "gluonjit"
    hot = [
        *(compiled / "analysis" / "flat").glob("*.py"),
        *(compiled / "rows").glob("blocks.py"),
    ]  # older ones have none
    owned.update({f"_{path.stem}": [path] for path in hot if path.stem != "__init__"})
    for name, own in owned.items():
        module = folder / "gluonjit" / f"{name}{get_config_var('EXT_SUFFIX')}"
        if not module.is_file():
            return f"{name} is missing"
        newer = [path for path in own if path.stat().st_mtime > module.stat().st_mtime]
        if newer:
            return f"{newer[0].name} is newer than {name}"
    return ""


def commit_of(folder: Path) -> str | None:
    """Return the commit of a checkout, with `+` where files differ from it; None if that cannot be told."""
    found = _git(folder, "rev-parse", "HEAD")
    if not found:
        return None
    return found + ("+" if _git(folder, "status", "--porcelain", "--untracked-files=no") else "")


def _git(folder: Path, *arguments: str) -> str | None:
    try:
        done = subprocess.run(["git", "-C", str(folder), *arguments], capture_output=True, text=True, check=False)
    except OSError:
        return None
    return done.stdout.strip() if not done.returncode else None
