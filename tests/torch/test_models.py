"""The experiment's models in PyTorch compute what those on MXNet do, sample by sample."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("mxnet", reason="they are compared with those on MXNet")

import mxnet as mx
from mxnet import autograd, gluon
from support import assert_close

from experiments.data import arrays
from experiments.data.phrases import Sentence as Phrases
from experiments.data.tagged import Sentence as Tagged
from experiments.data.trees import Pair, Sentence
from experiments.throughput import tasks
from experiments.torch import phrases, relatedness, tagger, weights
from experiments.treelstm.model import Relatedness
from experiments.treelstm.systems import relatedness as program
from experiments.treelstm.weights import initialize, named_parameters
from experiments.workloads.bilstm import Tagger
from experiments.workloads.workload import initialize as draw
from experiments.zoo.mxnet.lattice_lstm import loss as tagger_loss
from experiments.zoo.mxnet.treelstm_binary import BinaryTreeLSTM
from experiments.zoo.mxnet.treelstm_binary import loss as phrases_loss

TOLERANCE = 1e-4
WORDS, WIDTH, SIZE, HIDDEN, CLASSES = 9, 6, 4, 3, 5


def sentence(words: list[int], parents: list[int]) -> Sentence:
    made = Sentence([str(word) for word in words], parents)
    made.number(words)
    return made


def pairs_case() -> tuple[Any, ...]:
    """A leaf alone, a chain, three children at once."""
    leaf, chain, wide = sentence([3], [0]), sentence([1, 2, 3], [2, 3, 0]), sentence([4, 5, 6, 7], [2, 0, 2, 2])
    samples = [Pair(chain, wide, 2.5), Pair(leaf, wide, 1.0), Pair(wide, wide, 4.2)]
    net = Relatedness(WORDS, in_size=WIDTH, size=SIZE, hidden=HIDDEN)
    initialize(net, np.random.default_rng(0).normal(size=(WORDS, WIDTH)).astype(np.float32), 1)
    ours = relatedness.Relatedness(WORDS, WIDTH, SIZE, HIDDEN)

    def samples_of(engine: str) -> list[Any]:
        arrays.give(samples, arrays.maker(engine))
        return samples

    return "pairs", net, named_parameters(net), program().loss, ours, relatedness.loss, samples_of


def phrases_case() -> tuple[Any, ...]:
    trees = [((0, 1), (2, 3)), 0, (0, (1, 2))]
    words = [[1, 2, 1, 4], [5], [7, 8, 1]]
    labels = [[0, 1, 2, 3, 4, 0, 1], [3], [2, 2, 1, 0, 4]]

    def samples_of(engine: str) -> list[Any]:
        made = arrays.maker(engine)
        return [
            Phrases(made(np.array(ids, np.int32)), tree, made(np.array(classes, np.int32)))
            for ids, tree, classes in zip(words, trees, labels)
        ]

    net = BinaryTreeLSTM(WORDS, CLASSES, WIDTH, SIZE)
    draw(net, samples_of("mxnet"), phrases_loss, 2)
    trained = {
        "leaf_weight": net.leaf.gates.weight, "leaf_bias": net.leaf.gates.bias, "out_weight": net.out.weight,
        "compose_weight": net.compose.gates.weight, "compose_bias": net.compose.gates.bias, "out_bias": net.out.bias,
    }  # fmt: skip
    ours = phrases.BinaryTreeLSTM(WORDS, CLASSES, WIDTH, SIZE)
    return "phrases", net, trained, phrases_loss, ours, phrases.loss, samples_of


def tagged_case() -> tuple[Any, ...]:
    words, labels = [[1, 2, 3], [4], [5, 6]], [[0, 4, 2], [1], [3, 3]]

    def samples_of(engine: str) -> list[Any]:
        made = arrays.maker(engine)
        return [Tagged(made(np.array(x, np.int32)), made(np.array(y, np.int32))) for x, y in zip(words, labels)]

    net = Tagger(WORDS, CLASSES, WIDTH, SIZE)
    draw(net, samples_of("mxnet"), tagger_loss, 3)
    trained = tasks.chain_parameters(net)
    return "tagged", net, trained, tagger_loss, tagger.Tagger(WORDS, CLASSES, WIDTH, SIZE), tagger.loss, samples_of


@pytest.mark.parametrize("case", [pairs_case, phrases_case, tagged_case])
def test_losses_and_gradients_are_those_on_mxnet(case: Any) -> None:
    family, net, trained, loss, ours, our_loss, samples_of = case()
    given = {name: parameter.data().asnumpy() for name, parameter in trained.items()}
    weights.set_weights(ours, family, {**given, "embed_weight": net.embed.weight.data().asnumpy()})
    for number in range(3):
        expected, expected_gradients = on_mxnet(trained, net, loss, samples_of("mxnet")[number])
        ours.zero_grad()
        found = our_loss(ours, samples_of("torch")[number])
        found.backward()
        assert_close(found.item(), expected, f"loss of sample {number}", TOLERANCE)
        gradients = weights.gradients_of(ours, family)
        assert set(gradients) == set(expected_gradients)
        for name, wanted in expected_gradients.items():
            assert_close(gradients[name], wanted, f"gradient of {name}, sample {number}", TOLERANCE)


def on_mxnet(trained: dict[str, gluon.Parameter], net: Any, loss: Any, sample: Any) -> tuple[float, dict[str, Any]]:
    for parameter in trained.values():
        parameter.zero_grad()
    with autograd.record():
        found = loss(net, sample)
    found.backward()
    return float(found.asscalar()), {name: parameter.grad().asnumpy() for name, parameter in trained.items()}


def test_weights_come_back_as_they_were() -> None:
    family, net, trained, _, ours, _, _ = pairs_case()
    given = {name: parameter.data().asnumpy() for name, parameter in trained.items()}
    given["embed_weight"] = net.embed.weight.data().asnumpy()
    weights.set_weights(ours, family, given)
    found = weights.weights_of(ours, family)
    assert set(found) == set(given)
    for name, array in given.items():
        np.testing.assert_array_equal(found[name], array)
    for name, array in found.items():
        if name in trained:
            trained[name].set_data(mx.nd.array(array))
    np.testing.assert_array_equal(trained["f_weight"].data().asnumpy(), given["f_weight"])


def test_weights_of_another_shape_are_refused() -> None:
    ours = pairs_case()[4]
    with pytest.raises(RuntimeError, match=r"size mismatch for tree\.cell\.forget\.weight"):
        weights.set_weights(ours, "pairs", {"f_weight": np.zeros((2, 2), np.float32)})


def test_word_vectors_are_not_trained() -> None:
    for case in (pairs_case, phrases_case, tagged_case):
        family, *_, ours, _, _ = case()
        trained = {id(one) for one in weights.parameters(ours, family).values()}
        assert {name for name, one in ours.named_parameters() if id(one) not in trained} == {"embed.weight"}
        assert not ours.embed.weight.requires_grad
