"""Python state that a body reads, changed between minibatches and between samples."""

from __future__ import annotations

import dataclasses
import functools
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
