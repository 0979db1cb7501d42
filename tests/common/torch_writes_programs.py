"""Programs that write to tensors, for `test_torch_writes`: those of one sample, and those of a minibatch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.nn import functional as F

Program = Callable[[Any, Any], Any]
CAPTURED: list[Program] = []
AT_ONCE: list[Program] = []
REFUSED: list[Program] = []
BETWEEN: list[Program] = []


def captured(program: Program) -> Program:
    CAPTURED.append(program)
    return program


def at_once(program: Program) -> Program:
    AT_ONCE.append(program)
    return program


def refused(program: Program) -> Program:
    REFUSED.append(program)
    return program


def between(program: Program) -> Program:
    BETWEEN.append(program)
    return program


@at_once
def a_diagonal(net: Any, x: Any) -> Any:
    y = net.first(x)
    square, tall, true = y.unsqueeze(1) * y, y.repeat(9, 1) * 2, y.unsqueeze(1) > y
    square.fill_diagonal_(float("-inf"))
    tall.fill_diagonal_(2.0, True)
    tall[:, 1:].fill_diagonal_(0.5)
    return (square.softmax(-1) * y).sum() + tall.pow(2).sum() + y.masked_fill(true.fill_diagonal_(True)[0], 0.0).sum()


@captured
def act_inplace(net: Any, x: Any) -> Any:
    h = net.first(x)
    y = net.act(h)
    return (h + y).sum()


@captured
def seq(net: Any, x: Any) -> Any:
    h = net.first(x[0] if x.dim() > 1 else x)
    h += net.other(h * 1)
    h[2:] *= 2
    return h.tanh().sum()


@captured
def states(net: Any, x: Any) -> Any:
    hs = [net.first(x) * 1 for _ in range(3)]
    for k, h in enumerate(hs):
        h[k] = k
    H = torch.stack(hs)
    H[1] = 0
    H[:, 2] += 1
    return (H * H).sum() + sum(h.sum() for h in hs)


@captured
def alias_shared(net: Any, x: Any) -> Any:
    a = net.first(x)
    b = net.first(x)
    a = a * 1
    b = b * 1
    a += 1
    return (a * b).sum()


@captured
def alias_shared2(net: Any, x: Any) -> Any:
    a = net.first(x)
    b = net.first(x)
    b += 1
    return (a * b).sum()


@captured
def flatten(net: Any, x: Any) -> Any:
    h = net.first(x).view(2, 3) * 1
    f = net.flat(h)
    f[0] = 5
    return (h * h).sum()


@captured
def identity(net: Any, x: Any) -> Any:
    h = net.first(x) * 1
    f = net.same(h)
    f[0] = 5
    return (h * h).sum()


@at_once
def to_an_input(net: Any, x: Any) -> Any:
    x[0] = 1.0
    return net.first(x).sum()


@refused
def to_an_input_that_is_saved(net: Any, x: Any) -> Any:
    y = net.first(x).sum()
    x.mul_(2)
    return net.first(x).sum() + y


@at_once
def to_slices_of_an_input(net: Any, x: Any) -> Any:
    v = x[1:3]
    v += 1
    x[0] = v.sum()
    return net.first(x).sum()


@at_once
def inputlazy(net: Any, x: Any) -> Any:
    h = net.first(x).detach()
    x[0:2] = h[:2]
    return net.first(x).sum()


@at_once
def to_data(net: Any, x: Any) -> Any:
    h = net.first(x) * 1
    h.data.add_(1)
    return h.sum() + (h.detach() * 2).sum()


@at_once
def to_data_again(net: Any, x: Any) -> Any:
    h = net.first(x)
    h.data.mul_(2)
    y = h * 2
    h.data.zero_()
    z = h + y
    h.data = y.detach().exp()
    return (y + z * 3).sum()


@at_once
def to_numpy(net: Any, x: Any) -> Any:
    row, y = x[:2], torch.tanh(x)
    x.numpy()[0] = 3.0
    return net.first(y + torch.tanh(x) * row.sum()).sum()


@at_once
def dataview(net: Any, x: Any) -> Any:
    h = net.first(x) * 1
    v = h[0:3]
    h.data.add_(1)
    return v.sum() + h.tanh().sum()


@at_once
def read_then_write(net: Any, x: Any) -> Any:
    h = net.first(x) * 1
    v = h[0:3]
    float(h.sum())
    h[0] = 7
    w = v * 1
    return (w * h[:3]).sum()


@at_once
def view_then_read(net: Any, x: Any) -> Any:
    h = net.first(x) * 1
    v = h[0:3]
    float(v.sum())
    v[0] = 7
    return (v * h[:3]).sum()


@captured
def cols(net: Any, x: Any) -> Any:
    h = torch.stack([net.first(x), net.other(net.first(x))])
    c = h[:, 1]
    c += 1
    h[:, 1:3] = 0
    return (h * h).sum() + c.sum()


@captured
def unb(net: Any, x: Any) -> Any:
    h = torch.stack([net.first(x), net.other(net.first(x))])
    with torch.no_grad():
        for row in h:
            row += 1
    return h.sum()


@captured
def mask(net: Any, x: Any) -> Any:
    h = net.first(x) * 1
    m = h > 0
    h[m] = 0
    h.masked_fill_(~m, 2.0)
    return h.sum() * net.other(h).sum()


@captured
def softm(net: Any, x: Any) -> Any:
    h = net.first(x) * 1
    h.masked_fill_(torch.tensor([1, 0, 0, 0, 0, 1], dtype=torch.bool), -1000000000.0)
    return F.softmax(h, 0)[1:3].log().sum()


@captured
def inter(net: Any, x: Any) -> Any:
    h = net.first(x) * 1
    h[0], h[1] = (h[1], h[0])
    return (h * torch.arange(6.0)).sum()


@captured
def inter2(net: Any, x: Any) -> Any:
    h = net.first(x) * 1
    t = h[0].clone()
    h[0] = h[1]
    h[1] = t
    return (h * torch.arange(6.0)).sum()


@captured
def addout(net: Any, x: Any) -> Any:
    with torch.no_grad():
        h = net.first(x) * 1
        o = h * 1
        torch.mul(h, 2, out=o)
    return (o * net.first(x)).sum()


@captured
def transp(net: Any, x: Any) -> Any:
    h = net.first(x).view(2, 3) * 1
    t = h.t()
    t[1] += 1
    u = h.T
    u[0, 1] = 3
    h.transpose(0, 1)[2].zero_()
    return (h * t.t()).sum()


@captured
def reshape_copy(net: Any, x: Any) -> Any:
    h = net.first(x).view(2, 3) * 1
    r = h.t().reshape(-1)
    r += 1
    return (h * h).sum() + r.sum()


@at_once
def squeeze_(net: Any, x: Any) -> Any:
    h = (net.first(x) * 1).unsqueeze(0)
    h.squeeze_(0)
    h[0] = 1
    return h.sum()


@refused
def refuse_expand(net: Any, x: Any) -> Any:
    h = net.first(x).unsqueeze(0).expand(3, 6)
    h += 1
    return h.sum()


@refused
def refuse_saved(net: Any, x: Any) -> Any:
    h = net.first(x).tanh()
    h += 1
    return h.sum()


@refused
def refuse_saved2(net: Any, x: Any) -> Any:
    h = net.first(x) * 1
    y = net.other(h)
    h.zero_()
    return y.sum()


@captured
def allow_saved2(net: Any, x: Any) -> Any:
    h = net.first(x) * 1
    y = net.other(h.detach() * 1) + h
    h.zero_()
    return y.sum()


@captured
def allow_equal_call(net: Any, x: Any) -> Any:
    h = net.first(x).tanh()
    h += 1
    return net.first(x).tanh().sum()  # another tensor than the one that was written to


@refused
def refuse_chunk(net: Any, x: Any) -> Any:
    a, b = net.first(x).chunk(2)
    a += 1
    return (a * b).sum()


@refused
def badshape(net: Any, x: Any) -> Any:
    h = net.first(x) * 1
    h[0:2] = torch.zeros(3)
    return h.sum()


@refused
def badindex(net: Any, x: Any) -> Any:
    h = net.first(x) * 1
    h[9] = 0
    return h.sum()


@captured
def intodd(net: Any, x: Any) -> Any:
    h = torch.arange(6) + (net.first(x) > 0).long()
    h += 1
    h[0] = 4
    return (h * net.first(x)).sum()


@captured
def detach_w(net: Any, x: Any) -> Any:
    h = net.first(x) * 1
    d = h.detach()
    d[0] = 5
    return h.sum() * d.sum()


@at_once
def zeros_rows(net: Any, x: Any) -> Any:
    o = torch.zeros(3, 6)
    for k in range(3):
        o[k] = net.first(x) * k
    return o.tanh().sum()


@captured
def newzeros(net: Any, x: Any) -> Any:
    o = net.first(x).new_zeros(3, 6)
    for k in range(3):
        o[k] = net.first(x) * k
    return o.tanh().sum()


@captured
def zeroslike(net: Any, x: Any) -> Any:
    h = net.first(x)
    o = torch.zeros_like(h)
    o[1:3] = h[1:3]
    o.add_(h, alpha=2)
    return (o * o).sum()


@captured
def clonew(net: Any, x: Any) -> Any:
    h = net.first(x)
    o = h.clone()
    o[0] = 1
    return (o * h).sum()


@captured
def emptylike(net: Any, x: Any) -> Any:
    h = net.first(x)
    o = torch.empty_like(h)
    o.copy_(h)
    o[0].add_(1)
    return (o * o).sum()


@captured
def loop(net: Any, x: Any) -> Any:
    h = net.first(x) * 1
    for k in range(5):
        h[k] = h[k] + h[k + 1].tanh()
    return h.sum()


@captured
def gradmode(net: Any, x: Any) -> Any:
    h = net.first(x) * 1
    with torch.no_grad():
        h.clamp_(-0.5, 0.5)
        h[0] = 2
    return (h * 3).sum()


@captured
def addmm(net: Any, x: Any) -> Any:
    h = net.first(x).view(2, 3) * 1
    h.addmm_(torch.ones(2, 2), net.other(net.first(x)).view(2, 3) * 1)
    return (h * h).sum()


@captured
def iop(net: Any, x: Any) -> Any:
    h = net.first(x) * 1
    h -= 1
    h /= 2
    h **= 2
    return h.sum()


@captured
def idxfill(net: Any, x: Any) -> Any:
    h = net.first(x) * 1
    h.index_fill_(0, torch.tensor([0, 2]), 1.0)
    h.index_copy_(0, torch.tensor([1]), net.other(net.first(x))[:1])
    h.scatter_(0, torch.tensor([3]), 2.0)
    h.index_add_(0, torch.tensor([4, 4]), net.first(x)[:2])
    return h.sum()


@captured
def dup(net: Any, x: Any) -> Any:
    h = net.first(x) * 1
    g = h
    g += 1
    return (h * h).sum()


@between
def results(net: Any, samples: Any) -> Any:
    ys = [net.first(x) for x in samples]
    for y in ys:
        y += 1
    ys[0][0] = 5
    v = ys[1][1:3]
    v *= 2
    return sum((y * y).sum() for y in ys)


@between
def stacks(net: Any, samples: Any) -> Any:
    ys = [net.first(x) for x in samples]
    Y = torch.stack(ys)
    Y[0] = 0
    Y[:, 1] = 2
    r = Y[1]
    r[0] = 9
    return (Y * Y).sum() + ys[0].sum() + r.sum()


@captured
def of_iadd(net: Any, x: Any) -> Any:
    h = net.first(x)
    h = h + 0
    h += 1
    return h.sum()


@captured
def of_col(net: Any, x: Any) -> Any:
    h = net.first(x)
    h = (h * 1).view(2, 3)
    h[:, 0] += 1
    return (h * h).sum()


@captured
def of_viewitem(net: Any, x: Any) -> Any:
    h = net.first(x)
    h = h * 1
    h.view(2, 3)[0] = 7
    return (h * h).sum()


@captured
def of_slices_before(net: Any, x: Any) -> Any:
    h = net.first(x)
    h = h * 1
    a = h[0:3]
    h[1] = 5.0
    return (a * a).sum() + h.sum()


@captured
def of_slice_write(net: Any, x: Any) -> Any:
    h = net.first(x)
    h = h * 1
    a = h[0:3]
    a *= 2
    return (h * h).sum()


@captured
def of_overlap(net: Any, x: Any) -> Any:
    h = net.first(x)
    h = h * 1
    a = h[0:3]
    b = h[2:5]
    a[2] = 3
    b.mul_(2)
    return (h * h).sum() + (a * b).sum()


@captured
def of_clamp(net: Any, x: Any) -> Any:
    h = net.first(x)
    h = h * 1
    h.clamp_(0)
    return (h * h).sum()


@at_once
def of_zeros(net: Any, x: Any) -> Any:
    h = net.first(x)
    o = torch.zeros(2, 6)
    o[0] = h
    o[1] = h * 2
    return (o * o).sum()


@at_once
def of_zcol(net: Any, x: Any) -> Any:
    h = net.first(x)
    o = torch.zeros(6, 2)
    o[:, 0] = h
    o[:, 1] = h * 2
    return (o * o).sum()


@at_once
def of_idxadd(net: Any, x: Any) -> Any:
    h = net.first(x)
    o = torch.zeros(3, 6)
    o.index_add_(0, torch.tensor([1]), h.unsqueeze(0))
    return (o * o).sum()


@at_once
def of_idxput(net: Any, x: Any) -> Any:
    h = net.first(x)
    o = h * 1
    o[torch.tensor([1, 2])] = h[:2]
    return (o * o).sum()


@at_once
def of_copy(net: Any, x: Any) -> Any:
    h = net.first(x)
    o = torch.empty(6)
    o.copy_(h)
    return (o * o).sum()


@captured
def of_fill(net: Any, x: Any) -> Any:
    h = net.first(x)
    o = h * 1
    o[2:4].fill_(2.0)
    return (o * o).sum()


@captured
def of_zero(net: Any, x: Any) -> Any:
    h = net.first(x)
    o = h * 1
    o[2:4].zero_()
    return (o * o).sum()


@captured
def of_nograd(net: Any, x: Any) -> Any:
    h = net.first(x)
    o = h * 1
    with torch.no_grad():
        o += 1
    return (o * o).sum()


@captured
def of_nogradview(net: Any, x: Any) -> Any:
    h = net.first(x)
    o = h * 1
    with torch.no_grad():
        o[0] = 9
    return (o * o).sum()


@captured
def of_detachw(net: Any, x: Any) -> Any:
    h = net.first(x)
    o = h * 1
    d = o.detach()
    d += 1
    return (o * o).sum()


@refused
def of_outg(net: Any, x: Any) -> Any:
    h = net.first(x)
    o = torch.empty(6)
    torch.add(h, 1, out=o)
    return (o * h).sum()


@captured
def of_step2(net: Any, x: Any) -> Any:
    h = net.first(x)
    o = h * 1
    o[::2] = h[1::2]
    return (o * o).sum()


@captured
def of_pad(net: Any, x: Any) -> Any:
    h = net.first(x)
    o = h.new_zeros(3, 3)
    o[1:, 1:] = h[:4].view(2, 2)
    return (o * o).sum()


@captured
def of_intw(net: Any, x: Any) -> Any:
    h = net.first(x)
    o = torch.zeros(6, dtype=torch.long)
    o += 2
    return (o * h).sum()


@refused
def of_badcast(net: Any, x: Any) -> Any:
    h = net.first(x)
    o = torch.zeros(6, dtype=torch.long)
    o += h
    return (o * h).sum()


@refused
def of_noview(net: Any, x: Any) -> Any:
    h = net.first(x)
    o = h * 1
    with torch.no_grad():
        v = o[0:2]
    v += 1
    return (o * o).sum()


@refused
def of_softin(net: Any, x: Any) -> Any:
    h = net.first(x)
    o = F.softmax(h, 0)
    o[0] = 0
    return o.sum()


@captured
def of_mulw2(net: Any, x: Any) -> Any:
    h = net.first(x)
    o = h * 1
    o.mul_(h)
    o.mul_(2)
    return o.sum()


@captured
def of_sigm(net: Any, x: Any) -> Any:
    h = net.first(x)
    o = h * 1
    o.sigmoid_()
    return o.sum()


@refused
def of_sigm2(net: Any, x: Any) -> Any:
    h = net.first(x)
    o = h * 1
    o.sigmoid_()
    o.mul_(2)
    return o.sum()


@captured
def of_wv(net: Any, x: Any) -> Any:
    h = net.first(x)
    o = h * 1
    v = o.view(3, 2)
    w = v[1]
    o[2] = 1.0
    w *= 3
    v[0] += w
    return (o * o * torch.arange(6.0)).sum()


@at_once
def of_diag(net: Any, x: Any) -> Any:
    h = net.first(x)
    o = (h * 1)[:4].view(2, 2)
    o.diagonal().fill_(1.0)
    return (o * o).sum()


@captured
def of_whr(net: Any, x: Any) -> Any:
    h = net.first(x)
    o = h * 1
    o[o < 0] = 0.0
    return (o * o).sum()
