"""What ships: the files in the wheel and the source distribution, and what the metadata promises."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from email.message import Message
from email.parser import Parser
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.common.installed import COMPILED

ROOT = Path(__file__).resolve().parents[2]
BUILT_FROM = (
    "pyproject.toml",
    "setup.py",
    "MANIFEST.in",
    "README.md",
    "LICENSE",
    "CHANGELOG.md",
    "CITATION.cff",
)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the wheel and the source distribution, built without network from a copy of the tree."""
    if int(version("setuptools").split(".")[0]) < 77:
        pytest.skip(f"setuptools {version('setuptools')} is older than the 77 that the build needs: make setup")
    tree = tmp_path_factory.mktemp("tree")
    for name in BUILT_FROM:
        shutil.copy(ROOT / name, tree)
    for name in ("gluonjit", "experiments", "tests", "docs"):
        shutil.copytree(ROOT / name, tree / name, ignore=shutil.ignore_patterns("__pycache__", "*.so"))
    for name in ("hybrid", "analysis"):
        (tree / name).symlink_to(Path("gluonjit") / name)
    compiled_before(tree)
    out = tmp_path_factory.mktemp("dist")
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "build",
            "--no-isolation",
            "--sdist",
            "--wheel",
            "--outdir",
            str(out),
            str(tree),
        ],
        env={**os.environ, "PIP_NO_INDEX": "1", "CFLAGS": "-O0 -g0"},  # compiling is most of the time
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return out


def compiled_before(tree: Path) -> None:
    """Lay what `make setup` has compiled where a build looks for it, which compiles what is older than its sources.

    One module is left out, and compiled: more of them would show nothing else, and take most of the time.
    """
    place = tree / "build" / f"lib.{sysconfig.get_platform()}-{sys.implementation.cache_tag}" / "gluonjit"
    place.mkdir(parents=True)
    for path in (ROOT / "gluonjit").glob(f"*{sysconfig.get_config_var('EXT_SUFFIX')}"):
        if not path.name.startswith("_paths."):
            shutil.copy2(path, place)


@pytest.fixture(scope="module")
def wheel(built: Path) -> zipfile.ZipFile:
    return zipfile.ZipFile(next(built.glob("*.whl")))


@pytest.fixture(scope="module")
def metadata(wheel: zipfile.ZipFile) -> Message:
    name = next(name for name in wheel.namelist() if name.endswith(".dist-info/METADATA"))
    return Parser().parsestr(wheel.read(name).decode())


def shipped() -> set[str]:
    """Every file of the package in this tree."""
    package = ROOT / "gluonjit"
    files = [path for path in package.rglob("*") if path.is_file() and "__pycache__" not in path.parts]
    files = [path for path in files if path.suffix != ".so"]
    return {path.relative_to(ROOT).as_posix() for path in files}


@pytest.mark.slow
def test_the_wheel_holds_the_package_and_nothing_else(wheel: zipfile.ZipFile) -> None:
    names = {name for name in wheel.namelist() if ".dist-info/" not in name}
    compiled = {name: f"gluonjit/{name}{sysconfig.get_config_var('EXT_SUFFIX')}" for name in COMPILED}
    installed = {name for name in shipped() if not name.endswith((".pxd", ".c", ".h"))}
    assert names - set(compiled.values()) == installed
    for name, path in compiled.items():
        built_here = find_spec(f"gluonjit.{name}") is not None
        assert (path in names) == built_here, "what a wheel has, this tree should have: make setup"
    assert {"gluonjit/py.typed", "gluonjit/_rows.pyi"} < names


@pytest.mark.slow
def test_the_wheel_is_for_this_python_and_holds_the_licence(wheel: zipfile.ZipFile, built: Path) -> None:
    platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
    python = f"cp{sys.version_info[0]}{sys.version_info[1]}"
    assert next(built.glob("*.whl")).name.endswith(f"-{python}-{python}-{platform}.whl")
    assert any(name.endswith("LICENSE") for name in wheel.namelist())


@pytest.mark.slow
def test_the_source_distribution_holds_what_builds_the_package(built: Path) -> None:
    with tarfile.open(next(built.glob("*.tar.gz"))) as archive:
        assert not [member.name for member in archive.getmembers() if member.issym() or member.islnk()]
        names = {member.name.split("/", 1)[1] for member in archive.getmembers() if member.isfile()}
    extra = {name for name in names if "egg-info" not in name} - shipped() - set(BUILT_FROM)
    assert extra == {"PKG-INFO", "setup.cfg"}
    assert shipped() <= names


@pytest.mark.slow
def test_numpy_is_the_only_requirement(metadata: Message) -> None:
    needed = [line for line in metadata.get_all("Requires-Dist", []) if "extra ==" not in line]
    assert needed == ["numpy>=1.21"]
    assert metadata["Requires-Python"] == ">=3.9"
    assert "Apache-2.0" in (metadata["License-Expression"] or "")


@pytest.mark.slow
@pytest.mark.parametrize(
    "extra, wanted",
    [
        ("mxnet", ["mxnet==1.9.1", "numpy<1.24", "numpy<2"]),
        ("cu112", ["mxnet-cu112==1.9.1", "numpy<1.24", "nvidia-cudnn-cu11<9", "nvidia-cuda-runtime-cu11"]),
        ("torch", ["torch>=2.4"]),
        ("nlp", ["gluonnlp==0.10.0"]),
        ("experiments", ["matplotlib", "scipy", "tqdm"]),
        ("dev", ["pytest", "mypy", "ruff", "hypothesis", "import-linter", "build"]),
    ],
)
def test_each_extra_brings_what_it_says(extra: str, wanted: list[str], metadata: Message) -> None:
    assert extra in metadata.get_all("Provides-Extra", [])
    lines = [line for line in metadata.get_all("Requires-Dist", []) if f'extra == "{extra}"' in line]
    for requirement in wanted:
        name = requirement.replace("<", " ").replace("=", " ").replace(">", " ").split()[0]
        limit = requirement[len(name) :]
        assert any(line.startswith(name) and limit in line for line in lines), (requirement, lines)


@pytest.mark.slow
def test_the_wheel_works_in_an_environment_of_its_own(built: Path, tmp_path: Path) -> None:
    if not all(find_spec(f"gluonjit.{name}") for name in COMPILED):
        pytest.skip("there is no C compiler")
    own = tmp_path / "env"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(own)], check=True)
    python = own / "bin" / "python"
    wheel = next(built.glob("*.whl"))
    install = [sys.executable, "-m", "pip", "--python", str(python), "install", "--no-index", "--no-deps", str(wheel)]
    subprocess.run(install, check=True, capture_output=True)
    # What this environment has is seen there as well, but no package that is installed by a link: numpy, PyTorch.
    packages = sysconfig.get_path("purelib")
    (next(own.glob("lib/python*/site-packages")) / "these.pth").write_text(packages)
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    check = [str(python), "-W", "error", str(ROOT / "tests" / "common" / "installed.py")]
    done = subprocess.run(check, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert str(own) in done.stdout
    assert ("PyTorch: " in done.stdout) == (find_spec("torch") is not None)
