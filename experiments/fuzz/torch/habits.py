"""Habits in PyTorch's terms: writes in place, weights that are written before backward, buffers that are used again."""

from __future__ import annotations

from experiments.fuzz.habits import register
from experiments.fuzz.run import Run
from experiments.fuzz.torch.table import TABLE

register(TABLE)

# What is done to p, a result, and what is read afterwards; y looks like p.
WRITES = """
p += 1
p *= 2
p -= {y}
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
p.view(-1)[0] = 7
p.reshape(-1)[0:1] = p.reshape(-1)[0:1] * 1.0 + {y}.reshape(-1)[0:1]
p[...] = {y}
p.flatten()[-1:] = 0.5
q = p.view(-1)\np += 1\np = p * q.reshape(p.shape)
q = p.unsqueeze(0)\nq *= 2
q = p.unsqueeze(0)\np *= 2\np = q * 1.0
q = p.detach()\nq += 1
q = p.detach()\np += 1\np = p + q
with torch.no_grad():\n    p += 1
with torch.no_grad():\n    p.mul_({y})
with torch.no_grad():\n    p.view(-1)[0] = 0.5
q = torch.tanh(p)\nq += 1\np = q
q = p * p\np += 1\np = q
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
""".strip().split("\n")
# The same of arrays with at least one axis.
ROWS = """
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
p[..., 0] += 1
p[..., 0:1] = {y}[..., 0:1]
q = p[..., None]\np[..., 0] = 1\np = q[..., 0]
q, *r = p.chunk(2, -1)\nq += 1
for r in range(p.shape[0]):\n    p[r] = p[r] * 0.5 + r
for r in range(1, p.shape[0]):\n    p[r] += p[r - 1].detach()
with torch.no_grad():\n    p[0] = 0.25
q = p[0:1]\nwith torch.no_grad():\n    q += 1
q = torch.cat([p, {y}])\np[0] = 0\np = q * 1.0
""".strip().split("\n")
VIEWS = 3 * [form for form in ROWS if form.startswith("q")]  # drawn four times as often
BASES = ("{x} * 1.5", "torch.sin({x})", "{x}.clone()", "torch.exp(-{x} * {x})", "net.squash({rows})", "{x} + {y}")


@TABLE.habit
def write(run: Run, a: int, b: int, c: int) -> str | None:
    """Write in place into a result, or a view of one."""
    base = BASES[b % len(BASES)]
    x = run.rows(a) if "rows" in base else run.pick(a)
    y = run.like(x, b)
    forms = [*WRITES, *ROWS, *VIEWS] if x.ndim and x.size else WRITES
    body = forms[(24 * a + c) % len(forms)].replace("\\n", "\n")
    return "\n".join(["p = " + base, body, "p * 1.0"]).format(x=x, y=x if y is None else y, rows=x)


def weight(number: int) -> list[str]:
    """Lines that write into a weight."""
    return [f"touch(net, {'names' if number % 2 else ['squash']}, {number})"]


def buffer(name: str, shape: tuple[int, ...], dtype: str, learn: bool, number: int) -> list[str]:
    """Lines that write into an input: as a loader does that fills its buffer again."""
    made = f"values({shape}, {number}, torch.{dtype})"
    way = number // 7 % (3 if learn else 6)
    inner = [f"{name}.copy_({made})", f"{name} += 0.125", f"{name}.mul_(0.5)"]
    if way < len(inner):
        return ["with torch.no_grad():", f"    {inner[way]}"]
    return [
        [f"{name}.numpy()[...] = {made}.numpy()", f"{name}.numpy()[...] *= 0.5", f"{name}.data.add_(0.25)"][way - 3]
    ]
