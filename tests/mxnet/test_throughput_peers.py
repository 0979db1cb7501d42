"""Peers: what they are sent, how their processes are spoken to, and what is said when they fail."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import mxnet as mx
import numpy as np
import pytest

from experiments.data.trees import Pair, Sentence
from experiments.throughput.peers import environments, samples
from experiments.throughput.peers.environments import NEEDS, STAMP, PeerError, python_of
from experiments.throughput.peers.forest import binary_of, forest_of
from experiments.throughput.peers.process import Peer, Task

FAKE = """
import os, sys
import numpy as np
from experiments.throughput.peers import serve

class Fake:
    def __init__(self, weights, rate):
        self.weight, self.rate = weights["w"], rate

    def differentiate(self, samples):
        if len(samples) == 1:
            raise ValueError("one is too few")
        print("between replies")
        sizes = [len(pair.left.words) + len(pair.right.words) for pair in samples]
        threads = int(os.environ["OMP_NUM_THREADS"])
        return {"losses": np.array(sizes), "w": self.weight, "rate": np.array(self.rate), "threads": np.array(threads)}

    def step(self, samples):
        print("out of memory", file=sys.stderr, flush=True)
        os._exit(7)

    def infer(self, samples):
        return np.zeros(1)

serve.MODELS["fake"] = lambda family, threads: Fake
serve.main()
"""


def sentence(words: list[int], parents: list[int]) -> Sentence:
    made = Sentence([str(word) for word in words], parents)
    made.number(words)
    return made


def pairs() -> list[Pair]:
    first, second = sentence([4, 5, 6], [2, 0, 2]), sentence([7, 8], [0, 1])
    return [Pair(first, second, 2.5), Pair(second, second, 1.0), Pair(first, first, 5.0)]


@pytest.fixture
def peer(tmp_path: Path) -> Any:
    script = tmp_path / "fake.py"
    script.write_text(FAKE, encoding="utf-8")
    task = Task("pairs", pairs(), {"w": np.arange(6, dtype=np.float32).reshape(2, 3)}, 0.25)
    found = Peer("fake", [sys.executable, str(script)], task, threads=1)
    yield found, task
    found.close()


def test_a_peer_answers_by_the_places_of_samples(peer: Any) -> None:
    found, task = peer
    results = found.results([task.samples[2], task.samples[0]])
    np.testing.assert_array_equal(results["losses"], [6, 5])
    np.testing.assert_array_equal(results["w"], task.weights["w"])
    assert results["rate"] == 0.25 and results["threads"] == 1
    assert found.timed("inference", task.samples) >= 0


def test_an_error_in_a_peer_is_its_answer_and_it_goes_on(peer: Any) -> None:
    found, task = peer
    with pytest.raises(PeerError, match=r"^fake: ValueError: one is too few$"):
        found.results(task.samples[:1])
    assert len(found.results(task.samples)["losses"]) == 3


def test_a_peer_that_dies_says_how_and_its_last_words(peer: Any) -> None:
    found, task = peer
    for _ in range(2):  # asked again, it says the same
        with pytest.raises(PeerError, match=r"^fake: its process ended with 7: .*out of memory$"):
            found.timed("train", task.samples)


def test_a_peer_that_cannot_start_says_why() -> None:
    with pytest.raises(PeerError, match=r"^fake: its process ended with 1: .*no weights here"):
        Peer("fake", [sys.executable, "-c", "raise SystemExit('no weights here')"], Task("pairs", pairs(), {}, 0.1), 1)


def test_pairs_arrive_as_words_heads_and_trees(tmp_path: Path) -> None:
    samples.save(tmp_path / "x.npz", "pairs", pairs(), {"a/b": np.ones(2)})
    found, weights = samples.load(tmp_path / "x.npz", "pairs")
    np.testing.assert_array_equal(weights["a/b"], [1, 1])
    assert len(found) == 3
    np.testing.assert_array_equal(found[0].left.words, [4, 5, 6])
    np.testing.assert_array_equal(found[0].left.heads, [1, -1, 1])
    np.testing.assert_array_equal(found[0].target, [0, 0.5, 0.5, 0, 0])
    root = found[0].left.root
    assert (root.word, [child.word for child in root.children]) == (5, [4, 6])


def test_phrases_and_tags_arrive_sentence_by_sentence(tmp_path: Path) -> None:
    trees = [((0, 1), 2), 0]
    texts = [
        SimpleNamespace(tokens=mx.nd.array(words), tree=tree, target=mx.nd.array(labels))
        for words, tree, labels in (([7, 8, 9], trees[0], [0, 1, 2, 3, 4]), ([6], trees[1], [2]))
    ]
    samples.save(tmp_path / "x.npz", "phrases", texts, {})
    (first, second), _ = samples.load(tmp_path / "x.npz", "phrases")
    assert (first.left.tolist(), first.right.tolist()) == ([-1, -1, 0, -1, 2], [0, 1, 1, 2, 3])
    assert (second.words.tolist(), second.labels.tolist()) == ([6], [2])
    texts = [
        SimpleNamespace(characters=mx.nd.array(x), target=mx.nd.array(y)) for x, y in (([1, 2], [0, 3]), ([4], [5]))
    ]
    samples.save(tmp_path / "y.npz", "tagged", texts, {})
    found, _ = samples.load(tmp_path / "y.npz", "tagged")
    assert [(one.words.tolist(), one.labels.tolist()) for one in found] == [([1, 2], [0, 3]), ([4], [5])]


def test_a_forest_has_leaves_first_and_children_before_parents() -> None:
    """Trees a(b, c(d)) and e: leaves b, d, e; then c; then a."""
    words = samples.FAMILIES["pairs"].read(
        {"words": np.array([0, 1, 2, 3, 4]), "heads": np.array([-1, 0, 0, 2, -1]), "sizes": np.array([4, 1]),
         "targets": np.zeros((1, 5))}
    )  # fmt: skip
    forest = forest_of([words[0].left, words[0].right])
    assert forest.leaves == 3
    assert forest.words.tolist() == [1, 3, 4, 2, 0]
    assert forest.levels == [(slice(3, 4), slice(0, 1)), (slice(4, 5), slice(1, 3))]
    assert forest.children.tolist() == [1, 0, 3]
    assert forest.parents.tolist() == [0, 0, 0]
    assert forest.roots.tolist() == [4, 2]


def test_binary_trees_have_rows_of_both_parts() -> None:
    left, right = samples.phrases_of(((0, 1), 2))
    forest = binary_of([samples.Phrases(np.array([7, 8, 9]), left, right, np.array([0, 1, 2, 3, 4]))])
    assert (forest.leaves, forest.words.tolist()) == (3, [7, 8, 9])
    assert forest.levels == [slice(3, 4), slice(4, 5)]
    assert (forest.left.tolist(), forest.right.tolist()) == ([0, 3], [1, 2])
    assert forest.rows.tolist() == [0, 1, 3, 2, 4]
    assert forest.labels.tolist() == [0, 1, 3, 2, 4]


def test_an_environment_is_made_once_for_a_list_of_requirements(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = []

    def make(peer: str, place: Path, python: Path, requirements: tuple[str, ...]) -> None:
        made.append(requirements)
        python.parent.mkdir(parents=True, exist_ok=True)
        python.touch()

    monkeypatch.setattr(environments, "_make", make)
    name = "torch-handbatched-ownbwd"
    for _ in range(2):
        assert python_of(name, tmp_path) == tmp_path / "torch" / "bin" / "python"
    assert made == [NEEDS[name].requirements] and "torch==2.13.0" in made[0]
    (tmp_path / "torch" / STAMP).write_text("torch==1.0", encoding="utf-8")
    python_of(name, tmp_path)
    assert len(made) == 2


def test_a_peer_without_a_wheel_for_this_python_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environments.sys, "version_info", (3, 9, 2))
    with pytest.raises(PeerError, match=r"dynet: dynet38==2.2 only has wheels for Python 3.11, this is 3.9"):
        python_of("dynet")


def test_a_failed_installation_tells_what_pip_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environments.venv, "create", lambda *_, **__: None)
    failed = subprocess.CompletedProcess([], 1, "", "ERROR: no matching distribution")
    monkeypatch.setattr(environments.subprocess, "run", lambda *_, **__: failed)
    with pytest.raises(PeerError, match=r"pip could not install torch==2.13.0.*no matching distribution"):
        python_of("torch-handbatched-ownbwd", tmp_path)
