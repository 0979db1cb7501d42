"""The doctor: it survives every kind of broken framework and says what to do about it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from gluonjit.__main__ import main
from gluonjit.install import doctor

ROOT = Path(__file__).resolve().parents[2]

# What stands in for a framework that is not there.
ABSENT = "raise ModuleNotFoundError(\"No module named '{name}'\")\n"


def visit(tmp_path: Path, mxnet: str | None = None, **variables: str) -> tuple[int, str]:
    """Exit code and output of the doctor in a fresh process, with ``mxnet`` replaced by the given source."""
    if mxnet is not None:
        (tmp_path / "mxnet.py").write_text(mxnet)
    (tmp_path / "torch.py").write_text(ABSENT.format(name="torch"))
    path = os.pathsep.join((str(tmp_path), str(ROOT)))
    done = subprocess.run(
        [sys.executable, "-m", "gluonjit", "doctor"],
        env={**os.environ, "PYTHONPATH": path, **variables},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert "Traceback" not in done.stderr, done.stderr
    return done.returncode, done.stdout


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> tuple[int, str]:
    """A visit to what is installed, with settings that can stay."""
    return visit(tmp_path_factory.mktemp("here"), OMP_NUM_THREADS="1")


@pytest.fixture(scope="module")
def unsettled(tmp_path_factory: pytest.TempPathFactory) -> tuple[int, str]:
    """The same with settings that slow programs down."""
    return visit(tmp_path_factory.mktemp("unsettled"), OMP_NUM_THREADS="999", MXNET_ENGINE_TYPE="NaiveEngine")


def test_every_section_is_there(here: tuple[int, str]) -> None:
    _, told = here
    for title in ("engines", "numpy", "capture", "threads", "caches", "optional packages"):
        assert f"\n{title}\n  " in told
    assert told.startswith("gluonjit ")


def test_a_missing_library_is_named_with_the_next_step(tmp_path: Path) -> None:
    code, told = visit(tmp_path, "raise OSError('libcuda.so.1: cannot open shared object file')\n")
    assert code == 1
    assert "mxnet, import: OSError: libcuda.so.1" in told
    assert "Next: this build needs an NVIDIA driver" in told


def test_a_crash_at_import_does_not_end_the_doctor(tmp_path: Path) -> None:
    code, told = visit(tmp_path, "import os, signal\nos.kill(os.getpid(), signal.SIGSEGV)\n")
    assert code == 1
    assert "mxnet, import: the process was ended by signal 11" in told
    assert "optional packages" in told


def test_an_exit_at_import_is_told_too(tmp_path: Path) -> None:
    code, told = visit(tmp_path, "import os\nos._exit(3)\n")
    assert code == 1
    assert "failed with code 3" in told


def test_more_threads_than_cores_is_a_problem_but_no_failure(here: tuple[int, str], unsettled: tuple[int, str]) -> None:
    code, told = unsettled
    assert "OMP_NUM_THREADS=999, but this process has" in told
    assert "Next: set OMP_NUM_THREADS to" in told
    assert code == here[0]


def test_settings_of_mxnet_are_shown(unsettled: tuple[int, str]) -> None:
    _, told = unsettled
    assert "  MXNET_ENGINE_TYPE=NaiveEngine\n" in told
    assert "Next: unset MXNET_ENGINE_TYPE" in told


def engine(name: str = "mxnet") -> doctor.ProbedFramework:
    return doctor.ProbedFramework(name, distributions=[(name, "1.9.1")])


IMPORTED = '{"stage": "import", "ok": true, "version": "1.9.1", "warnings": []}\n'
COMPUTED = '{"stage": "compute", "begun": true}\n{"stage": "compute", "ok": true, "device": "cpu(0)"}\n'


def test_what_a_framework_prints_itself_is_passed_over() -> None:
    found = engine()
    doctor.read_probe(found, f"[12:00:00] loading\n{{1: 2}}\n{IMPORTED}[1]\n{COMPUTED}", "")
    assert found.usable and found.devices == ["cpu(0)"] and not found.problems


def test_a_crash_on_a_gpu_leaves_the_engine_usable() -> None:
    found = engine()
    begun = '{"stage": "gpu 0", "begun": true}\n'
    doctor.read_probe(found, IMPORTED + COMPUTED + begun, "was ended by signal 6")
    assert found.usable and found.devices == ["cpu(0)"]
    assert "gpu 0: the process was ended by signal 6" in found.problems[0].what
    assert "compute capability" in found.problems[0].step


def test_another_version_of_mxnet_is_a_problem() -> None:
    found = engine()
    doctor.read_probe(found, IMPORTED.replace("1.9.1", "1.8.0") + COMPUTED, "")
    assert found.usable and "1.8.0" in found.problems[0].what and "1.9.1" in found.problems[0].step


def test_a_hook_that_failed_is_told() -> None:
    found = engine()
    doctor.read_probe(found, IMPORTED.replace("[]", '["gluonjit could not hook into mxnet"]') + COMPUTED, "")
    assert "could not hook" in found.problems[0].what


def test_the_next_step_of_our_own_errors_is_kept() -> None:
    found = engine()
    error = "EngineError: import mxnet: numpy 2.3.1 is installed. Next: pip install 'numpy<1.24'"
    doctor.read_probe(found, f'{{"stage": "import", "ok": false, "error": "{error}"}}\n', "")
    assert not found.usable
    assert found.problems == [
        doctor.Problem(
            "mxnet, import: EngineError: import mxnet: numpy 2.3.1 is installed.", "pip install 'numpy<1.24'"
        )
    ]


def test_two_builds_of_mxnet_are_a_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    versions = {"mxnet": "1.9.1", "mxnet-cu112": "1.9.1"}
    monkeypatch.setattr(doctor.compat, "version_of", versions.get)
    monkeypatch.setattr(doctor, "_run_probe", lambda name: (IMPORTED + COMPUTED, ""))
    found = doctor.examine("mxnet")
    assert "use the same folder" in found.problems[0].what
    assert found.problems[0].step.startswith("pip uninstall mxnet mxnet-cu112")


def test_nothing_installed_is_no_failure(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(doctor.compat, "version_of", lambda distribution: None)
    monkeypatch.setattr(doctor.compat.importlib.util, "find_spec", lambda name: None)
    assert main(["doctor"]) == 0
    told = capsys.readouterr().out
    assert "mxnet: not installed (pip install 'gluonjit[mxnet]')" in told
    assert "numpy\n  not installed" in told


@pytest.mark.parametrize(
    "version, said", [("1.23.5", "fits"), ("1.26.4", "before 'import mxnet'"), ("2.3.1", "too new")]
)
def test_numpy_is_judged_by_what_mxnet_needs(version: str, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor.compat, "version_of", lambda distribution: version)
    assert said in next(iter(doctor._numpy_lines([engine()])))


def test_caches_that_fail_to_tell_do_not_end_the_doctor(monkeypatch: pytest.MonkeyPatch) -> None:
    import gluonjit

    def broken() -> None:
        raise RuntimeError("no")

    monkeypatch.setattr(gluonjit, "cache_info", broken, raising=False)
    assert list(doctor._cache_lines()) == ["cache_info() failed: RuntimeError: no"]
    monkeypatch.setattr(gluonjit, "cache_info", lambda: {"plans": "0 of 256"}, raising=False)
    assert list(doctor._cache_lines()) == ["plans: 0 of 256"]


def test_a_command_that_is_none_is_refused_with_the_usage(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["docter"])
    assert ended.value.code == 2
    assert "doctor" in capsys.readouterr().err
