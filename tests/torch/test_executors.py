"""What runs PyTorch's plans: which executor is chosen, and what the report says."""

from __future__ import annotations

import gc

import pytest
from executor_support import (
    FIXED,
    afresh,
    minibatches_of,
    tree_loss,
    trees_of_depth,
)
from torch_support import TreeModel

import gluonjit
from gluonjit.engines.torch import tape
from gluonjit.errors import OptionError

seeded = pytest.fixture(autouse=True)(afresh)


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
    with pytest.raises(OptionError, match=r"executor='graph'.*'auto', 'stepwise', 'replay'"):
        gluonjit.hybridize(TreeModel(), executor="graph")


def test_an_executor_that_is_gone_is_refused_with_what_to_type() -> None:
    with pytest.raises(OptionError, match=r'executor="compiled" was removed.*type executor="stepwise"'):
        gluonjit.hybridize(TreeModel(), executor="compiled")


def tapes() -> set[int]:
    """The addresses of all tapes that are alive."""
    gc.collect()
    return {id(item) for item in gc.get_objects() if issubclass(type(item), tape.Tape)}


@pytest.mark.parametrize("executor", ["replay", "steps"])
def test_a_minibatch_that_is_over_leaves_no_history_behind(executor: str) -> None:
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
