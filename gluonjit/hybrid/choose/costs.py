"""The cost models of this process, one for each engine, and the file of the machine's coefficients."""

from __future__ import annotations

import hashlib
import os
import platform
import sys
import warnings
from collections.abc import Mapping
from pathlib import Path
from threading import Lock

from gluonjit.analysis.costs.coefficients import Coefficients, CoefficientsError
from gluonjit.analysis.costs.model import CostModel
from gluonjit.errors import GluonJITWarning
from gluonjit.rows.running import cores

_models: dict[str, CostModel] = {}
_lock = Lock()
_THREADS = ("OMP_NUM_THREADS", "MXNET_CPU_WORKER_NTHREADS", "MXNET_ENGINE_TYPE")


def cost_model(engine: str, versions: Mapping[str, str]) -> CostModel:
    """Returns the model of an engine with these versions, made at the first call from the calibration or defaults."""
    with _lock:
        model = _models.get(engine)
        if model is None:
            model = _models[engine] = CostModel(_calibrated(engine, versions))
        return model


def use_model(engine: str, model: CostModel) -> None:
    """Sets the model of an engine."""
    with _lock:
        _models[engine] = model


def clear_curves() -> None:
    """Drops the measurements of this process; coefficients stay."""
    with _lock:
        for model in _models.values():
            model.forget()


def calibration_file(engine: str, versions: Mapping[str, str]) -> Path:
    """The file of this machine's coefficients, for an engine with these versions."""
    facts = [*machine(), *(f"{name} {version}" for name, version in sorted(versions.items()))]
    digest = hashlib.sha256("\n".join(facts).encode()).hexdigest()[:16]
    return cache_folder() / f"costs-{engine}-{digest}.json"


def cache_folder() -> Path:
    """$GLUONJIT_CACHE, or `gluonjit` in $XDG_CACHE_HOME or the platform's folder for caches."""
    own = os.environ.get("GLUONJIT_CACHE")
    if own:
        return Path(own).expanduser()
    shared = os.environ.get("XDG_CACHE_HOME")
    if shared:
        return Path(shared) / "gluonjit"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "gluonjit"
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local") / "gluonjit" / "cache"
    return Path.home() / ".cache" / "gluonjit"


def machine() -> list[str]:
    """Describes the machine: the processor, the cores that this process may use, and the engine's threads."""
    return [_processor(), f"{cores()} cores", *(f"{name}={os.environ.get(name, '')}" for name in _THREADS)]


def _processor() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as lines:
            for line in lines:
                if line.startswith("model name"):
                    return line.partition(":")[2].strip()
    except OSError:  # not Linux
        pass
    return platform.processor() or platform.machine()


def _calibrated(engine: str, versions: Mapping[str, str]) -> Coefficients:
    try:
        return Coefficients.load(calibration_file(engine, versions))
    except CoefficientsError as error:
        warnings.warn(
            f"the stored costs of this machine are not used: {error}. Next: python -m gluonjit calibrate",
            GluonJITWarning,
            stacklevel=2,
        )
    except (OSError, RuntimeError):  # there is no file, or no home
        pass
    return Coefficients()
