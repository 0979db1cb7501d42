"""Captures of both engines in the middle of which a slot of the open batch is damaged: see hostile_support."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import mxnet as mx
import torch
from hostile_support import Case, Harm, run
from mxnet import gluon, nd

import gluonjit
from gluonjit.hybrid import LOCAL

KEY = "_gluonjit"
Damage = Callable[[dict[str, Any]], None]


class Raising:
    """What raises where it is compared, hashed, or taken for a number."""

    def __eq__(self, other: object) -> bool:
        raise KeyError("hostile")

    def __hash__(self) -> int:
        raise KeyError("hostile")

    def __index__(self) -> int:
        raise KeyError("hostile")

    def __float__(self) -> float:
        raise KeyError("hostile")


GONE = object()
THINGS: dict[str, Any] = {
    "nothing": GONE,
    "None": None,
    "a number": 7,
    "a huge number": 2**62,
    "a negative one": -5,
    "an object": object(),
    "a list": [1, None],
    "a tuple": (None,),
    "one that raises": Raising(),
}
SLOTS = {
    "state": ("batch", "inside", "mode", "numpy", "paused", "trace"),
    "batch": ("changes engine foreign graph imports noted parameters records room sharing signatures tables".split()),
    "graph": ("lookups", "rows", "single_rows"),
    "record": ("bases", "calls", "guards", "kind", "mode", "share"),
    "spec": ("bodies", "mode", "of_rows", "row_shape", "rows"),
    "cell": ("is_node", "lookup"),
    "table": ("known", "row", "size", "taped", "weight"),
    "lazy": ("_v", "_c", "_b", "_k", "_n"),
    "view": ("_v", "_c", "_b", "_k", "_n"),
    "ended": ("_v", "_c", "_b", "_k", "_n"),
    "value": ("rows", "spec", "graph", "base", "depth"),
}


def nothing(objects: dict[str, Any]) -> None:
    """No damage."""


class MXNetCell(gluon.HybridBlock):
    """A cell that reads Python's state."""

    def __init__(self) -> None:
        super().__init__()
        self.cfg = {"beta": 1.0, "gamma": [0.5]}
        with self.name_scope():
            self.inner = gluon.nn.Dense(2, in_units=2)

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        return self.inner(x) * self.cfg["beta"] + self.cfg["gamma"][0]


class TorchCell(torch.nn.Module):
    """The same in PyTorch."""

    def __init__(self) -> None:
        super().__init__()
        self.cfg = {"beta": 1.0, "gamma": [0.5]}
        self.inner = torch.nn.Linear(2, 2)

    def forward(self, x: Any) -> Any:
        return self.inner(x) * self.cfg["beta"] + self.cfg["gamma"][0]


class Sample:
    """Calls of a cell, in two states of Python's, rows of its result, and a look-up, before and after the damage."""

    damage: Damage
    cell: Any
    table: Any

    def sample(self, x: Any, index: Any, found: Callable[[Any], Any]) -> Any:
        hidden = self.with_beta(1.0, x)
        row, entry = x[0:1] + hidden[0:1], self.table(index)
        view = hidden[0:2]
        value = hidden._v if hasattr(hidden, "_v") else None
        self.damage({"lazy": hidden, "value": value, "view": view, "cell": found(self.cell)})
        hidden = self.with_beta(2.0, hidden) + self.with_beta(1.0, x) + row + x[1:2] + self.with_beta(1.0, view)
        hidden = hidden + view[0:1] + view[0:2][1:2] + self.table(index) + entry
        del view
        return hidden[0:1].sum() + self.cell(x)[0].sum()

    def with_beta(self, beta: float, x: Any) -> Any:
        """A call of the cell with a state that is put back."""
        before, self.cell.cfg["beta"] = self.cell.cfg["beta"], beta
        try:
            return self.cell(x)
        finally:
            self.cell.cfg["beta"] = before


class MXNetNet(gluon.Block, Sample):
    """A net of one cell and a table."""

    def __init__(self) -> None:
        super().__init__()
        self.damage: Damage = nothing
        with self.name_scope():
            self.cell = MXNetCell()
            self.table = gluon.nn.Embedding(4, 2)

    def forward(self, x: Any, index: Any) -> Any:
        return self.sample(x, index, lambda cell: getattr(cell, KEY, None))


class TorchNet(torch.nn.Module, Sample):
    """The same in PyTorch."""

    def __init__(self) -> None:
        super().__init__()
        self.damage: Damage = nothing
        self.cell, self.table = TorchCell(), torch.nn.Embedding(4, 2)

    def forward(self, x: Any, index: Any) -> Any:
        return self.sample(x, index, lambda cell: cell.__dict__.get(KEY))


def in_mxnet() -> tuple[Any, Any, Callable[[Any], float]]:
    net = MXNetNet()
    net.initialize(mx.init.One())
    net.hybridize(dynamic_batch=True)
    return net, (nd.ones((2, 2)), nd.array([1])), lambda found: float(found.asscalar())


def in_torch() -> tuple[Any, Any, Callable[[Any], float]]:
    torch.manual_seed(0)
    net = TorchNet()
    gluonjit.hybridize(net, dynamic_batch=True)
    return net, (torch.ones(2, 2), torch.tensor([1])), lambda found: float(found.item())


def end_with(array: Any, slot: str, thing: Any) -> None:
    """Let a lazy array end that has something in a slot, or nothing: it is not to come again so."""
    if hasattr(type(array), slot):
        if thing is GONE:
            delattr(array, slot)
        else:
            setattr(array, slot, thing)


class Sabotage:
    """Put something into a slot in the middle of a sample, and take it out again."""

    def __init__(self, net: Any, args: Any, number: Callable[[Any], float]) -> None:
        self.net, self.args, self.number = net, args, number
        self.undo: list[tuple[Any, str, Any]] = []
        self.wanted = self.result()

    def result(self) -> float:
        return self.number(self.net(*self.args))

    def put(self, holder: Any, slot: str, thing: Any) -> None:
        self.undo.append((holder, slot, getattr(holder, slot, GONE)))
        if thing is GONE:
            delattr(holder, slot)
        else:
            setattr(holder, slot, thing)

    def with_damage(self, what: str, slot: str, thing: Any) -> float | None:
        def damage(given: dict[str, Any]) -> None:
            state = LOCAL.state
            given.update(state=state, batch=state.batch, graph=state.batch.graph)
            given["record"] = next(iter(state.batch.graph.records.values()))
            given["table"] = next(iter(state.batch.tables.values()), None)
            if given["value"] is not None:
                given["spec"] = given["value"].spec
            if what == "ended":
                end_with(given["lazy"][0:1], slot, thing)
                return
            holder = given[what]
            if holder is None or not (hasattr(type(holder), slot) or hasattr(holder, slot)):
                return
            for _ in range(2 if what == "record" else 1):
                self.put(holder, slot, thing)

        vars(self.net)["damage"] = damage  # past `__setattr__`, which asks the state
        try:
            return self.result()
        finally:
            vars(self.net)["damage"] = nothing
            while self.undo:
                holder, name, old = self.undo.pop()
                if old is not GONE:
                    setattr(holder, name, old)
            self.clean()

    def clean(self) -> None:
        """Let go of the batch, and see that the next one is as it was."""
        state = LOCAL.state
        state.inside, state.paused, state.trace = 0, 0, None
        state.batch = None
        try:
            found = self.result()
        except Exception as error:
            raise Harm(f"the next batch ended in {error!r}") from error
        if abs(found - self.wanted) > 1e-5:
            raise Harm(f"the next batch gave {found}, not {self.wanted}")


def cases() -> Iterator[Case]:
    for name, make in (("mxnet", in_mxnet), ("torch", in_torch)):
        sabotage = Sabotage(*make())
        for what, slots in SLOTS.items():
            for slot in slots:
                if name == "mxnet" and slot == "_n":
                    continue  # its views are not counted
                for thing in THINGS:
                    yield Case(
                        f"{name}: {thing} in {what}.{slot}",
                        lambda s=sabotage, what=what, slot=slot, thing=thing: s.with_damage(what, slot, THINGS[thing]),  # type: ignore[misc]
                        None,
                    )
        yield Case(f"{name}: nothing is damaged", lambda s=sabotage: s.clean(), None)  # type: ignore[misc]


if __name__ == "__main__":
    run(list(cases()), leaks=False)
