"""Windows of a sequence: `unfold` runs nothing, and is a view to what writes to it or to what it is of."""

from __future__ import annotations

import copy
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402
from torch_support import assert_close  # noqa: E402

import gluonjit  # noqa: E402

SIZE = 4


class Net(nn.Module):
    def __init__(self, program: Any) -> None:
        super().__init__()
        self.lift, self.program = nn.Linear(SIZE, SIZE), program

    def forward(self, x: Any) -> Any:
        return self.program(self.lift(x)).pow(2).sum()


def written_after(h: Any) -> Any:
    h = h * 2
    windows = h.unfold(0, 2, 1)
    h[0] = 1.0
    return windows.prod(-1)


def written_to(h: Any) -> Any:
    h = h * 2
    h.unfold(0, 3, 3)[:, :, 0] = 1.0
    return h


PROGRAMS: dict[str, Any] = {
    "pairs": lambda h: h.unfold(0, 2, 1).prod(-1),
    "steps": lambda h: h.unfold(0, 3, 2).amax(-1),
    "one window": lambda h: h.unfold(0, len(h), 1).sum(-1),
    "columns": lambda h: h.unfold(-1, 3, 1).sum(1),
    "apart": lambda h: h.unfold(1, 2, 2).prod(-1),
    "written to before": written_after,
    "written to": written_to,
}


@pytest.mark.parametrize("nested", (False, True))
@pytest.mark.parametrize("name", PROGRAMS)
def test_windows(name: str, nested: bool) -> None:
    torch.manual_seed(0)
    eager = nn.Sequential(Net(PROGRAMS[name])) if nested else Net(PROGRAMS[name])
    net = copy.deepcopy(eager)
    gluonjit.clear_caches()
    gluonjit.hybridize(net, dynamic_batch=True)
    xs = [torch.randn(n, SIZE) for n in (4, 6, 4, 3)]
    wanted, found = [eager(x) for x in xs], [net(x) for x in xs]
    sum(wanted).backward()
    sum(found).backward()
    assert_close(torch.stack(found), torch.stack(wanted), "values")
    for mine, other in zip(net.parameters(), eager.parameters()):
        assert_close(mine.grad, other.grad, "gradient")
    if not name.startswith("written"):
        assert gluonjit.explain().flushes == 1
