"""Packed sequences that a program makes of pending tensors: they run at once, as eagerly, and the report says why."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402
from torch.nn.utils import rnn  # noqa: E402
from torch_support import assert_same  # noqa: E402

import gluonjit  # noqa: E402
from gluonjit.errors import CellWarning, EarlyFlushWarning  # noqa: E402

LAYERS = {"LSTM": nn.LSTM, "GRU": nn.GRU, "RNN": nn.RNN}
LENGTHS = ((4,), (2,), (5,), (3, 2), (1, 4, 4), (2, 2))


@pytest.fixture(autouse=True)
def seeded() -> None:
    torch.manual_seed(0)


class Packs(nn.Module):
    """A layer over the sentences of a sample, packed, from a state that it computes if `given`."""

    def __init__(self, layer: Any, given: bool = False, ordered: bool = False, filler: float = 0.0) -> None:
        super().__init__()
        self.embed, self.layer, self.given, self.ordered, self.filler = (
            nn.Embedding(20, 4),
            layer,
            given,
            ordered,
            filler,
        )

    def forward(self, words: Any, lengths: Any) -> Any:
        first, total = self.layer.batch_first, max(lengths) + (self.filler > 0)
        x = self.embed(words if first else words.t())
        packed = rnn.pack_padded_sequence(x, torch.tensor(lengths), batch_first=first, enforce_sorted=self.ordered)
        state: tuple[Any, ...] = ()
        if self.given:
            layer = self.layer
            begin = x.mean((0, 1))[: layer.hidden_size]
            begin = begin.expand(layer.num_layers * (1 + layer.bidirectional), len(lengths), -1)
            begin = begin * torch.arange(1.0, len(lengths) + 1)[:, None]
            state = ((begin, begin * 2) if isinstance(layer, nn.LSTM) else begin,)
        found, last = self.layer(packed, *state)
        out, sizes = rnn.pad_packed_sequence(found, first, self.filler, total if self.filler else None)
        assert sizes.tolist() == list(lengths)
        ends = last if isinstance(last, tuple) else (last,)
        return (out.pow(2) * torch.linspace(0, 1, out.numel()).view(out.shape)).sum() + sum(
            end.pow(2).sum() for end in ends
        )


def samples(ordered: bool = False) -> list[Any]:
    found = []
    for lengths in LENGTHS:
        chosen = sorted(lengths, reverse=True) if ordered else list(lengths)
        found.append((torch.randint(0, 20, (len(chosen), max(chosen))), chosen))
    return found


def value(net: Any, sample: Any) -> Any:
    return net(*sample)


@pytest.fixture(autouse=True)
def reads() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", (CellWarning, EarlyFlushWarning))
        yield


def assert_told(net: Any, ordered: bool = False) -> None:
    report = assert_same(net, samples(ordered), value, granularity="cell", expand=("Packs", "Lists"))
    said = report.unbatched
    assert "self.lstm(x)" in said["_pack_padded_sequence"] and said["layer"] == said["_pack_padded_sequence"]
    assert {*said} == {"_pack_padded_sequence", "layer"}


@pytest.mark.parametrize("given", [False, True], ids=["from nothing", "from a state"])
@pytest.mark.parametrize(
    "options",
    [{}, {"batch_first": True}, {"bidirectional": True, "num_layers": 2}, {"bidirectional": True, "batch_first": True}],
    ids=str,
)
@pytest.mark.parametrize("name", LAYERS)
def test_packed_sequences_of_all_samples(name: str, options: dict[str, Any], given: bool) -> None:
    assert_told(Packs(LAYERS[name](4, 3, **options), given))


@pytest.mark.parametrize("first", [False, True])
def test_sequences_in_order_padded_with_a_number(first: bool) -> None:
    assert_told(Packs(nn.GRU(4, 3, batch_first=first), ordered=True, filler=0.5), ordered=True)


def test_projections() -> None:
    assert_told(Packs(nn.LSTM(4, 3, proj_size=2, bidirectional=True)))


def test_rows_that_a_program_packs_anew() -> None:
    class Anew(Packs):
        def forward(self, words: Any, lengths: Any) -> Any:
            packed = rnn.pack_padded_sequence(words.t(), lengths, enforce_sorted=False)
            packed = packed._replace(data=self.embed(packed.data))
            return self.layer(packed)[0].data.pow(2).sum()

    report = assert_same(Anew(nn.GRU(4, 3)), samples(), value, granularity="cell", expand=("Anew",))
    assert "self.lstm(x)" in report.unbatched["layer"]


class Lists(nn.Module):
    """Sentences of a sample as a list: padded, or packed by PyTorch's function for lists."""

    def __init__(self, first: bool, packed: bool) -> None:
        super().__init__()
        self.embed, self.layer, self.packed = nn.Embedding(20, 4), nn.GRU(4, 3, batch_first=first), packed

    def forward(self, words: Any, lengths: Any) -> Any:
        rows = [self.embed(each[:length]) for each, length in zip(words, lengths)]
        first = self.layer.batch_first
        padded = rnn.pad_sequence(rows, first, 0.25)
        if self.packed:
            out, _ = self.layer(rnn.pack_sequence(rows, enforce_sorted=False))
            padded = padded[..., :3] + rnn.pad_packed_sequence(out, first)[0]
        return (padded.pow(2) * torch.linspace(0, 1, padded.numel()).view(padded.shape)).sum()


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("first", [False, True])
def test_lists_of_sequences(first: bool, packed: bool) -> None:
    report = assert_same(Lists(first, packed), samples(), value, granularity="cell", expand=("Packs", "Lists"))
    assert packed or report.flushes == 1


class Hooked(Packs):
    """One whose layer has a hook, which sees the packed sequences."""

    def __init__(self) -> None:
        super().__init__(nn.GRU(4, 3))
        self.seen: list[int] = []
        self.layer.register_forward_hook(self.see)

    def see(self, module: Any, args: Any, result: Any) -> None:
        self.seen.append(int(result[0].batch_sizes[0]))


def test_a_hook_sees_packed_sequences() -> None:
    net = Hooked()
    assert_same(net, samples(), value, granularity="cell", expand=("Packs", "Lists"))
    assert net.seen[: len(LENGTHS)] == list(map(len, LENGTHS))


@pytest.mark.parametrize(
    ("lengths", "message"),
    [([2, 3], "enforce_sorted"), ([3, 0], "greater than 0"), ([3], "batch_size"), ([9, 1], "")],
    ids=str,
)
def test_lengths_that_do_not_fit_are_pytorchs_own_error(lengths: list[int], message: str) -> None:
    net = gluonjit.hybridize(Packs(nn.GRU(4, 3), ordered=True), dynamic_batch=True)
    with pytest.raises((RuntimeError, IndexError), match=message), gluonjit.batching():
        net(torch.randint(0, 20, (2, 4)), lengths).item()


def test_a_state_of_another_size_is_pytorchs_own_error() -> None:
    class Wrong(Packs):
        def forward(self, words: Any, lengths: Any) -> Any:
            x = self.embed(words.t())
            return self.layer(rnn.pack_padded_sequence(x, lengths, enforce_sorted=False), x[:1, :, :3])[0].data.sum()

    net = gluonjit.hybridize(Wrong(nn.GRU(4, 3, bidirectional=True)), dynamic_batch=True)
    with pytest.raises(RuntimeError, match="Expected hidden size"), gluonjit.batching():
        net(torch.randint(0, 20, (2, 4)), [2, 3])
