"""The lines of instructions on cells, layers, histories and writes that PyTorch has in addition."""

from __future__ import annotations

from experiments.fuzz.vocabulary.table import listed

LAYERS = {
    "call_dense": """
net.frozen({x})
net.sequence({x})
""",
    "call_named": r"""
p = net.named({{'x': {x}, 'y': {y}}})\n[p['sum'], p['x']]
p = net.named({{'x': {x}, 'y': {y}}}, scale=0.5)\n[p['sum'], p['x']]
""",
    "call_gather": """
net.gather({x}, [{children}])
net.gather({x}, torch.stack([{children}])) ?? children
gathered({x}, [{children}]) ?? children
""",
    "call_reader": "net.counter({x})",
    "call_recurrent": r"""
net.lstm({x})
net.gru({x})
net.rnn({x})
net.lstm({x}, ({y}, {y}))
net.gru({x}, {y})
net.rnn({x}, {y})
h = net.lstm({x}, ({y}, {y}))\nh = net.lstm({y}, h)\nh = net.lstm({y}, h)\nh[0] + h[1]
h = net.gru({x}, {y})\nh = net.gru({y}, h)\nh = net.gru({y}, h)\nh * 0.9
h = net.rnn({x}, {y})\nh = net.rnn({y}, h)\nh = net.rnn({y}, h)\nh * 0.9
""",
    "call_layer": """
net.convolution({x}.t())
net.convolution({x}.reshape(-1, {WIDTH}, 1))
net.prelu({x} + 0.0123)
net.drop({x}) * 0.9
net.statistics({x}) * 0.5
net.layer({x}.reshape(1, {n}, {WIDTH}))[0]
net.layer({x})[1][0]
net.grulayer({x}.reshape(1, {n}, {WIDTH}))[1]
net.bilinear({x}, {y})
net.transposed({x}.t()).tanh() ?? fits(2, n + 1)
net.cosine({x} + 2, {y} + 2)
torch.cat([net.squash({x}), net.dense({x})], dim=1) ?? fits(n, 5)
net.attention(*[{x}.reshape(1, {n}, {WIDTH})] * 3)[0]
net.sequence({x}) + net.sequence[0]({x})[:, :3]
""",
    "call_loss": """
net.mse({x}, {y} * 0.5)
net.l1({x}, {y} * 0.5 + 3)
net.smooth({x}, {y} * 0.3) * 0.2
net.entropy({x}[0], torch.tensor({classes[0]}))
net.entropy({x}[-1:], torch.tensor({classes[-1:]}))
net.weighted({x}, torch.tensor({classes})) * 0.2
net.kl(F.log_softmax({x}, -1), F.softmax({y}, -1))
F.cross_entropy({x}, torch.tensor({classes}), reduction='none')
F.nll_loss({x}.log_softmax(-1), torch.tensor({classes}))
F.cross_entropy({x}, {y}.softmax(-1), label_smoothing=0.1)
F.cross_entropy({x}, torch.tensor({classes}), label_smoothing=0.1, reduction='sum') * 0.2
F.mse_loss({x}, {y}, reduction='none').mean(0)
F.multi_margin_loss({given}.reshape(-1)[:3], torch.tensor(0)) ?? x.dtype == given.dtype
F.triplet_margin_loss({x} + 1, {y}, {x} * 0.3 - 2)
F.margin_ranking_loss({x}.sum(), {y}.sum() + 3, torch.tensor(1.0, dtype=torch.{x.dtype})) * 0.1
""",
    "step_of_chain": """
net.gru({x}, {h})
net.lstm({x}, ({h}, {h}))[1]
blend(net.squash({x}), {h})[0]
""",
    "node_of_tree": "net.gru({left}, {right})",
    "loop_start": """
torch.zeros({WIDTH}, dtype=torch.{run.dtype})
{w}[0] * 0.5
{w}.mean(0)
""",
    "loop_step": """
net.gru(word, h)
net.gather(word, [h])
net.lstm(word, (h, h))[0]
torch.tanh(word + h)
""",
    "loop_end": """
torch.stack(seen)
torch.cat(seen)
seen[-1]
sum(seen) * 0.3
net.squash(torch.stack(seen))
""",
}

_SCALARS = ("p * 1.0", "p * {x}", "torch.cat([p.reshape(-1), {x}.reshape(-1)])", "p", "p + {x}[0] ?? x.ndim")

CONTROL = {
    "without_history": "\n".join(
        rf"with torch.{mode}:\n    p = torch.sin({{x}}) + 0.5\n{result}"
        for mode in ("no_grad()", "set_grad_enabled(False)", "enable_grad()")
        for result in _SCALARS
    ),
    "cell_without_history": """
net.squash({x})
net.nested({x}, {x})[0]
net.embed({t})
{x}[0] * 1.0
""",
    "read": r"""
{x}.tolist()\n
{x}.detach().numpy().sum()\n
str({x}.shape)\n
repr({x})\n
{x} * 0.5 if float({x}.detach().sum()) > 0.0123 else torch.sin({x})
net.squash({run.rows(a)}) if {x}.mean().item() > 0.0123 else net.gather({run.rows(a)}[0], [])
sum([{x} * 0.3 for _ in range(2 if bool({x}.sum() < 0.0321) else 3)])
{x} * {x}.detach().sum().item() * 0.1
""",
    "copies": r"""
p = {x}.clone()\np[{at}] = p[{at}] * 0.5\n{x} + p
p = torch.zeros({x.shape}, dtype=torch.{x.dtype})\np[{at}] = {x}[{at}]\n{x} * p
p = torch.sin({x})\np += {x}\n{x} - p * 0.25
p = torch.sin({x})\np.mul_(0.5)\np * 1.0
p = {x} * 1.5\np.clamp_(-1.0321, 1.0321)\np.add_({x})\np - {x}
p = {x} * 0.5\np[{at}] += 1\np
p = {x}.clone()\np.zero_()\np + {x}
p = torch.cos({x})\nq = p * {x}\np = p.clone()\np -= q\nq + p
p = torch.empty({x.shape}, dtype=torch.{x.dtype})\np.copy_({x})\np * 0.5
p = {x} + 1\np.masked_fill_({x} > 0.1234, 0.5)\np * 0.9
p = torch.zeros({x.shape}, dtype=torch.{x.dtype})\nq = {x} + p\np += 1\nq * p
p = torch.full({x.shape}, 0.5, dtype=torch.{x.dtype})\nq = {x} * p\np.fill_(0.25)\nq + {x} * p
p = torch.tanh({x})\np.neg_().add_(1.0)\np
torch.sin({x}, out=torch.empty({x.shape}, dtype=torch.{x.dtype})) ?? b % 5 == 0
p = {x}.detach().clone().requires_grad_()\n(p * p + {x}.detach()).sum() + {x} ?? b % 5 == 1
""",
    "hooks": r"""
p = {x} * 0.5\np.requires_grad\np
p = {x}.detach()\np * {x}
p = {x} * 2\np = p.detach() + (p - p.detach()) * 0.5\np
{x}.requires_grad and {x}.is_leaf\n{x} * 0.9
p = {x}.data * 0.5\np + {x}
{x}.new_tensor([1.0, 2.0]).sum() * {x}
len({x}.shape) + {x}.dim() + {x}.numel() + {x}.element_size()\n{x} * {x}.dim() * 0.3
{x}.sum() * net.vector[{b % 3}] + net.w3[{a % 4}, {b % 3}]
{x}.sum() * net.w3[{a % 4}] * net.w3[-1] + net.w3[{t}.reshape(-1)[0] % 4]
p = net.w3[{a % 4}]\nq = p.detach() * {x}.sum()\np * q
float(net.vector[{b % 3}]) * {x}
{x}.sum() * (net.w3[:3] @ net.w3[1:].t()[:, :3]).sum(1) + net.vector.view(1, -1)
torch.outer({x}.reshape(-1)[:3], net.vector[:2]) @ net.w3[:2, {b % 2}:][:, :2].t()
with torch.no_grad():\n    p = net.w3[:{a % 3 + 1}]\n{x}.sum() * p.t() + (p * 0.1).sum()
p = net.w3.view(2, -1)[{a % 2}]\nq = {x}.sum() * p\nq + p.expand(2, -1).sum(0)
if not torch.isfinite({x}).all():\n    raise OverflowError('no number')\n{x} * 0.7
assert ({x} < 1e30).all()\n{x} * 0.7
torch.distributions.Normal({x}.mean(), 1.0 + {x}.sum().abs()).log_prob(torch.zeros(3, dtype=torch.{x.dtype}))
""",
    "misuse": """
{x} + torch.ones(9, 8, 7, 11, 13)
{x} @ torch.ones(11, 2, dtype=torch.{x.dtype})
torch.cat([{x}.reshape(1, -1), torch.ones(3, 2, 2)], dim=1)
{x}.reshape(1, -1).sum(5)
{x}.view(7, 11)
net.memory({x})
{x}.nothing_like_this
torch.tanh({x}, {x})
{x}.reshape(1, -1).expand(2, 3, 99)
{x} + 'text'
torch.stack([{x}, {x}.reshape(-1, 1, 1, 1)])
len({x}.sum())
({x}.reshape(-1) * torch.ones(2, 1)).item()
blend({x})
""",
}
WRITES = r"""
p.add_({y}, alpha=0.5)
p.div_(2)
p.mul_({y}).add_(1)
p.clamp_(-0.4, 0.4)
p.neg_()
p.zero_()
p.tanh_()
p.relu_()
F.relu(p, inplace=True)
F.leaky_relu_(p, 0.2)
p.sigmoid_()
p.copy_({y})
p.fill_(0.25)
p.masked_fill_({x} > 0.1234, 0.5)
p[{x} > 0.1234] = 0.5
p.view(-1)[0] = 7 ?? dense(run, x)
p.reshape(-1)[0:1] = p.reshape(-1)[0:1] * 1.0 + {y}.reshape(-1)[0:1] ?? dense(run, x)
p[...] = {y}
p.flatten()[-1:] = 0.5 ?? dense(run, x)
q = p.view(-1)\np += 1\np = p * q.reshape(p.shape) ?? dense(run, x)
q = p.unsqueeze(0)\nq *= 2
q = p.unsqueeze(0)\np *= 2\np = q * 1.0
q = p.detach()\nq += 1
with torch.no_grad():\n    p += 1
with torch.no_grad():\n    p.mul_({y})
with torch.no_grad():\n    p.view(-1)[0] = 0.5 ?? dense(run, x)
q = torch.tanh(p)\nq += 1\np = q
q = p * {y}\nq += 1\np = q + p
q = p.sum()\np += q.detach()
q = p.sum()\np *= 0.5\np = p + q
torch.add(p, 1, out=p)
q = p.expand(2, *p.shape)\np += 1\np = q.sum(0)
q = p.expand(2, *p.shape)\nq += 1
q = torch.stack([p, {y}])\np += 1\np = p + q[0] + q[1]
q = torch.stack([p, {y}])\nq[0] = 0.5\np = p + q.sum(0)
r = [p, p * 2]\nfor q in r:\n    q += 1\np = r[0] * r[1].detach()
q = torch.zeros_like(p)\nfor r in range(3):\n    q += p * r\np = q
q = torch.zeros(p.shape, dtype=p.dtype)\nq[...] = p\np = p + q
p.requires_grad_()\np += 1
"""
# The same of tensors with at least one axis.
ROWS = r"""
p[0] = 0.5
p[0] = {y}[-1]
p[-1] += 1
p[0:1] = {y}[0:1] * 2
p[0:1] *= {y}[0:1]
p.select(0, 0).fill_(0.5)
p.narrow(0, 0, 1).mul_(3)
p.index_add_(0, torch.tensor([0]), {y}[0:1])
p.index_fill_(0, torch.tensor([0]), 0.25)
p.index_copy_(0, torch.tensor([0]), {y}[0:1])
p[torch.tensor([0, 0])] = 1.5
p.scatter_(0, torch.zeros_like({y}, dtype=torch.int64), 0.5)
p[..., 0] += 1
p[..., 0:1] = {y}[..., 0:1]
for r in range(p.shape[0]):\n    p[r] = p[r] * 0.5 + r
for r in range(1, p.shape[0]):\n    p[r] += p[r - 1].detach()
with torch.no_grad():\n    p[0] = 0.25
"""
VIEWS = r"""
q = p[0:1]\np += 1\np = p + q
q = p[0]\nq += 1
q = p[0]\np[0] = 0.5\np = p + q
q = p[-1]\np.mul_(2)\np = q * 1.0
q, *r = p.unbind(0)\np += 1\np = p + q
q, *r = p.split(1, 0)\np[0:1] = 2\np = q * 1.0
q = p[0]\nr = q.view(-1)\nr[0] = 3\np = p + q
q = p[0:1]\nr = p[0:1]\nq += 1\np = r * {y}
q = p[0].clone()\np += 1\np = p + q
q = p.t() if p.dim() < 3 else p.transpose(0, 1)\nq[0] = 2
q = p[..., 0]\nq *= 2
q = p[..., None]\np[..., 0] = 1\np = q[..., 0]
q, *r = p.chunk(2, -1)\nq += 1
q = p[0:1]\nwith torch.no_grad():\n    q += 1
q = torch.cat([p, {y}])\np[0] = 0\np = q * 1.0
"""
_WITH_AXES = [f"{line} ?? x.ndim and x.size and dense(run, x)" for line in listed(ROWS) + 4 * listed(VIEWS)]
"""Writes to what has rows; those to views are drawn four times as often."""
CONTROL["write"] = "\n".join([*listed(WRITES), *_WITH_AXES])
