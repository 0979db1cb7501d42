"""Calls that are reused: values, gradients and launches as without, and what is not reused and why."""

from __future__ import annotations

import copy
import json
import pickle
import random
import threading
from collections.abc import Iterator
from typing import Any, Callable

import numpy as np
import pytest
import reuse as models
from frameworks_support import INSTALLED
from reuse import SIZE, SMALL, TREES, Tree

import gluonjit
from gluonjit.errors import OptionError, ReuseError, VerifyError
from gluonjit.hybrid.capture.reuse import cache as reuse


@pytest.fixture(params=INSTALLED)
def on(request: pytest.FixtureRequest) -> Any:
    """An engine."""
    return models.load(request.param)


@pytest.fixture
def net(on: Any) -> Iterator[Any]:
    made = on.make()
    yield made
    on.off(made)


def assert_close(actual: Any, expected: Any, what: str) -> None:
    """Rule 1: equal to rounding, relative to the largest element."""
    actual, expected = np.asarray(actual), np.asarray(expected)
    assert actual.shape == expected.shape, f"{what}: shape {actual.shape}, expected {expected.shape}"
    scale = max(float(np.abs(expected).max(initial=0.0)), 1e-6)
    assert float(np.abs(actual - expected).max(initial=0.0)) <= 1e-5 * scale, what


def infer(on: Any, net: Any, trees: list[Any]) -> gluonjit.Report:
    """Run and return the report."""
    with on.plainly():
        found = [net(tree) for tree in trees]
        on.numbers(on.joined(found))
    return gluonjit.explain()


def reused_entries(on: Any) -> int:
    return gluonjit.cache_info()[f"{on.__name__.rpartition('_')[2]}.reused"]


def counts(report: gluonjit.Report) -> tuple[int, ...]:
    return report.calls, report.nodes, report.dropped, report.launches


@pytest.mark.parametrize("sharing", [True, False])
@pytest.mark.parametrize("granularity", ["cell", "op"])
def test_values_gradients_and_launches_are_those_without(on: Any, net: Any, granularity: str, sharing: bool) -> None:
    on.use(net, granularity=granularity, sharing=sharing, reuse=None)
    on.outcome(net, TREES, on.loss)  # kinds for any number of children are found
    expected, expected_gradients = on.outcome(net, TREES, on.loss)
    wanted = counts(gluonjit.explain())
    on.use(net, granularity=granularity, sharing=sharing)
    runs = net.tally[0]
    for hits in (0, len(TREES), len(TREES)):
        actual, gradients = on.outcome(net, TREES, on.loss)
        report = gluonjit.explain()
        assert (report.reuse.hits, report.reuse.misses) == (hits, len(TREES) - hits)
        assert not report.reuse.refused
        assert counts(report) == wanted
        assert_close(np.concatenate(actual), np.concatenate(expected), "losses")
        for name, gradient in expected_gradients.items():
            assert_close(gradients[name], gradient, name)
        runs, ran = net.tally[0], net.tally[0] - runs
        assert ran == 0 if hits else ran >= len(TREES)
    on.off(net)
    assert_close(np.concatenate(on.outcome(net, TREES, on.loss)[0]), np.concatenate(expected), "eager losses")


def test_reused_calls_share_with_others_whichever_come_first(on: Any, net: Any) -> None:
    on.use(net, reuse=None)
    infer(on, net, TREES)
    nodes = infer(on, net, TREES).nodes
    assert nodes < sum(2 * len(list(models.flatten(tree))) for tree in TREES)  # a projection and a state each
    on.use(net, reuse=lambda tree: None if tree[0] == 4 else tree)
    infer(on, net, TREES)
    for trees in (TREES, TREES[::-1], TREES + TREES):
        report = infer(on, net, trees)
        assert report.nodes == nodes
        assert report.reuse.hits == sum(tree[0] != 4 for tree in trees)


def test_what_is_compared_does_not_depend_on_what_came_before(on: Any, net: Any) -> None:
    on.use(net, check_reuse=1)
    infer(on, net, TREES)
    for trees in (TREES[::-1], [*TREES[2:], *TREES]):
        assert infer(on, net, trees).reuse.checked == len(trees)


def test_training_uses_the_parameters_of_the_day(on: Any, net: Any) -> None:
    on.use(net)
    twin = on.twin_of(net)
    on.off(twin)
    for frozen in (False, False, True, False):
        on.freeze(net, frozen)
        on.freeze(twin, frozen)
        for _ in range(3):
            expected, wanted = on.outcome(twin, TREES, on.loss)
            actual, gradients = on.outcome(net, TREES, on.loss)
            assert_close(np.concatenate(actual), np.concatenate(expected), "losses after steps")
            assert list(gradients) == list(wanted) or on.__name__.endswith("mxnet")  # names are those of a block
            for (name, gradient), other in zip(gradients.items(), wanted.values()):
                assert_close(gradient, other, name)
            on.step(net, 0.5, len(TREES))
            on.step(twin, 0.5, len(TREES))
        assert gluonjit.explain().reuse.hits >= len(TREES) - 1


def test_training_and_inference_are_captured_each_for_itself(on: Any, net: Any) -> None:
    on.use(net)
    assert infer(on, net, TREES).reuse.misses == len(TREES)
    on.outcome(net, TREES, on.loss)
    assert gluonjit.explain().reuse.misses == len(TREES)
    assert infer(on, net, TREES).reuse.hits == len(TREES)


def test_arguments_are_those_of_the_call_and_get_their_gradients(on: Any) -> None:
    net = on.sums(on.rows(2, 3, seed=9))
    on.use(net, reuse=lambda x: "one")
    for seed in range(3):  # the same program, other numbers
        x = on.learning(2, 3, seed=seed)
        with on.recording():
            y = net(x)
            total = y.sum()
        total.backward()
        reused = gluonjit.explain().reuse
        assert (reused.hits, reused.misses) == (min(seed, 1), 1 - min(seed, 1))
        weight, bias = on.numbers(on.weight(net.cell, "weight")), on.numbers(on.weight(net.cell, "bias"))
        held = on.numbers(net.held)
        assert_close(on.numbers(y), (on.numbers(x) @ weight.T + bias) * held, "value")
        assert_close(on.gradient(x), held @ weight, "gradient of the argument")


def test_arguments_that_look_otherwise_are_another_key(on: Any) -> None:
    net = on.sums()
    on.use(net, reuse=lambda x: "one")
    net.forward = lambda x: net.cell(x)  # any number of rows
    found = []
    for x in (on.rows(2, 3), on.rows(1, 3), on.rows(2, 3)):
        out, again = net(x), net(x)
        found.append((on.numbers(out), on.numbers(again), x))
    assert reused_entries(on) == 2
    on.off(net)
    for out, again, x in found:
        assert_close(out, on.numbers(net.cell(x)), "value")
        assert_close(again, on.numbers(net.cell(x)), "value again")


def test_one_argument_in_two_places_is_another_key(on: Any) -> None:
    net = on.Difference()
    on.use(net, reuse=lambda *args: "one")
    x, y = on.rows(1, SIZE, seed=1), on.rows(1, SIZE, seed=2)
    for _ in range(2):
        same, other = net(x, x), net(x, y)
        assert_close(on.numbers(same), on.numbers(x), "one for both")
        assert_close(on.numbers(other), 2 * on.numbers(x) - on.numbers(y), "two")
    assert reused_entries(on) == 2


def test_equal_numbers_are_told_from_equal_arrays(on: Any) -> None:
    net = on.sums(on.rows(2, 3, seed=4))
    given = [on.rows(2, 3, seed=seed) for seed in (4, 5, 4, 6)]  # at first the argument has the numbers of what is held
    with on.plainly():
        expected = [on.numbers(net(x)) for x in given]
        on.use(net, reuse=lambda x: "one")
        found = [net(x) for x in given]
        for out, wanted in zip(found, expected):
            assert_close(on.numbers(out), wanted, "value")
    assert gluonjit.explain().reuse.hits == len(given) - 1


def test_what_a_call_returns_is_returned_alike(on: Any, net: Any) -> None:
    net.after = lambda root, words: [root[0], (root, None, 3), {"both": on.joined([root, words[0:1]])}]
    on.use(net)
    expected = net(SMALL)
    found = net(SMALL)
    assert gluonjit.explain().reuse.hits == 1
    assert found[1][1:] == (None, 3) and type(found) is list and type(found[1]) is tuple
    pairs = [(found[0], expected[0]), (found[1][0], expected[1][0]), (found[2]["both"], expected[2]["both"])]
    for value, wanted in pairs:
        assert value.shape == wanted.shape
        assert_close(on.numbers(value), on.numbers(wanted), "a part of the result")
    on.off(net)
    assert_close(on.numbers(found[2]["both"]), on.numbers(net(SMALL)[2]["both"]), "rows of nodes and of inputs")


@pytest.mark.parametrize("computed", [False, True])
def test_a_view_beside_what_it_is_a_view_of_stays_one(on: Any, net: Any, computed: bool) -> None:
    net.after = lambda root, words: (root, root[0])
    on.use(net)
    with on.plainly():
        net(SMALL)
        root, view = net(SMALL)
        assert gluonjit.explain().reuse.hits == 1
        if computed:
            on.numbers(root)
        root[:] = 7
        assert on.numbers(view).tolist() == [7] * SIZE
        view[:] = 8
        assert on.numbers(root).tolist() == [[8] * SIZE]


REFUSED: dict[str, tuple[Callable[[Any, Any], Callable[[Any, Any], Any]], str]] = {
    "reads": (
        lambda on, net: lambda root, words: early(on, root),
        "the batch ran in the middle of it: a value was read",
    ),
    "drops": (lambda on, net: lambda root, words: net.drop(root), "draws"),
    "keeps": (lambda on, net: lambda root, words: kept(net, root), "the program holds a value"),
    "uses": (lambda on, net: lambda root, words: root + net.other, "a value that was captured before it"),
    "learns": (lambda on, net: lambda root, words: root * net.learned, "with a gradient"),
    "gives": (lambda on, net: lambda root, words: Result(root), "it returns a Result"),
}
EACH = [(name, what) for name in INSTALLED for what in [*REFUSED, *models.load(name).REFUSED]]


class Result:
    """What a call gives that is neither an array nor a container."""

    def __init__(self, root: Any) -> None:
        self.root = root


def early(on: Any, root: Any) -> Any:
    return root * float(on.numbers(root.sum()) < 1e9)


def kept(net: Any, root: Any) -> Any:
    net.last = root * 2
    return net.last + 1


@pytest.mark.parametrize(("name", "what"), EACH)
def test_a_call_that_is_no_function_of_its_key_is_captured_each_time(name: str, what: str) -> None:
    on = models.load(name)
    random.seed(0)  # two draws could be as good as equal
    net = on.make()
    if what in REFUSED:
        effect, reason = REFUSED[what][0](on, net), REFUSED[what][1]
    else:
        effect, reason = on.REFUSED[what][0](net), on.REFUSED[what][1]
    plain = net.after
    on.keep(net)
    on.use(net, reuse=lambda tree: (what, tree) if net.after is not plain else None)
    runs = net.tally[0]
    with on.recording():
        net(SMALL)
        net.other = net((2,))
        net.after = effect
        first, second = (net(SMALL) for _ in range(2))
    assert net.tally[0] == runs + 4
    found = [on.numbers(out.root if isinstance(out, Result) else out) for out in (first, second)]
    report = gluonjit.explain()
    assert report.reuse.hits == 0 and report.reuse.misses == 0
    assert report.reuse.refused and all(reason in why for why in report.reuse.refused)
    assert sum(report.reuse.refused.values()) == 2
    assert all(f"not reused, {count} x: {why}" in str(report) for why, count in report.reuse.refused.items())
    if what.startswith(("draws", "drops")):
        assert np.abs(found[0] - found[1]).max() > 1e-3
    else:
        net.other = on.copied(net.other)
        on.off(net)
        expected = net(SMALL)
        expected = expected.root if isinstance(expected, Result) else expected
        for value in found:
            assert_close(value, on.numbers(expected), what)
    if what == "keeps":
        assert_close(found[1], on.numbers(net.last) + 1, "what was kept")


def test_a_result_that_is_kept_by_the_model_is_right(on: Any, net: Any) -> None:
    on.use(net)
    net.after = lambda root, words: net.__dict__.setdefault("seen", []).append(root) or root
    out = net(SMALL)
    assert_close(on.numbers(net.seen[0]), on.numbers(out), "the first call's result")


def test_arguments_that_wait_are_not_reused(on: Any) -> None:
    net = on.sums()
    on.use(net, reuse=lambda x: "one")
    x = on.rows(2, 3)
    twice = net(net(x))
    assert gluonjit.explain().reuse.refused == {"an argument is a captured value": 1}
    found = on.numbers(twice)
    on.off(net)
    assert_close(found, on.numbers(net(net(x))), "value")


def test_an_exception_leaves_the_batch_as_it_was(on: Any, net: Any) -> None:
    on.use(net)
    with on.plainly():
        expected = on.numbers(net(SMALL))

        def fail(root: Any, words: Any) -> Any:
            raise ZeroDivisionError

        plain, net.after = net.after, fail
        before = net(SMALL)
        with pytest.raises(ZeroDivisionError):
            net(TREES[1])
        net.after = plain
        assert_close(on.numbers(before), expected, "captured before")
    assert infer(on, net, TREES).reuse.misses == len(TREES) - 1


def test_a_wrong_key_is_caught_by_verify_and_by_checks(on: Any, net: Any) -> None:
    on.use(net, reuse=lambda tree: "same")
    with pytest.raises(VerifyError, match=r"the key 'same' capture different things: node \d+ was .* and now is"):
        gluonjit.verify(net, [(tree,) for tree in TREES[:2]])
    on.use(net, reuse=lambda tree: "same", check_reuse=2)
    with on.plainly():
        net(SMALL)
        net(TREES[1])  # the first hit is not checked
        with pytest.raises(ReuseError, match="'same'"):
            net(TREES[1])
    assert infer(on, net, [SMALL]).reuse.misses == 2  # it was forgotten


def test_checks_see_other_words_and_other_arrays(on: Any, net: Any) -> None:
    on.use(net, reuse=lambda tree: "same", check_reuse=1)
    assert infer(on, net, [(1, (2,))] * 3).reuse.checked == 2
    with pytest.raises(ReuseError, match="look up other entries"), on.plainly():
        net((1, (3,)))
    sums = on.sums(on.rows(2, 3, seed=1))
    on.use(sums, reuse=lambda x: "same", check_reuse=1)
    x = on.rows(2, 3)
    sums(x)
    sums.held = on.copied(sums.held)
    sums(x)  # equal numbers
    sums.held = sums.held + 1
    with pytest.raises(ReuseError, match="read other arrays"):
        sums(x)


def test_verify_runs_reused_calls(on: Any, net: Any) -> None:
    on.use(net)
    infer(on, net, TREES[:2])
    report = gluonjit.verify(net, [(tree,) for tree in TREES], lambda out, sample: out.sum())
    assert (report.reuse.hits, report.reuse.checked) == (len(TREES), len(TREES))
    assert 0 < infer(on, net, TREES).reuse.hits <= 2  # its own recordings it has thrown away


CHANGES = [(name, what) for name in INSTALLED for what in models.load(name).CHANGES]


@pytest.mark.parametrize(("name", "what"), CHANGES)
def test_changes_of_the_net_forget_what_was_captured(name: str, what: str) -> None:
    on = models.load(name)
    net = on.make()
    on.use(net)
    infer(on, net, TREES)
    on.CHANGES[what](net)
    report = infer(on, net, TREES)
    assert (report.reuse.hits, report.reuse.misses) == (0, len(TREES))
    assert reused_entries(on) == len(TREES)
    found = [on.numbers(net(tree)) for tree in TREES]
    on.off(net)
    for value, tree in zip(found, TREES):
        assert_close(value, on.numbers(net(tree)), what)


def test_hooks_run_for_each_call(on: Any, net: Any) -> None:
    on.use(net)
    seen: list[Any] = []
    handle = on.hook(net, seen)
    report = infer(on, net, [SMALL, SMALL])
    assert len(seen) == 2
    assert [why.endswith("hooks, which run for each call") for why in report.reuse.refused] == [True]
    assert list(report.reuse.refused.values()) == [2]
    on.remove(handle)
    on.use(net)
    infer(on, net, [SMALL])
    assert infer(on, net, [SMALL]).reuse.hits == 1
    handle = on.hook(net, seen)
    infer(on, net, [SMALL])
    assert len(seen) == 3


def test_the_least_recently_used_go_first_and_bytes_are_bounded(
    on: Any, net: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    on.use(net)
    monkeypatch.setattr(reuse, "MOST_RECORDINGS", 3)
    infer(on, net, TREES[:3])
    infer(on, net, [TREES[0], TREES[3]])
    assert reused_entries(on) == 3
    assert infer(on, net, [TREES[0], TREES[3], TREES[2]]).reuse.hits == 3
    assert infer(on, net, [TREES[1]]).reuse.misses == 1
    monkeypatch.setattr(reuse, "MOST_BYTES", 1500)
    infer(on, net, [TREES[4]])
    engine = on.__name__.rpartition("_")[2]
    assert 0 < gluonjit.cache_info()[f"{engine}.reused_bytes"] <= 1500


def test_reuse_and_options_that_do_not_fit(on: Any, net: Any) -> None:
    for options in ({"reuse": 3}, {"reuse": hash, "check_reuse": 0}, {"reuse": hash, "check_reuse": True}):
        with pytest.raises(OptionError):
            gluonjit.hybridize(net, dynamic_batch=True, **options)
    with pytest.raises(OptionError, match="an option of a block"), gluonjit.batching(reuse=hash):
        pass
    on.use(net, reuse=lambda tree: [tree])
    call = r"Encoder\(\.\.\.\) with hybridize\(dynamic_batch=True, reuse=\.\.\.\)"
    why = r"reuse returned the key \[.*\], which cannot be a key: unhashable"
    with pytest.raises(OptionError, match=f"{call}: {why}") as raised:
        net(SMALL)
    assert "a number, a string or a tuple" in str(raised.value)


def test_copies_and_pickles(on: Any, net: Any) -> None:
    on.use(net)
    infer(on, net, TREES)
    twin = copy.deepcopy(net)
    assert infer(on, twin, TREES).reuse.misses == len(TREES)
    assert infer(on, twin, TREES).reuse.hits == len(TREES)
    pickle.loads(pickle.dumps(net.node))  # the key function need not be found by name


def test_batches_that_run_themselves_and_regions(on: Any, net: Any) -> None:
    on.use(net, max_nodes=8)
    expected = [on.numbers(net(tree)) for tree in TREES]
    for _ in range(3):
        found = [net(tree) for tree in TREES]
        for value, wanted in zip(found, expected):
            assert_close(on.numbers(value), wanted, "in small batches")
    on.use(net)
    with gluonjit.batching(sharing=True, granularity="cell", scheduler="depth") as batch:
        first = [net(tree) for tree in TREES]
        batch.flush("half way")
        second = [net(tree) for tree in TREES]
    assert (batch.report.reuse.hits, batch.report.reuse.misses) == (len(TREES), len(TREES))
    for one, other, wanted in zip(first, second, expected):
        assert_close(on.numbers(one), wanted, "before")
        assert_close(on.numbers(other), wanted, "after")


def test_the_report_counts_and_is_written(on: Any, net: Any) -> None:
    on.use(net)
    infer(on, net, TREES)
    report = infer(on, net, [*TREES, (9,)])
    assert json.loads(report.to_json())["reuse"] == {"hits": 5, "misses": 1, "checked": 0, "refused": {}}
    assert "reused calls: 5 (0 checked), 1 captured to be reused" in str(report)


def test_a_net_that_changes_in_the_middle_of_a_call_keeps_nothing_of_it(on: Any, net: Any) -> None:
    on.use(net)
    infer(on, net, TREES)
    plain, net.after = net.after, lambda root, words: (setattr(net, "spare", on.new_node()), root)[1]
    expected = infer(on, net, [TREES[0]]).reuse.hits
    assert expected == 1  # the promise is broken, which nobody sees
    with on.plainly():
        found = on.numbers(net((9, (1,))))
    net.after = plain
    report = infer(on, net, [(9, (1,)), *TREES])
    assert report.reuse.hits == 0
    assert_close(found, on.numbers(net((9, (1,)))), "value")


def test_threads_share_what_was_captured(on: Any, net: Any) -> None:
    on.use(net, check_reuse=3)
    expected = [on.numbers(net(tree)) for tree in TREES]
    failures: list[BaseException] = []

    def run() -> None:
        try:
            for _ in range(5):
                for value, wanted in zip([net(tree) for tree in TREES], expected):
                    assert_close(on.numbers(value), wanted, "in a thread")
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=run) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert reused_entries(on) == len(TREES)


@pytest.mark.parametrize("seed", range(4))
def test_any_order_of_samples_and_weights_is_as_eagerly(on: Any, net: Any, seed: int) -> None:
    """The oracle: minibatches drawn from trees, new ones among them, weights that step, freeze and learn again."""
    choose = random.Random(seed)
    twin = on.twin_of(net)
    on.use(net)
    on.off(twin)
    known, hits = list(TREES), 0
    for _ in range(8):
        known.append(drawn(choose, 3))
        trees = choose.choices(known, k=5)
        frozen = choose.random() < 0.3
        on.freeze(net, frozen)
        on.freeze(twin, frozen)
        expected, wanted = on.outcome(twin, trees, on.loss)
        actual, gradients = on.outcome(net, trees, on.loss)
        hits += gluonjit.explain().reuse.hits
        assert_close(np.concatenate(actual), np.concatenate(expected), "losses")
        assert len(gradients) == len(wanted)
        for (name, gradient), other in zip(gradients.items(), wanted.values()):
            assert_close(gradient, other, name)
        for each in (net, twin):
            on.step(each, 0.5, len(trees))
    assert hits


def drawn(choose: random.Random, depth: int) -> Tree:
    """A random tree."""
    children = [drawn(choose, depth - 1) for _ in range(choose.randint(0, 2))] if depth else []
    return (choose.randrange(models.WORDS), *children)
