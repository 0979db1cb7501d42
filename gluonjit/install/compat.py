"""Preparations that MXNet 1.9.1 needs to be imported with current numpy and CUDA wheels.

MXNet reads names that numpy has since removed, and looks for CUDA 11 only in its own folder. ``prepare_mxnet`` is
called just before MXNet is imported and fixes what can be fixed without surprises; otherwise it raises an error with
the versions and the next step. This module imports neither numpy nor a framework.
"""

from __future__ import annotations

import ctypes
import importlib.metadata
import importlib.util
import sys
from pathlib import Path
from types import ModuleType

from gluonjit.errors import EngineError

# Wheels of the libraries that mxnet-cu11x is linked with, each after those it needs itself. Inside a wheel
# order matters too, as for cuBLAS (cublasLt first) and cuDNN (the facade last).
_CUDA_WHEELS = (
    ("nvidia-cuda-runtime-cu11", ("libcudart.so",)),
    ("nvidia-cuda-nvrtc-cu11", ("libnvrtc-builtins.so", "libnvrtc.so")),
    ("nvidia-nvtx-cu11", ("libnvToolsExt.so",)),
    ("nvidia-cublas-cu11", ("libcublasLt.so", "libcublas.so")),
    ("nvidia-cufft-cu11", ("libcufft.so",)),
    ("nvidia-curand-cu11", ("libcurand.so",)),
    ("nvidia-cusparse-cu11", ("libcusparse.so",)),
    ("nvidia-cusolver-cu11", ("libcusolver.so",)),
    ("nvidia-nccl-cu11", ("libnccl.so",)),
    (
        "nvidia-cudnn-cu11",
        (
            "libcudnn_ops_infer.so",
            "libcudnn_ops_train.so",
            "libcudnn_cnn_infer.so",
            "libcudnn_cnn_train.so",
            "libcudnn_adv_infer.so",
            "libcudnn_adv_train.so",
            "libcudnn.so",
        ),
    ),
)
_CUDA_MXNETS = tuple(f"mxnet-cu11{minor}" for minor in range(8))

# Loaded libraries stay loaded as long as they are referred to.
_loaded: list[ctypes.CDLL] = []


def prepare_mxnet() -> None:
    """Prepares for ``import mxnet``, or raises with the reason why it cannot work. A second call changes nothing."""
    numpy = importlib.import_module("numpy")
    problem = python_problem(sys.version_info[:2], has_distutils()) or numpy_problem(numpy.__version__)
    if problem:
        raise EngineError(f"import mxnet: {problem}")
    restore_numpy_bool(numpy)
    if any(map(version_of, _CUDA_MXNETS)):
        load_cuda_libraries()


def numpy_problem(version: str, python: tuple[int, int] = sys.version_info[:2]) -> str:
    """Returns why MXNet 1.9.1 cannot run with this numpy, and the next step; empty if it can."""
    if _release(version) < (2, 0):
        return ""
    wanted = "numpy<1.24" if python < (3, 12) else "numpy>=1.26,<2"
    return (
        f"numpy {version} is installed, and MXNet 1.9.1 uses a dozen names that numpy 2 removed. "
        f"Next: pip install '{wanted}'"
    )


def needs_numpy_bool(version: str) -> bool:
    """True if MXNet imports with this numpy only after ``import gluonjit``."""
    return (1, 24) <= _release(version) < (2, 0)


def restore_numpy_bool(numpy: ModuleType) -> None:
    """Gives numpy 1.24-1.26 the name ``bool`` that MXNet reads; numpy 2 has it again with the same meaning."""
    if needs_numpy_bool(numpy.__version__) and "bool" not in vars(numpy):
        numpy.bool = numpy.bool_  # type: ignore[attr-defined]


def python_problem(python: tuple[int, int], has_distutils: bool) -> str:
    """Returns why MXNet 1.9.1 cannot run on this Python, and the next step; empty if it can."""
    running = f"{python[0]}.{python[1]}"
    if python >= (3, 13):
        return (
            f"this is Python {running}, and MXNet 1.9.1 needs a numpy older than 2, which does not support it. "
            "Next: use Python 3.9 to 3.12."
        )
    if not has_distutils:
        return (
            f"MXNet 1.9.1 uses distutils, which Python {running} does not have. "
            "Next: pip install setuptools, which brings it."
        )
    return ""


def has_distutils() -> bool:
    """True if distutils is available: Python's own, or that of setuptools."""
    return is_found("distutils")


def load_cuda_libraries() -> list[str]:
    """Loads the CUDA 11 libraries of the installed nvidia-*-cu11 wheels for all to see; returns their names.

    The dynamic linker takes a library that is loaded already before it searches folders, and the folders of
    these wheels are not among those it would search. A wheel that is not there, or a library that does not
    load, is passed over: the machine's own may do.
    """
    names = []
    for wheel, stems in _CUDA_WHEELS:
        for path in _libraries_of(wheel, stems):
            try:
                _loaded.append(ctypes.CDLL(str(path), mode=ctypes.RTLD_GLOBAL))
            except OSError:
                continue
            names.append(path.name)
    return names


def _libraries_of(wheel: str, stems: tuple[str, ...]) -> list[Path]:
    try:
        files = importlib.metadata.files(wheel) or []
    except importlib.metadata.PackageNotFoundError:
        return []
    paths = [Path(str(file.locate())) for file in files if ".so" in file.name]
    return [path for stem in stems for path in sorted(paths) if path.name.startswith(stem)]


def _release(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".")[:2])


def version_of(distribution: str) -> str | None:
    """The version of a distribution; None if it is not installed."""
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return None


def is_found(name: str) -> bool:
    """True if a module exists; other finders may raise, or a module may have no spec."""
    try:
        return importlib.util.find_spec(name) is not None
    except (ImportError, ValueError):
        return False
