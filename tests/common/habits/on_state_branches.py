"""Python state that says which way a body goes: flags, enums, lists and dictionaries, changed between samples."""

from __future__ import annotations

import enum
import os
import types
from typing import Any

from . import FORMS, habit


class Mode(enum.Enum):
    SOFT = 1
    HARD = 2


def anneal(t: Any, part: Any, change: Any, values: Any = (1.0, 0.5, 0.1)) -> None:
    """Minibatches with a value each, then one whose samples have one each, then the first again."""
    net = t.net(part)
    for value in values:
        change(net, value)
        t.minibatch(net, label=f"{value}")
    t.minibatch(net, before=lambda k: change(net, values[k % len(values)]), label="within")
    change(net, values[0])
    t.minibatch(net, label="again")


@habit(forms=FORMS)
def an_enum_chooses_the_branch(t: Any) -> None:
    class Part(t.Part):
        def setup(self) -> None:
            self.cfg = {"mode": Mode.SOFT}

        def body(self, F: Any, x: Any) -> Any:
            h = self.layer(x)
            return F.sigmoid(h) if self.cfg["mode"] is Mode.SOFT else F.relu(h)

    anneal(t, Part, lambda net, value: net.part.cfg.update(mode=value), (Mode.SOFT, Mode.HARD))


@habit(forms=FORMS)
def an_environment_variable_is_read(t: Any) -> None:
    class Part(t.Part):
        def body(self, F: Any, x: Any) -> Any:
            return F.tanh(self.layer(x)) * float(os.environ.get("HABITS_BETA", "1"))

    try:
        anneal(t, Part, lambda net, value: os.environ.__setitem__("HABITS_BETA", value), ("1", "0.5"))
    finally:
        os.environ.pop("HABITS_BETA", None)


@habit(forms=FORMS)
def a_mutable_default_argument_is_changed(t: Any) -> None:
    defaults = {"beta": 1.0}

    class Part(t.Part):
        def body(self, F: Any, x: Any, cfg: Any = defaults) -> Any:
            return F.tanh(self.layer(x)) * cfg["beta"]

    anneal(t, Part, lambda net, value: defaults.update(beta=value))


@habit(forms=FORMS)
def a_flag_deep_in_objects_switches_a_branch(t: Any) -> None:
    class Part(t.Part):
        def setup(self) -> None:
            self.cfg = types.SimpleNamespace(model={"layers": [types.SimpleNamespace(gate=True)]})

        def body(self, F: Any, x: Any) -> Any:
            h = self.layer(x)
            return h * F.sigmoid(h) if self.cfg.model["layers"][0].gate else h

    def change(net: Any, value: bool) -> None:
        net.part.cfg.model["layers"][0].gate = value

    anneal(t, Part, change, (True, False))


@habit(forms=FORMS)
def a_list_that_a_loop_goes_over_grows(t: Any) -> None:
    class Part(t.Part):
        def setup(self) -> None:
            self.turns = [1.0]

        def body(self, F: Any, x: Any) -> Any:
            h = self.layer(x)
            for factor in self.turns:
                h = F.tanh(h * factor)
            return h

    anneal(t, Part, lambda net, value: net.part.turns.append(value))


@habit(forms=FORMS)
def a_dict_that_a_loop_goes_over_changes(t: Any) -> None:
    class Part(t.Part):
        def setup(self) -> None:
            self.terms = {"one": 1.0}

        def body(self, F: Any, x: Any) -> Any:
            h = self.layer(x)
            return sum(F.tanh(h * factor) for factor in self.terms.values())

    anneal(t, Part, lambda net, value: net.part.terms.__setitem__(f"{value}", value))


@habit(forms=FORMS)
def a_name_is_looked_up_by_getattr(t: Any) -> None:
    class Part(t.Part):
        def setup(self) -> None:
            self.cfg = types.SimpleNamespace(first=1.0, second=0.5, name="first")

        def body(self, F: Any, x: Any) -> Any:
            return F.tanh(self.layer(x)) * getattr(self.cfg, self.cfg.name)

    anneal(t, Part, lambda net, value: setattr(net.part.cfg, "name", value), ("first", "second"))


@habit(forms=FORMS)
def an_optional_entry_appears(t: Any) -> None:
    class Part(t.Part):
        def setup(self) -> None:
            self.opt: dict[str, float] = {}

        def body(self, F: Any, x: Any) -> Any:
            h = self.layer(x)
            if "scale" in self.opt:
                h = h * self.opt["scale"]
            return F.tanh(h) * self.opt.get("beta", 1.0) * len(self.opt or [1])

    def change(net: Any, value: dict[str, float]) -> None:
        net.part.opt.clear()
        net.part.opt.update(value)

    anneal(t, Part, change, ({}, {"scale": 2.0}, {"beta": 0.5, "scale": 2.0}))


@habit(forms=FORMS)
def an_attribute_is_set_or_not(t: Any) -> None:
    class Part(t.Part):
        def setup(self) -> None:
            self.cfg = types.SimpleNamespace()

        def body(self, F: Any, x: Any) -> Any:
            h = self.layer(x)
            return F.tanh(h) if not hasattr(self.cfg, "scale") else h * self.cfg.scale

    def change(net: Any, value: float | None) -> None:
        net.part.cfg.__dict__.clear()
        if value is not None:
            net.part.cfg.scale = value

    anneal(t, Part, change, (None, 2.0))
