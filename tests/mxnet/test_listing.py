"""The printed table of rules, and which rules may raise when they run."""

from __future__ import annotations

import mxnet as mx
import pytest

from gluonjit.__main__ import main
from gluonjit.engines.mxnet.framework.symbols import ALONE, MAY_FAIL, NO_RULE, canonical, fails, read
from gluonjit.engines.mxnet.listing import (
    HOW,
    KINDS,
    describe,
    registered,
    unruled,
)
from gluonjit.engines.mxnet.operators.table import KNOWN
from gluonjit.engines.mxnet.run.program import Batched, Program, build
from gluonjit.engines.mxnet.values.recorder import trace_op
from gluonjit.graph import intern_spec


def test_every_registered_operator_has_a_rule_or_a_reason_to_have_none() -> None:
    operators = {canonical(name) for name in registered()}
    unknown = operators - KNOWN - set(NO_RULE)
    assert not unknown, f"add a row, or a reason in operators/symbols.py, for {sorted(unknown)}"
    assert set(NO_RULE) == set(unruled())


def test_every_line_says_how_and_why() -> None:
    rows = describe()
    assert [row.operator for row in rows] == sorted({*KNOWN, *NO_RULE})
    assert set(HOW) == set(KINDS) == {row.kind for row in rows}
    assert all(row.how == HOW[row.kind] and row.note for row in rows)
    for kind in ("alone", "no rule"):
        assert all(row.note != KINDS[kind] for row in rows if row.kind == kind), kind


def test_a_page_names_every_operator_once(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["rules", "--engine", "mxnet", "--markdown"]) == 0
    page = capsys.readouterr().out
    assert page.startswith(f"# Operators\n\nHow each operator of MXNet {mx.__version__} runs")
    assert all(page.count(f"| `{row.operator}` |") == 1 for row in describe())


def test_a_name_that_programs_write_finds_its_operator(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["rules", "mx.nd.softmax", "contrib.box_nms", "_Plus", "linalg.potrf"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == [
        "operator",
        "_contrib_box_nms",
        "_linalg_potrf",
        "elemwise_add",
        "softmax",
    ]


def test_one_kind_is_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["rules", "--engine", "mxnet", "--kind", "alone"]) == 0
    lines = capsys.readouterr().out.splitlines()[1:]
    assert {line.split()[0] for line in lines} == set(ALONE)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["soft"], "'soft' is not an operator of MXNet. Did you mean"),
        (["qqq"], "'qqq' is not an operator of MXNet. Without a name, all are listed."),
        (["--kind", "fast"], "--kind 'fast': the kinds are elementwise, reduction"),
    ],
)
def test_what_there_is_not_is_an_error(arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["rules", *arguments]) == 2
    assert said in capsys.readouterr().err


# -- rules that may fail -----------------------------------------------------------------------------------


def program_of(name: str, *shapes: tuple[int, ...], **attrs: str) -> Batched:
    specs = [intern_spec(shape, "float32", "cpu(0)", "rows" if len(shape) > 1 else "stack") for shape in shapes]
    return build(trace_op(name, tuple(attrs.items()), specs, False)).program


def test_programs_say_that_they_may_fail() -> None:
    assert program_of("_linalg_potrf", (3, 3)).may_fail
    assert program_of("gather_nd", (3, 4), (2, 5)).may_fail
    assert not program_of("take", (3, 4), (5,), mode="clip").may_fail
    assert not program_of("tanh", (3, 4)).may_fail
    assert not Program([]).may_fail and Program([], may_fail=True).may_fail


def test_take_may_fail_only_where_it_checks() -> None:
    assert fails("take", read({"mode": "raise"}))
    assert not fails("take", read({}))
    assert MAY_FAIL <= KNOWN


@pytest.mark.parametrize(
    "call",
    [
        lambda: mx.nd.linalg.potrf(mx.nd.array([[-1.0, 0.0], [0.0, 1.0]])),
        lambda: mx.nd.linalg.potri(mx.nd.zeros((2, 2))),
        lambda: mx.nd.linalg.inverse(mx.nd.zeros((2, 2))),
        lambda: mx.nd.linalg.syevd(mx.nd.full((4, 4), float("nan")))[0],
        lambda: mx.nd.take(mx.nd.ones((3, 2)), mx.nd.array([7]), mode="raise"),
        lambda: mx.nd.gather_nd(mx.nd.ones((3, 2)), mx.nd.array([[7]])),
        lambda: mx.nd.random.normal_like(mx.nd.ones((2, 2)), 0, -1),
        lambda: mx.nd.random.gamma(-1, 1, (2,)),
    ],
)
def test_what_is_marked_fails_without_batching_too(call: object) -> None:
    with pytest.raises((mx.base.MXNetError, IndexError, ValueError)):
        call().wait_to_read()  # type: ignore[operator]
