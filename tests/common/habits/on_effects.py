"""What bodies do beside their results: counters, lists, prints, logs, caches, clocks, generators that live on."""

from __future__ import annotations

import collections
import contextlib
import io
import logging
import tempfile
import warnings
from typing import Any

from . import FORMS, habit

LOG = logging.getLogger("habits")
CALLS = {"count": 0}


def tanh_part(t: Any, effect: Any, setup: Any = None) -> Any:
    """A part that does something before its layer and after it."""

    class Part(t.Part):
        def setup(self) -> None:
            if setup is not None:
                setup(self)

        def body(self, F: Any, x: Any) -> Any:
            h = F.tanh(self.layer(x))
            effect(self, h)
            return h

    return Part


def two_minibatches(t: Any, net: Any) -> None:
    t.minibatch(net, label="first", step=True)
    t.minibatch(net, t.inputs(5, seed=1), label="second")


@habit(forms=FORMS)
def a_counter_counts_calls(t: Any) -> None:
    def effect(self: Any, h: Any) -> None:
        self.stats["calls"] += 1

    net = t.net(tanh_part(t, effect, lambda self: setattr(self, "stats", {"calls": 0})))
    two_minibatches(t, net)
    t.see("calls", net.part.stats)


@habit(forms=FORMS)
def an_attribute_counts_calls(t: Any) -> None:
    def effect(self: Any, h: Any) -> None:
        self.calls += 1

    net = t.net(tanh_part(t, effect, lambda self: setattr(self, "calls", 0)))
    two_minibatches(t, net)
    t.see("calls", net.part.calls)


@habit(forms=FORMS)
def a_global_counts_calls(t: Any) -> None:
    CALLS["count"] = 0

    def effect(self: Any, h: Any) -> None:
        CALLS["count"] += 1

    net = t.net(tanh_part(t, effect))
    two_minibatches(t, net)
    t.see("calls", CALLS)


@habit(forms=FORMS)
def a_closure_counts_calls(t: Any) -> None:
    count = 0

    def effect(self: Any, h: Any) -> None:
        nonlocal count
        count += 1

    two_minibatches(t, t.net(tanh_part(t, effect)))
    t.see("calls", count)


@habit(forms=FORMS)
def a_class_counts_calls(t: Any) -> None:
    class Counter:
        calls = 0

    def effect(self: Any, h: Any) -> None:
        Counter.calls += 1

    two_minibatches(t, t.net(tanh_part(t, effect)))
    t.see("calls", Counter.calls)


@habit(forms=FORMS)
def a_counter_of_shapes_counts(t: Any) -> None:
    def effect(self: Any, h: Any) -> None:
        self.shapes.update([len(args) for args in [(h,)]])

    net = t.net(tanh_part(t, effect, lambda self: setattr(self, "shapes", collections.Counter())))
    two_minibatches(t, net)
    t.see("shapes", dict(net.part.shapes))


@habit(forms=("module", "whole"))
def intermediate_results_are_kept_in_a_list(t: Any) -> None:
    """They are looked at after the minibatch, as for a plot of attention."""

    def effect(self: Any, h: Any) -> None:
        self.kept.append(h)

    net = t.net(tanh_part(t, effect, lambda self: setattr(self, "kept", [])))
    two_minibatches(t, net)
    t.see("kept", [t.numbers(h) for h in net.part.kept])


@habit(forms=("module", "whole"))
def intermediate_results_enter_the_loss(t: Any) -> None:
    """A penalty on activations: what the body keeps is summed up outside."""

    def effect(self: Any, h: Any) -> None:
        self.penalties.append((h * h).sum())

    net = t.net(tanh_part(t, effect, lambda self: setattr(self, "penalties", [])))
    for turn in range(2):
        net.part.penalties.clear()
        t.zero(net)
        with t.record():
            losses = [t.loss(net, x) for x in t.inputs()]
            total = sum(losses) + 0.1 * sum(net.part.penalties)
        t.backward(total)
        t.see(f"loss {turn}", total)
        t.see(f"gradients {turn}", t.gradients(net))


@habit(forms=("module", "whole"))
def the_last_result_is_kept_on_self(t: Any) -> None:
    def effect(self: Any, h: Any) -> None:
        self.last = h

    net = t.net(tanh_part(t, effect, lambda self: setattr(self, "last", None)))
    for k, x in enumerate(t.inputs()):
        t.call(net, x)
        t.see(f"last {k}", t.numbers(net.part.last))


@habit(forms=("module", "whole"))
def results_are_kept_in_a_dict_by_a_hidden_counter(t: Any) -> None:
    def effect(self: Any, h: Any) -> None:
        self.by_call[len(self.by_call)] = h

    net = t.net(tanh_part(t, effect, lambda self: setattr(self, "by_call", {})))
    two_minibatches(t, net)
    t.see("kept", {key: t.numbers(h) for key, h in net.part.by_call.items()})


@habit(forms=FORMS)
def prints_come_once_a_sample(t: Any) -> None:
    def effect(self: Any, h: Any) -> None:
        print("in the body")

    net, printed = t.net(tanh_part(t, effect)), io.StringIO()
    with contextlib.redirect_stdout(printed):
        two_minibatches(t, net)
    t.see("printed", printed.getvalue())


@habit(forms=FORMS)
def logs_come_once_a_sample(t: Any) -> None:
    records: list[str] = []

    class Handler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            records.append(record.getMessage())

    handler, level = Handler(), LOG.level
    LOG.addHandler(handler)
    LOG.setLevel(logging.INFO)
    try:
        two_minibatches(t, t.net(tanh_part(t, lambda self, h: LOG.info("called %s", type(self).__name__))))
    finally:
        LOG.removeHandler(handler)
        LOG.setLevel(level)
    t.see("logged", records)


@habit(forms=FORMS)
def a_file_gets_a_line_a_sample(t: Any) -> None:
    with tempfile.TemporaryFile("w+") as file:
        two_minibatches(t, t.net(tanh_part(t, lambda self, h: file.write("called\n"))))
        file.seek(0)
        t.see("lines", file.read())


@habit(forms=FORMS)
def a_progress_bar_is_moved(t: Any) -> None:
    class Bar:
        def __init__(self) -> None:
            self.n = 0

        def update(self, by: int = 1) -> None:
            self.n += by

    net = t.net(tanh_part(t, lambda self, h: self.bar.update(), lambda self: setattr(self, "bar", Bar())))
    two_minibatches(t, net)
    t.see("moved", net.part.bar.n)


@habit(forms=FORMS)
def a_warning_of_the_user_comes_as_often(t: Any) -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        two_minibatches(t, t.net(tanh_part(t, lambda self, h: warnings.warn("careful", UserWarning, stacklevel=1))))
    t.see("warned", sum(str(one.message) == "careful" for one in caught))
