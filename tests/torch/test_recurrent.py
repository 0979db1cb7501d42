"""Recurrent layers of PyTorch: one node for a sequence, and one launch for sequences of any length."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import nn
from torch_support import assert_close, assert_same

import gluonjit

LENGTHS = (4, 2, 1, 3, 4)
LAYERS = {"LSTM": nn.LSTM, "GRU": nn.GRU, "RNN": nn.RNN, "ReLU": lambda *a, **k: nn.RNN(*a, nonlinearity="relu", **k)}


@pytest.fixture(autouse=True)
def seeded() -> None:
    torch.manual_seed(0)


class Reader(nn.Module):
    """A layer over the words of a sentence; `given` says whether the state it begins with is given."""

    def __init__(self, layer: Any, given: bool = False) -> None:
        super().__init__()
        self.embed, self.layer, self.given = nn.Embedding(20, 4), layer, given

    def forward(self, words: Any) -> Any:
        x = self.embed(words)
        state: tuple[Any, ...] = ()
        if self.given:
            lstm, layer = isinstance(self.layer, nn.LSTM), self.layer
            begin = x.mean().expand(layer.num_layers * (1 + layer.bidirectional), layer.hidden_size)
            state = ((begin, begin * 2) if lstm else begin,)
        outputs, last = self.layer(x, *state)
        ends = last if isinstance(last, tuple) else (last,)
        return outputs.pow(2).sum() + sum((end * outputs[0, 0]).sum() for end in ends)


def sentences(lengths: tuple[int, ...] = LENGTHS) -> list[Any]:
    return [torch.randint(0, 20, (length,)) for length in lengths]


def value(net: Any, words: Any) -> Any:
    return net(words)


def launches(report: Any, name: str) -> tuple[int, int]:
    return report.kinds[name].calls, report.kinds[name].launches


@pytest.mark.parametrize("given", [False, True], ids=["from nothing", "from a state"])
@pytest.mark.parametrize(
    "options",
    [{}, {"bias": False}, {"bidirectional": True}, {"num_layers": 2}, {"num_layers": 2, "bidirectional": True}],
    ids=str,
)
@pytest.mark.parametrize("name", LAYERS)
def test_sequences_of_all_lengths_run_together(name: str, options: dict[str, Any], given: bool) -> None:
    report = assert_same(Reader(LAYERS[name](4, 3, **options), given), sentences(), value)
    assert report.flushes == 1 and not report.alone and not report.unbatched
    assert launches(report, "Reader") == (len(LENGTHS), 1)


@pytest.mark.parametrize("way", [{"granularity": "op"}, {"expand": ("Reader",)}], ids=str)
@pytest.mark.parametrize("name", LAYERS)
def test_a_layer_is_one_node_where_operators_are(name: str, way: dict[str, Any]) -> None:
    report = assert_same(Reader(LAYERS[name](4, 3, bidirectional=True)), sentences(), value, **way)
    assert launches(report, "layer") == (len(LENGTHS), 1)


class Functional(nn.Module):
    """A layer that is called as a function, with weights of the program's, between branches."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.name, self.embed, self.layer = name, nn.Embedding(20, 4), LAYERS[name](4, 3, bidirectional=True)
        self.ends = nn.ModuleList([nn.Linear(3, 3), nn.Linear(3, 3)])

    def forward(self, words: Any) -> Any:
        function = {"LSTM": torch.lstm, "GRU": torch.gru, "RNN": torch.rnn_tanh, "ReLU": torch.rnn_relu}[self.name]
        x, begin = self.embed(words).unsqueeze(1), torch.zeros(2, 1, 3)
        state = (begin, begin) if self.name == "LSTM" else begin
        found = function(x, state, self.layer._flat_weights, True, 1, 0.0, self.training, True, False)
        return found[0].pow(2).sum() + self.ends[int(words[0]) % 2](found[1][0, 0]).sum()


@pytest.mark.parametrize("way", [{"granularity": "op"}, {"granularity": "cell"}, {}], ids=str)
@pytest.mark.parametrize("name", LAYERS)
def test_layers_called_as_functions_run_together(name: str, way: dict[str, Any]) -> None:
    net = Functional(name)
    assert_same(net, sentences(), value, **way)
    gluonjit.hybridize(net, dynamic_batch=False)
    report = assert_same(net, sentences((2, 5, 3, 4, 1)), value, **way)
    assert report.flushes == 1
    calls, ran = launches(report, {"RNN": "rnn_tanh", "ReLU": "rnn_relu"}.get(name, name.lower()))
    assert calls == len(LENGTHS) and ran <= 2


@pytest.mark.parametrize("way", [{"sharing": False}, {"granularity": "cell"}], ids=str)
def test_every_way_to_batch_gives_the_same(way: dict[str, Any]) -> None:
    assert_same(Reader(nn.LSTM(4, 3, bidirectional=True)), sentences(), value, **way)


@pytest.mark.parametrize(
    "layer", [nn.LSTM(4, 3, proj_size=2, num_layers=2), nn.LSTM(4, 3, proj_size=2, bidirectional=True)], ids=str
)
def test_layers_with_projections_run_together(layer: Any) -> None:
    assert launches(assert_same(Reader(layer), sentences(), value), "Reader") == (len(LENGTHS), 1)


@pytest.mark.parametrize("name", LAYERS)
def test_numbers_of_64_bits_are_as_exact(name: str) -> None:
    layer = LAYERS[name](4, 3, bidirectional=True, num_layers=2)
    report = assert_same(Reader(layer).double(), sentences(), value, tolerance=1e-13)
    assert launches(report, "Reader") == (len(LENGTHS), 1)


@pytest.mark.parametrize("name", LAYERS)
def test_without_gradients_it_gives_the_same(name: str) -> None:
    net = Reader(LAYERS[name](4, 3, bidirectional=True, num_layers=2))
    other = gluonjit.hybridize(copy.deepcopy(net), dynamic_batch=True)
    words = sentences()
    with torch.no_grad():
        assert_close(torch.stack(list(map(other, words))), torch.stack(list(map(net, words))), "results")
    assert launches(gluonjit.explain(), "Reader") == (len(LENGTHS), 1)


class First(Reader):
    """The same with a first axis of one, as a batch of one sentence has it."""

    def forward(self, words: Any) -> Any:
        outputs, _ = self.layer(self.embed(words).unsqueeze(0))
        return outputs[0].tanh().sum()


class Second(Reader):
    """The same with a second axis of one."""

    def forward(self, words: Any) -> Any:
        outputs, last = self.layer(self.embed(words).view(len(words), 1, -1))
        return outputs.tanh().sum() * (last[0] if isinstance(last, tuple) else last)[-1].sum()


@pytest.mark.parametrize("way", [First, Second])
@pytest.mark.parametrize("name", LAYERS)
def test_a_batch_of_one_sequence_is_one_sequence(name: str, way: Any) -> None:
    report = assert_same(way(LAYERS[name](4, 3, batch_first=way is First)), sentences(), value)
    assert report.flushes == 1 and launches(report, way.__name__) == (len(LENGTHS), 1)


class Pairs(Reader):
    """Two sequences side by side."""

    def forward(self, words: Any) -> Any:
        rows = self.embed(words)
        outputs, last = self.layer(torch.stack([rows, rows * 2], 1))
        return outputs.pow(2).sum() + (last[0] if isinstance(last, tuple) else last)[0, 1].sum()


@pytest.mark.parametrize("name", LAYERS)
def test_several_sequences_side_by_side_run_together(name: str) -> None:
    report = assert_same(Pairs(LAYERS[name](4, 3, bidirectional=True)), sentences(), value)
    assert launches(report, "Pairs") == (len(LENGTHS), 1)


class Translator(nn.Module):
    """A layer that begins with the state another ends with, over another sentence."""

    def __init__(self, kind: Any) -> None:
        super().__init__()
        self.embed, self.encoder, self.decoder = nn.Embedding(20, 4), kind(4, 3), kind(4, 3)

    def forward(self, words: Any, others: Any) -> Any:
        _, state = self.encoder(self.embed(words))
        return self.decoder(self.embed(others), state)[0].pow(2).sum()


PAIRS = list(zip(sentences(), sentences((3, 2, 3, 5, 2))))


@pytest.mark.parametrize("name", LAYERS)
def test_a_state_of_one_layer_is_where_another_begins(name: str) -> None:
    report = assert_same(Translator(LAYERS[name]), PAIRS, lambda net, pair: net(*pair))
    assert launches(report, "Translator") == (len(LENGTHS), 1)
    report = assert_same(Translator(LAYERS[name]), PAIRS, lambda net, pair: net(*pair), granularity="op")
    assert launches(report, "encoder") == launches(report, "decoder") == (len(LENGTHS), 1)


class Both(Reader):
    """A layer called twice, on what has nothing to do with each other."""

    def forward(self, words: Any) -> Any:
        x = self.embed(words)
        return (self.layer(x)[0] * self.layer(x * 2)[0]).sum()


class Again(Reader):
    """A layer called on its own results."""

    def forward(self, words: Any) -> Any:
        return self.layer(self.layer(self.embed(words))[0])[0].pow(2).sum()


class Stepwise(Reader):
    """A layer called word by word."""

    def forward(self, words: Any) -> Any:
        x, state = self.embed(words), None
        for k in range(len(words)):
            _, state = self.layer(x[k : k + 1], state)
        return (state[0] if isinstance(state, tuple) else state).pow(2).sum()


@pytest.mark.parametrize("name", LAYERS)
def test_a_layer_may_be_called_twice(name: str) -> None:
    layer = LAYERS[name](4, 4)
    assert launches(assert_same(Both(layer), sentences(), value), "Both") == (len(LENGTHS), 1)
    assert launches(assert_same(Again(layer), sentences(), value), "Again") == (len(LENGTHS), 1)
    report = assert_same(Again(layer), sentences(), value, expand=("Again",))
    assert launches(report, "layer") == (2 * len(LENGTHS), 2)
    report = assert_same(Stepwise(layer), sentences(), value)
    assert launches(report, "layer") == (sum(LENGTHS), max(LENGTHS))


class Words(nn.Module):
    """A layer over the letters of words, in a loop, and one over the words."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.letters, self.words = nn.Embedding(20, 4), nn.RNN(4, 3), nn.GRU(3, 3)

    def forward(self, words: Any) -> Any:
        ends = [self.letters(self.embed(word).unsqueeze(1))[1][0, 0] for word in words]
        return self.words(torch.stack(ends))[0].pow(2).sum()


def test_a_layer_in_a_loop_is_one_launch() -> None:
    samples = [sentences((3, 4, 2)), sentences((2, 5)), sentences((4, 4, 1, 2))]
    report = assert_same(Words(), samples, value, granularity="op")
    assert launches(report, "letters") == (9, 1) and launches(report, "words") == (3, 1)


def test_frozen_and_replaced_weights_are_noticed() -> None:
    net = Reader(nn.LSTM(4, 3, bidirectional=True))
    net.layer.weight_hh_l0.requires_grad_(False)
    net.layer.bias_ih_l0_reverse.requires_grad_(False)
    assert launches(assert_same(net, sentences(), value), "Reader") == (len(LENGTHS), 1)
    assert net.layer.weight_hh_l0.grad is None and net.layer.weight_hh_l0_reverse.grad is not None
    net.layer.weight_hh_l0 = nn.Parameter(torch.randn(12, 3))
    net.layer.flatten_parameters()
    assert_same(net, sentences(), value)
    with torch.no_grad():
        net.layer.weight_ih_l0.mul_(2)
    for parameter in net.parameters():
        parameter.requires_grad_(parameter is net.embed.weight)
    assert_same(net, sentences(), value)


class Packs(Reader):
    """A layer over packed sequences that the program makes."""

    def forward(self, words: Any) -> Any:
        rows, sizes = self.embed(words), [len(words), max(1, len(words) - 1)]
        packed = nn.utils.rnn.pack_padded_sequence(torch.stack([rows, rows * 2], 1), sizes)
        return nn.utils.rnn.pad_packed_sequence(self.layer(packed)[0])[0].pow(2).sum()


@pytest.mark.parametrize("name", LAYERS)
def test_packed_sequences_of_a_program_give_what_they_gave(name: str) -> None:
    assert_same(Packs(LAYERS[name](4, 3, bidirectional=True)), sentences(), value, granularity="cell")


def test_a_sequence_without_words_is_pytorchs_own_error() -> None:
    net = gluonjit.hybridize(Reader(nn.GRU(4, 3)), dynamic_batch=True)
    with pytest.raises(RuntimeError, match="Expected sequence length to be larger than 0"):
        net(torch.zeros(0, dtype=torch.long)).item()


def test_dropout_between_layers_is_drawn_where_a_layer_trains() -> None:
    net = Reader(nn.LSTM(4, 3, num_layers=2, dropout=1.0))  # of which nothing is left
    report = assert_same(net, sentences(), value)
    assert launches(report, "Reader") == (len(LENGTHS), 1)
    net.layer.dropout = 0.5
    words = sentences((3,)) * 8 + sentences((4,)) * 8
    drawn = torch.stack([net(each) for each in words]).detach()
    assert len(set(drawn.tolist())) > 4
    net.eval()
    assert_same(net, sentences(), value)


class Dropping(Reader):
    """Gives the layer's outputs, and the ones among as many of which half are dropped."""

    def forward(self, words: Any) -> Any:
        outputs = self.layer(self.embed(words))[0]
        return nn.functional.dropout(outputs * 0 + 1, 0.5, self.training)


def test_cells_of_any_length_that_draw_run_together() -> None:
    net = gluonjit.hybridize(Dropping(nn.GRU(4, 8)), dynamic_batch=True)
    with gluonjit.batching():
        found = [net(words) for words in sentences((3, 5, 2, 4))]
    numbers = torch.cat([each.detach() for each in found])
    assert [len(each) for each in found] == [3, 5, 2, 4]
    assert set(numbers.flatten().tolist()) == {0.0, 2.0}
    assert launches(gluonjit.explain(), "Dropping") == (4, 1)


@pytest.mark.parametrize("name", LAYERS)
def test_gradients_of_gradients(name: str) -> None:
    net = Reader(LAYERS[name](4, 3, bidirectional=True, num_layers=2)).double()

    def of(model: Any) -> list[Any]:
        total = sum(model(words) for words in SENTENCES)
        weights = list(model.parameters())
        once = torch.autograd.grad(total, weights, create_graph=True)
        twice = torch.autograd.grad(sum(each.pow(2).sum() for each in once), weights)
        return [*once, *twice]

    expected = of(net)
    for actual, wanted in zip(of(gluonjit.hybridize(net, dynamic_batch=True)), expected):
        assert_close(actual, wanted, "a gradient", 1e-10)


SENTENCES = sentences((2, 4, 3))


def test_verify_and_hooks_see_a_layer_as_one_call() -> None:
    net = Reader(nn.LSTM(4, 3, bidirectional=True))
    assert gluonjit.verify(net, sentences(), lambda out, sample: out, granularity="cell").flushes >= 1
    seen: list[Any] = []
    net.layer.register_forward_hook(lambda module, args, out: seen.append(tuple(out[0].shape)))
    gluonjit.hybridize(net, dynamic_batch=True)
    total = sum(net(words) for words in sentences())
    assert torch.isfinite(total) and seen == [(length, 6) for length in LENGTHS]


def test_a_wrong_width_is_pytorchs_own_error() -> None:
    net = gluonjit.hybridize(Reader(nn.LSTM(5, 3)), dynamic_batch=True)
    with pytest.raises(RuntimeError, match=r"input.size\(-1\) must be equal to input_size"):
        net(sentences()[0])


class Spans(Reader):
    """A layer, and rows of its outputs between places that each sample has for itself."""

    def forward(self, words: Any, places: Any) -> Any:
        outputs = self.layer(self.embed(words))[0]
        return sum(outputs[begin:end].pow(2).sum() for begin, end in places)


def test_a_cell_of_a_new_structure_in_each_call_is_given_up() -> None:
    net = gluonjit.hybridize(Spans(nn.GRU(4, 3)), dynamic_batch=True, granularity="cell")
    for first in range(12):
        with gluonjit.batching():
            samples = [(words, [(first, first + 2), (k, k + 3)]) for k, words in enumerate(sentences((15, 18, 16, 17)))]
            sum(net(*sample) for sample in samples).backward()
    report = gluonjit.explain()
    assert "Spans" not in report.kinds and launches(report, "layer") == (4, 1)


def test_a_cell_of_lists_whose_sizes_do_not_come_again_is_given_up() -> None:
    net = gluonjit.hybridize(Words(), dynamic_batch=True, granularity="cell")
    documents = [sentences((k + 2, 22 - k)) for k in range(20)]
    for begin in range(0, 20, 4):
        with gluonjit.batching():
            sum(net(document) for document in documents[begin : begin + 4]).backward()
    report = gluonjit.explain()
    assert "Words" not in report.kinds and launches(report, "letters") == (8, 1)


class ByHand(nn.Module):
    """A cell over the words of a sentence, in the loop of its author, who begins with no state."""

    def __init__(self, cell: Any) -> None:
        super().__init__()
        self.embed, self.cell = nn.Embedding(20, 4), cell

    def forward(self, words: Any) -> Any:
        x = self.embed(words)
        state = None
        for k in range(len(words)):
            state = self.cell(x[k], state)
        return (state[0] if isinstance(state, tuple) else state).pow(2).sum()


@pytest.mark.parametrize("name", ["LSTMCell", "GRUCell", "RNNCell"])
def test_a_cell_that_begins_with_no_state_is_one_node_a_step(name: str) -> None:
    report = assert_same(ByHand(getattr(nn, name)(4, 3)), sentences(), value)
    assert report.flushes == 1 and not report.alone and not report.unbatched
    assert report.kinds["cell"].launches <= max(LENGTHS)


class Twice(nn.Module):
    """A module that goes through one weight as often as its turns say."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.turn = nn.Embedding(20, 4), nn.Linear(4, 4)

    def forward(self, words: Any) -> Any:
        x = self.embed(words).sum(0)
        return self.turn(torch.tanh(self.turn(x))).sum()


def test_a_module_that_goes_through_a_weight_again_is_its_turns() -> None:
    net = nn.Sequential(Twice())
    options = {"expand": ("Sequential", "Twice")}
    report = assert_same(net, sentences(), value, tolerance=1e-4, **options)  # losses are differences of larger sums
    assert report.kinds["0.turn"].calls == 2 * len(LENGTHS)


@pytest.mark.parametrize("granularity", ["op", "cell"])
@pytest.mark.parametrize("layer", [nn.LSTM, nn.GRU, nn.RNN])
def test_one_sequence_of_one_step_and_then_longer_ones_begin_with_a_state_each(layer: Any, granularity: str) -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = layer(4, 8, batch_first=True)

        def forward(self, sample: Any) -> Any:
            found, last = self.layer(sample[None])
            return found[0, -1].sum() + last[0].sum()

    samples = [torch.randn(1 + number % 5, 4) for number in range(8)]
    assert_same(Net(), samples, lambda net, sample: net(sample), granularity=granularity)
