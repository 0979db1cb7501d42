"""The measurement of throughput: rows, floors of products, agreement, and what it refuses."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

pytest.importorskip("matplotlib", reason="the experiment needs the extra `experiments`")

import mxnet as mx

import gluonjit
from experiments.bench.agreement import Disagreement
from experiments.data import builtin
from experiments.data.arrays import maker
from experiments.data.trees import Pair, Sentence
from experiments.throughput import agreeing, counts, synthetic, tasks
from experiments.throughput.bench import Wanted, bench
from experiments.throughput.cli import main
from experiments.throughput.counts import Product, Sizes
from experiments.throughput.peers.environments import PeerError
from experiments.throughput.systems import make_systems
from experiments.throughput.table import findings, table

SWITCH = next(iter(gluonjit.Options.SWITCHES))


@pytest.fixture(autouse=True)
def small_corpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(builtin, "SCENES", 8)
    monkeypatch.setattr(builtin, "SIZES", {"train": 16, "dev": 2, "test": 2})
    monkeypatch.setattr("experiments.throughput.bench.CHECKED", 2)
    monkeypatch.setattr("experiments.throughput.floor.TRIES", 1)
    for name, count in (("WARM_UP", 2), ("FIRST_LOOK", 2), ("PROFILED", 1)):
        monkeypatch.setattr(f"experiments.bench.clock.{name}", count)


def wanted(**changes: Any) -> Wanted:
    basic = {"workload": "treelstm-builtin", "batch_sizes": (4,), "systems": ("handbatched",), "peers": ()}
    return Wanted(**{**basic, "ablations": (), "repeats": 1, "seconds": 0.001, "seed": 1, **changes})


def test_a_run_writes_a_row_for_each_system_phase_and_batch_size(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, plot = tmp_path / "new" / "bench.json", tmp_path / "new" / "bench.png"
    arguments = ["--workload", "treelstm-builtin", "--batch-size", "2,4", "--systems", "imperative,handbatched,dynamic"]
    arguments += ["--ablations", SWITCH, "--repeats", "1", "--seconds", "0.001", "--json", str(path)]
    assert main([*arguments, "--plot", str(plot)]) == 0
    result = json.loads(path.read_text(encoding="utf-8"))
    systems = [("imperative", None), ("handbatched", None), ("dynamic", True), ("dynamic", False)]
    systems.append((f"dynamic-{SWITCH}", True))
    keys = [(row["batch_size"], row["system"], row["sharing"], row["phase"]) for row in result["rows"]]
    phases = ("train", "inference")
    assert keys == [(size, *system, phase) for size in (2, 4) for system in systems for phase in phases]
    for row in result["rows"]:
        assert row["workload"] == "treelstm-builtin" and row["samples_timed"] > 0
        assert row["min"] <= row["samples_per_s"] <= row["max"]
        assert (row["launches_per_batch"] is None) == (row["sharing"] is None) == (row["ms"] is None)
    assert set(result["agreement"]) == {"handbatched", "dynamic", "dynamic, no sharing", f"dynamic-{SWITCH}"}
    for figures in result["agreement"].values():
        assert set(figures) == {"losses", "gradients", "losses_after_a_step"}
        assert max(figures.values()) <= 1e-5
    assert set(result["gains"]) == {"2", "4"} and set(result["gains"]["4"]) == {SWITCH}
    assert result["ratios"]["4"]["dynamic"]["train"]["handbatched"] > 0
    assert f"dynamic-{SWITCH}" not in result["ratios"]["4"]
    assert len(result["floor"]) == 8 and all(rate > 0 for rate in result["gemm_gflops"].values())
    assert result["command"].startswith("python -m experiments.throughput --workload treelstm-builtin")
    assert plot.read_bytes().startswith(b"\x89PNG")
    said = capsys.readouterr().out
    assert "treelstm-builtin, batch 2" in said and "what is left out" in said
    assert "thread: not checked" in said and "floor, training, equal work once" in said


def test_what_is_reused_has_been_seen_before_anything_is_timed() -> None:
    result = bench(wanted(systems=("imperative", "dynamic+reuse")))
    reports = [(row["system"], row["sharing"]) for row in result["rows"] if row["phase"] == "train"]
    assert reports == [("imperative", None), ("dynamic+reuse", True), ("dynamic+reuse", False)]
    reused = gluonjit.explain().reuse
    assert reused.hits == 4 and not reused.misses and not reused.refused


def test_floors_are_the_products_at_the_rate_of_products() -> None:
    result = bench(wanted())
    best = max(result["gemm_gflops"].values())
    for found in result["floor"]:
        assert found["samples_per_s"] == pytest.approx(best * 1e3 / (2 * found["mega_multiply_adds"]))
    work = {(found["phase"], found["sharing"]): found["mega_multiply_adds"] for found in result["floor"]}
    assert work["train", False] > work["train", True] > work["inference", True]
    assert work["train", False] > 2 * work["inference", False]


def pair(words: list[int], parents: list[int]) -> Pair:
    sides = [Sentence([str(word) for word in words], parents) for _ in range(2)]
    for side in sides:
        side.number(words)
    return Pair(*sides, 3.0)


def rows(products: list[Product]) -> list[int]:
    return [product.rows for product in products]


def test_products_of_pairs_are_counted_by_hand() -> None:
    """Both sides are b(a, a), word 1 below word 2: once for all equal, a leaf and a root are left."""
    sizes = Sizes(width=3, size=2, out=5, hidden=4)
    samples = [pair([1, 2, 1], [2, 0, 2])]
    apart, once = counts.pairs(sizes, samples, False), counts.pairs(sizes, samples, True)
    assert rows(apart) == [6, 2, 2, 4, 1, 1]
    assert rows(once) == [2, 1, 1, 1, 1, 1]
    # 6 words x 3 x 6, 2 x 3 x 2, 2 x 2 x 6, 4 x 2 x 2, 1 x 2 x 8, 1 x 4 x 5
    assert [product.forward for product in apart] == [108, 12, 24, 16, 16, 20]
    assert [product.training for product in apart] == [216, 24, 72, 48, 48, 60]


def test_products_of_binary_trees_are_counted_by_hand() -> None:
    """((a b) (a b)) c: the two phrases a b are one."""
    sample = SimpleNamespace(tokens=mx.nd.array([1, 2, 1, 2, 3]), tree=(((0, 1), (2, 3)), 4), target=mx.nd.zeros(9))
    sizes = Sizes(width=3, size=2, out=4)
    apart, once = counts.phrases(sizes, [sample], False), counts.phrases(sizes, [sample], True)
    assert rows(apart) == [5, 4, 9] and rows(once) == [3, 3, 6]
    assert [product.forward for product in apart] == [5 * 3 * 6, 4 * 4 * 10, 9 * 2 * 4]


def test_products_of_taggers_are_counted_by_hand() -> None:
    """Sentences a b and a b c: the first two states ahead are equal, and none back."""
    samples = [SimpleNamespace(characters=mx.nd.array(words)) for words in ([1, 2], [1, 2, 3])]
    sizes = Sizes(width=3, size=2, out=4)
    apart, once = counts.tagged(sizes, samples, False), counts.tagged(sizes, samples, True)
    assert rows(apart) == [5, 3 + 3 - 0, 5]
    # ahead: states after a and after a b are followed; back: after b, after c, after c b
    assert rows(once) == [3, 2 + 3, 5]
    assert [product.forward for product in apart] == [5 * 3 * 16, 6 * 2 * 8, 5 * 4 * 4]


def test_products_of_lattices_are_counted_by_hand() -> None:
    """Characters a b, twice, with one word over both."""
    one = SimpleNamespace(characters=mx.nd.array([1, 2]), words=mx.nd.array([7]), spans=[[], [(0, 0)]])
    sizes = Sizes(width=3, size=2, out=4)
    apart, once = counts.lattice(sizes, [one, one], False), counts.lattice(sizes, [one, one], True)
    assert rows(apart) == [4, 2, 2, 2, 2, 2, 4] and rows(once) == [2, 1, 1, 1, 1, 1, 2]


def test_synthetic_pairs_have_nothing_to_share_and_the_size_of_sick() -> None:
    samples, _, _ = synthetic.pairs(0, maker("mxnet"), limit=200)
    sizes = Sizes(width=300, size=150, out=5, hidden=50)
    assert rows(counts.pairs(sizes, samples, True)) == rows(counts.pairs(sizes, samples, False))
    assert 9.2 < np.mean([pair.size / 2 for pair in samples]) < 10.2
    again, _, _ = synthetic.pairs(0, maker("mxnet"), limit=200)
    assert [pair.left.parents.tolist() for pair in samples] == [pair.left.parents.tolist() for pair in again]


def test_systems_begin_with_equal_weights_and_learn_alike() -> None:
    task = tasks.load("treelstm-synthetic", limit=6)
    systems = make_systems(task, ("imperative", "hybridized", "handbatched", "dynamic", "dynamic+reuse"), (SWITCH,))
    found, lost = agreeing.check(systems, task.samples)
    reused = {"dynamic+reuse", "dynamic+reuse, no sharing"}
    assert set(found) == {"hybridized", "handbatched", "dynamic", "dynamic, no sharing", f"dynamic-{SWITCH}", *reused}
    assert not lost


def test_systems_have_the_size_that_is_asked_for_and_agree() -> None:
    task = tasks.load("treelstm-synthetic", limit=6, hidden=40)
    assert task.weights()["h_weight"].shape == (120, 40)
    found, lost = agreeing.check(make_systems(task, ("imperative", "handbatched", "dynamic"), ()), task.samples)
    assert set(found) == {"handbatched", "dynamic", "dynamic, no sharing"} and not lost


def test_a_system_that_learns_otherwise_stops_the_run() -> None:
    task = tasks.load("treelstm-synthetic", limit=6)
    systems = make_systems(task, ("imperative", "handbatched"), ())
    systems[1].trainer.set_learning_rate(0.5)
    with pytest.raises(Disagreement, match="handbatched and imperative differ in losses after a step"):
        agreeing.check(systems, task.samples)


class Failing:
    """A peer whose process dies at its second minibatch that is timed."""

    name = label = "dynet"
    sharing, one_by_one, closed = None, False, False

    def __init__(self) -> None:
        self.left = 1

    def timed(self, phase: str, samples: Any) -> float:
        self.left -= 1
        if self.left < 0:
            raise PeerError("dynet: its process ended with 9: killed")
        return 0.5

    def notes(self) -> dict[str, int]:
        return {}

    def close(self) -> None:
        self.closed = True


def test_the_run_goes_on_without_a_peer_that_dies(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(agreeing, "check", lambda systems, samples, wider: ({}, {}))
    peer = Failing()
    result = bench(wanted(peers=("dynet",)), start=lambda name, task: peer)  # type: ignore[arg-type,return-value]
    assert result["left_out"] == {"dynet": "dynet: its process ended with 9: killed"}
    assert [row["system"] for row in result["rows"]] == ["handbatched", "handbatched"]
    assert peer.closed
    assert "left out from here: dynet: its process ended with 9" in capsys.readouterr().out


def test_the_run_goes_on_without_a_peer_that_cannot_be_installed() -> None:
    def refuse(name: str, task: Any) -> Any:
        raise PeerError(f"{name}: pip could not install it")

    result = bench(wanted(peers=("dynet",)), start=refuse)
    assert result["left_out"] == {"dynet": "dynet: pip could not install it"} and len(result["rows"]) == 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--workload", "sick"], "invalid choice: 'sick' (choose from"),
        (["--peers", "dgl"], "no peer is called 'dgl'; the peers are dynet, torch-handbatched-ownbwd"),
        (["--ablations", "speed"], f"no optimization is called 'speed'; the optimizations are {SWITCH}"),
        (["--systems", "torch"], "no system is called 'torch'; the systems are imperative,"),
        (["--batch-size", "4,4"], "a batch size is named twice in 4,4"),
        (["--engine", "jax"], "invalid choice: 'jax'"),
        (["--hidden", "9", "--against", "."], "--hidden is for treelstm-sick, treelstm-builtin, treelstm-synthetic"),
        (["--hidden", "9", "--workload", "bilstm"], "--hidden is for treelstm-sick,"),
    ],
)
def test_unknown_names_are_refused(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--workload", "treelstm-builtin", *arguments])
    assert ended.value.code == 2 and message in capsys.readouterr().err


def test_too_few_samples_are_an_error_with_both_numbers(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--workload", "treelstm-builtin", "--batch-size", "64"]) == 1
    assert "16 samples do not fill --batch-size 64" in capsys.readouterr().err


def row(system: str, phase: str, found: float, sharing: bool | None = None, size: int = 256) -> dict[str, Any]:
    return {
        "system": system, "phase": phase, "samples_per_s": found, "min": found, "max": found, "sharing": sharing,
        "samples_timed": 1, "launches_per_batch": None, "lower_bound_per_batch": None, "batch_size": size,
    }  # fmt: skip


def result_of(rows: list[dict[str, Any]], workload: str = "treelstm-sick") -> dict[str, Any]:
    result = {"workload": workload, "threads": 1, "rows": rows, "floor": [], "gemm_gflops": {}, "left_out": {}}
    return {**result, **findings(result)}


def test_a_run_whose_peer_is_under_its_floor_claims_nothing() -> None:
    rows = [row("dynet", "train", 1899), row("dynamic", "train", 4000, True), row("dynamic", "train", 900, True, 64)]
    found = result_of(rows)
    assert found["under_floor"] == ["dynet reached 1899 pairs/s in training, its floor is 1900"]
    assert found["ratios"] == found["gains"] == {} and found["floors_checked"]
    assert "not fit for claims: dynet" in table(found)


def test_floors_are_asked_for_where_they_are_known() -> None:
    rows = [row("dynet", "train", 10), row("dynamic", "train", 40, True), row(f"dynamic-{SWITCH}", "train", 20, True)]
    found = result_of(rows, "treelstm-synthetic")
    assert not found["floors_checked"] and not found["under_floor"]
    assert found["ratios"] == {"256": {"dynamic": {"train": {"dynet": 4.0}}}}
    assert found["gains"] == {"256": {SWITCH: {"train": 2.0}}}
    assert "2.00x" in table(found) and "not checked" in table(found)


def test_names_are_known_before_a_framework_is_imported() -> None:
    code = "import sys; from experiments.throughput.cli import _parser; _parser(); assert 'mxnet' not in sys.modules"
    assert subprocess.run([sys.executable, "-c", code], timeout=60, check=False).returncode == 0
