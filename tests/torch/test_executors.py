"""What runs PyTorch's plans: which executor is chosen, what the report says, and compiled programs."""

from __future__ import annotations

import gc
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from executor_support import (  # noqa: E402
    FIXED,
    afresh,
    check,
    compile_by,
    minibatches_of,
    tree_loss,
    trees_of_depth,
)
from torch_support import TreeModel  # noqa: E402

import gluonjit  # noqa: E402
from gluonjit.engines.torch import compiling, tape  # noqa: E402
from gluonjit.errors import OptionError  # noqa: E402

seeded = pytest.fixture(autouse=True)(afresh)


def test_compiled_programs_are_made_once_for_all_sizes(monkeypatch: pytest.MonkeyPatch) -> None:
    compile_by(monkeypatch, lambda graph, inputs: graph.forward)
    minibatches = [trees_of_depth(4, 5 + seed, seed) for seed in range(6)]
    total = check(TreeModel(), minibatches, tree_loss, executor="compiled")
    assert total.ran == {"compiled": 6} and not total.declined
    assert 0 < sum(total.compilations) <= 10 and total.compilations[-3:] == [0, 0, 0]


def test_a_program_that_is_compiled_again_and_again_runs_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    compile_by(monkeypatch, lambda graph, inputs: graph.forward)
    monkeypatch.setattr(compiling, "MOST_COMPILATIONS", 1)
    total = check(TreeModel(), minibatches_of(2, 5), tree_loss, executor="compiled")
    assert "cell is not compiled: it has been compiled 1 times" in total.declined


def test_what_the_compiler_cannot_do_runs_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(graph: Any, inputs: Any) -> Any:
        raise RuntimeError("no compiler here")

    compile_by(monkeypatch, broken)
    total = check(TreeModel(), minibatches_of(2, 5), tree_loss, executor="compiled")
    assert [why for why in total.declined if why.startswith("cell is not compiled: BackendCompilerFailed")]


@pytest.mark.slow
def test_compiled_programs_give_what_the_programs_give_as_they_are() -> None:
    total = check(TreeModel(), minibatches_of(3, 5), tree_loss, executor="compiled")
    if any("compiler" in why.lower() for why in total.declined):
        pytest.skip(f"{next(iter(total.declined))}")
    assert total.ran == {"compiled": 3} and sum(total.compilations) > 0 and not total.declined


def test_the_report_tells_executors_apart() -> None:
    net = TreeModel()
    gluonjit.hybridize(net, executor="replay", **FIXED)
    sum(tree_loss(net, tree) for tree in trees_of_depth(3, 4, 0)).backward()
    report = gluonjit.explain()
    assert report.to_dict()["executed"]["ran"] == {"replay": 1}
    assert "flushes by executor: replay 1; 1 static plans and steps made" in str(report)


def test_auto_runs_step_by_step_on_the_host() -> None:
    net = TreeModel()
    gluonjit.hybridize(net, **FIXED)
    sum(tree_loss(net, tree) for tree in trees_of_depth(3, 4, 0)).backward()
    report = gluonjit.explain()
    assert report.executed.ran == {"stepwise": 1} and not report.executed.declined


def test_an_executor_that_does_not_exist_is_refused() -> None:
    with pytest.raises(OptionError, match=r"executor='graph'.*'auto', 'stepwise', 'compiled', 'replay'"):
        gluonjit.hybridize(TreeModel(), executor="graph")


def tapes() -> set[int]:
    """The addresses of all tapes that are alive."""
    gc.collect()
    return {id(item) for item in gc.get_objects() if issubclass(type(item), tape.Tape)}


@pytest.mark.parametrize("executor", ["replay", "compiled"])
def test_a_minibatch_that_is_over_leaves_no_history_behind(executor: str, monkeypatch: pytest.MonkeyPatch) -> None:
    compile_by(monkeypatch, lambda graph, inputs: graph.forward)
    net = TreeModel()
    gluonjit.hybridize(net, dynamic_batch=True, executor=executor, **FIXED)
    before = tapes()  # of other tests, whose models guards keep
    for samples in minibatches_of(3, 5):
        results = [net(sample) for sample in samples]
        sum(result.sum() for result in results).backward()
        assert tapes() > before
    del results
    gluonjit.explain()
    assert tapes() <= before
