"""Instructions that look at values, leave the recording, write, throw results away, or raise."""

from __future__ import annotations

from experiments.fuzz.run import Run
from experiments.fuzz.torch.table import error, op


@op
def unread(run: Run, a: int, b: int, c: int) -> str | None:
    """Results that nobody looks at."""
    x = run.pick(a)
    return f"torch.sin({x} * 1.7) + torch.cos({x})\nnet.squash({run.rows(b)})[0:1] * 3\n"


@op
def without_history(run: Run, a: int, b: int, c: int) -> str | None:
    x = run.pick(a)
    mode = ["no_grad()", "no_grad()", "set_grad_enabled(False)", "enable_grad()"][b % 4]
    result = ["p * 1.0", f"p * {x}", f"torch.cat([p.reshape(-1), {x}.reshape(-1)])", "p", f"p + {x}[0]"][c % 5]
    if not x.ndim and c % 5 == 4:
        result = "p"
    return f"with torch.{mode}:\n    p = torch.sin({x}) + 0.5\n{result}"


@op
def cells_without_history(run: Run, a: int, b: int, c: int) -> str | None:
    x = run.rows(a)
    body = [f"net.squash({x})", f"net.nested({x}, {x})[0]", f"net.embed({run.tokens})", f"{x}[0] * 1.0"][b % 4]
    return f"with torch.no_grad():\n    p = {body}\n{['p', 'p * 0.5', 'net.squash(p)', 'torch.stack([p, p])'][c % 4]}"


@op
def read(run: Run, a: int, b: int, c: int) -> str | None:
    """A value that is needed in the middle."""
    x = run.pick(a)
    if b % 4 == 0:
        return f"{[f'{x}.tolist()', f'{x}.detach().numpy().sum()', f'str({x}.shape)', f'repr({x})'][c % 4]}\n"
    test = [f"{x}.mean().item() > 0.0123", f"bool({x}.sum() < 0.0321)", f"float({x}.detach().sum()) > 0.0123"][b % 3]
    return [
        f"{x} * 0.5 if {test} else torch.sin({x})",
        f"net.squash({run.rows(a)}) if {test} else net.gather({run.rows(a)}[0], [])",
        f"sum([{x} * 0.3 for _ in range(2 if {test} else 3)])",
        f"{x} * {x}.detach().sum().item() * 0.1",
    ][c % 4]


@op
def copies(run: Run, a: int, b: int, c: int) -> str | None:
    """A tensor of the program's own that is written to."""
    x = run.pick(a)
    whole = not x.ndim
    at = "..." if whole else [0, -1, slice(0, 1)][b % 3]
    at = "0:1" if isinstance(at, slice) else at
    return [
        f"p = {x}.clone()\np[{at}] = p[{at}] * 0.5\n{x} + p",
        f"p = torch.zeros({x.shape}, dtype=torch.{x.dtype})\np[{at}] = {x}[{at}]\n{x} * p",
        f"p = torch.sin({x})\np += {x}\n{x} - p * 0.25",
        f"p = torch.sin({x})\np.mul_(0.5)\np * 1.0",
        f"p = {x} * 1.5\np.clamp_(-1.0321, 1.0321)\np.add_({x})\np - {x}",
        f"p = {x} * 0.5\np[{at}] += 1\np",
        f"p = {x}.clone()\np.zero_()\np + {x}",
        f"p = torch.cos({x})\nq = p * {x}\np = p.clone()\np -= q\nq + p",
        f"p = torch.empty({x.shape}, dtype=torch.{x.dtype})\np.copy_({x})\np * 0.5",
        f"p = {x} + 1\np.masked_fill_({x} > 0.1234, 0.5)\np * 0.9",
        f"p = torch.zeros({x.shape}, dtype=torch.{x.dtype})\nq = {x} + p\np += 1\nq * p",
        f"p = torch.full({x.shape}, 0.5, dtype=torch.{x.dtype})\nq = {x} * p\np.fill_(0.25)\nq + {x} * p",
        f"p = torch.tanh({x})\np.neg_().add_(1.0)\np",
        f"torch.sin({x}, out=torch.empty({x.shape}, dtype=torch.{x.dtype}))" if b % 5 == 0 else None,
        f"p = {x}.detach().clone().requires_grad_()\n(p * p + {x}.detach()).sum() + {x}" if b % 5 == 1 else None,
    ][c % 15]


@op
def hooks(run: Run, a: int, b: int, c: int) -> str | None:
    """Histories that are looked at or changed."""
    x = run.pick(a)
    return [
        f"p = {x} * 0.5\np.requires_grad\np",
        f"p = {x}.detach()\np * {x}",
        f"p = {x} * 2\np = p.detach() + (p - p.detach()) * 0.5\np",
        f"{x}.requires_grad and {x}.is_leaf\n{x} * 0.9",
        f"p = {x}.data * 0.5\np + {x}",
        f"{x}.new_tensor([1.0, 2.0]).sum() * {x}",
        f"len({x}.shape) + {x}.dim() + {x}.numel() + {x}.element_size()\n{x} * {x}.dim() * 0.3",
    ][c % 7]


@error
def fail(run: Run, a: int, b: int, c: int) -> str | None:
    """The user's own exception."""
    return f"raise {['ValueError', 'KeyError', 'ZeroDivisionError'][a % 3]}('in the middle of a sample')\n"


@error
def misuse(run: Run, a: int, b: int, c: int) -> str | None:
    """Something that PyTorch refuses."""
    x = run.pick(a)
    return [
        f"{x} + torch.ones(9, 8, 7, 11, 13)",
        f"{x} @ torch.ones(11, 2, dtype=torch.{x.dtype})",
        f"torch.cat([{x}.reshape(1, -1), torch.ones(3, 2, 2)], dim=1)",
        f"{x}.reshape(1, -1).sum(5)",
        f"net.squash(torch.ones(1, 5, dtype=torch.{run.dtype}) + 0 * {x}.sum())",
        f"{x}[77]",
        f"{x}.view(7, 11)",
        f"net.memory({x})",
        f"{x}.nothing_like_this",
        f"torch.tanh({x}, {x})",
        f"{x}.reshape(1, -1).expand(2, 3, 99)",
        f"{x} + 'text'",
        f"torch.stack([{x}, {x}.reshape(-1, 1, 1, 1)])",
        f"len({x}.sum())",
        f"({x}.reshape(-1) * torch.ones(2, 1)).item()",
        f"blend({x})",
    ][b % 16]
