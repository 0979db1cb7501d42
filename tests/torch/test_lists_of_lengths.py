"""What is learned of lengths at once: by lists of tensors, of which no two are alike, and with masks of padding."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import nn

import gluonjit
from gluonjit.engines.torch.tracing import kinds
from tests.common.torch_support import assert_close

SIZE = 8


class Words(nn.Module):
    """Reads a text as a list of words, each as its letters."""

    def __init__(self) -> None:
        super().__init__()
        self.letters, self.rnn = nn.Embedding(10, SIZE), nn.GRU(SIZE, SIZE, batch_first=True)
        self.out = nn.Linear(SIZE, SIZE)

    def forward(self, words: Any) -> Any:
        words = [
            word["letters"] if isinstance(word, dict) else word[1] if isinstance(word, tuple) else word
            for word in words
        ]
        return self.out(torch.cat([self.rnn(self.letters(word)[None])[1][0] for word in words])).tanh().sum()


class Padded(nn.Module):
    """Attention to a text that is padded by zeros."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.attend = nn.Embedding(10, SIZE), nn.MultiheadAttention(SIZE, 2, batch_first=True)

    def forward(self, words: Any) -> Any:
        x = self.table(words)[None]
        found, _ = self.attend(x, x, x, key_padding_mask=words.eq(0)[None])
        return found.tanh().sum()


def texts(draw: torch.Generator, count: int) -> list[Any]:
    lengths = torch.randint(1, 7, (count, 9), generator=draw)
    return [
        [torch.randint(1, 10, (length,), generator=draw) for length in of[: 4 + number % 6].tolist()]
        for number, of in enumerate(lengths)
    ]


def compare(eager: Any, net: Any, samples: list[Any]) -> None:
    for model in (eager, net):
        model.zero_grad()
    wanted, found = [eager(sample) for sample in samples], [net(sample) for sample in samples]
    sum(wanted).backward()
    sum(found).backward()
    assert_close(torch.stack(found), torch.stack(wanted), "values")
    for (name, mine), other in zip(net.named_parameters(), eager.parameters()):
        assert_close(mine.grad, other.grad, name)


def alone(word: Any) -> Any:
    return word


def with_flag(word: Any) -> Any:
    return len(word) > 3, word


def in_a_dict(word: Any) -> Any:
    return {"letters": word, "rare": len(word) > 3}


@pytest.mark.parametrize("given", [alone, with_flag, in_a_dict])
def test_a_list_of_words_is_traced_twice(monkeypatch: pytest.MonkeyPatch, given: Any, traced_once: None) -> None:
    torch.manual_seed(0)
    eager = Words()
    net = gluonjit.hybridize(copy.deepcopy(eager), dynamic_batch=True)
    traced = []
    original = kinds._traced
    monkeypatch.setattr(kinds, "_traced", lambda call, *given: traced.append(call.owner) or original(call, *given))  # type: ignore
    draw = torch.Generator().manual_seed(1)
    for _ in range(3):
        compare(eager, net, [list(map(given, text)) for text in texts(draw, 12)])
    assert sum(owner is net for owner in traced) == 2
    report = gluonjit.explain()
    assert report.kinds["rnn"].launches == 1


def test_texts_with_a_mask_of_padding_run_together() -> None:
    torch.manual_seed(0)
    eager = Padded()
    net = gluonjit.hybridize(copy.deepcopy(eager), dynamic_batch=True)
    for count in (4, 5):
        samples = [torch.cat([torch.arange(1, n), torch.zeros(n % 3, dtype=torch.long)]) for n in range(3, 4 + count)]
        compare(eager, net, samples)
    assert gluonjit.explain().kinds["Padded"].launches == 1 and not gluonjit.explain().distrusted


def test_texts_with_and_without_padding_give_the_same() -> None:
    torch.manual_seed(0)
    eager = Padded()
    net = gluonjit.hybridize(copy.deepcopy(eager), dynamic_batch=True)
    compare(eager, net, [torch.arange(1, n) for n in range(2, 10)] * 2)
    compare(eager, net, [torch.cat([torch.arange(1, n), torch.zeros(3, dtype=torch.long)]) for n in range(8, 11)])
    assert not gluonjit.explain().distrusted
