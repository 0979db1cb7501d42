"""Choices kept from process to process; a second model that looks like the first one stands for the later process."""

from __future__ import annotations

import json
import os
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

import gluonjit
from gluonjit.analysis import pace
from gluonjit.analysis.choice import Allowed, Study
from gluonjit.analysis.ways import Setting
from gluonjit.hybrid.choose import kept
from gluonjit.hybrid.options import Options
from gluonjit.hybrid.run.engine import engine_of

ALLOWED = Allowed(("cell", "op"), (True, False), ("depth", "bound"))


@pytest.fixture(autouse=True)
def cache(free: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("GLUONJIT_CACHE", str(tmp_path))
    monkeypatch.setattr(pace, "_TRACE", 0.0)  # else trials are long in coming, where calls are as small as here
    monkeypatch.setattr(pace, "_SHARE", 100.0)
    return tmp_path / "choices"


def make(engine: str, width: int = 3, **options: Any) -> tuple[Any, list[Any]]:
    framework: Any = import_module(engine)
    if engine == "torch":
        net = framework.nn.Linear(2, width)
        samples = [framework.ones(2) for _ in range(8)]
    else:
        net = framework.gluon.nn.Dense(width, in_units=2)
        net.initialize()
        samples = [framework.nd.ones((1, 2)) for _ in range(8)]
    gluonjit.hybridize(net, dynamic_batch=True, **options)
    return net, samples


def run(made: tuple[Any, list[Any]], minibatches: int) -> str:
    """Runs minibatches in inference; returns how the model runs then."""
    net, samples = made
    for _ in range(minibatches):
        if hasattr(net, "named_modules"):
            with import_module("torch").no_grad():
                first, *_ = [net(sample) for sample in samples]
                first.sum().tolist()
        else:
            first, *_ = [net(sample) for sample in samples]
            first.asnumpy()
    return str(gluonjit.explain().ways)


def decided(engine: str) -> Path:
    """Runs a model until it is decided how; returns the file that is kept."""
    made = make(engine)
    for _ in range(100):
        if "; runs " in (way := run(made, 8)):
            break
    assert "kept from" not in way
    (path,) = [
        path
        for path in (kept.cache_folder() / "choices").iterdir()
        if kept._NAME.search(path.name) and kept._is_choice(path)
    ]
    return path


def test_a_later_process_begins_with_what_an_earlier_one_has_decided(engine: str) -> None:
    path = decided(engine)
    known = json.loads(path.read_text())["paces"][False]
    way = run(make(engine), 1)
    assert f"runs {'eagerly' if known['eagerly'] else 'batched'} (kept from " in way
    assert str(path) in way


def test_models_of_few_minibatches_each_decide_together(engine: str, cache: Path) -> None:
    """Each by itself has not tried anything yet when it ends."""
    for _ in range(100):
        way = run(make(engine), 3)
        if cache.exists():
            break
    assert "kept from" in run(make(engine), 1)
    assert "kept from" not in way


def test_what_was_tried_is_dropped_with_all_choices(engine: str, cache: Path) -> None:
    for _ in range(20):
        run(make(engine), 3)
        gluonjit.clear_caches()
    assert not cache.exists()


def test_another_model_is_studied_by_itself(engine: str) -> None:
    decided(engine)
    assert "kept from" not in run(make(engine, width=4), 1)


def test_an_edited_model_is_another_one(engine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    decided(engine)
    kind = type(make(engine)[0])
    forward = kind.forward
    monkeypatch.setattr(kind, "forward", lambda self, x: forward(self, x))
    assert "kept from" not in run(make(engine), 1)


def test_a_named_way_keeps_nothing(engine: str, cache: Path) -> None:
    run(make(engine, granularity="cell"), 2)
    assert not cache.exists()


def paces(eager: Any, calls: Any) -> str:
    """A file with the pace of one phase."""
    pace = f'{{"eagerly": true, "eager": {eager}, "batched": 1, "calls": {calls}, "way": ""}}'
    return f'{{"form": 1, "day": "x", "paces": [{pace}], "choices": []}}'


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        "[" * 100_000,
        '{"form": 1, "day": "x", "paces": 5, "choices": []}',
        '{"form": 1, "day": "x", "paces": [{"eagerly": 1, "eager": 1, "batched": 1, "calls": 1, "way": ""}]}',
        '{"form": 1, "day": "x", "paces": [{"eagerly": true, "eager": NaN, "batched": 1, "calls": 1, "way": ""}]}',
        '{"form": 1, "day": "x", "paces": [{"eagerly": true, "eager": 1, "batched": 1, "calls": 1e999, "way": ""}]}',
        paces(1, -1),
        paces(1, "1" + 400 * "0"),
        paces("1" + 400 * "0", 1),
        '{"form": 1, "day": "x", "paces": [], "choices": [{"setting": ["cell", true, "worst"]}]}',
        '{"form": 1, "day": "x", "paces": [], "choices": [{"setting": 3}]}',
    ],
)
def test_a_broken_file_is_as_if_there_were_none(engine: str, text: str) -> None:
    path = decided(engine)
    path.write_text(text)
    assert "kept from" not in run(make(engine), 20)


@pytest.mark.parametrize("number", [float("nan"), float("inf"), -1, 10**400, None, "1"])
@pytest.mark.parametrize("place", ["nodes_a_sample", "size", "training", "setting"])
def test_a_broken_choice_changes_nothing(engine: str, place: str, number: Any) -> None:
    path = decided(engine)
    known = json.loads(path.read_text())
    known["choices"] = [{"training": False, "size": 4, "setting": ["cell", True, "depth"], "nodes_a_sample": 1.0}]
    known["choices"][0][place] = number
    path.write_text(json.dumps(known))
    run(make(engine), 3)


def test_a_phase_that_is_broken_leaves_the_other_one_alone(engine: str) -> None:
    path = decided(engine)
    known = json.loads(path.read_text())
    known["paces"] = [known["paces"][0], {"eagerly": 3}]
    path.write_text(json.dumps(known))
    assert "kept from" not in run(make(engine), 1)


def test_a_folder_that_cannot_be_written_is_as_if_nothing_were_kept(
    engine: str, cache: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    occupied = tmp_path / "file"
    occupied.touch()
    monkeypatch.setenv("GLUONJIT_CACHE", str(occupied))
    assert "kept from" not in run(make(engine), 100)


def test_files_are_bounded_and_the_oldest_go(engine: str, monkeypatch: pytest.MonkeyPatch, cache: Path) -> None:
    monkeypatch.setattr(kept, "_MOST", 2)
    path = decided(engine)
    later = [cache / f"Net-{digit * 16}.json" for digit in "ab"]
    for each in later:
        each.write_text(path.read_text())
    kept._forget_old(cache)
    assert sorted(cache.iterdir()) == later


OTHERS = {
    "a name of its own": ("survey.json", "{}"),
    "nearly a name": ("Net-0123456789abcde.json", '{\n "form": 1}'),
    "our name, another content": ("Net-0123456789abcdef.json", "{}"),
    "a folder": ("Net-0123456789abcdef.json", None),
}


@pytest.mark.parametrize("other", OTHERS)
def test_files_of_others_stay(engine: str, monkeypatch: pytest.MonkeyPatch, cache: Path, other: str) -> None:
    monkeypatch.setattr(kept, "_MOST", 1)
    name, text = OTHERS[other]
    cache.mkdir()
    if text is None:
        (cache / name).mkdir()
    else:
        (cache / name).write_text(text)
    os.utime(cache / name, (1, 1))
    path = decided(engine)
    (cache / "Net-0000000000000000.json").write_text(path.read_text())
    kept._forget_old(cache)
    assert (cache / name).exists() and len(list(cache.iterdir())) == 2


def test_a_link_is_replaced_and_not_written_through(engine: str, cache: Path, tmp_path: Path) -> None:
    path = decided(engine)
    victim = tmp_path / "settings"
    victim.write_text("mine")
    path.unlink()
    path.symlink_to(victim)
    assert decided(engine) == path
    assert victim.read_text() == "mine" and not path.is_symlink()
    gone = cache / "Net-0000000000000000.json"
    gone.symlink_to(path)
    assert not kept._is_choice(gone) and kept._is_choice(path)


def test_what_a_killed_process_has_left_goes(engine: str, cache: Path) -> None:
    cache.mkdir()
    old, new, other = (cache / name for name in (".gluonjit-a.partial", ".gluonjit-b.partial", ".other.partial"))
    for path in (old, new, other):
        path.touch()
    for path in (old, other):
        os.utime(path, (1, 1))
    decided(engine)
    assert [path.exists() for path in (old, new, other)] == [False, True, True]


@pytest.mark.parametrize("name", ["../data/of/Net", "/tmp/Net", "..", "N" * 1000, "Netz ü", "a\nb"])
def test_a_class_of_any_name_has_its_file_in_the_folder(engine: str, cache: Path, name: str) -> None:
    described = [kept.BlockDescription("\ud800", type(name, (type(make(engine)[0]),), {}), [])]
    paces = kept.recalled(Options(), engine_of(engine), described)
    paces.phases[0].told()
    (path,) = cache.iterdir()
    assert path.is_file() and len(path.name) < 100


def test_what_is_kept_is_compared_anew_where_minibatches_have_another_size() -> None:
    training = pace.Pace(True)
    training.restore({"eagerly": False, "eager": 2e-3, "batched": 1e-3, "calls": 32, "way": "cell/depth"}, "a day")
    assert str(training.summary()) == (
        "eager: 64.0 ms per minibatch (32 calls), cell/depth 32.0 in training; runs batched (kept from a day)"
    )
    training.compare_again()
    assert "kept from" not in str(training.summary())


def test_a_study_goes_on_with_the_way_that_was_kept() -> None:
    study = Study(ALLOWED)
    assert study.saved_state() is None
    study.chosen, study._mean = Setting("op", False, "bound"), 12.0
    later = Study(ALLOWED)
    later.restore(study.saved_state())  # type: ignore[arg-type]
    assert later.capture() == study.chosen.capture
    assert later.scheduler(later.capture()) == "bound"
    assert later.saved_state() == study.saved_state()
    assert later.drifted(later.capture(), 1000, 10)
