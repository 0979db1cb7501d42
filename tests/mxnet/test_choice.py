"""What is chosen by the cost model: on a model made up, whose answers can be counted; and in whole programs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from mxnet import autograd, gluon, nd
from support import assert_close, recurrent, rows

import gluonjit
from gluonjit.analysis import Planner
from gluonjit.analysis.choice import Allowed, Seen, Study, counts_of, samples_that_pay
from gluonjit.analysis.costs import CostModel
from gluonjit.analysis.ways import Capture, Setting
from gluonjit.errors import AloneWarning, CellWarning, OptionError
from gluonjit.hybrid.choose.choosing import Chooser, clear_choices
from gluonjit.hybrid.explain.advice import forget
from gluonjit.hybrid.options import Options

SIZE = 4


@pytest.fixture(autouse=True)
def anew() -> None:
    clear_choices()


@pytest.fixture
def net() -> Any:
    yield from recurrent(SIZE)


def minibatch(count: int, seed: int = 0) -> list[Any]:
    return [rows(k % 4 + 1, SIZE, seed=seed + k) for k in range(count)]


def steps(net: gluon.Block, samples: list[Any]) -> gluonjit.Report:
    """A step of training without an update."""
    with autograd.record():
        total = gluonjit.add_n([(net(x) ** 2).sum() for x in samples])
    total.backward()
    total.asnumpy()
    return gluonjit.explain()


def test_the_first_flush_is_as_options_are_by_default(net: gluon.Block) -> None:
    net.hybridize(dynamic_batch=True)
    choice = steps(net, minibatch(8)).choice
    assert choice is not None
    assert choice.setting == Setting("cell", True, "depth")
    assert not choice.decided and not choice.estimates


def test_a_few_minibatches_decide(net: gluon.Block) -> None:
    net.hybridize(dynamic_batch=True)
    for k in range(34):
        choice = steps(net, minibatch(8, seed=10 * k)).choice
    assert choice is not None and choice.decided
    per_sample = [estimate.per_sample for estimate in choice.estimates]
    assert per_sample == sorted(per_sample)
    best = choice.estimates[0].per_sample
    chosen = next(estimate for estimate in choice.estimates if estimate.setting == choice.setting)
    assert chosen.per_sample <= best / 0.98 / 0.98
    looked_at = {estimate.setting.granularity for estimate in choice.estimates}
    assert looked_at | {name.split(",")[0] for name in choice.ruled_out} == {"cell", "op"}


def test_the_librarys_own_trials_give_no_advice(
    net: gluon.Block, recwarn: pytest.WarningsRecorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Operators are captured in some minibatches here, but nobody has asked for it."""
    monkeypatch.setattr(Study, "_cannot_pay", lambda *given: False)
    forget()
    net.hybridize(dynamic_batch=True)
    captured = [steps(net, minibatch(24, seed=10 * k)).choice.setting.granularity for k in range(34)]  # type: ignore[union-attr]
    assert "op" in captured
    assert not [warning for warning in recwarn if warning.category in (CellWarning, AloneWarning)]


def test_training_and_inference_in_turns_are_both_decided(net: gluon.Block) -> None:
    """What one of them has still to look at does not decide how the other is captured."""
    forget()
    net.hybridize(dynamic_batch=True)
    decided = [False, False]
    for k in range(150):  # 34 at most, but on a machine that does other work, where figures are doubted
        training = steps(net, minibatch(24, seed=10 * k)).choice
        for value in [net(x) for x in minibatch(24, seed=10 * k)]:
            value.asnumpy()
        decided = [choice is not None and choice.decided for choice in (training, gluonjit.explain().choice)]
        if all(decided):
            break
    assert decided == [True, True]


def test_values_stay_while_ways_are_tried(net: gluon.Block) -> None:
    samples = minibatch(6)
    expected = [net(x).asnumpy() for x in samples]
    net.hybridize(dynamic_batch=True)
    for _ in range(34):
        with gluonjit.batching():
            values = [net(x) for x in samples]
        for value, wanted in zip(values, expected):
            assert_close(value.asnumpy(), wanted, "value")


@pytest.mark.parametrize("name, value", [("granularity", "op"), ("scheduler", "bound"), ("sharing", False)])
def test_what_is_given_is_kept(net: gluon.Block, name: str, value: Any) -> None:
    net.hybridize(dynamic_batch=True, **{name: value})
    for k in range(6):
        choice = steps(net, minibatch(5, seed=k)).choice
        assert choice is not None and getattr(choice.setting, name) == value


def test_nothing_is_studied_where_all_is_given(net: gluon.Block) -> None:
    net.hybridize(dynamic_batch=True, granularity="cell", scheduler="bound", sharing=True)
    for _ in range(4):
        choice = steps(net, minibatch(5)).choice
        assert choice is not None and not choice.compared and not choice.estimates


def test_training_and_inference_are_studied_apart(net: gluon.Block) -> None:
    net.hybridize(dynamic_batch=True)
    for k in range(34):
        steps(net, minibatch(8, seed=k))
    first, *_ = [net(x) for x in minibatch(8)]
    first.asnumpy()
    choice = gluonjit.explain().choice
    assert choice is not None and not choice.decided


def test_the_report_shows_the_choice(net: gluon.Block) -> None:
    net.hybridize(dynamic_batch=True)
    for k in range(4):
        report = steps(net, minibatch(8, seed=k))
    assert f"chosen: {report.choice.setting}" in str(report)  # type: ignore[union-attr]
    assert "predicted ms per sample" in str(report) and "predicted ms per sample" in report._repr_html_()
    found = report.to_dict()["choice"]
    assert found["setting"]["granularity"] == "cell" and found["estimates"][0]["seconds"] > 0


class Priced(CostModel):
    """A model whose prices are made up: of a launch, and of analysis by scheduler."""

    def __init__(self, launch: float, analysis: dict[str, float]) -> None:
        super().__init__()
        self.launch = launch
        self.prices = analysis

    def predict(self, plan: Any, calls: int, scheduler: str, granularity: str, training: bool) -> Any:
        costs = super().predict(plan, calls, scheduler, granularity, training)
        zero = dict.fromkeys(costs._fields, 0.0)
        return type(costs)(**{**zero, "analysis": self.prices[scheduler], "compute": self.launch * len(plan.steps)})

    def analysis(self, scheduler: str, nodes: int, steps: int) -> float:
        return self.prices[scheduler]

    def work(self, step: Any, training: bool) -> float:
        return self.launch


def studied(net: gluon.Block, launch: float, analysis: dict[str, float], monkeypatch: pytest.MonkeyPatch) -> Study:
    """The study of one captured minibatch with cells, where schedulers alone are left open."""
    study = Study(Allowed(("cell",), (True,), tuple(analysis)), flushes={Capture("cell", True): 3})

    def plan(self: Chooser, planner: Planner, records: Any, captured: Any, samples: int, model: Any) -> Any:
        seen = Seen(counts_of(records), samples, False, Priced(launch, analysis))
        study.compare(Capture("cell", True), planner.plan, seen)
        return planner.plan("depth")

    monkeypatch.setattr(Chooser, "plan", plan)
    net.hybridize(dynamic_batch=True)
    for _ in range(3):
        first, *_ = [net(x) for x in minibatch(8)]
        first.asnumpy()
    return study


def test_where_launches_cannot_be_fewer_no_other_scheduler_is_tried(
    net: gluon.Block, monkeypatch: pytest.MonkeyPatch
) -> None:
    study = studied(net, 1.0, {"depth": 1.0, "bound": 0.5}, monkeypatch)
    assert study.chosen == Setting("cell", True, "depth") and list(study.estimates) == [study.chosen]
    assert "already reaches the lower bound" in study.ruled_out["cell, bound, sharing on"]


def test_a_scheduler_is_worth_its_time_or_not(net: gluon.Block, monkeypatch: pytest.MonkeyPatch) -> None:
    """On these samples all schedulers need equally many launches: the one with the cheapest analysis is taken."""
    monkeypatch.setattr(gluonjit.analysis.choice, "lower_bound", lambda plan: 0)
    study = studied(net, 1.0, {"depth": 1.0, "bound": 0.5, "beam": 2.0}, monkeypatch)
    assert study.chosen == Setting("cell", True, "bound")
    assert len({estimate.launches for estimate in study.estimates.values()}) == 1


def test_a_scheduler_that_cannot_pay_is_not_tried(net: gluon.Block, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gluonjit.analysis.choice, "lower_bound", lambda plan: 0)
    study = studied(net, 1e-3, {"depth": 1e-3, "beam": 50.0}, monkeypatch)
    assert [setting.scheduler for setting in study.estimates] == ["depth"]
    assert "its analysis costs more" in study.ruled_out["cell, beam, sharing on"]


def test_a_study_begins_anew_when_samples_change(net: gluon.Block) -> None:
    net.hybridize(dynamic_batch=True)
    for k in range(34):
        choice = steps(net, minibatch(8, seed=k)).choice
    assert choice is not None and choice.decided
    decided = []
    for k in range(52):
        samples = [rows(30, SIZE, seed=100 * k + j) for j in range(8)]
        choice = steps(net, samples).choice
        decided.append(choice is not None and choice.decided)
    assert not all(decided) and decided[-1]


@pytest.mark.parametrize(
    "fixed, marginal, latency, expected",
    [
        (0.001, 0.001, None, 21),
        (0.0, 0.001, None, 1),
        (0.001, 0.001, 0.0055, 4),
        (0.001, 0.001, 0.0005, 1),
        (0.001, -1e-9, 0.0005, 1),
    ],
)
def test_how_many_samples_pay(fixed: float, marginal: float, latency: float | None, expected: int) -> None:
    """Up to 5 % above an endless batch, and within the latency."""
    assert samples_that_pay(fixed, marginal, latency=latency) == expected


def test_a_batch_runs_itself_at_a_number_of_samples(net: gluon.Block) -> None:
    samples = minibatch(10)
    expected = [net(x).asnumpy() for x in samples]
    with gluonjit.batching(flush_at=4) as batch:
        net.hybridize(dynamic_batch=True)
        values = [net(x) for x in samples]
        assert batch.report.flushes == 2
    assert batch.report.flushes == 3
    assert "4 samples, as flush_at=4 says" in next(iter(batch.report.reasons))
    for value, wanted in zip(values, expected):
        assert_close(value.asnumpy(), wanted, "value")


def test_a_stream_finds_its_number(net: gluon.Block) -> None:
    """After the first flush, which waits for the end of the scope, batches run themselves."""
    net.hybridize(dynamic_batch=True)
    flushes = []
    for k in range(3):
        with gluonjit.batching(flush_at="auto", max_latency=1e-7) as batch:
            values = [net(x) for x in minibatch(6, seed=k)]
        flushes.append(batch.report.flushes)
        assert all(isinstance(value, nd.NDArray) for value in values)
    assert flushes == [1, 6, 6]  # with so little time a sample cannot wait for another


@pytest.mark.parametrize(
    "options, message",
    [
        ({"flush_at": 0}, "flush_at=0, but it must be an integer of at least 1, 'auto' or None"),
        (
            {"max_latency": -1.0, "flush_at": "auto"},
            "max_latency=-1.0, but it must be a positive number of seconds or None",
        ),
        ({"max_latency": 0.1}, "max_latency=0.1 with flush_at=None"),
        ({"sharing": "yes"}, "sharing='yes', but it must be True, False or 'auto'"),
        ({"expand": "Dense"}, "expand='Dense', but it must be a tuple of names"),
    ],
)
def test_wrong_options(options: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionError) as caught:
        Options().updated("batching()", options)
    assert message in str(caught.value)


class Outer(gluon.HybridBlock):
    """A cell with a cell inside."""

    def __init__(self) -> None:
        super().__init__()
        with self.name_scope():
            self.inner = gluon.nn.Dense(SIZE, in_units=SIZE)

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        return F.tanh(self.inner(x)) + x


@pytest.mark.parametrize("by", ["class", "name"])
def test_a_mixed_cut(by: str) -> None:
    """The outer block is no node, what it calls is: a cell and two operators."""
    outer = Outer()
    outer.initialize()
    samples = [rows(1, SIZE, seed=k) for k in range(5)]
    expected = [outer(x).asnumpy() for x in samples]
    call: Callable[[Any], Any] = outer
    with gluonjit.batching(expand=("Outer" if by == "class" else outer.name,)) as batch:
        outer.hybridize(dynamic_batch=True)
        values = [call(x) for x in samples]
    for value, wanted in zip(values, expected):
        assert_close(value.asnumpy(), wanted, "value")
    assert batch.report.kinds[outer.inner.name].nodes == 5
    assert outer.name not in batch.report.kinds and not batch.report.unbatched
