"""The trade-off experiment on PyTorch: the same rows as on MXNet, of the workloads that there are in PyTorch."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("matplotlib", reason="the experiment needs the extra `experiments`")

import torch

import gluonjit
from experiments.data import builtin
from experiments.tradeoff import on_torch
from experiments.tradeoff.cli import main
from experiments.tradeoff.configurations import Configuration
from experiments.tradeoff.measuring import PHASES
from experiments.workloads import NAMES

WAYS = [
    Configuration("op", "depth", True),
    Configuration("cell", "bound", False),
    Configuration("auto", "auto", "auto"),
]


@pytest.fixture(autouse=True)
def small_corpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(builtin, "SCENES", 5)
    monkeypatch.setattr(builtin, "SIZES", {"train": 12, "dev": 2, "test": 2})
    monkeypatch.setattr("experiments.tradeoff.measuring.CHOOSING", 4)


def test_a_run_writes_every_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("experiments.tradeoff.configurations.configurations", lambda: WAYS)
    path, plot = tmp_path / "tradeoff.json", tmp_path / "tradeoff.png"
    arguments = "--engine torch --workload treelstm-builtin --batch-sizes 1,3 --repeats 2 --calibration 0".split()
    assert main([*arguments, "--json", str(path), "--plot", str(plot)]) == 0
    result = json.loads(path.read_text(encoding="utf-8"))
    assert result["engine"] == "torch" and result["summary"]["errors"].keys() == set(PHASES)
    assert result["command"] == f"python -m experiments.tradeoff {' '.join(arguments[:8])} --seconds 4 --seed 0"
    names = ("granularity", "scheduler", "sharing", "batch_size", "phase")
    keys = [tuple(found[name] for name in names) for found in result["rows"]]
    assert keys == [(*found, size, phase) for size in (1, 3) for phase in PHASES for found in WAYS]
    by = dict(zip(keys, result["rows"]))
    for size in (1, 3):
        for phase in PHASES:
            fine, coarse = (by[(*way, size, phase)] for way in WAYS[:2])
            assert fine["nodes"] > coarse["nodes"] >= coarse["launches"] > 0
            assert coarse["predicted_ms"] > 0
    assert plot.read_bytes().startswith(b"\x89PNG")
    assert "SYNTHETIC" in capsys.readouterr().out


def test_nets_of_all_ways_share_their_parameters_and_give_the_same() -> None:
    workload = on_torch.load("treelstm-builtin", None, 0, None)
    pairs = workload.train[:4]
    expected = [workload.loss(workload.net, pair) for pair in pairs]
    sum(expected).backward()
    wanted = [None if one.grad is None else one.grad.clone() for one in workload.net.parameters()]
    for way in WAYS:
        twin = on_torch.batched(workload.net, way.options)
        assert all(one is other for one, other in zip(twin.parameters(), workload.net.parameters()))
        times = on_torch.run(twin, workload.loss, pairs, training=True)
        assert times.begin < times.captured < times.end
        assert gluonjit.explain().flushes == 1
        for parameter, gradient in zip(twin.parameters(), wanted):
            if gradient is None:
                assert parameter.grad is None
            else:
                torch.testing.assert_close(parameter.grad, gradient, rtol=1e-4, atol=1e-6)
        on_torch.run(twin, workload.loss, pairs, training=False)
        assert gluonjit.explain().flushes == 1
        assert all(parameter.grad is None for parameter in twin.parameters())


def test_workloads_are_those_that_throughput_has(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["--engine", "torch", "--workload", "lattice"])
    assert caught.value.code == 2
    assert "no workload is called 'lattice' on torch" in capsys.readouterr().err
    for name in set(NAMES) - {"lattice", "treelstm-builtin"}:
        assert main(["--engine", "torch", "--workload", name, "--data-dir", str(tmp_path)]) == 1
        assert "no such file" in capsys.readouterr().err


def test_mxnet_is_not_needed() -> None:
    code = (
        "import sys; from experiments.tradeoff import measuring, on_torch; "
        "from experiments.zoo.torch import engine; assert 'mxnet' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=Path(__file__).parents[2])
