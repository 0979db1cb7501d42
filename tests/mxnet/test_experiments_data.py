"""Reading SICK and making the built-in corpus: what is found, and what is said of broken files."""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from experiments.data import arrays, builtin, corpus, sick, vectors
from experiments.data.errors import DataError
from experiments.data.reading import DATA_VARIABLE
from experiments.data.scenes import Imagination, Scene, Thing, relatedness
from experiments.data.trees import Pair, Sentence, TreeError, target_of, tree_of

needs_sick = pytest.mark.skipif(
    not os.environ.get(DATA_VARIABLE), reason=f"{DATA_VARIABLE} is not set: no SICK files to read"
)

GOOD = {
    "a.toks": "A dog barks\nMen run\n",
    "a.parents": "2 3 0\n2 0\n",
    "b.toks": "Dogs bark\nA man runs fast\n",
    "b.parents": "2 0\n2 3 0 3\n",
    "sim.txt": "4.5\n1\n",
}


def write_split(folder: Path, **changed: str) -> Path:
    """Write a split of two pairs, some files other than they should be."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in {**GOOD, **{name.replace("_", "."): text for name, text in changed.items()}}.items():
        (folder / name).write_text(text, encoding="utf-8")
    return folder


def test_a_split_is_read(tmp_path: Path) -> None:
    first, second = sick.read_split(write_split(tmp_path))
    assert first.left.words == ("A", "dog", "barks")
    assert [node.index for node in first.left.root] == [2, 1, 0]
    assert second.right.root.index == 2 and [child.index for child in second.right.root.children] == [1, 3]
    assert (first.score, second.score) == (4.5, 1.0)


@pytest.mark.parametrize(
    ("changed", "file", "line", "says"),
    [
        ({"a_parents": "2 3 0\n"}, "a.parents", None, "1 lines, but a.toks has 2"),
        ({"b_toks": "Dogs bark loudly\nA man runs fast\n"}, "b.parents", 1, "2 heads for 3 tokens"),
        ({"a_parents": "2 x 0\n2 0\n"}, "a.parents", 1, "'x'"),
        ({"a_parents": "2 3 0\n2 9\n"}, "a.parents", 2, "head 9"),
        ({"a_parents": "2 1 0\n2 0\n"}, "a.parents", 1, "cycle"),
        ({"a_parents": "2 3 0\n0 0\n"}, "a.parents", 2, "has 2: tokens [1, 2]"),
        ({"a_parents": "2 3 1\n2 0\n"}, "a.parents", 1, "one root"),
        ({"sim_txt": "4.5\n5.1\n"}, "sim.txt", 2, "5.1 is outside 1 to 5"),
        ({"sim_txt": "4.5\nnan\n"}, "sim.txt", 2, "outside"),
        ({"sim_txt": "high\n1\n"}, "sim.txt", 1, "'high' is not a number"),
        ({"sim_txt": "4.5\n"}, "", None, "sim.txt 1"),
        ({"a_toks": "A dog barks\n\n", "a_parents": "2 3 0\n\n"}, "a.parents", 2, "0 heads for 0 tokens"),
    ],
)
def test_broken_files_are_named_with_their_line(
    tmp_path: Path, changed: dict[str, str], file: str, line: int | None, says: str
) -> None:
    with pytest.raises(DataError) as caught:
        sick.read_split(write_split(tmp_path, **changed))
    place = str(tmp_path / file) + (f":{line}:" if line else ":")
    assert str(caught.value).startswith(place)
    assert says in str(caught.value)


def test_missing_files_are_named(tmp_path: Path) -> None:
    (write_split(tmp_path) / "b.toks").unlink()
    with pytest.raises(DataError, match=r"b\.toks: no such file"):
        sick.read_split(tmp_path)


def test_a_missing_data_folder_says_how_to_name_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(DATA_VARIABLE, raising=False)
    with pytest.raises(DataError, match="--data-dir or set GLUONJIT_DATA"):
        corpus.load("sick")


def test_vectors_that_do_not_fit_their_words_are_refused(tmp_path: Path) -> None:
    np.save(tmp_path / f"{vectors.GLOVE_NAME}.npy", np.zeros((3, 4), dtype=np.float32))
    (tmp_path / f"{vectors.GLOVE_NAME}.words").write_text("a\nb\n", encoding="utf-8")
    with pytest.raises(DataError, match=r"\(3, 4\).* 2 words"):
        vectors.read_glove(tmp_path)


def test_words_are_numbered_by_frequency_and_get_their_vectors() -> None:
    pair = Pair(Sentence("b a b".split(), [2, 0, 2]), Sentence("b c".split(), [0, 1]), 3.2)
    table = corpus.number({"train": [pair]}, ["a", "b"], np.array([[1.0, 2.0], [3.0, 4.0]]), seed=0)
    assert pair.left.ids.tolist() == [1, 2, 1] and pair.right.ids.tolist() == [1, 3]
    arrays.give([pair], arrays.maker("mxnet"))
    assert pair.left.tokens.asnumpy().tolist() == [1, 2, 1]
    assert table[[1, 2]].tolist() == [[3.0, 4.0], [1.0, 2.0]]
    assert np.abs(table[3]).max() <= 0.05


def test_own_vocabulary_numbers_as_gluonnlp_does(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("gluonnlp", reason="gluonnlp is optional")
    sentences = [sentence.words for pair in small_corpus(monkeypatch) for sentence in (pair.left, pair.right)]
    theirs = vectors.make_vocab(sentences)
    rows = np.arange(10.0).reshape(5, 2)
    their_table = vectors.attach_vectors(theirs, theirs.idx_to_token[3:8], rows, seed=0)
    ours = vectors.make_vocab(sentences, plain=True)
    assert ours.idx_to_token == list(theirs.idx_to_token)
    assert ours[list(sentences[0])] == theirs[list(sentences[0])]
    np.testing.assert_array_equal(vectors.attach_vectors(ours, ours.idx_to_token[3:8], rows, seed=0), their_table)


def small_corpus(monkeypatch: pytest.MonkeyPatch) -> list[Pair]:
    monkeypatch.setattr(builtin, "SCENES", 20)
    monkeypatch.setattr(builtin, "SIZES", {"train": 40, "dev": 10, "test": 10})
    return builtin.generate(0)["train"]


@pytest.mark.parametrize("score", [1, 1.3, 3, 4.7, 5])
def test_the_mean_of_a_target_is_its_score(score: float) -> None:
    target = target_of(score)
    assert target.sum() == pytest.approx(1) and target.min() >= 0
    assert target @ np.arange(1, 6) == pytest.approx(score)


def test_a_tree_needs_tokens() -> None:
    with pytest.raises(TreeError):
        tree_of([])


@pytest.fixture(scope="module")
def generated() -> list[Pair]:
    return builtin.generate(0)["train"]


def test_the_generated_corpus_follows_sick(generated: list[Pair]) -> None:
    """Targets: the table of SICK's training trees (mean, 95th percentile, children), within a tenth or so."""
    sentences = [sentence for pair in generated for sentence in (pair.left, pair.right)]
    sizes = [len(sentence) for sentence in sentences]
    depths = [sentence.root.depth() for sentence in sentences]
    assert np.mean(sizes) == pytest.approx(9.7, rel=0.1) and np.percentile(sizes, 95) == pytest.approx(17, abs=3)
    assert np.mean(depths) == pytest.approx(4.4, rel=0.1) and max(depths) < 20
    children = Counter(len(node.children) for sentence in sentences for node in sentence.root)
    shares = [100 * children[count] / sum(sizes) for count in range(5)]
    np.testing.assert_allclose(shares, [50.9, 27.6, 9.5, 6.8, 3.7], atol=2)
    assert all(1 <= pair.score <= 5 for pair in generated)
    assert np.std([pair.score for pair in generated]) > 0.8


def test_the_generated_corpus_repeats_words_and_subtrees_as_sick_does(generated: list[Pair]) -> None:
    """Targets, in a minibatch of 256 pairs: 723 distinct words, 2.5 times as many nodes as distinct subtrees."""
    chosen = np.random.default_rng(0).permutation(len(generated))[:256]
    sentences = [sentence for index in chosen for sentence in (generated[index].left, generated[index].right)]
    words = {word for sentence in sentences for word in sentence.words}
    subtrees: dict[object, int] = {}
    for sentence in sentences:
        number_subtree(sentence, sentence.root, subtrees)
    assert len(words) == pytest.approx(740, rel=0.15)
    assert sum(map(len, sentences)) / len(subtrees) == pytest.approx(2.5, rel=0.15)


def number_subtree(sentence: Sentence, node: object, known: dict[object, int]) -> int:
    key = (sentence.words[node.index], *(number_subtree(sentence, child, known) for child in node.children))
    return known.setdefault(key, len(known))


def test_equal_seeds_give_equal_corpora(monkeypatch: pytest.MonkeyPatch) -> None:
    def text(pairs: list[Pair]) -> list[object]:
        return [(pair.left.words, pair.right.words, pair.left.parents.tolist(), pair.score) for pair in pairs]

    first, again = small_corpus(monkeypatch), small_corpus(monkeypatch)
    assert text(first) == text(again)
    assert text(first) != text(builtin.generate(1)["train"])
    np.testing.assert_array_equal(builtin.vectors(0)[1], builtin.vectors(0)[1])


def test_every_generated_word_has_a_vector(generated: list[Pair]) -> None:
    known = set(builtin.vectors(0)[0])
    assert not {word for pair in generated for side in (pair.left, pair.right) for word in side.words} - known


def test_the_score_depends_on_who_does_what() -> None:
    imagination = Imagination(np.random.default_rng(0))
    dog, man, field = (imagination.concept(kind) for kind in ("being", "being", "place"))
    chase, near = imagination.concept("deed"), imagination.concept("link")
    scene = Scene(chase, Thing(dog), Thing(man), ((near, Thing(field)),))
    swapped = replace(scene, agent=scene.patient, patient=scene.agent)
    assert dog != man
    assert relatedness(scene, scene) == 5
    assert relatedness(scene, swapped) < relatedness(scene, replace(scene, places=()))
    assert relatedness(scene, replace(scene, denied=True)) == 3.4


def test_the_generated_corpus_says_that_it_is_synthetic(monkeypatch: pytest.MonkeyPatch) -> None:
    small_corpus(monkeypatch)
    loaded = corpus.load("builtin", limit=7)
    assert "SYNTHETIC" in loaded.note
    assert (len(loaded.train), len(loaded.dev), len(loaded.test)) == (7, 7, 7)


@needs_sick
def test_sick_is_read_whole() -> None:
    loaded = corpus.load("sick")
    assert (len(loaded.train), len(loaded.dev), len(loaded.test)) == (4500, 500, 4927)
    nodes = [node for pair in loaded.train for side in (pair.left, pair.right) for node in side.root]
    assert len(nodes) == sum(pair.size for pair in loaded.train) == 87_089
    assert loaded.vectors.shape == (2409, 300)
