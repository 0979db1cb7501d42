"""Methods of a model that a program calls itself, as `net.log_likelihood(x, y)`: each call is a sample."""

from __future__ import annotations

import copy
import inspect
import pickle
from typing import Any

import pytest
import torch
from torch import nn

import gluonjit
from gluonjit.hybrid.capture.entrances import entrance_of
from tests.common.torch_support import assert_close, gradients


class Tagger(nn.Module):
    """Scores in `features`, which `likelihood` and `decode` use; `forward` is a third way to run a sample."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.cell, self.out = nn.Embedding(9, 4), nn.RNNCell(4, 4), nn.Linear(4, 3)
        self.moves = nn.Parameter(torch.randn(3, 3))
        self.seen = 0

    def features(self, words: Any) -> Any:
        h, found = torch.zeros(1, 4), []
        for word in self.words(words):
            h = self.cell(word.view(1, -1), h)
            found.append(self.out(h))
        return torch.cat(found)

    def likelihood(self, words: Any, tags: Any, *, weight: float = 1.0, **more: Any) -> Any:
        """A line of text, and a number as `float(...)` of it."""
        self.seen += 1
        scores, total = self.features(words), torch.zeros(())
        alpha = scores[0]
        for k in range(1, len(words)):
            alpha = torch.logsumexp(alpha.view(-1, 1) + self.moves, 0) + scores[k]
            total = total + scores[k, tags[k]] + self.moves[tags[k - 1], tags[k]]
        return weight * (torch.logsumexp(alpha, 0) - total) + sum(more.values())

    def decode(self, words: Any) -> list[int]:
        found: list[int] = self.features(words).argmax(1).tolist()
        return found

    def forward(self, words: Any) -> Any:
        return self.features(words).sum()

    def _hidden(self, words: Any) -> Any:
        return self.out(self.words(words))

    def fit(self, words: Any, tags: Any) -> Any:
        loss = self.likelihood(words, tags)
        loss.backward()
        return loss

    def twice(self, words: Any) -> Any:
        return self(words) + self.out(self.words(words)).sum()

    def size(self, scale: int) -> int:
        return 3 * scale

    def reset(self, words: Any) -> None:
        self.out(self.words(words))


class Scaled(Tagger):
    def likelihood(self, words: Any, tags: Any, **more: Any) -> Any:
        return super().likelihood(words, tags, **more) * 2


def samples(count: int = 8) -> list[tuple[Any, Any]]:
    draw = torch.Generator().manual_seed(count)
    lengths = [2 + k % 4 for k in range(count)]
    return [(torch.randint(9, (n,), generator=draw), torch.randint(3, (n,), generator=draw)) for n in lengths]


def both(kind: Any = Tagger, **options: Any) -> tuple[Any, Any]:
    torch.manual_seed(0)
    eager = kind()
    return eager, gluonjit.hybridize(copy.deepcopy(eager), dynamic_batch=True, **options)


BATCHED: dict[str, Any] = {"granularity": "cell", "scheduler": "depth"}


@pytest.mark.parametrize("kind", [Tagger, Scaled])
def test_a_call_of_a_method_is_a_sample(kind: Any) -> None:
    eager, net = both(kind, **BATCHED)
    for _ in range(3):
        found = []
        for one in (eager, net):
            one.zero_grad()
            losses = [one.likelihood(words, tags, weight=0.5) for words, tags in samples()]
            sum(losses).backward()
            found.append((torch.stack([loss.detach() for loss in losses]), gradients(one)))
        assert_close(found[1][0], found[0][0], "losses")
        for name, gradient in found[0][1].items():
            assert_close(found[1][1][name], gradient, name)
    report = gluonjit.explain()
    assert report.flushes == 1
    if kind is Tagger:
        assert any("Tagger.likelihood" in name for name in report.outlined)
        assert net.seen == eager.seen == 24
        assert report.launches < 40


def test_methods_that_are_no_samples_stay_as_they_are() -> None:
    both(**BATCHED)
    entrances = {name for name, item in vars(Tagger).items() if inspect.isfunction(item) and entrance_of(item)}
    assert entrances == {"likelihood", "decode"}


def test_other_models_of_the_class_are_not_batched() -> None:
    eager, _ = both(**BATCHED)
    loss = eager.likelihood(*samples()[0])
    assert type(loss) is torch.Tensor and loss.grad_fn is not None


def test_all_ways_to_run_a_sample_agree() -> None:
    eager, net = both(**BATCHED)
    with torch.no_grad():
        for words, tags in samples():
            assert net.decode(words) == eager.decode(words)
            assert_close(net(words), eager(words), "a call")
            assert_close(net.twice(words), eager.twice(words), "a method that calls the model")
            assert_close(net._hidden(words), eager._hidden(words), "a hidden method")
            given = {"weight": 2.0, "more": torch.ones(())}
            assert_close(net.likelihood(words, tags=tags, **given), eager.likelihood(words, tags, **given), "by names")
    for one in (eager, net):
        one.zero_grad()
        one.fit(*samples()[2])
    for name, gradient in gradients(eager).items():
        assert_close(gradients(net)[name], gradient, name)


def test_calls_of_methods_are_timed_like_those_of_the_model(free: None) -> None:
    _, net = both()
    for _ in range(4):
        sum(net.likelihood(words, tags) for words, tags in samples()).backward()
        torch.optim.SGD(net.parameters(), 0.01).step()
    assert any("(8 calls)" in way and "in training" in way for way in gluonjit.explain().ways)


def test_methods_look_as_before() -> None:
    before = inspect.getsource(Tagger.likelihood), str(inspect.signature(Tagger.likelihood)), Tagger.likelihood.__doc__
    _, net = both(**BATCHED)
    after = inspect.getsource(Tagger.likelihood), str(inspect.signature(Tagger.likelihood)), Tagger.likelihood.__doc__
    assert before == after
    for other in (copy.deepcopy(net), pickle.loads(pickle.dumps(net))):
        words, tags = samples()[1]
        assert_close(other.likelihood(words, tags), net.likelihood(words, tags), "a copy")
    gluonjit.hybridize(net, dynamic_batch=False)
    assert type(net.likelihood(*samples()[0])) is torch.Tensor


def test_an_error_names_the_sample_and_the_users_line() -> None:
    _, net = both(**BATCHED)
    given = samples(3)
    losses = [net.likelihood(*given[0])]
    with pytest.raises(IndexError) as error:
        losses.append(net.likelihood(torch.tensor([1, 2, 99]), given[2][1]))
    lines = [str(entry.path) for entry in error.traceback]
    assert any(__file__ in line for line in lines)
    assert_close(losses[0].detach(), both()[0].likelihood(*given[0]).detach(), "what was captured before")
