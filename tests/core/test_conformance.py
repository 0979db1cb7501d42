"""experiments.conformance without a framework: outcomes are compared, processes replaced, runs resumed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from experiments.conformance import cli, exceptions
from experiments.conformance.compare import differences, examine
from experiments.conformance.exceptions import EXCEPTIONS, Exempt
from experiments.conformance.outcome import OP, Finding, Leaf, Mode, Outcome, Program, Record
from experiments.conformance.run import Results, Setting, Worker, compare_all
from experiments.conformance.table import table


def of(*values: Any, part: str = "value", kind: str = "float32") -> Outcome:
    """An outcome of arrays."""
    return Outcome(parts={part: [None if v is None else Leaf(kind, np.asarray(v, "float32")) for v in values]})


def failed(error: BaseException) -> Outcome:
    """An outcome that is an error."""
    return Outcome(error=error)


@pytest.mark.parametrize(
    ("got", "wanted", "kind"),
    [
        (of([1.0, 2.0]), of([1.0, 2.1]), "value"),
        (of([1.0, np.nan]), of([1.0, 2.0]), "value"),
        (of([1.0]), of([1.0], [2.0]), "value"),
        (of([1.0], part="gradient"), of([2.0], part="gradient"), "gradient"),
        (of(None, part="gradient"), of([0.0], part="gradient"), "none"),
        (of([1.0, 2.0]), of([[1.0, 2.0]]), "shape"),
        (of([1.0], kind="float64"), of([1.0]), "dtype"),
        (Outcome(containers=["list"]), Outcome(containers=["tuple"]), "container"),
        (of([1.0]), failed(ValueError("no")), "no error"),
        (failed(ValueError("no")), of([1.0]), "exception"),
        (failed(KeyError("no")), failed(ValueError("no")), "error class"),
    ],
)
def test_each_kind_of_difference_is_seen(got: Outcome, wanted: Outcome, kind: str) -> None:
    assert [found for found, _ in differences(got, wanted)] == [kind]
    assert not differences(wanted, wanted)


def test_what_an_array_said_of_itself_must_be_so() -> None:
    lying = Outcome(parts={"value": [Leaf("float32", np.ones(2, "float32"), said=((3,), "float32"))]})
    assert [kind for kind, _ in differences(lying, of([1.0, 1.0]))] == ["announced"]


def drawn(results: Callable[[Mode | None, int, bool], Outcome]) -> Record:
    record = Record("an operator")
    examine(record, Program("case", results), lambda case: None)
    return record


def test_what_draws_is_compared_by_shape_and_what_rounding_decides_is_no_difference() -> None:
    by_seed = drawn(lambda mode, seed, nudged: of([float(seed)] if mode is None else [9.0]))
    assert by_seed.random and not by_seed.findings
    other_shape = drawn(lambda mode, seed, nudged: of([float(seed)] if mode is None else [9.0, 9.0]))
    assert [finding.kind for finding in other_shape.findings] == ["shape"]
    at_a_kink = drawn(lambda mode, seed, nudged: of([1.0 if mode is None and not nudged else 2.0]))
    assert at_a_kink.by_rounding == 1 and not at_a_kink.findings
    wrong = drawn(lambda mode, seed, nudged: of([1.0 if mode is None else 2.0]))
    assert [finding.kind for finding in wrong.findings] == ["value"] and not wrong.equal


def test_a_distrusted_program_is_a_finding() -> None:
    def run(mode: Mode | None, seed: int, nudged: bool) -> Outcome:
        return Outcome(parts={}, distrusted=[] if mode is None else ["the rule of tanh"])

    assert [finding.kind for finding in drawn(run).findings] == ["distrusted"]


@pytest.fixture
def toys(monkeypatch: pytest.MonkeyPatch) -> Setting:
    monkeypatch.setattr(Setting, "module", "tests.common.conformance_toy")
    return Setting("torch", samples=3, seconds=1, gigabytes=8)


def test_processes_that_hang_or_crash_are_findings_and_replaced(toys: Setting) -> None:
    names = ["operator equal", "operator crashes", "operator hangs", "operator differs"]
    found = {record.name: record for record in compare_all(names, toys, jobs=2)}
    kinds = {name: [finding.kind for finding in record.findings] for name, record in found.items()}
    assert kinds == {names[0]: [], names[1]: ["crash"], names[2]: ["hang"], names[3]: ["value"]}
    assert found["operator crashes"].findings[0].case == "case of crashes"


def test_a_worker_that_waits_for_ever_is_ended(toys: Setting, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("experiments.conformance.run._STARTING", 0.0)
    monkeypatch.setattr("experiments.conformance.run.WALL", 0.01)
    worker = Worker(toys)
    assert worker.check("operator hangs").findings[0].kind == "hang"
    assert worker.spent


class Toys:
    """A module as the command line reads it."""

    GROUPS = ("operator",)

    @staticmethod
    def names(group: str, chains: int) -> list[str]:
        return ["differs", "equal", "other"]


@pytest.fixture
def command(
    toys: Setting, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> Callable[..., tuple[int, str]]:
    monkeypatch.setattr(cli, "import_module", lambda name: Toys)
    monkeypatch.setattr(cli, "limit_threads", lambda: None)

    def run(*arguments: str) -> tuple[int, str]:
        code = cli.main(["--engine", "torch", "--results", str(tmp_path / "found.jsonl"), *arguments])
        said = capsys.readouterr()
        return code, said.out + said.err

    return run


def test_the_command_says_what_differs_and_goes_on_where_it_was(command: Callable[..., tuple[int, str]]) -> None:
    code, said = command("--names", "equal")
    assert code == 0 and "| operator | 1 | 2 | 2 | 0 | 0 | 0 | 0 | 0 | 0 |" in said
    code, said = command("--resume")
    assert code == 1 and "2 of 3 to compare" in said and "operator differs, case: value: 1 instead of 2" in said
    code, said = command("--summary")
    assert code == 1 and "| operator | 3 | 6 | 5 |" in said
    code, said = command("--resume", "--samples", "9")
    assert code == 1 and "choose another file" in said
    code, said = command("--groups", "nothing")
    assert code == 1 and "no group is called 'nothing'" in said


def test_parts_of_the_names_are_all_of_them(command: Callable[..., tuple[int, str]]) -> None:
    assert "2 of 2 to compare" in command("--part", "0/2")[1]
    assert "1 of 1 to compare" in command("--part", "1/2")[1]
    with pytest.raises(SystemExit):
        command("--part", "2/2")


def test_ctrl_c_keeps_what_was_compared(
    command: Callable[..., tuple[int, str]], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def interrupted(names: list[str], setting: Setting, jobs: int) -> Any:
        yield Record(names[0], cases=1, equal=1)
        raise KeyboardInterrupt

    monkeypatch.setattr(cli, "compare_all", interrupted)
    code, said = command()
    assert code == 130 and "--resume goes on" in said
    assert [record.name for record in Results(tmp_path / "found.jsonl", Setting("torch", 2, 1, 8)).read()] == [
        "operator differs"
    ]


def test_exceptions_are_few_have_reasons_and_are_no_wrong_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    for engine, known in EXCEPTIONS.items():
        assert len(known) <= 15, engine
        for each in known:
            assert each.reason and each.kind not in ("value", "gradient", "weight", "state", "distrusted"), each
    known = Exempt("operator t*", "*", "exception", "not here", "because")
    monkeypatch.setitem(exceptions.EXCEPTIONS, "torch", (known,))
    records = [
        Record("operator tanh", 2, findings=[Finding("c", "exception", "is not here"), Finding("c", "value", "1")])
    ]
    text = table(records, "torch")
    assert "| operator | 1 | 2 | 0 | 0 | 0 | 1 | 0 | 1 | 0 |" in text and "1 x operator t*: because" in text
    assert OP.granularity == "op"
