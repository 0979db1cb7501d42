"""The cells that programs call, each pasted into a printed program that uses it."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

import gluonjit
from experiments.fuzz.state import Notes, Reads


class Squash(nn.Module):
    """One result."""

    def __init__(self) -> None:
        super().__init__()
        self.w = nn.Parameter(torch.zeros(3, 3))
        self.b = nn.Parameter(torch.zeros(3))

    def forward(self, x: Any) -> Any:
        return torch.tanh(F.linear(x, self.w, self.b))


class Memory(nn.Module):
    """A tuple from states in a list or a tuple, which may be missing, and a number."""

    def __init__(self) -> None:
        super().__init__()
        self.gates = nn.Linear(3, 6, bias=False)

    def forward(self, x: Any, states: Any, scale: float) -> Any:
        gate, value = self.gates(x).chunk(2, -1)
        c = gate.sigmoid() * value.tanh() * scale
        if states is not None:
            c = c + 0.5 * states[0] * states[-1].sigmoid()
        return c.tanh(), c


class Nested(nn.Module):
    """Lists and tuples in each other, and an argument that comes back."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(3, 3)

    def forward(self, x: Any, *states: Any) -> Any:
        total = self.inner(x).sigmoid()
        for state in states:
            total = total + 0.3 * state
        return [total, (x * 1.0, [total.sin()], x)]


class Named(nn.Module):
    """Takes a dictionary and gives one."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(3)

    def forward(self, given: Any, *, scale: float = 1.0) -> Any:
        x = self.norm(given["x"] + 2 * torch.arange(3, dtype=given["x"].dtype)) * scale
        return {"sum": x + given["y"], "x": x}


class ChildSum(nn.Module):
    """A node with any number of children, each a pair of states: what they give is summed up."""

    def __init__(self) -> None:
        super().__init__()
        self.gates_x = nn.Linear(3, 9)
        self.gates_h = nn.Linear(3, 9, bias=False)
        self.forget_x = nn.Linear(3, 3)
        self.forget_h = nn.Linear(3, 3, bias=False)

    def forward(self, x: Any, children: Any) -> Any:
        gates = self.gates_x(x)
        if children:
            gates = gates + self.gates_h(sum(h for h, _ in children))
        i, o, u = gates.chunk(3, -1)
        c = i.sigmoid() * u.tanh()
        if children:
            forget = self.forget_x(x)
            c = c + sum((forget + self.forget_h(h)).sigmoid() * child for h, child in children)
        return o.sigmoid() * c.tanh(), c


class Gather(nn.Module):
    """A node whose children come as a list, which it stacks and sums over."""

    def __init__(self) -> None:
        super().__init__()
        self.own = nn.Linear(3, 3)
        self.child = nn.Linear(3, 3)

    def forward(self, x: Any, children: Any) -> Any:
        if not len(children):
            return self.own(x).tanh()
        rows = torch.stack(children) if isinstance(children, (list, tuple)) else children
        return (self.own(x) + self.child(rows).tanh().sum(0)).tanh()


class Reader(nn.Module):
    """No cell can be made of it: it looks at a number."""

    def forward(self, x: Any) -> Any:
        return x.sin() if float(x.detach().mean()) > 0.0217 else x.tanh() * 0.5


class Counter(nn.Module):
    """No cell can be made of it: it counts its calls."""

    def __init__(self) -> None:
        super().__init__()
        self.calls = 0
        self.last = nn.Linear(3, 3)

    def forward(self, x: Any) -> Any:
        self.calls += 1
        return self.last(x).tanh() * 0.7


class Drawn(nn.Module):
    """A loop over the rows of its input, which goes through a weight again with what that has given before."""

    def __init__(self) -> None:
        super().__init__()
        self.cell = nn.GRUCell(3, 3)

    def forward(self, rows: Any) -> Any:
        h = rows[0] * 0.5
        for row in rows:
            h = self.cell(row, h)
        return h


class Projector(nn.Module):
    """A method as a cell, which uses a parameter of its module."""

    def __init__(self) -> None:
        super().__init__()
        self.w1, self.w2, self.w3, self.w4 = (nn.Parameter(torch.zeros(4, n)) for n in (1, 2, 3, 4))

    @gluonjit.cell
    def project(self, x: Any, columns: int) -> Any:
        return F.linear(x, getattr(self, f"w{columns}")).sin()


class Annealed(Reads, nn.Module):
    """A cell that reads Python state."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(3, 3)
        self.begin()

    def forward(self, x: Any, where: str) -> Any:
        return torch.tanh(self.inner(x)) * self.factor(where)

    @gluonjit.cell
    def part(self, x: Any, where: str) -> Any:
        return torch.sin(x) * self.factor(where) + x


class Noting(Notes, nn.Module):
    """A cell that takes notes."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(3, 3)
        self.begin()

    def forward(self, x: Any, where: str) -> Any:
        return self.note(where, torch.tanh(self.inner(x)))

    @gluonjit.cell
    def part(self, x: Any, where: str) -> Any:
        return self.note(where, torch.sin(x) * 0.5) + x


@gluonjit.cell
def blend(x: Any, y: Any, share: float = 0.5) -> Any:
    """A function as a cell."""
    return [torch.tanh(x * share + y * (1 - share)), x - y * share]


@gluonjit.cell
def fold(rows: Any, *, start: Any = None, scale: float = 0.5) -> Any:
    """A cell of any number of rows, with a tensor as keyword."""
    total = start
    for row in rows:
        total = torch.tanh(row) if total is None else torch.tanh(total * scale + row)
    return total


@gluonjit.cell
def gathered(x: Any, children: Any) -> Any:
    """A cell of any number of children, whose sum it takes."""
    return torch.tanh(x + sum(torch.sigmoid(child) * x for child in children))


@gluonjit.cell
def pieces(x: Any, at: int) -> Any:
    """Return views of a cell's arguments, and what it makes of them."""
    first, *rest = x.unbind(-1)
    return x[..., at:], first * 2, torch.stack([first, *rest], -1).transpose(0, -1)
