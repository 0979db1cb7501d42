"""Habits in MXNet's terms: writes in place, weights that are written before backward, buffers that are used again."""

from __future__ import annotations

from experiments.fuzz.habits import register
from experiments.fuzz.mxnet.table import TABLE
from experiments.fuzz.run import Run

register(TABLE)

# What is done to p, a result, and what is read afterwards; y looks like p.
WRITES = r"""
p += 1
p *= 2
p -= {y}
p /= 2
p[:] = 0.5
p[:] = {y}
p[0:1] = 0.25
p[0:1] = {y}[0:1]
p[0:1] += 1
p[-1] = 2
nd.relu(p, out=p)
nd.tanh({y}, out=p)
nd.elemwise_add(p, {y}, out=p)
{y}.copyto(p)
q = p[0:1]\np[:] = 2\np = p + q
q = p[0:1]\nq[:] = 3
q = p.reshape((-1,))\np += 1\np = q * 1.0
q = p.reshape((-1,))\nq[0:1] = 3
q = p.detach()\np += 1\np = p + q
q = p.copy()\np += 1\np = p + q
q = nd.zeros(p.shape, dtype=p.dtype)\nq[:] = p\np = p + q
q = nd.zeros(p.shape, dtype=p.dtype)\nnd.sin(p, out=q)\np = p + q
q = nd.zeros(p.shape, dtype=p.dtype)\nq += p\np = p * q
q = nd.stack(p, {y})\nq[0:1] = 0.5\np = p + q.sum(axis=0)
q = p * p\np += 1\np = q
""".strip().split("\n")
# The same of arrays with two axes or more.
COLUMNS = r"""
p[:, 0] = 5
p[:, 0] += 1
p[:, 0:1] = {y}[:, 0:1]
p[0, 0] = 7
q = p[:, 0:1]\np[:] = 2\np = p + q
q = p.T\nq[0:1] = 2\np = p + q.T
""".strip().split("\n")
BASES = ("{x} * 1.5", "nd.sin({x})", "{x}.copy()", "nd.exp(-{x} * {x})", "net.squash({rows})", "{x} + {y}")


@TABLE.habit
def write(run: Run, a: int, b: int, c: int) -> str | None:
    """Write in place into a result or a slice of one, inside or outside of a recording."""
    base = BASES[b % len(BASES)]
    x = run.rows(a) if "rows" in base else run.pick(a)
    y = run.like(x, b)
    forms = [*WRITES, *COLUMNS] if x.ndim > 1 else WRITES
    body = forms[(24 * a + c) % len(forms)].replace("\\n", "\n")
    if c % 2:
        return "\n".join(["p = " + base, body, "p * 1.0"]).format(x=x, y=x if y is None else y, rows=x)
    lines = ["p = " + base, *body.split("\n")]
    paused = "\n".join(["with autograd.pause():", *("    " + line for line in lines), "p * 1.0"])
    return paused.format(x=x, y=x if y is None else y, rows=x)


def weight(number: int) -> list[str]:
    """Lines that write into a weight."""
    return [f"touch(net, {'names' if number % 2 else ['squash']}, {number})"]


def buffer(name: str, shape: tuple[int, ...], dtype: str, learn: bool, number: int) -> list[str]:
    """Lines that write into an input: as a loader does that fills its buffer again."""
    made = f'values({shape}, {number}, "{dtype}")'
    inner = [f"{name}[:] = {made}", f"{name} += 0.125", f"{name} *= 0.5", f"{made}.copyto({name})"][number // 7 % 4]
    return ["with autograd.pause():", f"    {inner}"]
