"""gluonjit where MXNet, PyTorch or both are missing: in fresh processes whose imports of them are blocked."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

# Python imports this module when it starts, in the processes that the doctor starts too.
BLOCKER = """
import sys

class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {blocked!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Blocker())
"""

FAKE_TORCH = "__version__ = '0.0'\n"


def run(tmp_path: Path, blocked: list[str], *arguments: str) -> subprocess.CompletedProcess[str]:
    """Python with these arguments, where these packages cannot be imported."""
    (tmp_path / "sitecustomize.py").write_text(BLOCKER.format(blocked=blocked))
    if "torch" not in blocked:
        (tmp_path / "torch.py").write_text(FAKE_TORCH)
    path = os.pathsep.join((str(tmp_path), str(ROOT)))
    done = subprocess.run(
        [sys.executable, *arguments],
        env={**os.environ, "PYTHONPATH": path},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert "Traceback" not in done.stderr, done.stderr
    return done


WITHOUT_MXNET = [["mxnet"], ["mxnet", "torch"]]


@pytest.mark.parametrize("blocked", [["torch"], *WITHOUT_MXNET], ids="-".join)
def test_import_needs_no_framework(blocked: list[str], tmp_path: Path) -> None:
    code = """
import sys, gluonjit, gluonjit.analysis, gluonjit.hybrid
assert gluonjit.cache_info() == {}, gluonjit.cache_info()
gluonjit.clear_caches()
assert gluonjit.add_n([1, 2]) == 3
assert gluonjit.cell(lambda x: x + 1)(2) == 3
assert gluonjit.explain().launches == 0
try:
    with gluonjit.batching():
        pass
except gluonjit.errors.EngineError as error:
    assert "import mxnet" in str(error)
else:
    raise SystemExit("batching() without a framework")
print(sorted({"mxnet", "torch"} & set(sys.modules)))
"""
    done = run(tmp_path, blocked, "-c", code)
    assert (done.returncode, done.stdout, done.stderr) == (0, "[]\n", "")


@pytest.mark.parametrize("blocked", WITHOUT_MXNET, ids="-".join)
def test_import_mxnet_fails_as_without_gluonjit(blocked: list[str], tmp_path: Path) -> None:
    code = """
import gluonjit
try:
    import mxnet
except ModuleNotFoundError as error:
    print(error.name)
"""
    assert run(tmp_path, blocked, "-c", code).stdout == "mxnet\n"


@pytest.mark.parametrize("blocked", WITHOUT_MXNET, ids="-".join)
def test_rules_without_mxnet_say_what_to_install(blocked: list[str], tmp_path: Path) -> None:
    done = run(tmp_path, blocked, "-m", "gluonjit", "rules", "--engine", "mxnet")
    assert done.returncode == 1 and not done.stdout
    assert "mxnet cannot be imported (ModuleNotFoundError: No module named 'mxnet')" in done.stderr
    assert "Next: pip install 'gluonjit[mxnet]'" in done.stderr


def test_rules_without_any_framework(tmp_path: Path) -> None:
    done = run(tmp_path, ["mxnet", "torch"], "-m", "gluonjit", "rules")
    assert done.returncode == 1 and not done.stdout
    assert "pip install 'gluonjit[mxnet]'" in done.stderr and "pip install 'gluonjit[torch]'" in done.stderr


def test_rules_need_mxnet_alone(tmp_path: Path) -> None:
    pytest.importorskip("mxnet")
    done = run(tmp_path, ["torch"], "-m", "gluonjit", "rules", "FullyConnected")
    assert done.returncode == 0 and "FullyConnected" in done.stdout


@pytest.mark.parametrize("blocked", [["torch"], *WITHOUT_MXNET], ids="-".join)
def test_the_doctor_comes_to_an_end(blocked: list[str], tmp_path: Path) -> None:
    done = run(tmp_path, blocked, "-m", "gluonjit", "doctor")
    assert "\nengines\n" in done.stdout and "\nthreads\n" in done.stdout
    assert done.returncode in (0, 1) and not done.stderr
    if "mxnet" not in blocked:
        assert "torch: not installed" in done.stdout or "No module named 'torch'" in done.stdout
    elif "mxnet, import" in done.stdout:  # its distribution is here, and the doctor says that it does not work
        assert done.returncode == 1 and "Next:" in done.stdout
