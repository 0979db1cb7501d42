"""The threads of a measurement, and the machine and software that it runs on."""

from __future__ import annotations

import os
import platform
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

PACKAGES = ("gluonjit", "mxnet", "torch", "numpy", "gluonnlp")


def threads() -> int:
    """Return the number of threads that one operator may use."""
    return int(os.environ.get("OMP_NUM_THREADS") or len(_affinity()))


def limit_threads(wanted: int | None = None) -> None:
    """Let an operator take this many threads; without a number those of OMP_NUM_THREADS, and without that one.

    MXNet's thread pool reads this once: where it has been imported nothing changes.
    """
    if "mxnet" not in sys.modules:
        os.environ["OMP_NUM_THREADS"] = str(wanted or os.environ.get("OMP_NUM_THREADS") or 1)


def environment() -> dict[str, Any]:
    """Describe the machine and the software, without anything that names the machine."""
    return {
        "cpu": _cpu_model(),
        "cores": os.cpu_count(),
        "affinity": _affinity(),
        "omp_num_threads": os.environ.get("OMP_NUM_THREADS"),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        **{name: _version(name) for name in PACKAGES},
    }


def _affinity() -> list[int]:
    """Return the cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(0))
    return list(range(os.cpu_count() or 1))


def _cpu_model() -> str:
    """Return the processor's name as the system gives it."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor()
    names = (line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.processor())


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None
