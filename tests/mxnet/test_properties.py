"""Random programs batched equal themselves one sample after the other, in values and in gradients."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any

import mxnet as mx
import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from mxnet import autograd, gluon, nd
from programs import OPS, Interpreter, Sample, Step, sample

import gluonjit
from experiments.fuzz.mxnet.framework import TOLERANCE_OF_LOGARITHM

TOLERANCE = 1e-5
FLOOR = 0.1  # gradients and values that cancel to less than this are compared as if they were of this size
TIMES = int(os.environ.get("GLUONJIT_EXAMPLES", "1"))


def examples(count: int) -> settings:
    """Equal examples in every run; GLUONJIT_EXAMPLES multiplies their number, and draws others."""
    return settings(
        max_examples=count * TIMES,
        derandomize=TIMES == 1,
        deadline=None,
        database=None,
        phases=[Phase.explicit, Phase.generate, Phase.shrink],
        suppress_health_check=list(HealthCheck),
    )


numbers = st.integers(0, 23)
steps = st.builds(Step, st.sampled_from(sorted(OPS)), numbers, numbers, numbers)
programs = st.lists(steps, min_size=1, max_size=10)


@dataclass
class Way:
    """How a program is run: what must not change its results."""

    options: dict[str, Any] = field(default_factory=dict)
    scope: bool = False
    record: bool = True
    train_mode: bool = True


ways = st.builds(
    Way,
    st.fixed_dictionaries(
        {},
        optional={
            "sharing": st.booleans(),
            "granularity": st.sampled_from(["cell", "op"]),
            "max_nodes": st.sampled_from([1, 2, 7, 30]),
            "max_bytes": st.sampled_from([50, 1000]),
        },
    ),
    st.booleans(),
    st.sampled_from([True, True, True, False]),
    st.booleans(),
)


class Programs(Interpreter):
    """Prints in one line where an example fails."""

    def __repr__(self) -> str:
        return type(self).__name__


@pytest.fixture(scope="module")
def net() -> Interpreter:
    return make_net()


def make_net() -> Interpreter:
    mx.random.seed(1)
    made = Programs()
    made.initialize(mx.init.Uniform(0.8))
    return made


def loss_of(outputs: Sequence[Any]) -> Any:
    """One number; its gradients do not vanish where the outputs are symmetric."""
    terms = []
    for output in outputs:
        weights = nd.array(np.cos(np.arange(output.size)).reshape(output.shape), dtype=output.dtype)
        terms.append((output * output * (weights + 1.5) + output * 0.3).mean().astype("float32"))
    return gluonjit.add_n(terms)


def learned(block: gluon.Block) -> dict[str, Any]:
    """The parameters that have a gradient."""
    return {name: parameter for name, parameter in block.collect_params().items() if parameter.grad_req != "null"}


Outcome = dict[str, np.ndarray]


def play(net: Interpreter, samples: Sequence[Sample], way: Way) -> Outcome:
    """One minibatch: every output, and every gradient of the sum of the losses."""
    arrays = {id(array): array for item in samples for array in item.arrays if array.grad is not None}
    for parameter in net.collect_params().values():
        parameter.zero_grad()
    for array in arrays.values():
        array.grad[:] = 0
    found: Outcome = {}
    scope = autograd.record(way.train_mode) if way.record else autograd.predict_mode()
    with gluonjit.batching(**way.options) if way.scope else nullcontext(), scope:
        results = [net(item) for item in samples]
        total = gluonjit.add_n([loss_of(outputs) for outputs in results])
    if way.record:
        total.backward()
        for name, parameter in learned(net).items():
            found[f"gradient of {name}"] = parameter.grad().asnumpy().copy()
        for number, array in enumerate(arrays.values()):
            found[f"gradient of input {number}"] = array.grad.asnumpy().copy()
    for number, outputs in enumerate(results):
        for place, output in enumerate(outputs):
            found[f"output {place} of sample {number}"] = output.asnumpy().copy()
    found["loss"] = total.asnumpy()
    return found


def compare(actual: Outcome, expected: Outcome, tolerance: float = TOLERANCE) -> None:
    """Rule 1, for everything."""
    assert actual.keys() == expected.keys()
    for name, wanted in expected.items():
        value = actual[name]
        assert (value.shape, value.dtype) == (wanted.shape, wanted.dtype), name
        scale = max(float(np.abs(wanted).max()), FLOOR)
        assert float(np.abs(value - wanted).max()) <= tolerance * scale, name


def both(net: Interpreter, samples: Sequence[Sample], way: Way) -> gluonjit.Report:
    """Compare the batched run with the run one by one; returns the report of the batched one."""
    net.hybridize(dynamic_batch=False)
    expected = play(net, samples, Way(record=way.record, train_mode=way.train_mode))
    net.hybridize(dynamic_batch=True, **way.options)
    try:
        actual = play(net, samples, way)
        report = gluonjit.explain()
    finally:
        net.hybridize(dynamic_batch=False)
    logarithms = any(step.op in ("call_loss", "softmax") for one in samples for step in one.steps)
    compare(actual, expected, TOLERANCE_OF_LOGARITHM if logarithms else TOLERANCE)
    return report


def check_counts(report: gluonjit.Report, way: Way) -> None:
    assert report.launches >= report.lower_bound
    assert report.nodes + report.dropped <= report.calls
    if not way.options.get("sharing", True):
        assert report.shared >= 0


@st.composite
def minibatches(draw: Any, most: int = 4) -> list[Sample]:
    """Samples of one or two programs; some share their arrays and words."""
    bodies = draw(st.lists(programs, min_size=1, max_size=2))
    dtype = draw(st.sampled_from(["float32"] * 5 + ["float64"]))
    learn = draw(st.booleans())
    pool: dict[int, Any] = {}
    return [
        sample(bodies[which % len(bodies)], seed, outputs, dtype, pool, learn)
        for which, seed, outputs in draw(
            st.lists(st.tuples(st.integers(0, 1), st.integers(0, 40), st.integers(1, 3)), min_size=1, max_size=most)
        )
    ]


@examples(60)
@given(samples=minibatches(), way=ways)
def test_programs(net: Interpreter, samples: list[Sample], way: Way) -> None:
    """Any program, run in any way, gives what it gives one sample at a time."""
    check_counts(both(net, samples, way), way)


@examples(8)
@given(samples=minibatches(most=3))
def test_no_option_changes_results(net: Interpreter, samples: list[Sample]) -> None:
    net.hybridize(dynamic_batch=False)
    expected = play(net, samples, Way())
    try:
        for granularity in ("cell", "op"):
            for sharing in (True, False):
                way = Way({"granularity": granularity, "sharing": sharing})
                net.hybridize(dynamic_batch=True, **way.options)
                compare(play(net, samples, way), expected)
                check_counts(gluonjit.explain(), way)
    finally:
        net.hybridize(dynamic_batch=False)


QUIET = sorted(set(OPS) - {"call_reader", "copies", "read", "unread"})


@examples(20)
@given(
    bodies=st.lists(
        st.lists(st.builds(Step, st.sampled_from(QUIET), numbers, numbers, numbers), min_size=1, max_size=8),
        min_size=1,
        max_size=2,
    ),
    seeds=st.lists(st.integers(0, 40), min_size=1, max_size=4),
    granularity=st.sampled_from(["cell", "op"]),
)
def test_an_equal_minibatch_misses_no_cache(
    net: Interpreter, bodies: list[list[Step]], seeds: list[int], granularity: str
) -> None:
    """New arrays of known shapes need nothing to be traced or built, once operators of all lengths have their kinds."""
    way = Way({"granularity": granularity, "scheduler": "depth", "sharing": True})
    most = 3 + max(map(len, bodies))  # what an operator gives may lie otherwise from the next minibatch on
    made = [[sample(bodies[k % len(bodies)], seed) for k, seed in enumerate(seeds)] for _ in range(most)]
    net.hybridize(dynamic_batch=False)
    expected = [play(net, samples, Way()) for samples in made]
    net.hybridize(dynamic_batch=True, **way.options)
    try:
        launches = []
        for number, samples in enumerate(made):
            compare(play(net, samples, way), expected[number])
            report = gluonjit.explain()
            assert number < most - 2 or report.cache["misses"] == 0
            assert report.flushes == 1
            launches.append((report.launches, report.lower_bound, report.calls))
        assert launches[-3] == launches[-2] == launches[-1]
    finally:
        net.hybridize(dynamic_batch=False)


@examples(15)
@given(minibatches_in_a_row=st.lists(minibatches(most=3), min_size=2, max_size=4), way=ways)
def test_minibatches_in_a_row(net: Interpreter, minibatches_in_a_row: list[list[Sample]], way: Way) -> None:
    """Caches filled by one minibatch serve another of other shapes."""
    net.hybridize(dynamic_batch=False)
    eager = Way(record=way.record, train_mode=way.train_mode)
    expected = [play(net, samples, eager) for samples in minibatches_in_a_row]
    net.hybridize(dynamic_batch=True, **way.options)
    try:
        actual = [play(net, samples, way) for samples in minibatches_in_a_row]
    finally:
        net.hybridize(dynamic_batch=False)
    for found, wanted in zip(actual, expected):
        compare(found, wanted)


@pytest.fixture(scope="module")
def second() -> Interpreter:
    return make_net()


@examples(12)
@given(samples=minibatches(), record=st.booleans(), scope=st.booleans())
def test_two_nets_in_one_batch(
    net: Interpreter, second: Interpreter, samples: list[Sample], record: bool, scope: bool
) -> None:
    """Calls of two nets alternate, and the second one goes on from what the first one gave."""

    def run() -> Outcome:
        for parameter in [*net.collect_params().values(), *second.collect_params().values()]:
            parameter.zero_grad()
        results = []
        with gluonjit.batching() if scope else nullcontext(), autograd.record() if record else nullcontext():
            for item in samples:
                results.append(net(item))
                results.append(second(Sample(results[-1][:1], item.tokens, item.steps, item.outputs)))
            total = gluonjit.add_n([loss_of(outputs) for outputs in results])
        if record:
            total.backward()
        found = {
            f"{block.name} {name}": parameter.grad().asnumpy().copy()
            for block in (net, second)
            for name, parameter in learned(block).items()
        }
        found.update(
            (f"{k} {n}", array.asnumpy()) for k, arrays in enumerate(results) for n, array in enumerate(arrays)
        )
        return found

    expected = run()
    for block in (net, second):
        block.hybridize(dynamic_batch=True)
    try:
        actual = run()
    finally:
        for block in (net, second):
            block.hybridize(dynamic_batch=False)
    compare(actual, expected)


@examples(12)
@given(samples=minibatches(most=3), again=programs, way=ways, how=st.sampled_from(["plain", "read", "detach"]))
def test_results_go_on_into_the_next_batch(
    net: Interpreter, samples: list[Sample], again: list[Step], way: Way, how: str
) -> None:
    """Results of one minibatch, computed or not, are the inputs of the next; one backward goes through both."""

    def run(way: Way) -> Outcome:
        for parameter in net.collect_params().values():
            parameter.zero_grad()
        scope = autograd.record(way.train_mode) if way.record else nullcontext()
        with gluonjit.batching(**way.options) if way.scope else nullcontext(), scope:
            first = [net(item) for item in samples]
            if how == "read":
                first[0][0].asnumpy()
            states = [[array.detach() if how == "detach" else array for array in arrays] for arrays in first]
            second = [
                net(Sample(arrays, item.tokens, again, item.outputs)) for arrays, item in zip(reversed(states), samples)
            ]
            total = gluonjit.add_n([loss_of(outputs) for outputs in second])
        if way.record:
            total.backward()
        found = {name: parameter.grad().asnumpy().copy() for name, parameter in learned(net).items()}
        for number, arrays in enumerate([*first, *second]):
            found.update((f"{number} {place}", array.asnumpy()) for place, array in enumerate(arrays))
        return found

    net.hybridize(dynamic_batch=False)
    expected = run(Way(record=way.record, train_mode=way.train_mode))
    net.hybridize(dynamic_batch=True, **way.options)
    try:
        actual = run(way)
    finally:
        net.hybridize(dynamic_batch=False)
    compare(actual, expected)


class Graphs(gluon.Block):
    """A state for each node, from a word and the states of any number of earlier nodes, by one of several cells."""

    def __init__(self) -> None:
        super().__init__()
        with self.name_scope():
            self.inner = Interpreter()

    def forward(self, item: tuple[Any, list[tuple[int, list[int]]]]) -> Any:
        tokens, nodes = item
        words = self.inner.embed(tokens)
        states: list[Any] = []
        for number, (kind, sources) in enumerate(nodes):
            x = words[number % tokens.shape[0] : number % tokens.shape[0] + 1]
            below = [states[source] for source in sources]
            if kind == 0:
                state = self.inner.nested(x, *below)[0]
            elif kind == 1:
                state, _ = self.inner.memory(x, below[:2] or None, 0.5 * len(below))
            elif kind == 2:
                state = self.inner.squash(nd.add_n(x, *below))
            else:
                stacked = nd.concat(x, *below, dim=0)
                state = nd.dot(nd.softmax(nd.dot(x, stacked, transpose_b=True)), stacked)
            states.append(state)
        return [states[-1], nd.concat(*states, dim=0)]


@pytest.fixture(scope="module")
def graphs() -> Graphs:
    mx.random.seed(2)
    made = Graphs()
    made.initialize(mx.init.Uniform(0.8))
    return made


@st.composite
def dags(draw: Any) -> tuple[Any, list[tuple[int, list[int]]]]:
    """Words and nodes; a node may be the source of many."""
    nodes: list[tuple[int, list[int]]] = []
    for number in range(draw(st.integers(1, 9))):
        sources = st.lists(st.integers(0, number - 1), max_size=3) if number else st.just([])
        nodes.append((draw(st.integers(0, 3)), draw(sources)))
    words = draw(st.lists(st.integers(0, 6), min_size=1, max_size=4))
    return nd.array(words, dtype=draw(st.sampled_from(["int32", "float32"]))), nodes


@st.composite
def trees(draw: Any) -> tuple[Any, list[tuple[int, list[int]]]]:
    """Words and nodes in postorder; every node is the source of one."""
    nodes: list[tuple[int, list[int]]] = []
    loose: list[int] = []
    kind = draw(st.integers(0, 2))
    for number in range(draw(st.integers(1, 10))):
        count = draw(st.integers(0, len(loose)))
        nodes.append((kind, loose[len(loose) - count :]))
        loose = [*loose[: len(loose) - count], number]
    nodes.append((kind, loose))
    words = draw(st.lists(st.integers(0, 6), min_size=1, max_size=4))
    return nd.array(words, dtype="int32"), nodes


def check_graphs(net: Graphs, items: list[Any], way: Way) -> None:
    def run(way: Way) -> Outcome:
        for parameter in net.collect_params().values():
            parameter.zero_grad()
        with gluonjit.batching(**way.options) if way.scope else nullcontext(), autograd.record():
            results = [net(item) for item in items]
            total = gluonjit.add_n([loss_of(outputs) for outputs in results])
        total.backward()
        found = {name: parameter.grad().asnumpy().copy() for name, parameter in learned(net).items()}
        found.update(
            (f"{k} {n}", array.asnumpy()) for k, arrays in enumerate(results) for n, array in enumerate(arrays)
        )
        return found

    net.hybridize(dynamic_batch=False)
    expected = run(Way())
    net.hybridize(dynamic_batch=True, **way.options)
    try:
        actual = run(way)
        check_counts(gluonjit.explain(), way)
    finally:
        net.hybridize(dynamic_batch=False)
    compare(actual, expected)


@examples(20)
@given(items=st.lists(dags(), min_size=1, max_size=4), way=ways)
def test_dags(graphs: Graphs, items: list[Any], way: Way) -> None:
    """Nodes with several parents, equal words in several samples, four ways to make a state."""
    check_graphs(graphs, items, way)


@examples(20)
@given(items=st.lists(trees(), min_size=1, max_size=5), way=ways)
def test_trees(graphs: Graphs, items: list[Any], way: Way) -> None:
    check_graphs(graphs, items, way)


@examples(20)
@given(items=st.lists(trees(), min_size=1, max_size=5))
def test_launches_of_trees(graphs: Graphs, items: list[Any]) -> None:
    """Without sharing each cell runs once for every depth and number of children there is, and nothing else."""
    items = [(tokens, [(0, sources) for _, sources in nodes]) for tokens, nodes in items]
    graphs.hybridize(dynamic_batch=True, sharing=False)
    try:
        kept = [graphs(item) for item in items]
        kept[0][0].asnumpy()
        report = gluonjit.explain()
    finally:
        graphs.hybridize(dynamic_batch=False)
    levels = set()
    for _, nodes in items:
        depths: list[int] = []
        for _, sources in nodes:
            depths.append(1 + max([depths[source] for source in sources], default=0))
            levels.add((depths[-1], len(sources)))
    assert sum(len(nodes) for _, nodes in items) == report.nodes == report.calls
    assert report.lower_bound <= report.launches <= len(levels)
    assert report.flushes == 1 and not report.alone and not report.unbatched
