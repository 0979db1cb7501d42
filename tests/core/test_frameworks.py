"""Import hooks: both orders, failing imports, reloads, threads. Each case has a process of its own.

The frameworks here are made up, so that these tests need none; those with the real MXNet are at the end.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import textwrap
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from frameworks_support import INSTALLED

from gluonjit.install import compat

ROOT = Path(__file__).resolve().parents[2]
HAS_MXNET = importlib.util.find_spec("mxnet") is not None
needs_mxnet = pytest.mark.skipif(not HAS_MXNET, reason="MXNet is not installed")


def run(code: str, *folders: Path) -> str:
    """What the code prints in a fresh process; it fails the test where the process fails."""
    path = os.pathsep.join(str(folder) for folder in (ROOT, *folders))
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.fixture
def framework(tmp_path: Path) -> Path:
    """A folder with the package ``framework``, whose submodule is imported before its own import ends."""
    package = tmp_path / "framework"
    package.mkdir()
    (package / "__init__.py").write_text("from . import block\nfinished = True\n")
    (package / "block.py").write_text("class Block:\n    pass\n")
    return tmp_path


def test_the_hook_runs_at_once_where_the_framework_came_first(framework: Path) -> None:
    code = """
        import framework
        from gluonjit.install import frameworks
        frameworks.when_imported("framework", lambda module: print(module.__name__, module.finished))
    """
    assert run(code, framework) == "framework True"


def test_the_hook_runs_after_the_whole_import_where_gluonjit_came_first(framework: Path) -> None:
    code = """
        from gluonjit.install import frameworks
        frameworks.when_imported("framework", lambda module: print(module.__name__, module.finished))
        import sys
        assert "framework" not in sys.modules
        import framework.block
        print("imported")
    """
    assert run(code, framework) == "framework True\nimported"


def test_hooks_given_by_name_are_imported_when_they_are_called(framework: Path) -> None:
    (framework / "hooks.py").write_text(
        "print('hooks imported')\n"
        "def prepare(): print('prepare')\n"
        "def install(module): print('install', module.finished)\n"
    )
    code = """
        from gluonjit.install import frameworks
        frameworks.before_import("framework", "hooks:prepare")
        frameworks.when_imported("framework", "hooks:install")
        print("registered")
        import framework
    """
    assert run(code, framework).split("\n") == ["registered", "hooks imported", "prepare", "install True"]


def test_a_hook_runs_once_however_often_it_is_registered_and_the_framework_reloaded(framework: Path) -> None:
    code = """
        import importlib
        from gluonjit.install import frameworks
        calls = []
        frameworks.when_imported("framework", calls.append)
        import framework
        frameworks.when_imported("framework", calls.append)
        importlib.reload(framework)
        import framework.block
        print(len(calls))
    """
    assert run(code, framework) == "1"


def test_a_fresh_module_object_is_hooked_too(framework: Path) -> None:
    code = """
        import sys
        from gluonjit.install import frameworks
        calls = []
        frameworks.when_imported("framework", calls.append)
        import framework
        del sys.modules["framework"], sys.modules["framework.block"]
        import framework
        print(len(calls), calls[1] is framework, calls[0] is not framework)
    """
    assert run(code, framework) == "2 True True"


def test_an_import_that_fails_leaves_the_hook_for_the_next_try(framework: Path) -> None:
    (framework / "framework" / "__init__.py").write_text(
        "import sys\nif not hasattr(sys, 'ready'): raise OSError('libcuda.so.1')\nfinished = True\n"
    )
    code = """
        import sys
        from gluonjit.install import frameworks
        calls = []
        frameworks.when_imported("framework", calls.append)
        try:
            import framework
        except OSError as error:
            print(error, len(calls), "framework" in sys.modules)
        sys.ready = True
        import framework
        print(len(calls))
    """
    assert run(code, framework) == "libcuda.so.1 0 False\n1"


def test_a_framework_that_is_not_there_is_not_found_as_without_hooks() -> None:
    code = """
        import importlib.util
        from gluonjit.install import frameworks
        frameworks.when_imported("no_such_framework", print)
        assert importlib.util.find_spec("no_such_framework") is None
        try:
            import no_such_framework
        except ModuleNotFoundError as error:
            print(error.name)
    """
    assert run(code) == "no_such_framework"


def test_an_error_in_prepare_is_the_error_of_the_import(framework: Path) -> None:
    code = """
        import sys
        from gluonjit import errors
        from gluonjit.install import frameworks
        def prepare(): raise errors.EngineError("numpy 9")
        frameworks.before_import("framework", prepare)
        try:
            import framework
        except ImportError as error:
            print(type(error).__name__, error, "framework" in sys.modules)
    """
    assert run(code, framework) == "EngineError numpy 9 False"


@pytest.mark.parametrize("first", ["framework", "gluonjit"])
def test_a_hook_that_fails_warns_and_leaves_the_framework_usable(framework: Path, first: str) -> None:
    hook = 'frameworks.when_imported("framework", lambda module: 1 / 0)'
    lines = ["import framework", hook] if first == "framework" else [hook, "import framework"]
    code = "\n".join(
        [
            "import warnings",
            "from gluonjit import errors; from gluonjit.install import frameworks",
            "with warnings.catch_warnings(record=True) as caught:",
            "    warnings.simplefilter('always')",
            *(f"    {line}" for line in lines),
            "print(framework.finished, len(caught), caught[0].category.__name__)",
            "print(caught[0].message)",
        ]
    )
    told = run(code, framework)
    assert told.startswith("True 1 GluonJITWarning\n")
    assert "framework" in told and "ZeroDivisionError" in told and "doctor" in told


def test_the_imported_module_shows_no_trace_of_the_hooks(framework: Path) -> None:
    code = """
        import importlib.util, inspect, pkgutil
        from importlib.machinery import SourceFileLoader
        from gluonjit.install import frameworks
        frameworks.when_imported("framework", lambda module: None)
        spec = importlib.util.find_spec("framework")
        assert spec.loader.is_package("framework") and spec.loader.get_filename() == spec.origin
        assert "finished" in spec.loader.get_source("framework")
        assert pkgutil.get_data("framework", "block.py")
        import framework
        assert type(framework.__loader__) is SourceFileLoader
        assert type(framework.__spec__.loader) is SourceFileLoader
        assert [m.name for m in pkgutil.iter_modules(framework.__path__)] == ["block"]
        assert "finished" in inspect.getsource(framework)
        assert importlib.util.find_spec("framework").name == "framework"
    """
    run(code, framework)


def test_threads_that_import_at_once_see_a_framework_that_is_hooked(framework: Path) -> None:
    (framework / "framework" / "__init__.py").write_text("import time\ntime.sleep(0.2)\nfinished = True\n")
    code = """
        import threading
        from gluonjit.install import frameworks
        calls, seen = [], []
        def install(module):
            calls.append(module)
            module.hooked = True
        def work(barrier, register):
            barrier.wait()
            if register:
                frameworks.when_imported("framework", install)
            import framework
            seen.append(framework.hooked)
        frameworks.when_imported("framework", install)
        barrier = threading.Barrier(8)
        threads = [threading.Thread(target=work, args=(barrier, i % 2)) for i in range(8)]
        for thread in threads: thread.start()
        for thread in threads: thread.join()
        print(len(calls), seen.count(True))
    """
    assert run(code, framework) == "1 8"


def test_an_import_under_way_in_another_thread_is_waited_for(framework: Path) -> None:
    (framework / "framework" / "__init__.py").write_text("import time\ntime.sleep(0.5)\nfinished = True\n")
    code = """
        import sys, threading, time
        from gluonjit.install import frameworks
        thread = threading.Thread(target=lambda: __import__("framework"))
        thread.start()
        while "framework" not in sys.modules: time.sleep(0.01)
        frameworks.when_imported("framework", lambda module: print(module.finished))
        thread.join()
    """
    assert run(code, framework) == "True"


def test_gluonjit_imported_in_the_middle_of_the_frameworks_import_says_so(framework: Path) -> None:
    (framework / "framework" / "__init__.py").write_text(
        "from gluonjit.install import frameworks\nframeworks.when_imported('framework', print)\n"
    )
    code = """
        import warnings
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            import framework
        print(caught[0].message)
    """
    assert "before or after" in run(code, framework)


def test_two_libraries_with_such_hooks_get_on(framework: Path) -> None:
    code = """
        import importlib.util, sys
        from gluonjit.install import frameworks
        class Other:
            asking = False
            def find_spec(self, name, path=None, target=None):
                if name != "framework" or self.asking: return None
                self.asking = True
                try: return importlib.util.find_spec(name)
                finally: self.asking = False
        sys.meta_path.insert(0, Other())
        frameworks.when_imported("framework", lambda module: print("hooked"))
        sys.meta_path.insert(0, Other())
        import framework
    """
    assert run(code, framework) == "hooked"


# What MXNet needs of numpy and Python


@pytest.mark.parametrize("version", ["1.21.6", "1.23.5", "2.0.0", "2.3.1", "2.0.0rc1"])
def test_numpy_that_needs_no_name_gets_none(version: str) -> None:
    numpy: Any = SimpleNamespace(__version__=version, bool_="numpy's own")
    compat.restore_numpy_bool(numpy)
    assert not hasattr(numpy, "bool")


@pytest.mark.parametrize("version", ["1.24.0", "1.25.2", "1.26.4", "1.26.0b1"])
def test_numpy_without_bool_gets_it_back_once(version: str) -> None:
    numpy: Any = SimpleNamespace(__version__=version, bool_="numpy's own")
    compat.restore_numpy_bool(numpy)
    assert numpy.bool == "numpy's own"
    numpy.bool = "another library's"
    compat.restore_numpy_bool(numpy)
    assert numpy.bool == "another library's"


def test_numpy_2_is_an_error_that_names_the_version_and_the_next_step() -> None:
    assert compat.numpy_problem("1.26.4") == ""
    told = compat.numpy_problem("2.3.1", python=(3, 11))
    assert "numpy 2.3.1" in told and "pip install 'numpy<1.24'" in told
    assert "pip install 'numpy>=1.26,<2'" in compat.numpy_problem("2.3.1", python=(3, 12))


def test_import_mxnet_beside_numpy_2_says_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "mxnet.py").write_text("raise AttributeError('not reached')\n")
    code = """
        import numpy, sys
        numpy.__version__ = "2.3.1"
        sys.path.insert(0, sys.path.pop(2))
        from gluonjit.install import frameworks
        frameworks.before_import("mxnet", "gluonjit.install.compat:prepare_mxnet")
        try:
            import mxnet
        except ImportError as error:
            print(type(error).__name__, error)
    """
    told = run(code, tmp_path)
    assert told.startswith("EngineError import mxnet: ") and "2.3.1" in told


def test_python_without_distutils_or_too_new_is_an_error_with_the_next_step() -> None:
    assert compat.python_problem((3, 11), has_distutils=True) == ""
    assert "pip install setuptools" in compat.python_problem((3, 12), has_distutils=False)
    assert "3.9 to 3.12" in compat.python_problem((3, 13), has_distutils=True)


def test_cuda_wheels_that_are_not_there_are_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compat, "_CUDA_WHEELS", (("no-such-wheel-cu11", ("libnone.so",)),))
    assert compat.load_cuda_libraries() == []


def test_cuda_libraries_are_loaded_in_the_order_they_need(monkeypatch: pytest.MonkeyPatch) -> None:
    def files(wheel: str) -> list[Any]:
        names = ("libcublas.so.11", "libcublasLt.so.11", "libnvblas.so.11", "cublas.h")
        return [SimpleNamespace(name=name, locate=lambda name=name: f"/{wheel}/{name}") for name in names]

    monkeypatch.setattr(compat, "_CUDA_WHEELS", (("cublas", ("libcublasLt.so", "libcublas.so")),))
    monkeypatch.setattr(compat.importlib.metadata, "files", files)
    monkeypatch.setattr(compat.ctypes, "CDLL", lambda path, mode: path)
    assert compat.load_cuda_libraries() == ["libcublasLt.so.11", "libcublas.so.11"]


# The package and the real MXNet


def test_import_gluonjit_imports_no_framework() -> None:
    code = """
        import sys, gluonjit
        print([name for name in ("mxnet", "torch", "gluonnlp") if name in sys.modules])
    """
    assert run(code) == "[]"


@needs_mxnet
@pytest.mark.parametrize("order", ["gluonjit, mxnet", "mxnet, gluonjit", "mxnet.gluon, gluonjit"])
def test_both_import_orders_hook_mxnet(order: str) -> None:
    code = f"""
        import warnings
        warnings.simplefilter("error", UserWarning)
        import {order}
        from mxnet.gluon import Block
        try:
            Block().hybridize(dynamic_batch=True, no_such_option=1)
        except gluonjit.errors.OptionError as error:
            print(error)
    """
    # MXNet's own hybridize takes any option in silence.
    assert "no_such_option" in run(code)


@needs_mxnet
def test_the_shim_lets_mxnet_import_beside_a_numpy_without_bool() -> None:
    code = """
        import numpy
        numpy.__version__ = "1.26.4"
        vars(numpy).pop("bool", None)
        getattr(numpy, "__former_attrs__", {}).pop("bool", None)
        getattr(numpy, "__deprecated_attrs__", {}).pop("bool", None)
        from gluonjit.install import frameworks
        frameworks.before_import("mxnet", "gluonjit.install.compat:prepare_mxnet")
        import mxnet
        print(numpy.bool is numpy.bool_)
    """
    assert run(code) == "True"


@pytest.mark.parametrize("name", INSTALLED)
def test_a_part_of_an_engine_may_be_imported_before_its_framework(name: str) -> None:
    out = run(
        f"""
        import warnings
        import gluonjit
        warnings.simplefilter("error", gluonjit.errors.GluonJITWarning)
        import gluonjit.engines.{name}.run.memory
        print("hooked")
        """
    )
    assert out == "hooked"
