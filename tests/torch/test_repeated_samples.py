"""A model's next sample in a batch runs as the last one did, unless something has changed that it depends on."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn

import gluonjit
from gluonjit.compiled import FAST
from gluonjit.engines.torch import dynamic

WAY: dict[str, Any] = {"granularity": "cell", "scheduler": "depth"}


class Chain(nn.Module):
    """A layer for each word, of a sample that is no tensor."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.layer, self.drop = nn.Embedding(10, 4), nn.Linear(4, 4), nn.Dropout(0.5)

    def forward(self, sample: Any) -> Any:
        """Return the last state; an error for a sample of no words."""
        words = self.embed(sample.words)
        state = words[0]
        for place in range(1, len(words)):
            state = torch.tanh(self.layer(words[place] + state))
        return state if self.training else 2 * state


def samples(*lengths: int) -> list[Any]:
    """Samples of words from 0 on."""
    return [SimpleNamespace(words=torch.arange(length)) for length in lengths]


def pair() -> tuple[Chain, Chain]:
    """A model that runs eagerly, and one that is batched."""
    torch.manual_seed(0)
    eager, batched = Chain(), Chain()
    batched.load_state_dict(eager.state_dict())
    gluonjit.hybridize(batched, dynamic_batch=True, **WAY)
    return eager, batched


def compare(change: Any, *lengths: int) -> None:
    """Compare both where `change(net)` comes before the last two samples."""
    results = []
    for net in pair():
        seen: list[int] = []
        before = [net(sample) for sample in samples(*lengths[:-2])]
        change(net, seen)
        after = [net(sample) for sample in samples(*lengths[-2:])]
        results.append((torch.stack([*before, *after]).detach(), seen))
    assert torch.allclose(results[0][0], results[1][0], atol=1e-6)
    assert results[0][1] == results[1][1]


def _hook(net: Any, seen: list[int]) -> None:
    net.register_forward_hook(lambda *of: seen.append(1))


def _pre_hook(net: Any, seen: list[int]) -> None:
    net.register_forward_pre_hook(lambda *of: seen.append(2))


def _inner_hook(net: Any, seen: list[int]) -> None:
    net.layer.register_forward_hook(lambda *of: seen.append(3))


def _evaluate(net: Any, seen: list[int]) -> None:
    net.eval()


def _replace(net: Any, seen: list[int]) -> None:
    torch.manual_seed(1)
    net.layer = nn.Linear(4, 4)


def _write(net: Any, seen: list[int]) -> None:
    with torch.no_grad():
        net.layer.weight.mul_(2)


def _shadow(net: Any, seen: list[int]) -> None:
    net.forward = lambda sample: net.embed(sample.words)[0]


CHANGES = [_hook, _pre_hook, _inner_hook, _evaluate, _replace, _write, _shadow]


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
def test_what_changes_between_samples_holds_for_the_next(change: Any) -> None:
    compare(change, 3, 5, 2, 4, 3)


def test_a_hook_of_all_modules_holds_for_the_next_sample() -> None:
    seen: list[str] = []
    handle = None
    try:
        _, net = pair()
        before = [net(sample) for sample in samples(3, 2)]
        handle = nn.modules.module.register_module_forward_hook(lambda module, *of: seen.append(type(module).__name__))
        after = [net(sample) for sample in samples(3, 2)]
        torch.stack([*before, *after])
    finally:
        if handle is not None:
            handle.remove()
    assert seen.count("Chain") == 2 and seen.count("Linear") == 3


def test_a_sample_that_fails_leaves_the_others() -> None:
    eager, net = pair()
    first = [net(sample) for sample in samples(3, 4)]
    with pytest.raises(IndexError):
        net(SimpleNamespace(words=torch.arange(0)))
    last = [net(sample) for sample in samples(2, 5)]
    want = torch.stack([eager(sample) for sample in samples(3, 4, 2, 5)])
    assert torch.allclose(torch.stack([*first, *last]), want, atol=1e-6)


@pytest.mark.skipif(FAST is None, reason="compiled code finds that a sample runs as the last one")
def test_the_next_sample_is_not_looked_at_again(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []
    original = dynamic._node_or_parts
    monkeypatch.setattr(dynamic, "_node_or_parts", lambda *of: asked.append(of) or original(*of))
    _, net = pair()
    torch.stack([net(sample) for sample in samples(3, 4, 2, 5)])
    outermost = [of for of in asked if of[1] is net]
    assert len(outermost) == 1
