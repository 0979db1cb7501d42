"""The workloads: what is read of files, what is said of broken ones, and that batched equals sample by sample."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from support import assert_same

from experiments.data import builtin, ner, sst
from experiments.data.errors import DataError
from experiments.data.reading import DATA_VARIABLE
from experiments.data.trees import TreeError
from experiments.workloads import NAMES, WORKLOADS, load
from experiments.workloads.tagging import lattice_of

TREES = "(3 (2 A) (4 (3 good) (2 film)))\n(1 bad)\n(2 (2 (2 A) (0 bad)) (2 film))\n(4 (4 good) (2 (2 A) (2 film)))\n"
TAGGED = (
    "王 B-NAME\n明 E-NAME\n， O\n中 B-CONT\n国 M-CONT\n籍 E-CONT\n\n中 B-CONT\n国 E-CONT\n\n， O\n\n李 S-NAME\n中 O\n\n"
)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Tiny files of every data set, and a small built-in corpus."""
    monkeypatch.setattr(builtin, "SCENES", 5)
    monkeypatch.setattr(builtin, "SIZES", {"train": 6, "dev": 2, "test": 2})
    monkeypatch.setattr(ner, "LEAST", 2)
    for split in ("train", "dev", "test"):
        write(tmp_path / "sick" / split / "a.toks", "A dog barks\nMen run\nA dog\n")
        write(tmp_path / "sick" / split / "a.parents", "2 3 0\n2 0\n2 0\n")
        write(tmp_path / "sick" / split / "b.toks", "Dogs bark\nA man runs fast\nA dog barks\n")
        write(tmp_path / "sick" / split / "b.parents", "2 0\n2 3 0 3\n3 3 0\n")
        write(tmp_path / "sick" / split / "sim.txt", "4.5\n1\n3.2\n")
    write(tmp_path / "glove" / "glove.840B.300d.sick.words", "A\ndog\nrun\n")
    np.save(tmp_path / "glove" / "glove.840B.300d.sick.npy", np.random.RandomState(0).rand(3, 300).astype("float32"))
    write(tmp_path / "sst" / "train.txt", TREES)
    write(tmp_path / "lattice" / "ResumeNER" / "train.char.bmes", TAGGED)
    return tmp_path


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def test_an_unknown_name_is_refused() -> None:
    with pytest.raises(ValueError, match=f"no such workload; the workloads are {', '.join(NAMES)}"):
        load("treelstm")


@pytest.mark.parametrize("granularity", ["cell", "op"])
@pytest.mark.parametrize("name", NAMES)
def test_a_workload_batched_equals_itself_sample_by_sample(name: str, granularity: str, folder: Path) -> None:
    workload = load(name, str(folder), seed=3)
    assert workload.name == name and len(workload.train) >= 3
    assert [loss.size for loss in workload.losses(workload.train[:2])] == [1, 1]
    report = assert_same(workload.net, workload.train[:4], workload.loss, granularity=granularity)
    assert report.flushes == 1
    assert not report.alone and not report.unbatched
    assert report.launches < report.nodes


@pytest.mark.parametrize("name", NAMES)
def test_a_seed_gives_the_same_weights_and_a_limit_the_first_samples(name: str, folder: Path) -> None:
    whole, part = load(name, str(folder), seed=3), load(name, str(folder), seed=3, limit=2)
    assert len(part.train) == 2
    expected = [float(loss.asscalar()) for loss in whole.losses(whole.train[:2])]
    assert [float(loss.asscalar()) for loss in part.losses(part.train)] == pytest.approx(expected, rel=1e-6)
    other = load(name, str(folder), seed=4)
    assert float(other.loss_of(other.train[0]).asscalar()) != pytest.approx(expected[0], rel=1e-6)


@pytest.mark.parametrize("name", [name for name in NAMES if WORKLOADS[name].files])
def test_missing_data_are_named_with_the_next_step(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(DATA_VARIABLE, raising=False)
    with pytest.raises(
        DataError, match=f"pass --data-dir or set {DATA_VARIABLE}, or use the workload treelstm-builtin"
    ):
        load(name)
    monkeypatch.setenv(DATA_VARIABLE, str(tmp_path))
    with pytest.raises(DataError, match=r"train.*: no such file; docs/data\.md says how"):
        load(name)


def test_a_treebank_is_read(folder: Path) -> None:
    first, second, *_ = sst.read(folder / "sst" / "train.txt")
    assert first == (["A", "good", "film"], (0, (1, 2)), [2, 3, 2, 4, 3])
    assert second == (["bad"], 0, [1])


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("", "there is no tree"),
        ("(3 (2 A) (2 film)", "1 brackets are not closed"),
        ("(3 (2 A) (2 film)))", "the tree has ended, but ')' follows at column 19"),
        ("(2 A) film", "the tree has ended, but 'film' follows at column 7"),
        ("film", "'film' at column 1 is outside of all brackets"),
        ("(5 A)", "label '5' after a bracket; a number from 0 to 4"),
        ("((2 A) (2 film))", "label ''"),
        ("(2 (2 A))", "a phrase holds a phrase; one word or two phrases"),
        ("(2 A film)", "a phrase holds 'A' and 'film'"),
        ("(2 A (2 film))", "a phrase holds 'A' and a phrase"),
        ("(2 )", "a phrase holds nothing"),
        ("(2 (2 a) (2 b) (2 c))", "a phrase holds a phrase and a phrase and a phrase"),
    ],
)
def test_what_is_no_binary_tree_is_refused(line: str, says: str, tmp_path: Path) -> None:
    with pytest.raises(TreeError) as caught:
        sst.parse(line)
    assert says in str(caught.value)
    write(tmp_path / "train.txt", f"(1 bad)\n{line}\n")
    with pytest.raises(DataError) as found:
        sst.read(tmp_path / "train.txt")
    assert str(found.value).startswith(f"{tmp_path / 'train.txt'}:2: ")


def test_tagged_sentences_are_read(folder: Path) -> None:
    sentences = ner.read(folder / "lattice" / "ResumeNER" / "train.char.bmes")
    assert ["".join(sentence.characters) for sentence in sentences] == ["王明，中国籍", "中国", "，", "李中"]
    assert sentences[1].tags == ("B-CONT", "E-CONT")
    assert [list(ner.runs(sentence)) for sentence in sentences] == [
        ["王明", "，", "中国籍"],
        ["中国"],
        ["，"],
        ["李", "中"],
    ]


@pytest.mark.parametrize(
    ("text", "line", "says"),
    [
        ("", None, "holds no sentence"),
        ("王 B-NAME\n明\n", 2, "1 fields in '明'"),
        ("王 B-NAME x\n", 1, "3 fields"),
        ("王 O\n\n明 X-NAME\n", 3, "tag 'X-NAME'; O, or one of B, M, E, S"),
    ],
)
def test_broken_tags_are_named_with_their_line(text: str, line: int | None, says: str, tmp_path: Path) -> None:
    path = tmp_path / "train.char.bmes"
    write(path, text)
    with pytest.raises(DataError) as caught:
        ner.read(path)
    assert str(caught.value).startswith(f"{path}:{line}: " if line else f"{path}: ")
    assert says in str(caught.value)


def test_the_lexicon_has_what_occurs_often_enough_within_one_run(folder: Path) -> None:
    sentences = ner.read(folder / "lattice" / "ResumeNER" / "train.char.bmes")
    assert ner.lexicon(sentences) == ["中国"]


def test_words_stand_where_they_end() -> None:
    spans, numbers = lattice_of(tuple("中国国籍中国"), {"中国": 0, "国国籍": 1, "国籍": 2})
    assert numbers == [0, 1, 2, 0]
    assert spans == [[], [(0, 0)], [], [(1, 1), (2, 2)], [], [(4, 3)]]


@pytest.mark.skipif(not os.environ.get(DATA_VARIABLE), reason=f"{DATA_VARIABLE} is not set: no files to read")
def test_the_real_files_hold_what_the_documentation_says() -> None:
    folder = Path(os.environ[DATA_VARIABLE])
    trees = sst.read(folder / "sst" / "train.txt")
    assert (len(trees), sum(len(labels) for _, _, labels in trees)) == (8544, 318582)
    sentences = ner.read(folder / "lattice" / "ResumeNER" / "train.char.bmes")
    assert (len(sentences), len(ner.lexicon(sentences))) == (3821, 1432)
