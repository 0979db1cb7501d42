"""Operators outside of modules, such as losses of rows, run for all lengths at once."""

from __future__ import annotations

import copy
from typing import Any, Callable

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import gluonjit
from tests.common.torch_support import assert_close
from tests.torch.test_lengths import WORDS, tokens

C = 5
MINIBATCHES = ((6, 4), (5, 7, 6, 8), (4, 9, 9, 5, 12, 6), (11, 30, 7, 9, 10))


class Tagger(nn.Module):
    """Scores of words, (n, C)."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.out = nn.Embedding(WORDS, 8), nn.Linear(8, C)

    def forward(self, words: Any) -> Any:
        return self.out(torch.tanh(self.embed(words)))


OUTSIDE: dict[str, Callable[[Any, Any], Any]] = {
    "a mean": lambda y, t: y.mean(),
    "squares beside targets": lambda y, t: F.mse_loss(y[:, 0], t.float()),
    "truth of rows": lambda y, t: F.binary_cross_entropy_with_logits(y[:, 0], (t > 2).float()),
    "scores of tags": lambda y, t: -F.log_softmax(y, -1).gather(1, t[:, None]).mean(),
    "the largest": lambda y, t: y.max(0).values.sum(),
    "shares of rows": lambda y, t: (y.softmax(0) * y).sum(),
    "products of rows": lambda y, t: ((y @ y.t()).softmax(-1) @ y).square().mean(),
    "differences": lambda y, t: (y[1:] - y[:-1]).abs().mean(),
    "spread": lambda y, t: y.std(0).sum() + y.var(),
    "sorted": lambda y, t: (y.sort(0).values * torch.arange(C).float()).sum(),
    "the last": lambda y, t: y[-1].sum() + y.cumsum(0).amax(),
}


@pytest.mark.parametrize("name", OUTSIDE)
def test_operators_run_for_all_lengths(name: str) -> None:
    torch.manual_seed(0)
    eager = Tagger()
    net = gluonjit.hybridize(copy.deepcopy(eager), dynamic_batch=True)
    for lengths in MINIBATCHES:
        words = tokens(*lengths, seed=lengths[0])
        wanted = [OUTSIDE[name](eager(each), each % C) for each in words]
        with gluonjit.batching(granularity="cell") as batch:
            found = [OUTSIDE[name](net(each), each % C) for each in words]
            gluonjit.add_n(found).backward()
        sum(wanted).backward()
        for one, other in zip(found, wanted):
            assert_close(one.detach(), other.detach(), "a loss")
        for one, other in zip(net.parameters(), eager.parameters()):
            assert_close(one.grad, other.grad, "a gradient", 1e-4)
            one.grad = other.grad = None
    assert not {name: row.launches for name, row in batch.report.kinds.items() if row.launches > 2}


def test_calls_of_an_operator_that_have_nothing_in_common() -> None:
    torch.manual_seed(0)
    eager = Tagger()
    net = gluonjit.hybridize(copy.deepcopy(eager), dynamic_batch=True)

    def parts(y: Any) -> list[Any]:
        return [y.mean(), y[:, :1].mean(), y[:, :3].mean(), y[:2].mean(), y.t().mean(), y[0].mean()]

    with torch.no_grad():
        for lengths in MINIBATCHES:
            words = tokens(*lengths, seed=1)
            with gluonjit.batching(granularity="cell") as batch:
                found = [parts(net(each)) for each in words]
            for each, results in zip(words, found):
                assert_close(torch.stack(results), torch.stack(parts(eager(each))), "means")
    assert batch.report.kinds["mean"].launches <= 8  # six kinds of call
