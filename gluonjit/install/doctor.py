"""Examines the installation and says, for each problem, what to do.

Frameworks are tried in processes of their own (``probes``), because one that does not fit its machine may not only fail
but kill the process. The doctor itself imports none and never fails: it reports what it cannot determine.
"""

from __future__ import annotations

import json
import os
import platform
import re
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from gluonjit.compiled import FAST, ROWS, WHY_NO_ROWS, WHY_NOT
from gluonjit.install import compat

PROBE_SECONDS = 180
SUPPORTED_MXNET = "1.9.1"

# The distributions that bring each framework: those of MXNet all own the same folder.
_DISTRIBUTIONS = {
    "mxnet": ("mxnet", *(f"mxnet-cu{cuda}" for cuda in (100, 101, 102, 110, *range(111, 118)))),
    "torch": ("torch",),
}
_OPTIONAL = {"gluonnlp": "nlp", "matplotlib": "experiments", "scipy": "experiments", "tqdm": "experiments"}
_PYTHON = sys.version_info[:2]
_THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS")

# What an error means and what to do about it: the first row that fits the error's text.
_REMEDIES = (
    (
        r"libcuda\.so",
        "this build needs an NVIDIA driver; without one: pip uninstall mxnet-cu112; pip install 'gluonjit[mxnet]'",
    ),
    (r"lib(cu|nv|nccl)\w*\.so", "CUDA 11 is not found: pip install 'gluonjit[cu112]'"),
    (r"lib\w+\.so", "a system library is missing: install the package that provides it"),
    (
        r"no kernel image|compute capability|not compiled",
        "this build has no code for this GPU (MXNet 1.9.1: up to compute capability 8.6): use the CPU or an older GPU",
    ),
    (r"numpy|np\.", "pip install 'numpy<1.24', or on Python 3.12 'numpy>=1.26,<2'"),
    (r"No module named", "install the missing module"),
)


@dataclass(frozen=True)
class Problem:
    """A problem, and what to do."""

    what: str
    step: str


@dataclass
class ProbedFramework:
    """A framework, with the findings of its probe."""

    name: str
    distributions: list[tuple[str, str]] = field(default_factory=list)
    version: str | None = None
    usable: bool = False
    devices: list[str] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)

    @property
    def installed(self) -> bool:
        return bool(self.distributions) or self.version is not None or bool(self.problems)


def main() -> int:
    """Prints the report; 0 if an engine works or none is installed, 1 if an installed one does not work."""
    engines = [examine(name) for name in _DISTRIBUTIONS]
    problems = [problem for engine in engines for problem in engine.problems]
    problems += [*_thread_problems(), *_python_problems(engines)]
    system = f"{platform.system()} {platform.machine()}"
    print(f"gluonjit {gluonjit_version()}, Python {platform.python_version()}, {system}")
    sections = {
        "engines": _engine_lines(engines),
        "numpy": _numpy_lines(engines),
        "capture": ["in compiled code" if FAST is not None else f"in Python, which is slower: {WHY_NOT}"],
        "steps": [f"in C ({ROWS.features()})" if ROWS is not None else f"as graphs, which is slower: {WHY_NO_ROWS}"],
        "threads": _thread_lines(),
        "caches": _cache_lines(),
        "optional packages": _optional_lines(),
    }
    for title, lines in sections.items():
        print(f"\n{title}", *lines, sep="\n  ")
    _print_problems(problems)
    installed = [engine for engine in engines if engine.installed]
    return 0 if not installed or any(engine.usable for engine in installed) else 1


def gluonjit_version() -> str:
    """The version of gluonjit that is running, also from a source tree that is not installed."""
    version = getattr(sys.modules.get("gluonjit"), "__version__", None)
    return str(version or compat.version_of("gluonjit") or "(not installed)")


def examine(name: str) -> ProbedFramework:
    """Finds the package of a framework, and tries it in a separate process."""
    engine = ProbedFramework(name)
    found = ((distribution, compat.version_of(distribution)) for distribution in _DISTRIBUTIONS[name])
    engine.distributions = [(distribution, version) for distribution, version in found if version]
    if not engine.distributions and not compat.is_found(name):
        return engine
    if len(engine.distributions) > 1:
        names = [distribution for distribution, _ in engine.distributions]
        engine.problems.append(
            Problem(
                f"{' and '.join(names)} are both installed and use the same folder",
                f"pip uninstall {' '.join(names)}; then install one of them",
            )
        )
    read_probe(engine, *_run_probe(name))
    return engine


def read_probe(engine: ProbedFramework, output: str, ending: str) -> None:
    """Puts the output of a probe into ``engine``; ``ending`` says how the process failed, if it did."""
    stages = list(_json_lines(output))
    for stage in stages:
        _read_stage(engine, stage)
    if not ending:
        return
    last = str(stages[-1]["stage"]) if stages else "import"
    # A GPU that the build has no code for can end the process: there is no text to go by.
    cause = "no kernel image" if last.startswith("gpu") else ending
    engine.problems.append(Problem(f"{engine.name}, {last}: the process {ending}", _remedy(cause, engine.name)))


def _read_stage(engine: ProbedFramework, stage: dict[str, Any]) -> None:
    name = str(stage["stage"])
    if stage.get("ok") is False:
        error = str(stage["error"])
        what, _, step = error.partition(" Next: ")
        engine.problems.append(Problem(f"{engine.name}, {name}: {what}", step or _remedy(error, engine.name)))
    elif stage.get("ok") and name == "import":
        engine.version = str(stage["version"])
        engine.problems.extend(_import_problems(engine, stage))
    elif stage.get("ok"):
        engine.usable = engine.usable or name == "compute"
        engine.devices.append(str(stage["device"]))


def _import_problems(engine: ProbedFramework, stage: dict[str, Any]) -> Iterable[Problem]:
    for warning in stage.get("warnings", ()):
        yield Problem(warning, f"pip install --upgrade gluonjit, with {engine.name} {SUPPORTED_MXNET}")
    if engine.name == "mxnet" and engine.version != SUPPORTED_MXNET:
        yield Problem(
            f"mxnet {engine.version} is installed; gluonjit is made for {SUPPORTED_MXNET}",
            f"pip install mxnet=={SUPPORTED_MXNET}",
        )


def _remedy(error: str, name: str) -> str:
    for pattern, step in _REMEDIES:
        if re.search(pattern, error):
            return step
    return f"python -c 'import {name}' shows the whole error; pip install --force-reinstall 'gluonjit[{name}]'"


def _run_probe(name: str) -> tuple[str, str]:
    """Returns the probe's output, and how it failed, if it did."""
    try:
        done = subprocess.run(
            [sys.executable, "-m", "gluonjit.install.probes", name],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=PROBE_SECONDS,
        )
    except subprocess.TimeoutExpired as error:
        return _text(error.stdout), f"did not end in {PROBE_SECONDS} s"
    except OSError as error:
        return "", f"did not start ({error})"
    if done.returncode < 0:
        return done.stdout, f"was ended by signal {-done.returncode}"
    if done.returncode:
        lines = done.stderr.strip().splitlines()
        return done.stdout, f"failed with code {done.returncode} ({lines[-1] if lines else 'no message'})"
    return done.stdout, ""


def _json_lines(output: str) -> Iterable[dict[str, Any]]:
    """The probe's own lines: frameworks may print others between them."""
    for line in output.splitlines():
        try:
            stage = json.loads(line)
        except ValueError:
            continue
        if isinstance(stage, dict) and "stage" in stage:
            yield stage


def _text(output: str | bytes | None) -> str:
    return output.decode(errors="replace") if isinstance(output, bytes) else output or ""


def _engine_lines(engines: Iterable[ProbedFramework]) -> Iterable[str]:
    for engine in engines:
        if not engine.installed:
            yield f"{engine.name}: not installed (pip install 'gluonjit[{engine.name}]')"
            continue
        brought = ", ".join(f"{name} {version}" for name, version in engine.distributions) or "found"
        state = f"works on {', '.join(engine.devices)}" if engine.usable else "DOES NOT WORK, see below"
        yield f"{engine.name}: {brought}, {state}"


def _numpy_lines(engines: Iterable[ProbedFramework]) -> Iterable[str]:
    version = compat.version_of("numpy")
    if version is None:
        yield "not installed (pip install numpy)"
        return
    beside = any(engine.name == "mxnet" and engine.installed for engine in engines)
    if beside and compat.numpy_problem(version):
        yield f"{version}: too new for MXNet {SUPPORTED_MXNET}"
    elif beside and compat.needs_numpy_bool(version):
        yield f"{version}: works with MXNet only if 'import gluonjit' comes before 'import mxnet'"
    else:
        yield f"{version}: fits"


def _python_problems(engines: Iterable[ProbedFramework]) -> Iterable[Problem]:
    """Lists the reasons that prevent an installation of MXNet."""
    if _PYTHON >= (3, 13) and not any(engine.installed for engine in engines):
        what, _, step = compat.python_problem(_PYTHON, has_distutils=True).partition(" Next: ")
        yield Problem(what, step)


def _cores() -> int:
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not on every system
        return os.cpu_count() or 1


def _thread_lines() -> Iterable[str]:
    yield f"{os.cpu_count()} cores, {_cores()} of them for this process"
    for name in _THREAD_VARIABLES:
        yield f"{name}={os.environ[name]}" if name in os.environ else f"{name} is not set (all cores)"
    for name in sorted(os.environ):
        if name.startswith("MXNET_"):
            yield f"{name}={os.environ[name]}"


def _thread_problems() -> Iterable[Problem]:
    threads = os.environ.get("OMP_NUM_THREADS", "")
    if threads.isdigit() and int(threads) > _cores():
        yield Problem(
            f"OMP_NUM_THREADS={threads}, but this process has {_cores()} cores: operators wait in turn",
            f"set OMP_NUM_THREADS to {_cores()} or less before Python starts",
        )
    if os.environ.get("MXNET_ENGINE_TYPE") == "NaiveEngine":
        yield Problem(
            "MXNET_ENGINE_TYPE=NaiveEngine waits after every operator",
            "unset MXNET_ENGINE_TYPE unless you are debugging",
        )


def _cache_lines() -> Iterable[str]:
    cache_info = getattr(sys.modules.get("gluonjit"), "cache_info", None)
    if cache_info is None:
        yield "empty"
        return
    try:
        info = cache_info()
    except Exception as error:
        yield f"cache_info() failed: {type(error).__name__}: {error}"
        return
    rows = list(info.items()) if isinstance(info, dict) else [("all", info)]
    yield from (f"{name}: {row}" for name, row in rows) if rows else ("empty",)


def _optional_lines() -> Iterable[str]:
    for name, extra in _OPTIONAL.items():
        version = compat.version_of(name)
        yield f"{name} {version}" if version else f"{name}: not installed (pip install 'gluonjit[{extra}]')"


def _print_problems(problems: list[Problem]) -> None:
    if not problems:
        print("\nno problem found")
        return
    print("\nproblems")
    for number, problem in enumerate(problems, start=1):
        print(f"  {number}. {problem.what}\n     Next: {problem.step}")
