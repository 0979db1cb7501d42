"""The cost model: its fit, its curves, predictions that add up, what it learns, and its file."""

from __future__ import annotations

import json
import warnings
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from mxnet import autograd, gluon, nd

import gluonjit
from gluonjit.analysis import Plan
from gluonjit.analysis.costs import (
    Coefficients,
    CoefficientsError,
    CostModel,
    Costs,
    Observed,
    ObservedBackward,
    features,
)
from gluonjit.analysis.costs.curves import Curve
from gluonjit.analysis.costs.fit import fit, nonnegative
from gluonjit.analysis.costs.measured import Measured
from gluonjit.engines.mxnet.framework.arrays import VERSIONS
from gluonjit.errors import GluonJITWarning
from gluonjit.hybrid.choose import costs

ZERO = replace(
    Coefficients(),
    analysis={"depth": (0.0, 0.0, 0.0)},
    **{entry.name: 0.0 for entry in fields(Coefficients) if entry.name != "analysis"},
)


class Net(gluon.Block):
    """A chain of one cell over the words of a sentence, and a sum."""

    def __init__(self) -> None:
        super().__init__()
        with self.name_scope():
            self.embed = gluon.nn.Embedding(20, 4)
            self.cell = gluon.nn.Dense(4, in_units=4, activation="tanh")

    def forward(self, words: Any) -> Any:
        rows = self.embed(words)
        state = rows[0:1]
        for k in range(1, len(words)):
            state = self.cell(state + rows[k : k + 1])
        return state.sum()


@pytest.fixture
def net() -> Net:
    made = Net()
    made.initialize()
    made.hybridize(dynamic_batch=True)
    return made


@pytest.fixture
def process(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A process that has no models yet, and a folder of its own for files."""
    monkeypatch.setattr(costs, "_models", {})
    monkeypatch.setenv("GLUONJIT_CACHE", str(tmp_path))
    return tmp_path


def plan_of(net: Net, lengths: tuple[int, ...] = (2, 3, 5), **options: Any) -> Plan:
    """The plan of a minibatch, which is also run and differentiated."""
    given = {"granularity": "cell", "scheduler": "depth", "sharing": True, "without": ("fused",), **options}
    with gluonjit.batching(**given) as batch, autograd.record():
        total = gluonjit.add_n([net(nd.array(np.arange(length) + k)) for k, length in enumerate(lengths)])
        total.backward()
    assert batch.report.last is not None and batch.report.flushes == 1
    return batch.report.last.plan


def test_fit_recovers_known_coefficients_in_spite_of_outliers() -> None:
    random = np.random.RandomState(0)
    known = np.array([3e-4, 0.0, 2e-6, 5e-9])
    amounts = np.stack(
        [np.ones(80), random.randint(0, 3, 80), random.randint(1, 400, 80), random.randint(1, 10**6, 80)], axis=1
    ).astype(float)
    seconds = amounts @ known
    seconds[::10] *= 8
    assert fit(amounts, seconds) == pytest.approx(known, rel=0.02, abs=2e-6)


def test_least_squares_without_negatives_are_the_best_of_all_choices_of_columns() -> None:
    random = np.random.RandomState(1)
    for _ in range(20):
        matrix, target = random.normal(size=(9, 4)), random.normal(size=9)
        found = nonnegative(matrix, target)
        assert (found >= 0).all()
        best = float(target @ target)
        for chosen in range(1, 16):
            columns = [k for k in range(4) if chosen >> k & 1]
            part = np.linalg.lstsq(matrix[:, columns], target, rcond=None)[0]
            if (part >= 0).all():
                best = min(best, float(((matrix[:, columns] @ part - target) ** 2).sum()))
        assert float(((matrix @ found - target) ** 2).sum()) == pytest.approx(best)


def test_a_curve_follows_its_points_and_goes_on_along_their_line() -> None:
    curve = Curve()
    for size in (1, 4, 16, 64):
        for _ in range(3):
            curve.add(size, 1e-4 + 1e-6 * size, 1e-4)
    curve.add(16, 1.0, 1e-4)  # an outlier
    assert curve.at(4, 0.0) == pytest.approx(1e-4 + 4e-6)
    assert curve.at(10, 0.0) == pytest.approx(1e-4 + 10e-6)
    assert curve.at(256, 0.0) == pytest.approx(1e-4 + 256e-6, rel=1e-3)
    rising = [curve.at(size, 1e-4) for size in range(1, 300)]
    assert rising == sorted(rising)


def test_a_curve_of_one_size_goes_on_as_was_expected() -> None:
    curve = Curve()
    assert curve.at(8, 5.0) == 5.0
    curve.add(8, 2e-4, 1e-4)
    assert curve.at(8, 1e-4) == pytest.approx(2e-4)
    assert curve.at(32, 4e-4) == pytest.approx(8e-4)
    assert curve.at(2, 5e-5) == pytest.approx(1e-4)


def test_a_curve_keeps_few_points() -> None:
    curve = Curve()
    for size in range(1, 5000):
        curve.add(size, 1e-6 * size, 1e-6)
    assert len(curve) <= 7 * 27


@pytest.mark.parametrize("training", [True, False])
def test_a_prediction_is_the_sum_of_amounts_and_prices(
    net: Net, monkeypatch: pytest.MonkeyPatch, training: bool
) -> None:
    plan = plan_of(net)
    rows = 2 + 3 + 5
    copied = [g for step in plan.steps for g in step.gathers if g.index is not None]
    wanted = {
        "call_cell": (1.0, Costs(20 * share_of_cells(plan), 0, 0, 0, 0, 0, 0)),
        "capture_node": (1.0, Costs(plan.nodes + plan.dropped, 0, 0, 0, 0, 0, 0)),
        "session": (1.0, Costs(0, 0, 1, 0, 0, 0, 0)),
        "gather": (1.0, Costs(0, 0, 0, len(copied), 0, 0, 0)),
        "launch": (1.0, Costs(0, 0, 0, 0, len(plan.steps), 0, 0)),
        "back_step": (1.0, Costs(0, 0, 0, 0, 0, 0, len(plan.steps) if training else 0)),
        "back": (1.0, Costs(0, 0, 0, 0, 0, 0, 1 if training else 0)),
    }
    for name, (price, expected) in wanted.items():
        found = CostModel(replace(ZERO, **{name: price})).predict(plan, 20, "depth", "auto", training)
        assert tuple(found) == pytest.approx(tuple(expected)), name
        assert found.total == sum(found)
    analysis = replace(ZERO, analysis={"depth": (100.0, 10.0, 1.0)})
    found = CostModel(analysis).predict(plan, 20, "depth", "auto", training)
    assert found.analysis == 100 + 10 * (plan.nodes + plan.dropped) + len(plan.steps)
    assert features.inputs(plan)["input_byte"] <= rows * 4 * 4


def share_of_cells(plan: Plan) -> float:
    return sum(step.count for step in plan.steps if not step.kind.operator) / plan.nodes


@pytest.mark.usefixtures("as_written")
def test_amounts_of_steps_are_those_of_their_nodes(net: Net, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = plan_of(net, lengths=(4, 4, 4))
    cells = [step for step in plan.steps if not step.kind.operator]
    assert sum(step.count for step in cells) == 9
    for step in cells:
        amounts = features.compute(step)
        assert amounts["flop"] == step.count * (2 * 4 * 4 + 4)
        assert amounts["record"] == amounts["launch"] == 1
        assert amounts["weight_byte"] == 4 * (16 + 4)
        assert features.totals(step).rows == step.count
    in_c = [step for step in plan_of(net, without=()).steps if not step.kind.operator]
    for step in in_c:
        amounts = features.compute(step)
        assert amounts["row_step"] == 1 and amounts["row_flop"] == step.count * (2 * 4 * 4 + 4)
        assert features.backward_alone(step) == {f"back_{name}": amount for name, amount in amounts.items()}
        assert not features.gather(plan, step)


def test_a_workload_that_was_never_seen_is_priced_like_the_nearest_one(net: Net) -> None:
    plan, model = plan_of(net), CostModel(Coefficients())
    names = {step.kind.name for step in plan.steps if not step.kind.sum_of}
    nothing = [0.0] * len(plan.steps)
    model.observe(Observed(plan, 20, "depth", "auto", 0.5, 0.25, 0.125, nothing, nothing, 0.0625))
    assert model._like(frozenset([*names, "another"])) and not model._like(frozenset(["another"]))


@pytest.mark.usefixtures("as_written")
def test_a_profiled_flush_teaches_the_model_what_its_parts_took(
    net: Net, monkeypatch: pytest.MonkeyPatch, process: Path
) -> None:
    seen: list[Any] = []
    model = costs.cost_model("mxnet", VERSIONS)
    monkeypatch.setattr(model, "observe", seen.append)
    monkeypatch.setattr(model, "observe_backward", seen.append)
    plan_of(net)  # what it captures has been traced then
    assert not seen
    plan = plan_of(net, profile=True)
    forward, backward = seen
    assert isinstance(forward, Observed) and isinstance(backward, ObservedBackward)
    assert forward.plan.steps == plan.steps
    assert (forward.calls, forward.scheduler, forward.granularity) == (1 + 1 + 2 + 2 + 4 + 4 + 3 + 1, "depth", "cell")
    assert len(forward.gather) == len(forward.compute) == len(plan.steps)
    assert min(forward.gather) >= 0  # what runs in C as a whole gathers as it goes
    assert min(*forward.compute, forward.analysis, forward.inputs, forward.results) > 0
    assert sorted(number for number, _ in backward.steps) == list(range(len(plan.steps)))
    assert min(seconds for _, seconds in backward.steps) > 0 and backward.rest > 0
    parts = gluonjit.explain().ms
    assert parts["capture"] > 0
    assert parts["backward"] / 1e3 == pytest.approx(sum(s for _, s in backward.steps) + backward.rest)
    assert parts["gather"] / 1e3 == pytest.approx(sum(forward.gather) + forward.inputs + forward.results)
    assert parts["compute"] / 1e3 == pytest.approx(sum(forward.compute))


def test_a_model_predicts_what_it_has_seen(net: Net, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = plan_of(net)
    model = CostModel(Coefficients())
    count = len(plan.steps)
    gather, compute = [1e-3 * (k + 1) for k in range(count)], [0.1] * count
    model.observe(Observed(plan, 20, "depth", "auto", 0.5, 0.25, 0.125, gather, compute, 0.0625))
    model.observe_backward(ObservedBackward(plan, [(k, 0.2) for k in range(count)], 0.75))
    found = model.predict(plan, 20, "depth", "auto", True)
    assert found.capture == pytest.approx(0.5)
    assert found.analysis == pytest.approx(0.25)
    assert (found.inputs, found.results) == (pytest.approx(0.125), pytest.approx(0.0625))
    assert found.compute == pytest.approx(0.1 * count)
    assert found.backward == pytest.approx(0.2 * count + 0.75)
    assert model.curves > 0
    model.forget()
    assert model.curves == 0
    assert model.predict(plan, 20, "depth", "auto", True) == CostModel().predict(plan, 20, "depth", "auto", True)


def test_a_calibration_recovers_the_coefficients_of_a_made_up_machine(
    net: Net, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = replace(ZERO, launch=2e-4, flop=3e-7, back_step=5e-4, analysis={"depth": (1e-3, 2e-5, 0.0)})
    measured, machine = Measured(), CostModel(known)
    plans = [plan_of(net, tuple(range(2, 2 + n))) for n in (1, 2, 4, 6, 8)]
    for plan in plans:
        found = machine.predict(plan, 20, "depth", "auto", True)
        compute = [2e-4 + 3e-7 * features.compute(step)["flop"] for step in plan.steps]
        nothing = [0.0] * len(plan.steps)
        measured.observe(Observed(plan, 20, "depth", "auto", 0.0, found.analysis, 0.0, nothing, compute, 0.0))
        measured.observe_backward(ObservedBackward(plan, [(k, 5e-4) for k in range(len(plan.steps))], 0.0))
    fitted = measured.calibrated(Coefficients())
    again = CostModel(fitted).predict(plans[-1], 20, "depth", "auto", True)
    wanted = machine.predict(plans[-1], 20, "depth", "auto", True)
    assert again.compute == pytest.approx(wanted.compute, rel=0.02)
    assert again.analysis == pytest.approx(wanted.analysis, rel=0.02)
    assert fitted.call_cell == Coefficients().call_cell  # of which nothing was measured


def test_coefficients_come_back_from_their_file(tmp_path: Path) -> None:
    path = tmp_path / "new" / "costs.json"
    given = replace(Coefficients(), launch=1.5e-5, analysis={"depth": (1e-4, 2e-6, 3e-5)})
    given.save(path, {"engine": "mxnet"})
    assert Coefficients.load(path) == given
    assert json.loads(path.read_text())["made"] == {"engine": "mxnet"}
    assert [found.name for found in path.parent.iterdir()] == ["costs.json"]


@pytest.mark.parametrize(
    ("damage", "told"),
    [
        (lambda found: "{", "not JSON"),
        (lambda found: "[]", "version None"),
        (lambda found: json.dumps({**found, "version": 0}), "version 0, not"),
        (lambda found: json.dumps({**found, "seconds": {"launch": 1.0}}), "does not hold"),
        (lambda found: json.dumps({**found, "seconds": {**found["seconds"], "launch": -1.0}}), "launch is -1.0"),
        (lambda found: json.dumps({**found, "seconds": {**found["seconds"], "analysis": {"depth": [1]}}}), "analysis"),
    ],
)
def test_a_damaged_file_is_ignored_with_a_warning_that_names_the_command(process: Path, damage: Any, told: str) -> None:
    path = costs.calibration_file("mxnet", VERSIONS)
    assert path.parent == process
    Coefficients().save(path, {})
    path.write_text(damage(json.loads(path.read_text())))
    with pytest.raises(CoefficientsError, match=told):
        Coefficients.load(path)
    with pytest.warns(GluonJITWarning, match="Next: python -m gluonjit calibrate"):
        model = costs.cost_model("mxnet", VERSIONS)
    assert model.coefficients == Coefficients()


def test_the_model_of_a_process_begins_with_the_calibration_of_its_machine(process: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert costs.cost_model("other", {}).coefficients == Coefficients()  # no file, nothing to say
    given = replace(Coefficients(), launch=1.5e-5)
    given.save(costs.calibration_file("mxnet", VERSIONS), {})
    model = costs.cost_model("mxnet", VERSIONS)
    assert model.coefficients == given
    assert costs.cost_model("mxnet", VERSIONS) is model


def test_a_file_belongs_to_an_engine_its_versions_and_the_threads(
    process: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    first = costs.calibration_file("mxnet", {"mxnet": "1.9.1"})
    assert first == costs.calibration_file("mxnet", {"mxnet": "1.9.1"})
    others = {costs.calibration_file("mxnet", {"mxnet": "2"}), costs.calibration_file("torch", {"mxnet": "1.9.1"})}
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    assert len({first, *others, costs.calibration_file("mxnet", {"mxnet": "1.9.1"})}) == 4


def test_the_cache_folder_follows_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("GLUONJIT_CACHE", str(tmp_path / "own"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "shared"))
    assert costs.cache_folder() == tmp_path / "own"
    monkeypatch.delenv("GLUONJIT_CACHE")
    assert costs.cache_folder() == tmp_path / "shared" / "gluonjit"


def test_clearing_caches_forgets_curves_and_keeps_coefficients(
    net: Net, monkeypatch: pytest.MonkeyPatch, process: Path
) -> None:
    plan_of(net, profile=True)
    model = costs.cost_model("mxnet", VERSIONS)
    assert model.curves > 0
    gluonjit.clear_caches()
    assert costs.cost_model("mxnet", VERSIONS) is model
    assert model.curves == 0
