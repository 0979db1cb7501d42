"""What users may rely on: the committed snapshot, errors for what was removed, and files of the version before."""

from __future__ import annotations

import json
import re
import shutil
import warnings
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

import gluonjit
from gluonjit import errors
from gluonjit.analysis.costs.coefficients import Coefficients, CoefficientsError
from gluonjit.commands import simulate
from gluonjit.hybrid.choose import kept
from gluonjit.hybrid.choose.choosing import chooser_of
from tools.public import differences, public, read

OLD = Path(__file__).parent / "old"  # files that the version before has written
TELLING = re.compile("removed|is now")

# How a call with a parameter that is gone is made.
CALLS: dict[str, Callable[[], Any]] = {
    "Batch.flush(wait)": lambda: gluonjit.Batch.flush(gluonjit.Batch.__new__(gluonjit.Batch), wait=False)
}


def test_the_snapshot_is_what_is_public() -> None:
    found = differences(read()[0], public())
    assert not found, "if this is meant: python -m tools.public --write"


def refusal(entry: str) -> str:
    """The message of the error or warning for something that is gone; "" where nothing is said."""
    sort, _, name = entry.partition(" ")
    try:
        warnings.simplefilter("error", FutureWarning)
        if sort == "option":
            gluonjit.Options().updated("hybridize()", {name: None})
        elif sort == "value":
            option, value = name.split("=")
            gluonjit.Options().updated("hybridize()", {option: (value,) if option == "without" else value})
        elif sort == "parameter":
            CALLS[name]()
        elif name.startswith("Options.SCHEDULERS."):
            gluonjit.Options().updated("hybridize()", {"scheduler": name.rpartition(".")[2]})
        elif sort in ("name", "error"):
            getattr(errors if sort == "error" else gluonjit, name)
        elif sort in ("key", "method"):
            owner = gluonjit.Report() if sort == "key" else getattr(gluonjit, name.split(".")[0])
            getattr(owner, name.split(".")[-1])
    except (errors.OptionError, AttributeError, TypeError, FutureWarning) as error:
        return str(error)
    return ""


def gone_entries() -> list[str]:
    """What was removed, but for what went with an owner that is gone itself."""
    gone = set(read()[1])
    inner = re.compile(r"^(key|parameter) (.+?)(\.\w+|\(\w+\))$")
    owners = {entry: inner.match(entry) for entry in gone}
    kept_ = [
        entry
        for entry, found in owners.items()
        if not found or not {f"{sort} {found[2]}" for sort in ("key", "method", "name")} & gone
    ]
    return sorted(kept_)


def test_what_was_removed_says_what_to_use_instead() -> None:
    assert [entry for entry in gone_entries() if not TELLING.search(refusal(entry))] == []


def test_a_removal_without_a_word_is_found() -> None:
    assert not TELLING.search(refusal("option graph"))
    assert not TELLING.search(refusal("value scheduler=nowhere"))
    assert not TELLING.search(refusal("name hybridise"))
    assert refusal("value scheduler=depth") == refusal("key calls") == ""
    assert TELLING.search(refusal("option executor"))
    assert TELLING.search(refusal("value without=sums"))


def test_differences_are_found() -> None:
    known, now = {"key a": "int", "key b": "int"}, {"key b": "float", "key c": "int"}
    assert differences(known, now) == ["key a: int -> (none)", "key b: int -> float", "key c: (none) -> int"]


@pytest.fixture
def cache(free: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    """A folder that the version before has left for the models of `make`."""
    monkeypatch.setenv("GLUONJIT_CACHE", str(tmp_path))
    monkeypatch.setattr(kept, "_signature", lambda *given: "old")
    (tmp_path / "choices").mkdir()
    for name in ("Linear", "Dense"):
        shutil.copy(OLD / "choices.json", tmp_path / "choices" / f"{name}-old.json")
    gluonjit.clear_caches()
    yield tmp_path
    gluonjit.clear_caches()


def make(engine: str) -> tuple[Any, list[Any], Callable[[Any], Any]]:
    framework: Any = import_module(engine)
    if engine == "torch":
        net = framework.nn.Linear(2, 3)
        return net, [framework.full((2,), float(k)) for k in range(8)], lambda array: array.detach().numpy()
    net = framework.gluon.nn.Dense(3, in_units=2)
    net.initialize()
    return net, [framework.nd.full((1, 2), float(k)) for k in range(8)], lambda array: array.asnumpy()


def test_an_old_cache_folder_is_read_or_passed_over(engine: str, cache: Path) -> None:
    net, samples, numbers = make(engine)
    wanted = [numbers(net(sample)) for sample in samples]
    gluonjit.hybridize(net, dynamic_batch=True)
    for _ in range(3):
        results = [net(sample) for sample in samples]
        assert all((abs(numbers(one) - other) < 1e-6).all() for one, other in zip(results, wanted))
    kind = {"Linear", "Dense"} & {type(net).__name__}
    path = cache / "choices" / f"{kind.pop()}-old.json"
    assert json.loads(path.read_text())["form"] == json.loads((OLD / "choices.json").read_text())["form"]


def test_the_choices_of_an_old_folder_are_of_what_there_is(
    engine: str, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    choosers: list[Any] = []
    monkeypatch.setattr(kept, "chooser_of", lambda options: choosers.append(chooser_of(options)) or choosers[-1])
    gluonjit.hybridize(make(engine)[0], dynamic_batch=True)
    studies = list(choosers[0]._studies.values())
    assert studies, "nothing of the folder was read"
    assert all(study.chosen.capture in study.allowed.captures for study in studies)


def test_old_costs_are_read_or_refused() -> None:
    try:
        assert Coefficients.load(OLD / "costs.json").launch > 0
    except CoefficientsError as error:
        assert "costs.json" in str(error)


def test_an_old_trace_is_read_or_refused(capsys: pytest.CaptureFixture[str]) -> None:
    code = simulate.main(str(OLD / "trace.json"), [], [], None, None)
    out, err = capsys.readouterr()
    if code:
        assert "trace.json" in err and len(err.strip().splitlines()) == 1
    else:
        assert any(line.split()[:6] == ["cell", "depth", "on", "2", "6", "5"] for line in out.splitlines())
