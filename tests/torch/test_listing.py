"""The printed table of PyTorch's rules, and which table is printed where there are two."""

from __future__ import annotations

import importlib.util
import sys

import pytest
import torch

import gluonjit
from gluonjit.__main__ import main
from gluonjit.commands import operators
from gluonjit.engines.torch.listing import HOW, KINDS, PAGE, describe
from gluonjit.engines.torch.operators.table import ROWS_OF
from gluonjit.errors import AloneWarning

BOTH = importlib.util.find_spec("mxnet") is not None


def lines(capsys: pytest.CaptureFixture[str]) -> list[list[str]]:
    return [line.split() for line in capsys.readouterr().out.splitlines()]


def test_every_line_says_how_and_why() -> None:
    rows = describe()
    assert set(ROWS_OF) <= {row.operator for row in rows} and len(rows) > 500
    assert set(HOW) == set(KINDS) == {row.kind for row in rows}
    assert all(row.how == HOW[row.kind] and row.note for row in rows)
    kinds = {row.operator: row.kind for row in rows}
    assert kinds["gelu.default"] == "elementwise" and kinds["histc.default"] == "alone"
    assert kinds["softmax.int"] == "composed" and kinds["nonzero.default"] == "at once"


def test_a_page_names_every_operator_once(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["rules", "--engine", "torch", "--markdown"]) == 0
    page = capsys.readouterr().out
    assert page.startswith(PAGE.head) and f"Made with PyTorch {torch.__version__.partition('+')[0]} by" in page
    assert all(page.count(f"| `{row.operator}` |") == 1 for row in describe())


@pytest.mark.parametrize(
    ("name", "operator"),
    [
        ("torch.mm", "mm.default"),
        ("F.relu", "relu.default"),
        ("torch.Tensor.relu_", "relu.default"),
        ("torch.nn.functional.gelu", "gelu.default"),
        ("linalg.det", "_linalg_det.default"),
        ("sum.dim_IntList", "sum.dim_IntList"),
        ("aten.topk.default", "topk.default"),
        ("_linalg_det.default", "_linalg_det.default"),
    ],
)
def test_a_name_that_programs_write_finds_its_operator(
    name: str, operator: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["rules", "--engine", "torch", name]) == 0
    assert operator in [line[0] for line in lines(capsys)]


def test_one_kind_is_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["rules", "--engine", "torch", "--kind", "loss"]) == 0
    assert {line[1] for line in lines(capsys)[1:]} == {"loss"}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--engine", "torch", "kthval"], "'kthval' is not an operator of PyTorch. Did you mean kthvalue.default"),
        (["--engine", "torch", "qqq"], "'qqq' is not an operator of PyTorch. Without a name, all are listed."),
        (["--engine", "torch", "--kind", "fast"], "--kind 'fast': the kinds are elementwise, reduction"),
    ],
)
def test_what_there_is_not_is_an_error(arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["rules", *arguments]) == 2
    assert said in capsys.readouterr().err


def test_without_an_engine_the_tables_of_all_that_are_installed_are_printed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["rules", "softmax", "gelu"]) == 0
    found = lines(capsys)
    assert ["MXNet:"] in found if BOTH else ["PyTorch:"] not in found
    assert {"softmax.int", "gelu.default"} <= {line[0] for line in found}
    if BOTH:
        assert main(["rules", "--markdown"]) == 2
        assert "add --engine mxnet or --engine torch" in capsys.readouterr().err


def test_an_engine_that_cannot_be_imported_says_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "mxnet", None)
    assert operators.main(engine="mxnet") == 1
    assert "mxnet cannot be imported" in capsys.readouterr().err


def test_the_warning_of_an_operator_that_runs_alone_names_a_command_that_knows_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    class Net(torch.nn.Module):
        def forward(self, x: object) -> object:
            return torch.histc(x, 2, 0.0, 8.0)  # type: ignore[arg-type]

    gluonjit.clear_caches()
    net = gluonjit.hybridize(Net(), dynamic_batch=True)
    with pytest.warns(AloneWarning, match="histc") as caught, gluonjit.batching():
        found = [net(torch.arange(4.0) + k) for k in range(3)]
    assert [one.tolist() for one in found] == [[4.0, 0.0], [3.0, 1.0], [2.0, 2.0]]
    command = str(caught[0].message).split("`python -m gluonjit ")[1].split("`")[0]
    assert command == "rules histc.default"
    assert main(command.split()) == 0
    assert lines(capsys)[1][:2] == ["histc.default", "alone"]
