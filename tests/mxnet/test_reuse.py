"""Calls that are reused: values, gradients and launches as without, and what is not reused and why."""

from __future__ import annotations

import copy
import json
import pickle
import threading
from collections.abc import Iterator
from typing import Any, Callable

import mxnet as mx
import numpy as np
import pytest
from mxnet import autograd, gluon
from support import assert_close, assert_same, outcome, rows

import gluonjit
from gluonjit.errors import OptionError, ReuseError, VerifyError
from gluonjit.hybrid.capture import reuse

WORDS, SIZE = 12, 4
Tree = tuple[Any, ...]  # (word, *children)


class Node(gluon.HybridBlock):
    """A state from a word and any number of states."""

    def __init__(self) -> None:
        super().__init__()
        with self.name_scope():
            self.x_weight = self.params.get("x_weight", shape=(SIZE, SIZE))
            self.h_weight = self.params.get("h_weight", shape=(SIZE, SIZE))

    def hybrid_forward(self, F: Any, x: Any, *children: Any, x_weight: Any, h_weight: Any) -> Any:
        h = F.FullyConnected(x, x_weight, no_bias=True, num_hidden=SIZE)
        for child in children:
            h = h + F.FullyConnected(child, h_weight, no_bias=True, num_hidden=SIZE)
        return F.tanh(h)


class Encoder(gluon.Block):
    """The state of a tree's root; `after` is what a test has it do beside."""

    def __init__(self) -> None:
        super().__init__()
        with self.name_scope():
            self.embed = gluon.nn.Embedding(WORDS, SIZE)
            self.node = Node()
            self.drop = gluon.nn.Dropout(0.5)
        self.after: Callable[[Any, Any], Any] = lambda root, words: root
        self.runs = 0

    def forward(self, tree: Tree) -> Any:
        self.runs += 1
        flat: list[int] = []
        self.flatten(tree, flat)
        words = self.embed(mx.nd.array(flat, dtype="int32"))
        return self.after(self.encode(tree, words, iter(range(len(flat)))), words)

    def flatten(self, tree: Tree, words: list[int]) -> None:
        words.append(tree[0])
        for child in tree[1:]:
            self.flatten(child, words)

    def encode(self, tree: Tree, words: Any, places: Iterator[int]) -> Any:
        place = next(places)
        return self.node(words[place : place + 1], *[self.encode(child, words, places) for child in tree[1:]])


SMALL: Tree = (1, (2,), (3, (2,)))
TREES: list[Tree] = [SMALL, (4, (1, (2,), (3, (2,)))), (5,), (4, (5,), (5,)), (6, (3, (2,)), (7,), (8,))]


@pytest.fixture
def net() -> Iterator[Encoder]:
    mx.random.seed(5)
    made = Encoder()
    made.initialize(mx.init.Uniform(0.7))
    yield made
    made.hybridize(dynamic_batch=False)


def use(net: gluon.Block, **options: Any) -> None:
    """Reuse by the tree itself, each choice made."""
    fixed = {"granularity": "cell", "scheduler": "depth", "sharing": True, "reuse": lambda tree: tree}
    net.hybridize(dynamic_batch=True, **{**fixed, **options})


def loss(net: gluon.Block, tree: Any) -> Any:
    return (net(tree) * rows(1, SIZE, seed=3)).sum()


def infer(net: gluon.Block, trees: list[Any]) -> gluonjit.Report:
    """Run and return the report."""
    found = [net(tree) for tree in trees]
    mx.nd.concat(*found, dim=0).asnumpy()
    return gluonjit.explain()


def counts(report: gluonjit.Report) -> tuple[int, ...]:
    return report.calls, report.nodes, report.dropped, report.launches


@pytest.mark.parametrize("sharing", [True, False])
@pytest.mark.parametrize("granularity", ["cell", "op", "graph"])
def test_values_gradients_and_launches_are_those_without(net: Encoder, granularity: str, sharing: bool) -> None:
    use(net, granularity=granularity, sharing=sharing, reuse=None)
    outcome(net, TREES, loss)  # kinds for any number of children are found
    expected, expected_gradients = outcome(net, TREES, loss)
    wanted = counts(gluonjit.explain())
    use(net, granularity=granularity, sharing=sharing)
    for hits in (0, len(TREES), len(TREES)):
        actual, gradients = outcome(net, TREES, loss)
        report = gluonjit.explain()
        assert (report.reuse.hits, report.reuse.misses) == (hits, len(TREES) - hits)
        assert not report.reuse.refused
        assert counts(report) == wanted
        assert_close(np.concatenate(actual), np.concatenate(expected), "losses")
        for name, gradient in expected_gradients.items():
            assert_close(gradients[name], gradient, name)
    assert net.runs == 3 * len(TREES)  # twice without, once with
    net.hybridize(dynamic_batch=False)
    assert_close(np.concatenate(outcome(net, TREES, loss)[0]), np.concatenate(expected), "eager losses")


def test_reused_calls_share_with_others_whichever_come_first(net: Encoder) -> None:
    use(net, reuse=lambda tree: None if tree[0] == 4 else tree)
    infer(net, TREES)
    for trees in (TREES, TREES[::-1], TREES + TREES):
        report = infer(net, trees)
        assert report.nodes == len({str(part) for tree in TREES for part in subtrees(tree)}) + len(words_of(TREES))
        assert report.reuse.hits == sum(tree[0] != 4 for tree in trees)


def subtrees(tree: Tree) -> list[Tree]:
    return [tree, *[part for child in tree[1:] for part in subtrees(child)]]


def words_of(trees: list[Tree]) -> set[int]:
    """Each distinct word is projected once."""
    return {part[0] for tree in trees for part in subtrees(tree)}


def test_what_is_compared_does_not_depend_on_what_came_before(net: Encoder) -> None:
    use(net, check_reuse=1)
    infer(net, TREES)
    for trees in (TREES[::-1], [*TREES[2:], *TREES]):
        assert infer(net, trees).reuse.checked == len(trees)


def test_training_uses_the_parameters_of_the_day(net: Encoder) -> None:
    use(net)
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.5}, kvstore=None)
    twin = copy.deepcopy(net)
    for grad_req in ("null", "write"):  # a copied array has no gradient
        twin.collect_params().setattr("grad_req", grad_req)
    use(twin, reuse=None)
    other = gluon.Trainer(twin.collect_params(), "sgd", {"learning_rate": 0.5}, kvstore=None)
    for _ in range(3):
        actual, expected = outcome(net, TREES, loss)[0], outcome(twin, TREES, loss)[0]
        trainer.step(len(TREES))
        other.step(len(TREES))
        assert_close(np.concatenate(actual), np.concatenate(expected), "losses after steps")
    assert gluonjit.cache_info()["mxnet.reused"] == len(TREES)


def test_training_and_inference_are_captured_each_for_itself(net: Encoder) -> None:
    use(net)
    assert infer(net, TREES).reuse.misses == len(TREES)
    outcome(net, TREES, loss)
    assert gluonjit.explain().reuse.misses == len(TREES)
    assert infer(net, TREES).reuse.hits == len(TREES)


class Sums(gluon.Block):
    """Of arrays: one that is given, one that the block holds, and zeros."""

    def __init__(self, held: Any = None) -> None:
        super().__init__()
        with self.name_scope():
            self.cell = gluon.nn.Dense(3, in_units=3, flatten=False)
        self.held = held

    def forward(self, x: Any) -> Any:
        h = self.cell(x) + mx.nd.zeros((2, 3))
        return h if self.held is None else h * self.held


def test_arguments_are_those_of_the_call_and_get_their_gradients() -> None:
    net = Sums(rows(2, 3, seed=9))
    net.initialize()
    use(net, reuse=lambda x: "one")
    for seed in range(3):  # the same program, other numbers
        x = rows(2, 3, seed=seed)
        x.attach_grad()
        with autograd.record():
            y = net(x)
        y.backward()
        reused = gluonjit.explain().reuse
        assert (reused.hits, reused.misses) == (min(seed, 1), 1 - min(seed, 1))
        weight, bias = net.cell.weight.data().asnumpy(), net.cell.bias.data().asnumpy()
        held = net.held.asnumpy()
        assert_close(y.asnumpy(), (x.asnumpy() @ weight.T + bias) * held, "value")
        assert_close(x.grad.asnumpy(), held @ weight, "gradient of the argument")


def test_arguments_that_look_otherwise_are_another_key() -> None:
    net = Sums()
    net.initialize()
    use(net, reuse=lambda x: "one")
    net.forward = lambda x: net.cell(x)  # any number of rows
    for x in (rows(2, 3), rows(1, 3), rows(2, 3)):
        assert_close(net(x).asnumpy(), net.cell(x).asnumpy(), "value")
    assert gluonjit.cache_info()["mxnet.reused"] == 2


def test_what_a_call_returns_is_returned_alike(net: Encoder) -> None:
    net.after = lambda root, words: [root[0], (root, None, 3), mx.nd.concat(root, words[0:1], dim=0)]
    use(net)
    expected = net(SMALL)
    found = net(SMALL)
    assert gluonjit.explain().reuse.hits == 1
    assert found[1][1:] == (None, 3) and type(found) is list and type(found[1]) is tuple
    pairs = [(found[0], expected[0]), (found[1][0], expected[1][0]), (found[2], expected[2])]
    for value, wanted in pairs:
        assert value.shape == wanted.shape
        assert_close(value.asnumpy(), wanted.asnumpy(), "a part of the result")
    net.hybridize(dynamic_batch=False)
    assert_close(found[2].asnumpy(), net(SMALL)[2].asnumpy(), "rows of nodes and of inputs")


def early(root: Any, words: Any) -> Any:
    return root * float(root.sum().asnumpy().item() < 1e9)


REFUSED: dict[str, tuple[Callable[[Encoder], Callable[[Any, Any], Any]], str]] = {
    "reads": (lambda net: early, "the batch ran in the middle of it: a value was read"),
    "draws": (lambda net: lambda root, words: root + mx.nd.random.normal(shape=(1, SIZE)), "runs when it is called"),
    "drops": (lambda net: lambda root, words: net.drop(root), "draws at random, or changes something"),
    "keeps": (lambda net: lambda root, words: kept(net, root), "somebody holds a value"),
    "uses": (lambda net: lambda root, words: root + net.other, "a value that was captured before it"),
    "writes": (lambda net: lambda root, words: written(net, root), "it writes to an array"),
    "computes": (lambda net: lambda root, words: root * mx.nd.tanh(net.node.x_weight.data())[0:1], "parameters alone"),
    "learns": (lambda net: lambda root, words: root * net.learned, "an array with a gradient"),
    "gives": (lambda net: lambda root, words: {"root": root}, "it returns a dict"),
}


def kept(net: Any, root: Any) -> Any:
    net.last = root * 2
    return net.last + 1


def written(net: Any, root: Any) -> Any:
    with autograd.pause():
        net.buffer[:] = net.learned
    return root


@pytest.mark.parametrize("what", REFUSED)
def test_a_call_that_is_no_function_of_its_key_is_captured_each_time(net: Encoder, what: str) -> None:
    effect, reason = REFUSED[what]
    plain = net.after
    use(net, reuse=lambda tree: (what, tree) if net.after is not plain else None)
    net.learned, net.buffer = rows(1, SIZE, seed=5), rows(1, SIZE)
    net.learned.attach_grad()
    with autograd.record():
        net(SMALL)
        net.other = net((2,))
        net.after = effect(net)
        first, second = (net(SMALL) for _ in range(2))
    report = gluonjit.explain()
    assert report.reuse.hits == 0 and report.reuse.misses == 0
    assert [reason in why for why in report.reuse.refused] == [True]
    assert sum(report.reuse.refused.values()) == 2
    assert f"not reused, 2 x: {next(iter(report.reuse.refused))}" in str(report)
    assert net.runs == 4
    first, second = (next(iter(out.values())) if isinstance(out, dict) else out for out in (first, second))
    if what not in ("draws", "drops"):
        net.after, net.other = plain, net.other.copy()
        net.hybridize(dynamic_batch=False)
        net.after = effect(net)
        expected = net(SMALL)
        expected = expected["root"] if isinstance(expected, dict) else expected
        for value in (first, second):
            assert_close(value.asnumpy(), expected.asnumpy(), what)
    else:
        assert np.abs(first.asnumpy() - second.asnumpy()).max() > 1e-3
    if what == "keeps":
        assert_close(second.asnumpy(), net.last.asnumpy() + 1, "what was kept")


def test_a_result_that_is_kept_by_the_block_is_right(net: Encoder) -> None:
    use(net)
    net.after = lambda root, words: net.__dict__.setdefault("seen", []).append(root) or root
    out = net(SMALL)
    assert_close(net.seen[0].asnumpy(), out.asnumpy(), "the first call's result")


def test_arguments_that_wait_are_not_reused() -> None:
    net = Sums()
    net.initialize()
    use(net, reuse=lambda x: "one")
    x = rows(2, 3)
    twice = net(net(x))
    assert gluonjit.explain().reuse.refused == {"an argument is a captured value": 1}
    assert_close(twice.asnumpy(), net.cell(net.cell(x)).asnumpy(), "value")


def test_an_exception_leaves_the_batch_as_it_was(net: Encoder) -> None:
    use(net)
    expected = net(SMALL).asnumpy()

    def fail(root: Any, words: Any) -> Any:
        raise ZeroDivisionError

    plain, net.after = net.after, fail
    before = net(SMALL)
    with pytest.raises(ZeroDivisionError):
        net(TREES[1])
    net.after = plain
    assert_close(before.asnumpy(), expected, "captured before")
    assert infer(net, TREES).reuse.misses == len(TREES) - 1


def test_a_wrong_key_is_caught_by_verify_and_by_checks(net: Encoder) -> None:
    use(net, reuse=lambda tree: "same")
    with pytest.raises(VerifyError, match=r"the key 'same' capture different things: node \d+ was .* and now is"):
        gluonjit.verify(net, [(tree,) for tree in TREES[:2]])
    use(net, reuse=lambda tree: "same", check_reuse=2)
    net(SMALL)
    net(TREES[1])  # the first hit is not checked
    with pytest.raises(ReuseError, match="'same'"):
        net(TREES[1])
    assert infer(net, [SMALL]).reuse.misses == 2  # it was forgotten


def test_checks_see_other_words_and_other_arrays(net: Encoder) -> None:
    use(net, reuse=lambda tree: "same", check_reuse=1)
    assert infer(net, [(1, (2,))] * 3).reuse.checked == 2
    with pytest.raises(ReuseError, match="look up other entries"):
        net((1, (3,)))
    sums = Sums(rows(2, 3, seed=1))
    sums.initialize()
    use(sums, reuse=lambda x: "same", check_reuse=1)
    x = rows(2, 3)
    sums(x)
    sums.held = sums.held.copy()
    sums(x)  # equal numbers
    sums.held = sums.held + 1
    with pytest.raises(ReuseError, match="read other arrays"):
        sums(x)


def test_verify_runs_reused_calls(net: Encoder) -> None:
    use(net)
    infer(net, TREES[:2])
    report = gluonjit.verify(net, [(tree,) for tree in TREES], lambda out, sample: out.sum())
    assert (report.reuse.hits, report.reuse.checked) == (len(TREES), len(TREES))
    assert infer(net, TREES).reuse.hits == 2  # its own recordings it has thrown away
    assert_same(net, TREES, loss, reuse=lambda tree: tree, check_reuse=1)


CHANGES: dict[str, Callable[[Encoder], Any]] = {
    "hybridize": use,
    "hybridize a part": lambda net: net.node.hybridize(dynamic_batch=True),
    "clear_caches": lambda net: gluonjit.clear_caches(),
    "another child": lambda net: setattr(net, "node", copy.deepcopy(net.node)),
    "a hook": lambda net: net.node.register_forward_hook(lambda *_: None).detach(),
    "initialize": lambda net: net.initialize(mx.init.Uniform(0.3), force_reinit=True),
    "cast": lambda net: net.cast("float64"),
    "reset_ctx": lambda net: net.collect_params().reset_ctx(mx.cpu(0)),
    "grad_req": lambda net: net.collect_params().setattr("grad_req", "add"),
}


@pytest.mark.parametrize("what", CHANGES)
def test_changes_of_the_net_forget_what_was_captured(net: Encoder, what: str) -> None:
    use(net)
    infer(net, TREES)
    CHANGES[what](net)
    assert gluonjit.cache_info()["mxnet.reused"] == 0
    report = infer(net, TREES)
    assert (report.reuse.hits, report.reuse.misses) == (0, len(TREES))
    found = [net(tree).asnumpy() for tree in TREES]
    net.hybridize(dynamic_batch=False)
    for value, tree in zip(found, TREES):
        assert_close(value, net(tree).asnumpy(), what)


def test_hooks_run_for_each_call(net: Encoder) -> None:
    use(net)
    seen = []
    handle = net.register_forward_hook(lambda block, args, out: seen.append(args))
    report = infer(net, [SMALL, SMALL])
    assert len(seen) == 2
    assert report.reuse.refused == {"a block in it has forward hooks, which run for each call": 2}
    handle.detach()
    infer(net, [SMALL])
    assert infer(net, [SMALL]).reuse.hits == 1


def test_the_least_recently_used_go_first_and_bytes_are_bounded(net: Encoder, monkeypatch: pytest.MonkeyPatch) -> None:
    use(net)
    monkeypatch.setattr(reuse, "MOST_RECORDINGS", 3)
    infer(net, TREES[:3])
    infer(net, [TREES[0], TREES[3]])
    assert gluonjit.cache_info()["mxnet.reused"] == 3
    assert infer(net, [TREES[0], TREES[3], TREES[2]]).reuse.hits == 3
    assert infer(net, [TREES[1]]).reuse.misses == 1
    monkeypatch.setattr(reuse, "MOST_BYTES", 1500)
    infer(net, [TREES[4]])
    assert 0 < gluonjit.cache_info()["mxnet.reused_bytes"] <= 1500


def test_reuse_and_options_that_do_not_fit(net: Encoder) -> None:
    for options in ({"reuse": 3}, {"reuse": hash, "check_reuse": 0}, {"reuse": hash, "check_reuse": True}):
        with pytest.raises(OptionError):
            net.hybridize(dynamic_batch=True, **options)
    with pytest.raises(OptionError, match="an option of a block"), gluonjit.batching(reuse=hash):
        pass
    use(net, reuse=lambda tree: [tree])
    call = r"Encoder\(\.\.\.\) with hybridize\(dynamic_batch=True, reuse=\.\.\.\)"
    why = r"reuse gave the key \[.*\], which can be none: unhashable"
    with pytest.raises(OptionError, match=f"{call}: {why}") as raised:
        net(SMALL)
    assert "a number, a string or a tuple" in str(raised.value)


def test_copies_and_pickles(net: Encoder) -> None:
    use(net)
    infer(net, TREES)
    twin = copy.deepcopy(net)
    assert infer(twin, TREES).reuse.misses == len(TREES)
    assert infer(twin, TREES).reuse.hits == len(TREES)
    del net.after
    pickle.loads(pickle.dumps(net.node))  # the key function need not be found by name
    net.after = lambda root, words: root


def test_batches_that_run_themselves_and_regions(net: Encoder) -> None:
    use(net, max_nodes=8)
    expected = [net(tree).asnumpy() for tree in TREES]
    for _ in range(3):
        found = [net(tree) for tree in TREES]
        for value, wanted in zip(found, expected):
            assert_close(value.asnumpy(), wanted, "in small batches")
    use(net)
    with gluonjit.batching(sharing=True, granularity="cell", scheduler="depth") as batch:
        first = [net(tree) for tree in TREES]
        batch.flush("half way")
        second = [net(tree) for tree in TREES]
    assert (batch.report.reuse.hits, batch.report.reuse.misses) == (len(TREES), len(TREES))
    for one, other, wanted in zip(first, second, expected):
        assert_close(one.asnumpy(), wanted, "before")
        assert_close(other.asnumpy(), wanted, "after")


def test_the_report_counts_and_is_written(net: Encoder) -> None:
    use(net)
    infer(net, TREES)
    report = infer(net, [*TREES, (9,)])
    assert json.loads(report.to_json())["reuse"] == {"hits": 5, "misses": 1, "checked": 0, "refused": {}}
    assert "reused calls: 5 (0 checked), 1 captured to be reused" in str(report)


def test_a_net_that_changes_in_the_middle_of_a_call_keeps_nothing_of_it(net: Encoder) -> None:
    use(net)
    infer(net, TREES)
    plain, net.after = net.after, lambda root, words: (setattr(net, "other", Node()), root)[1]
    expected = infer(net, [TREES[0]]).reuse.hits
    assert expected == 1  # the promise is broken, which nobody sees
    found = net((9, (1,)))
    net.after = plain
    assert gluonjit.cache_info()["mxnet.reused"] == 0
    report = infer(net, [(9, (1,)), *TREES])
    assert report.reuse.hits == 0
    assert_close(found.asnumpy(), net((9, (1,))).asnumpy(), "value")


def test_threads_share_what_was_captured(net: Encoder) -> None:
    use(net, check_reuse=3)
    expected = [net(tree).asnumpy() for tree in TREES]
    failures: list[BaseException] = []

    def run() -> None:
        try:
            for _ in range(5):
                for value, wanted in zip([net(tree) for tree in TREES], expected):
                    assert_close(value.asnumpy(), wanted, "in a thread")
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=run) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert gluonjit.cache_info()["mxnet.reused"] == len(TREES)
