"""The experiment and the measurement of throughput on PyTorch: systems agree, commands run, and say what is missing."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

pytest.importorskip("scipy", reason="the experiment needs the extra `experiments`")

import torch

import gluonjit
from experiments.bench.agreement import TOLERANCE, check, deviations
from experiments.bench.base import MissingSystem
from experiments.bench.engines import make_systems
from experiments.data import arrays, builtin, corpus
from experiments.data.phrases import Sentence as Phrases
from experiments.data.tagged import Sentence as Tagged
from experiments.throughput import PEERS, cli, on_torch, synthetic
from experiments.throughput.peers import samples as plain
from experiments.throughput.peers import with_torch
from experiments.throughput.peers.levels import joined, levels_of
from experiments.throughput.peers.with_torch.fold import Fold
from experiments.torch import phrases, tagger
from experiments.torch.systems import PerSample, Program, by_hand, make_system
from experiments.torch.weights import weights_of
from experiments.treelstm import checkpoint
from experiments.treelstm.cli import main

HAS_ENGINE = hasattr(gluonjit, "hybridize")
WORDS, WIDTH, SIZE, CLASSES = 9, 6, 4, 5


@pytest.fixture(autouse=True)
def small_corpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(builtin, "SCENES", 20)
    monkeypatch.setattr(builtin, "SIZES", {"train": 45, "dev": 12, "test": 12})
    monkeypatch.setattr("experiments.throughput.bench.CHECKED", 4)
    monkeypatch.setattr("experiments.throughput.floor.TRIES", 1)
    for name, count in (("WARM_UP", 2), ("FIRST_LOOK", 2), ("PROFILED", 1)):
        monkeypatch.setattr(f"experiments.bench.clock.{name}", count)


def test_levels_have_children_in_the_pool_below() -> None:
    """Trees a(b, c(d)) and e: the pools are [d], [b, c], [e, a]."""
    levels = levels_of(joined([np.array([-1, 0, 0, 2]), np.array([-1])]))
    assert levels.order.tolist() == [3, 1, 4, 2, 0]
    assert (levels.leaves, levels.inner, levels.edges) == ([1, 1, 1], [1, 1], [1, 2])
    assert levels.children.tolist() == [0, 0, 1]
    assert levels.parents.tolist() == [0, 0, 0]
    assert levels.roots.tolist() == [1, 0]
    assert levels.row.tolist() == [4, 1, 3, 0, 2]


def test_a_fold_runs_what_is_equal_once_and_a_depth_together() -> None:
    fold, calls = Fold(), []

    def run(name: str) -> Any:
        def function(*columns: torch.Tensor) -> torch.Tensor:
            calls.append((name, [column.flatten().tolist() for column in columns]))
            return sum(column.reshape(len(column), 1).float() for column in columns)

        return function

    a, b, again = fold.add("word", 5), fold.add("word", 7), fold.add("word", 5)
    assert a == again and a != b
    both, one = fold.add("sum", a, b), fold.add("double", b)
    top = fold.add("sum", both, one)
    found = fold.run({name: run(name) for name in ("word", "sum", "double")}, [top, a, both], "cpu")
    assert found.flatten().tolist() == [19, 5, 12]
    assert calls == [
        ("word", [[5, 7]]), ("sum", [[5.0], [7.0]]), ("double", [[7.0]]), ("sum", [[12.0], [7.0]])
    ]  # fmt: skip


def per_sample_of(family: str) -> tuple[PerSample, list[Any]]:
    """A model of a family for one sample, and some samples: short, long, and of one word."""
    make = arrays.maker("torch")
    words = [np.array(ids, np.int32) for ids in ([1, 2, 1, 4], [5], [7, 8, 1])]
    torch.manual_seed(1)
    optimizer = lambda parameters: torch.optim.SGD(parameters, lr=0.1)  # noqa: E731
    if family == "tagged":
        labels = [np.arange(len(ids), dtype=np.int32) for ids in words]
        samples: list[Any] = [Tagged(make(x), make(y)) for x, y in zip(words, labels)]
        net: Any = tagger.Tagger(WORDS, CLASSES, WIDTH, SIZE)
        return PerSample("imperative", net, Program(family, tagger.loss, optimizer)), samples
    labels = [np.arange(2 * len(ids) - 1, dtype=np.int32) % CLASSES for ids in words]
    trees = [(0, (1, (2, 3))), 0, ((0, 1), 2)]
    samples = [Phrases(make(x), tree, make(y)) for x, tree, y in zip(words, trees, labels)]
    net = phrases.BinaryTreeLSTM(WORDS, CLASSES, WIDTH, SIZE)
    return PerSample("imperative", net, Program(family, phrases.loss, optimizer)), samples


CASES = [
    (name, family)
    for name, families in with_torch.MODULES.items()
    for family in families
    if family != "pairs" and name != "torch-compile"
]


@pytest.mark.parametrize(("name", "family"), CASES)
def test_a_model_for_minibatches_computes_and_learns_what_the_one_for_a_sample_does(name: str, family: str) -> None:
    system, samples = per_sample_of(family)
    other = by_hand(name, weights_of(system.net, family), system.program, samples)
    for _ in range(2):
        assert max(deviations(other.results(samples), system.results(samples)).values()) <= TOLERANCE
        np.testing.assert_allclose(other.infer(samples), system.infer(samples), rtol=1e-4, atol=1e-6)
        losses = [one.total(one.step(samples)) for one in (system, other)]
        assert losses[0] == pytest.approx(losses[1], rel=1e-5)


def test_all_ways_of_running_pairs_agree_and_trees_of_one_word_too() -> None:
    found = corpus.load("builtin", engine="torch")
    names = ["imperative", "handbatched", "ownbwd", "fold"]
    systems = make_systems("torch", names, found.vectors, seed=1)
    assert [system.name for system in systems] == names
    assert max(check(systems, found.train[:6]).values()) <= TOLERANCE
    samples, vectors, _ = synthetic.pairs(0, arrays.maker("torch"), limit=3)
    assert max(check(make_systems("torch", names, vectors, seed=2), samples).values()) <= TOLERANCE


def test_compilations_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """One graph for each function in training, whatever the numbers of rows."""
    pytest.importorskip("torch._inductor")
    monkeypatch.setattr("torch._inductor.compile_fx.compile_fx", lambda graph, inputs: graph.forward)
    found = corpus.load("builtin", engine="torch")
    reference, system = make_systems("torch", ["imperative", "compile"], found.vectors, seed=1)
    assert system.notes() == {"functions": 2, "compilations": 0}
    assert max(check([reference, system], found.train[:6]).values()) <= TOLERANCE
    assert system.notes()["compilations"] >= 2


def test_a_model_for_pairs_has_the_size_that_is_asked_for() -> None:
    task = on_torch.load("treelstm-synthetic", None, 0, 4, 40)
    assert task.weights()["h_weight"].shape == (120, 40)
    assert task.sizes.size == 40


def test_equal_seeds_give_equal_weights_on_both_engines() -> None:
    pytest.importorskip("mxnet")
    from experiments.treelstm.systems import make_system as on_mxnet

    vectors = np.random.default_rng(0).normal(size=(7, 6)).astype(np.float32)
    ours, theirs = make_system("imperative", vectors, 3).weights(), on_mxnet("imperative", vectors, 3).weights()
    assert set(ours) == set(theirs)
    for name, array in theirs.items():
        np.testing.assert_array_equal(ours[name], array)


def test_what_a_family_has_no_model_of_is_named() -> None:
    system, samples = per_sample_of("tagged")
    with pytest.raises(MissingSystem, match="torch-compile has no model of tagged"):
        by_hand("torch-compile", weights_of(system.net, "tagged"), system.program, samples)


def test_training_on_torch_resumes_to_the_same_numbers(tmp_path: Path) -> None:
    basic = ["train", "--engine", "torch", "--mode", "handbatched", "--batch-size", "10", "--seed", "3"]
    runs = {}
    for name, epochs in (("whole", "2"), ("begun", "1"), ("resumed", "2")):
        keep = [] if name == "whole" else ["--checkpoint", str(tmp_path / "run"), "--resume"]
        assert main([*basic, "--epochs", epochs, *keep, "--json", str(tmp_path / f"{name}.json")]) == 0
        runs[name] = json.loads((tmp_path / f"{name}.json").read_text(encoding="utf-8"))
    kept = [[(epoch["loss"], epoch["dev_pearson"]) for epoch in runs[name]["epochs"]] for name in ("whole", "resumed")]
    assert kept[0] == kept[1] and kept[0][1][0] < kept[0][0][0]
    assert runs["whole"]["test_mse"] == runs["resumed"]["test_mse"]
    assert runs["whole"]["setting"]["engine"] == "torch"


def test_an_optimizer_that_cannot_be_read_is_a_broken_checkpoint(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    basic = ["train", "--engine", "torch", "--mode", "handbatched", "--epochs", "1", "--limit", "10"]
    assert main([*basic, "--checkpoint", str(tmp_path)]) == 0
    (tmp_path / "epoch-0001" / checkpoint.STATES).write_bytes(b"nothing")
    assert main([*basic, "--checkpoint", str(tmp_path), "--resume"]) == 2
    assert f"{checkpoint.STATES}: it is no part of a checkpoint" in capsys.readouterr().err


def test_compare_and_agree_run_on_torch(tmp_path: Path) -> None:
    path = tmp_path / "compare.json"
    arguments = ["compare", "--engine", "torch", "--modes", "imperative,handbatched", "--batch-size", "8"]
    assert main([*arguments, "--repeats", "1", "--seconds", "0.001", "--json", str(path)]) == 0
    result = json.loads(path.read_text(encoding="utf-8"))
    systems = [(row["system"], row["phase"]) for row in result["rows"]]
    assert systems == [(name, phase) for name in ("imperative", "handbatched") for phase in ("train", "inference")]
    assert result["engine"] == "torch" and result["environment"]["torch"]
    assert main(["agree", "--engine", "torch", "--systems", "ownbwd,fold", "--batches", "2", "--batch-size", "4"]) == 0


def test_modes_of_another_engine_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["compare", "--engine", "torch", "--modes", "hybridized"])
    assert ended.value.code == 2 and "no mode is called 'hybridized' on torch" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        cli.main(["--workload", "treelstm-builtin", "--peers", "torchfold"])
    assert "no peer is called 'torchfold' on mxnet; the peers are dynet, torch-hand" in capsys.readouterr().err


def test_throughput_on_torch_has_rows_of_all_that_can_run(tmp_path: Path) -> None:
    path = tmp_path / "bench.json"
    peers = [name for name in PEERS["torch"] if name not in ("dynet", "torch-compile")]
    arguments = ["--engine", "torch", "--workload", "treelstm-builtin", "--batch-size", "4", "--peers", ",".join(peers)]
    assert cli.main([*arguments, "--repeats", "1", "--seconds", "0.001", "--json", str(path)]) == 0
    result = json.loads(path.read_text(encoding="utf-8"))
    systems = list(dict.fromkeys(row["system"] for row in result["rows"]))
    assert systems == ["imperative", *(["dynamic", "dynamic+reuse"] if HAS_ENGINE else []), *peers]
    assert HAS_ENGINE or result["left_out"] == {
        "dynamic": f"dynamic: gluonjit {gluonjit.__version__} has no engine for PyTorch"
    }
    for figures in result["agreement"].values():
        assert figures["losses"] <= 1e-5 and figures["losses_after_a_step"] <= 1e-5
    assert set(result["gemm_gflops"]) == {
        f"{name} {shape}" for shape in ("2048x300x600", "1024x1024x1024") for name in ("linear", "mm")
    }


def test_a_workload_without_a_model_on_torch_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["--engine", "torch", "--workload", "lattice"]) == 1
    assert "lattice: no such workload on torch" in capsys.readouterr().err


def test_tasks_of_files_have_the_sizes_of_their_models(tmp_path: Path) -> None:
    tree, tagged = tmp_path / "sst" / "train.txt", tmp_path / "lattice" / "ResumeNER" / "train.char.bmes"
    for file, text in ((tree, "(3 (2 A) (4 good))\n(1 bad)\n"), (tagged, "王 B-NAME\n明 E-NAME\n\n中 O\n")):
        file.parent.mkdir(parents=True)
        file.write_text(text, encoding="utf-8")
    phrase_task = on_torch.load("bintree-sst", str(tmp_path), 0, None)
    assert [sample.tokens.tolist() for sample in phrase_task.samples] == [[1, 3], [2]]
    assert [product.rows for product in phrase_task.products(phrase_task.samples, False)] == [3, 1, 4]
    tag_task = on_torch.load("bilstm", str(tmp_path), 0, 1)
    assert len(tag_task.samples) == 1 and tag_task.sizes.out == 3
    for task in (phrase_task, tag_task):
        again = on_torch.load(task.name, str(tmp_path), 0, None).weights()
        for name, array in task.weights().items():
            np.testing.assert_array_equal(again[name], array)


def test_parts_of_phrases_know_what_they_are_parts_of() -> None:
    left, right = plain.phrases_of(((0, 1), 2))
    heads = plain.heads_of(plain.Phrases(np.arange(3), left, right, np.zeros(5)))
    assert heads.tolist() == [2, 2, 4, 4, -1]
    assert plain.heads_of(SimpleNamespace(left=np.array([-1]), right=np.array([0]))).tolist() == [-1]  # type: ignore[arg-type]
