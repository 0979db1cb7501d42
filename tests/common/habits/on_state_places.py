"""Places that a body reads from: descriptors, context variables, other modules, tables, lists of layers."""

from __future__ import annotations

import contextvars
import types
from typing import Any

from . import FORMS, habit, helpers
from .on_state_kinds import vary

GATE = contextvars.ContextVar("GATE", default=1.0)
STEP = 0
LEVELS = [1.0, 0.5, 0.1]


class Descriptor:
    """An attribute whose value lies in a table of the class."""

    table = {"beta": 1.0}

    def __get__(self, instance: Any, owner: Any) -> float:
        return self.table["beta"]


@habit(forms=FORMS)
def a_descriptor_reads_a_table(t: Any) -> None:
    class Part(t.Part):
        beta = Descriptor()

        def body(self, F: Any, x: Any) -> Any:
            return F.tanh(self.layer(x)) * self.beta

    vary(t, Part, lambda part, value: Descriptor.table.update(beta=value))


@habit(forms=FORMS)
def a_context_variable_is_read(t: Any) -> None:
    class Part(t.Part):
        def body(self, F: Any, x: Any) -> Any:
            return F.tanh(self.layer(x)) * GATE.get()

    vary(t, Part, lambda part, value: GATE.set(value))


@habit(forms=FORMS)
def a_step_is_compared_with_its_warm_up(t: Any) -> None:
    class Part(t.Part):
        def body(self, F: Any, x: Any) -> Any:
            return F.tanh(self.layer(x)) if STEP >= 3 else self.layer(x) * min(1.0, STEP / 3)

    def change(part: Any, value: int) -> None:
        globals()["STEP"] = value

    vary(t, Part, change, tuple(range(5)))


@habit(forms=FORMS)
def a_global_of_another_module_is_read_by_its_function(t: Any) -> None:
    class Part(t.Part):
        def body(self, F: Any, x: Any) -> Any:
            return helpers.scaled(F.tanh(self.layer(x))) * helpers.factor() * helpers.FACTOR

    def change(part: Any, value: float) -> None:
        helpers.FACTOR = value
        helpers.SETTINGS["factor"] = 1 + value

    vary(t, Part, change)


@habit(forms=FORMS)
def a_function_of_another_module_is_replaced(t: Any) -> None:
    """As `unittest.mock.patch` does it."""

    class Part(t.Part):
        def body(self, F: Any, x: Any) -> Any:
            return F.tanh(self.layer(x)) * helpers.factor()

    kept = helpers.factor
    try:
        vary(t, Part, lambda part, value: setattr(helpers, "factor", lambda: value))
    finally:
        helpers.factor = kept


@habit(forms=FORMS)
def a_name_in_a_table_chooses_the_function(t: Any) -> None:
    class Part(t.Part):
        def body(self, F: Any, x: Any) -> Any:
            return helpers.squashed(F, self.layer(x))

    try:
        vary(t, Part, lambda part, value: helpers.SETTINGS.update(how=value), ("tanh", "sigmoid"))
    finally:
        helpers.SETTINGS.pop("how", None)


@habit(forms=FORMS)
def an_index_chooses_the_entry(t: Any) -> None:
    class Part(t.Part):
        def setup(self) -> None:
            self.cfg = types.SimpleNamespace(level=0)

        def body(self, F: Any, x: Any) -> Any:
            return F.tanh(self.layer(x)) * LEVELS[self.cfg.level]

    vary(t, Part, lambda part, value: setattr(part.cfg, "level", value), (0, 1, 2))


@habit(forms=FORMS)
def an_index_chooses_the_layer(t: Any) -> None:
    """Adapters: one list of layers, a name says which."""

    class Part(t.Part):
        def setup(self) -> None:
            self.first, self.second = t.new_dense(), t.new_dense()
            self.cfg = {"which": 0}

        def body(self, F: Any, x: Any) -> Any:
            return F.tanh((self.first, self.second)[self.cfg["which"]](self.layer(x)))

    vary(t, Part, lambda part, value: part.cfg.update(which=value), (0, 1))


@habit(forms=FORMS)
def a_loop_count_is_read(t: Any) -> None:
    class Part(t.Part):
        def setup(self) -> None:
            self.cfg = {"turns": 1}

        def body(self, F: Any, x: Any) -> Any:
            for _ in range(self.cfg["turns"]):
                x = F.tanh(self.layer(x))
            return x

    vary(t, Part, lambda part, value: part.cfg.update(turns=value), (1, 3, 2))


@habit(forms=("cell", "whole"))
def an_array_in_a_config_is_replaced_and_written_to(t: Any) -> None:
    class Part(t.Part):
        def setup(self) -> None:
            self.cfg = {"scale": t.array([[1.0, 2.0, 3.0, 4.0]])}

        def body(self, F: Any, x: Any) -> Any:
            return F.tanh(self.layer(x)) * self.cfg["scale"]

    net = t.net(Part)
    t.minibatch(net, label="first")
    net.part.cfg["scale"] = t.array([[2.0, 2.0, 2.0, 2.0]])
    t.minibatch(net, label="replaced")
    net.part.cfg["scale"] *= 3
    t.minibatch(net, label="written to")
    results = []
    for k, x in enumerate(t.inputs()):
        net.part.cfg["scale"] = t.array([[k, 1.0, 1.0, k]])
        results.append(t.call(net, x))
    t.see("within", results)


@habit("torch", forms=FORMS)
def a_list_of_layers_grows(t: Any) -> None:
    class Part(t.Part):
        def setup(self) -> None:
            self.layers = t.F.nn.ModuleList([t.new_dense()])

        def body(self, F: Any, x: Any) -> Any:
            for layer in self.layers:
                x = F.tanh(layer(x))
            return x

    net = t.net(Part)
    t.minibatch(net, label="one")
    net.part.layers.append(t.dense(3))
    t.minibatch(net, label="two", step=True)
    net.part.layers[0] = t.dense(4)
    t.minibatch(net, label="another")
    del net.part.layers[-1]
    t.minibatch(net, label="less")
