"""The measurement on a GPU, on the processor: what it writes, what it counts, and what it needs."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from experiments.data import arrays, builtin
from experiments.data.reading import DATA_VARIABLE
from experiments.gpu import generated, measuring
from experiments.gpu.cli import main
from experiments.gpu.floor import Rates, floor_of
from experiments.gpu.profiling import kernels_of, union
from experiments.gpu.report import draw, table
from experiments.throughput.counts import Product

ROOT = Path(__file__).resolve().parents[2]
QUICK = ["--device", "cpu", "--quick", "--hidden", "4", "--batch-size", "2"]


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(DATA_VARIABLE, raising=False)
    monkeypatch.setattr(builtin, "SCENES", 20)
    monkeypatch.setattr(builtin, "SIZES", {"train": 64, "dev": 2, "test": 2})
    monkeypatch.setattr(torch, "compile", lambda run, **options: run)  # tested elsewhere, and takes seconds
    for name in ("CHECKED", "FEW", "WARM_UP", "WARM_UP_DYNAMIC"):
        monkeypatch.setattr(measuring, name, 2)


def test_a_quick_run_without_a_gpu_checks_and_measures_every_workload(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "new" / "gpu.json"
    assert main([*QUICK, "--json", str(path)]) == 0
    result = json.loads(path.read_text(encoding="utf-8"))
    by_hand = ["handbatched", "handbatched-ownbwd", "per-sample"]
    keys = [(row["workload"], row["phase"], row["system"]) for row in result["rows"]]
    workloads = ("treelstm-sick", "bintree-sst", "bilstm")
    assert {key for key in keys if not key[2].startswith("gluonjit")} == {
        (name, phase, system) for name in workloads for phase in ("train", "inference") for system in by_hand
    }
    assert len(keys) == len({(*key, row["sharing"]) for key, row in zip(keys, result["rows"])})
    for row in result["rows"]:
        assert row["min"] <= row["samples_per_s"] <= row["max"] and row["samples_timed"] == 2
        assert row["kernels_per_minibatch"] is row["gpu_busy"] is None  # the processor has none
    for found in result["correctness"]:
        assert found["agrees"] and max(found["losses"], found["gradients"]) <= 1e-4
    assert len(result["floors"]) == 3 * 2 * 2 and result["bandwidth_gb_s"] > 0
    assert result["device"]["name"] == "cpu" and result["versions"]["torch"] == str(torch.__version__)
    assert not result["skipped"]
    assert {(row["system"], row["sharing"]) for row in result["rows"]} == {
        *[("gluonjit", sharing) for sharing in (True, False)],
        *[(name, None) for name in by_hand],
    }
    said = capsys.readouterr().out
    assert "treelstm-sick  4       2" in said and "GB/s, cpu" in said
    assert draw(result, tmp_path / "gpu.png") in (None, "no figure: matplotlib is not installed")


def test_a_run_whose_time_is_over_says_what_is_missing(tmp_path: Path) -> None:
    path = tmp_path / "gpu.json"
    assert main([*QUICK, "--systems", "handbatched", "--minutes", "0.000001", "--json", str(path)]) == 0
    result = json.loads(path.read_text(encoding="utf-8"))
    assert not result["rows"]
    assert [(row["workload"], row["why"]) for row in result["skipped"]] == [
        (name, "the 1e-06 minutes are over") for name in ("treelstm-sick", "bintree-sst", "bilstm")
    ]
    assert "left out: workload bilstm, hidden 4: the 1e-06 minutes are over" in table(result)


def test_a_system_that_computes_something_else_is_an_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(measuring, "TOLERANCE", 0.0)
    assert main([*QUICK, "--systems", "handbatched", "--workloads", "bilstm"]) == 1
    said = capsys.readouterr()
    assert "system handbatched: it does not agree" in said.out
    assert "1 systems disagree with the CPU" in said.err


def test_without_a_gpu_the_next_step_is_named(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert main([]) == 1
    assert "finds no GPU; install a build for CUDA, or try --device cpu --quick" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--workloads", "lattice"], "no workload is called 'lattice'"),
        (["--systems", "dynet"], "no system is called 'dynet'"),
        (["--hidden", "0"], "0 is less than 1"),
        (["--minutes", "soon"], "'soon' is not a number"),
    ],
)
def test_bad_arguments_are_explained(arguments: list[str], says: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2 and says in capsys.readouterr().err


def test_a_product_takes_as_long_as_its_work_or_its_floats() -> None:
    rates = Rates({}, gflops=1.0, gigabytes=1.0)
    large, flat = Product("large", 1000, 1000, 1000, True), Product("flat", 1, 1000, 1000, False)
    assert floor_of([large], "inference", rates) == pytest.approx(2.0)
    assert floor_of([large], "train", rates) == pytest.approx(6.0)
    assert floor_of([flat], "inference", rates) == pytest.approx(4 * (1000 + 1000 * 1000 + 1000) / 1e9)
    assert floor_of([flat, flat], "train", rates) == pytest.approx(4 * floor_of([flat], "inference", rates))


def event(name: str, begin: float, end: float, cuda: bool = True, mark: bool = False) -> Any:
    kind = torch.autograd.DeviceType.CUDA if cuda else torch.autograd.DeviceType.CPU
    span = SimpleNamespace(start=begin, end=end)
    return SimpleNamespace(name=name, device_type=kind, time_range=span, is_user_annotation=mark)


def test_kernels_are_counted_apart_from_copies_and_marks() -> None:
    events = [
        event("gemm", 0, 10), event("add", 5, 12), event("Memcpy HtoD", 20, 25), event("Memset", 25, 26),
        event("aten::mm", 0, 50, cuda=False), event("Optimizer.step", 0, 90, mark=True),
    ]  # fmt: skip
    found = kernels_of(events)
    assert (found.launches, found.copies) == (2, 2)
    assert found.seconds == pytest.approx((12 + 6) / 1e6)
    assert union([]) == 0 and union([(0, 10), (2, 3)]) == 10


def test_generated_sentences_have_the_sizes_of_the_data_sets() -> None:
    make = arrays.maker("torch")
    trees, tags = generated.phrases(0, 2000, make), generated.tagged(0, 2000, make)
    sizes = torch.tensor([float(len(sample.tokens)) for sample in trees])
    assert 18.5 < sizes.mean() < 19.7 and 8.5 < sizes.std() < 10
    assert all(len(sample.target) == 2 * len(sample.tokens) - 1 for sample in trees)
    sizes = torch.tensor([float(len(sample.characters)) for sample in tags])
    assert 31 < sizes.mean() < 34 and 22 < sizes.std() < 27
    assert max(int(sample.characters.max()) for sample in tags) < generated.RESUME.words
    first = generated.phrases(0, 3, make)
    assert [sample.tokens.tolist() for sample in first] == [sample.tokens.tolist() for sample in trees[:3]]


def test_nothing_but_torch_and_numpy_is_needed() -> None:
    """Not even for the parts that a run imports late."""
    code = """
import sys
sys.modules.update(dict.fromkeys(("mxnet", "gluonnlp", "scipy", "tqdm", "matplotlib")))
from pathlib import Path
from experiments.gpu import cli, measuring, report
from experiments.throughput.peers import with_torch
for name, families in with_torch.MODULES.items():
    for family in families:
        with_torch.model(name, family)
print(report.draw({}, Path("figure.png")))
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, timeout=120, check=False
    )
    assert (done.stdout, done.returncode) == ("no figure: matplotlib is not installed\n", 0), done.stderr
