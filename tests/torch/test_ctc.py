"""The CTC loss of samples with lengths of their own: nothing runs before the minibatch does, however it is called."""

from __future__ import annotations

import copy
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402
from torch_support import assert_close  # noqa: E402

import gluonjit  # noqa: E402

CLASSES = 5
LENGTHS = ((7, 2), (5, 3), (7, 2), (3, 3), (2, 4))  # the last one has no alignment


class Net(nn.Module):
    def __init__(self, loss: Any) -> None:
        super().__init__()
        self.out, self.loss = nn.Linear(3, CLASSES), loss

    def forward(self, x: Any, y: Any) -> Any:
        return self.loss(self.out(x).log_softmax(-1), y)


def of_tensors(scores: Any, y: Any) -> Any:
    lengths = torch.tensor([len(scores)]), torch.tensor([len(y)])
    return F.ctc_loss(scores[:, None], y[None], *lengths, zero_infinity=True)


PROGRAMS: dict[str, Any] = {
    "lengths in tensors": of_tensors,
    "lengths in tuples": lambda scores, y: F.ctc_loss(
        scores[:, None], y, (len(scores),), (len(y),), 0, "sum", zero_infinity=True
    ),
    "without a batch": lambda scores, y: F.ctc_loss(
        scores, y, torch.tensor(len(scores)), torch.tensor(len(y)), blank=CLASSES - 1, zero_infinity=True
    ),
    "twice the same": lambda scores, y: F.ctc_loss(
        torch.stack([scores, scores * 2], 1),
        torch.stack([y, y]),
        torch.full((2,), len(scores)),
        torch.tensor([len(y), len(y) - 1]),
        zero_infinity=True,
    ),
    "none": lambda scores, y: F.ctc_loss(
        scores[:, None], y[None], [len(scores)], [len(y)], reduction="none", zero_infinity=True
    ).sum(),
    "module": lambda scores, y: nn.CTCLoss(zero_infinity=True)(
        scores[:, None], y[None], torch.tensor([len(scores)]), torch.tensor([len(y)])
    ),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_ctc(name: str) -> None:
    torch.manual_seed(0)
    eager = Net(PROGRAMS[name])
    net = copy.deepcopy(eager)
    gluonjit.hybridize(net, dynamic_batch=True)
    samples = [(torch.randn(t, 3), torch.randint(1, CLASSES - 1, (n,))) for t, n in LENGTHS]
    wanted, found = [eager(*sample) for sample in samples], [net(*sample) for sample in samples]
    sum(wanted).backward()
    sum(found).backward()
    assert_close(torch.stack(found), torch.stack(wanted), "losses")
    assert_close(net.out.weight.grad, eager.out.weight.grad, "gradient")
    report = gluonjit.explain()
    assert report.flushes == 1
    assert not report.alone


def test_what_pytorch_refuses() -> None:
    net = Net(lambda scores, y: F.ctc_loss(scores[:, None], y[None], (len(scores) + 1,), (len(y),)))
    gluonjit.hybridize(net, dynamic_batch=True)
    with pytest.raises(RuntimeError, match="input_lengths"), gluonjit.batching():
        net(torch.randn(4, 3), torch.tensor([1, 2])).backward()
