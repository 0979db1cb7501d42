"""The Tree-LSTM computes what its formulas say, in every way of running it."""

from __future__ import annotations

import os

import mxnet as mx
import numpy as np
import pytest

from experiments.bench.agreement import TOLERANCE, check, deviations
from experiments.bench.engines import make_systems
from experiments.data import builtin, corpus
from experiments.treelstm import MODES
from experiments.treelstm.levels import plan
from experiments.treelstm.model import ChildSumCell
from experiments.treelstm.optimizer import CoupledAdaGrad
from experiments.treelstm.systems import make_system


@pytest.fixture(scope="module")
def small() -> corpus.Corpus:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(builtin, "SCENES", 20)
        patch.setattr(builtin, "SIZES", {"train": 40, "dev": 10, "test": 10})
        return corpus.load("builtin")


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


@pytest.mark.parametrize("children", [0, 1, 3])
def test_a_cell_is_the_formula(children: int) -> None:
    """i, o, u, f from x and h~, and a forget gate for each child (Tai et al. 2015, section 3.1)."""
    rng = np.random.default_rng(children)
    size, width = 4, 6
    weights = {"x_weight": (16, 6), "x_bias": (16,), "h_weight": (12, 4), "f_weight": (4, 4)}
    values = {name: rng.normal(size=shape).astype(np.float32) for name, shape in weights.items()}
    cell = ChildSumCell(size, width)
    cell.initialize()
    for name, value in values.items():
        getattr(cell, name).set_data(mx.nd.array(value))
    x = rng.normal(size=(1, width)).astype(np.float32)
    states = rng.normal(size=(children, 2, 1, size)).astype(np.float32)
    i, o, u, f = np.split(x @ values["x_weight"].T + values["x_bias"], 4, axis=1)
    i_h, o_h, u_h = np.split(states[:, 0].sum(axis=0).reshape(1, size) @ values["h_weight"].T, 3, axis=1)
    c = sigmoid(i + i_h) * np.tanh(u + u_h)
    for h_k, c_k in states:
        c = c + sigmoid(f + h_k @ values["f_weight"].T) * c_k
    found_h, found_c = cell(mx.nd.array(x), *[(mx.nd.array(h), mx.nd.array(memory)) for h, memory in states])
    np.testing.assert_allclose(found_c.asnumpy(), c, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(found_h.asnumpy(), sigmoid(o + o_h) * np.tanh(c), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("mode", [mode for mode in MODES["mxnet"] if mode != "imperative"])
def test_every_mode_computes_what_the_imperative_one_does(mode: str, small: corpus.Corpus) -> None:
    """Losses and gradients, twice, so that what was kept from the first minibatch is used in the second."""
    systems = make_systems("mxnet", ["imperative", mode], small.vectors, seed=1)
    for at in (0, 6):
        found = check(systems, small.train[at : at + 6])
        assert set(found) == {system.label for system in systems[1:]}
        assert max(found.values()) <= TOLERANCE
    expected = systems[0].outputs(small.dev[:5]).asnumpy()
    np.testing.assert_allclose(np.exp(expected).sum(axis=1), 1, rtol=1e-5)
    for system in systems[1:]:
        np.testing.assert_allclose(system.outputs(small.dev[:5]).asnumpy(), expected, rtol=1e-4)


def test_gradients_are_those_of_all_samples(small: corpus.Corpus) -> None:
    """The gradient of a minibatch is the sum of its samples' gradients: none is lost, none is counted twice."""
    system = make_system("imperative", small.vectors, seed=0)
    together = system.results(small.train[:3])
    apart = [system.results([pair]) for pair in small.train[:3]]
    summed = {name: sum(found[name] for found in apart) for name in together if name != "losses"}
    assert max(deviations(summed, {name: together[name] for name in summed}).values()) <= TOLERANCE


def test_a_wrong_gradient_is_noticed() -> None:
    expected = {"losses": np.ones(3), "x_weight": np.array([1.0, -2.0])}
    found = {"losses": np.ones(3), "x_weight": np.array([1.0, -2.0002])}
    assert deviations(found, expected) == {"losses": 0.0, "x_weight": pytest.approx(1e-4)}
    assert deviations({"losses": np.full(3, np.nan)}, {"losses": np.ones(3)}) == {"losses": float("inf")}


def test_levels_lead_each_state_to_its_parent(small: corpus.Corpus) -> None:
    """Following the plan with sets in place of states, the root of each sentence gathers all of its words."""
    sentences = [side for pair in small.train for side in (pair.left, pair.right)]
    schedule = plan(sentences)
    at, below = 0, []
    for level in schedule.levels:
        ends = np.cumsum([at, level.inner + level.leaves, level.children, level.children])
        words, rows, parents = (schedule.indices[a:b] for a, b in zip(ends, ends[1:]))
        states = [[word] for word in words]
        for row, parent in zip(rows, parents):
            states[parent] = states[parent] + below[row]
        below, at = states, ends[-1]
    for sentence, root in zip(sentences, schedule.indices[at:]):
        assert sorted(below[root]) == sorted(sentence.ids)


def test_the_l2_term_is_part_of_the_gradient() -> None:
    optimizer = CoupledAdaGrad(learning_rate=0.05, wd=0.1, rescale_grad=0.5)
    weight, grad = mx.nd.array([1.0, -2.0]), mx.nd.array([0.4, 0.2])
    state = optimizer.create_state(0, weight)
    history, expected = np.zeros(2), weight.asnumpy()
    for _ in range(2):
        optimizer.update(0, weight, grad, state)
        coupled = 0.5 * grad.asnumpy() + 0.1 * expected
        history += coupled**2
        expected = expected - 0.05 * coupled / np.sqrt(history + 1e-7)
    np.testing.assert_allclose(weight.asnumpy(), expected, rtol=1e-5)


@pytest.mark.skipif(not os.environ.get("GLUONJIT_DATA"), reason="GLUONJIT_DATA is not set: no SICK files to read")
def test_modes_agree_on_sick() -> None:
    sick = corpus.load("sick", limit=16)
    found = check(make_systems("mxnet", ["imperative", "handbatched", "dynamic"], sick.vectors, seed=0), sick.train)
    assert max(found.values()) <= TOLERANCE
