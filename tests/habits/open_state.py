"""Python state that a body reads, changed between minibatches and between samples."""

from __future__ import annotations

import dataclasses
import enum
import functools
import os
import types
from collections import namedtuple
from typing import Any

from . import FORMS, habit

BETA = 1.0
TABLE = {"beta": 1.0}
Bounds = namedtuple("Bounds", "low high")


class Config:
    """A module-level class whose attribute programs change."""

    beta = 1.0


class Mode(enum.Enum):
    SOFT = 1
    HARD = 2


@dataclasses.dataclass
class Options:
    beta: float = 1.0
    clip: bool = False


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
def an_attribute_of_a_config_object_is_annealed(t: Any) -> None:
    class Part(t.Part):
        def setup(self) -> None:
            self.cfg = types.SimpleNamespace(beta=1.0)

        def body(self, F: Any, x: Any) -> Any:
            return F.tanh(self.layer(x)) * self.cfg.beta

    anneal(t, Part, lambda net, value: setattr(net.part.cfg, "beta", value))


@habit(forms=FORMS)
def an_entry_of_a_dict_is_annealed(t: Any) -> None:
    class Part(t.Part):
        def setup(self) -> None:
            self.opt = {"loss": {"beta": 1.0}}

        def body(self, F: Any, x: Any) -> Any:
            return F.tanh(self.layer(x)) * self.opt["loss"]["beta"]

    anneal(t, Part, lambda net, value: net.part.opt["loss"].update(beta=value))


@habit(forms=FORMS)
def an_item_of_a_list_is_changed(t: Any) -> None:
    class Part(t.Part):
        def setup(self) -> None:
            self.factors = [1.0, 2.0]

        def body(self, F: Any, x: Any) -> Any:
            return F.tanh(self.layer(x) * self.factors[0]) * self.factors[-1]

    anneal(t, Part, lambda net, value: net.part.factors.__setitem__(0, value))


@habit(forms=FORMS)
def a_number_of_the_module_itself_is_annealed(t: Any) -> None:
    class Part(t.Part):
        def setup(self) -> None:
            self.beta = 1.0

        def body(self, F: Any, x: Any) -> Any:
            return F.tanh(self.layer(x)) * self.beta

    anneal(t, Part, lambda net, value: setattr(net.part, "beta", value))


@habit(forms=FORMS)
def a_global_is_changed(t: Any) -> None:
    class Part(t.Part):
        def body(self, F: Any, x: Any) -> Any:
            return F.tanh(self.layer(x)) * BETA

    def change(net: Any, value: float) -> None:
        globals()["BETA"] = value

    anneal(t, Part, change)


@habit(forms=FORMS)
def an_entry_of_a_global_table_is_changed(t: Any) -> None:
    class Part(t.Part):
        def body(self, F: Any, x: Any) -> Any:
            return F.tanh(self.layer(x)) * TABLE["beta"]

    anneal(t, Part, lambda net, value: TABLE.update(beta=value))


@habit(forms=FORMS)
def a_closure_is_changed(t: Any) -> None:
    beta = 1.0

    class Part(t.Part):
        def body(self, F: Any, x: Any) -> Any:
            return F.tanh(self.layer(x)) * beta

    def change(net: Any, value: float) -> None:
        nonlocal beta
        beta = value

    anneal(t, Part, change)


@habit(forms=FORMS)
def an_attribute_of_a_class_is_changed(t: Any) -> None:
    class Part(t.Part):
        def body(self, F: Any, x: Any) -> Any:
            return F.tanh(self.layer(x)) * Config.beta

    anneal(t, Part, lambda net, value: setattr(Config, "beta", value))


@habit(forms=FORMS)
def an_attribute_of_the_own_class_is_changed(t: Any) -> None:
    class Part(t.Part):
        beta = 1.0

        def body(self, F: Any, x: Any) -> Any:
            return F.tanh(self.layer(x)) * self.beta

    anneal(t, Part, lambda net, value: setattr(Part, "beta", value))


@habit(forms=FORMS)
def a_property_reads_a_schedule(t: Any) -> None:
    class Part(t.Part):
        def setup(self) -> None:
            self.clock = {"step": 1.0}

        @property
        def beta(self) -> float:
            return self.clock["step"] / 2

        def body(self, F: Any, x: Any) -> Any:
            return F.tanh(self.layer(x)) * self.beta

    anneal(t, Part, lambda net, value: net.part.clock.update(step=value))


@habit(forms=FORMS)
def a_schedule_is_called(t: Any) -> None:
    class Schedule:
        def __init__(self) -> None:
            self.step = 1.0

        def __call__(self) -> float:
            return 1.0 / (1.0 + self.step)

    class Part(t.Part):
        def setup(self) -> None:
            self.schedule = Schedule()

        def body(self, F: Any, x: Any) -> Any:
            return F.tanh(self.layer(x)) * self.schedule()

    anneal(t, Part, lambda net, value: setattr(net.part.schedule, "step", value))


@habit(forms=FORMS)
def a_dataclass_of_options_is_replaced(t: Any) -> None:
    class Part(t.Part):
        def setup(self) -> None:
            self.options = Options()

        def body(self, F: Any, x: Any) -> Any:
            h = F.tanh(self.layer(x)) * self.options.beta
            return F.relu(h) if self.options.clip else h

    values = (Options(), Options(0.5), Options(0.5, True))
    anneal(t, Part, lambda net, value: setattr(net.part, "options", value), values)


@habit(forms=FORMS)
def a_dataclass_of_options_is_written_to(t: Any) -> None:
    class Part(t.Part):
        def setup(self) -> None:
            self.options = Options()

        def body(self, F: Any, x: Any) -> Any:
            h = F.tanh(self.layer(x)) * self.options.beta
            return F.relu(h) if self.options.clip else h

    def change(net: Any, value: tuple[float, bool]) -> None:
        net.part.options.beta, net.part.options.clip = value

    anneal(t, Part, change, ((1.0, False), (1.0, True), (0.1, True)))


@habit(forms=FORMS)
def a_namedtuple_is_replaced(t: Any) -> None:
    class Part(t.Part):
        def setup(self) -> None:
            self.cfg = types.SimpleNamespace(bounds=Bounds(-1.0, 1.0))

        def body(self, F: Any, x: Any) -> Any:
            return F.clip(self.layer(x), *self.cfg.bounds)

    values = (Bounds(-1.0, 1.0), Bounds(-0.1, 0.1), Bounds(-0.1, 0.3))
    anneal(t, Part, lambda net, value: setattr(net.part.cfg, "bounds", value), values)


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


@habit(forms=FORMS)
def numbers_of_a_numpy_array_are_annealed(t: Any) -> None:
    import numpy as np

    class Part(t.Part):
        def setup(self) -> None:
            self.schedule = np.array([1.0, 0.5])

        def body(self, F: Any, x: Any) -> Any:
            return F.tanh(self.layer(x)) * float(self.schedule[0])

    anneal(t, Part, lambda net, value: net.part.schedule.__setitem__(0, value))


@habit(forms=FORMS)
def a_method_of_another_object_reads_its_state(t: Any) -> None:
    class Scaler:
        def __init__(self) -> None:
            self.by = 1.0

        def scaled(self, h: Any) -> Any:
            return h * self.by

    class Part(t.Part):
        def setup(self) -> None:
            self.scaler = Scaler()

        def body(self, F: Any, x: Any) -> Any:
            return self.scaler.scaled(F.tanh(self.layer(x)))

    anneal(t, Part, lambda net, value: setattr(net.part.scaler, "by", value))


@habit(forms=FORMS)
def a_partial_is_replaced(t: Any) -> None:
    class Part(t.Part):
        def setup(self) -> None:
            self.tools = {"scale": functools.partial(lambda by, h: h * by, 1.0)}

        def body(self, F: Any, x: Any) -> Any:
            return F.tanh(self.tools["scale"](self.layer(x)))

    def change(net: Any, value: float) -> None:
        net.part.tools["scale"] = functools.partial(lambda by, h: h * by, value)

    anneal(t, Part, change)
