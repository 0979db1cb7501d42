"""Recurrent layers of PyTorch, called on one sequence a sample, run step by step for sequences of all lengths."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402
from torch_support import assert_same  # noqa: E402

import gluonjit  # noqa: E402

LENGTHS = (1, 4, 2, 3, 4)
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


@pytest.mark.parametrize("given", [False, True], ids=["from nothing", "from a state"])
@pytest.mark.parametrize(
    "options",
    [{}, {"bias": False}, {"bidirectional": True}, {"num_layers": 2}, {"num_layers": 2, "bidirectional": True}],
    ids=str,
)
@pytest.mark.parametrize("name", LAYERS)
def test_sequences_of_all_lengths_run_together(name: str, options: dict[str, Any], given: bool) -> None:
    report = assert_same(Reader(LAYERS[name](4, 3, **options), given), sentences(), value)
    (step,) = [row for kind, row in report.kinds.items() if kind.endswith("_step")]
    passes = options.get("num_layers", 1) * (2 if options.get("bidirectional") else 1)
    assert report.flushes == 1 and not report.alone and not report.unbatched
    assert step.calls == passes * sum(LENGTHS)
    if (
        given
    ):  # what shapes the state before a layer is of one kind with what shapes it after, which may keep levels apart
        assert step.launches < step.calls / 2
    else:
        assert step.launches == passes * max(LENGTHS)


@pytest.mark.parametrize("way", [{"granularity": "op"}, {"granularity": "graph"}, {"sharing": False}], ids=str)
def test_every_way_to_batch_gives_the_same(way: dict[str, Any]) -> None:
    assert_same(Reader(nn.LSTM(4, 3, bidirectional=True)), sentences(), value, **way)


class First(Reader):
    """The same with a first axis of one, as a batch of one sentence has it."""

    def forward(self, words: Any) -> Any:
        outputs, _ = self.layer(self.embed(words).unsqueeze(0))
        return outputs[0].tanh().sum()


@pytest.mark.parametrize("name", LAYERS)
def test_a_batch_of_one_sequence_is_one_sequence(name: str) -> None:
    report = assert_same(First(LAYERS[name](4, 3, batch_first=True)), sentences(), value)
    assert report.flushes == 1
    assert max(row.launches for kind, row in report.kinds.items() if kind.endswith("_step")) == max(LENGTHS)


class Pairs(Reader):
    """Two sequences at once."""

    def forward(self, words: Any) -> Any:
        rows = self.embed(words)
        return self.layer(torch.stack([rows, rows * 2], 1))[0].sum()


@pytest.mark.parametrize(
    "net", [Pairs(nn.LSTM(4, 3)), Reader(nn.LSTM(4, 3, proj_size=2))], ids=["two at once", "projections"]
)
def test_other_calls_of_a_layer_give_what_they_gave(net: Any) -> None:
    report = assert_same(net, sentences((3, 2)), value)
    assert "lstm_step" not in report.kinds


def test_dropout_between_layers_is_drawn_where_a_layer_trains() -> None:
    net = Reader(nn.LSTM(4, 3, num_layers=2, dropout=0.5))
    net.eval()
    assert "dropout" not in assert_same(net, sentences(), value).kinds
    net.train()
    first = [float(net(words)) for words in sentences()]
    assert all(number == number for number in first)


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
    report = assert_same(net, sentences(), value, tolerance=1e-4)  # losses are small differences of larger sums
    assert report.kinds["0.turn"].calls == 2 * len(LENGTHS)
