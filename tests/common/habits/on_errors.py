"""Errors of the user's making: their classes, and that whatever comes next works."""

from __future__ import annotations

from functools import partial
from typing import Any

from interrupts import interrupted

from gluonjit.hybrid.run.state import LOCAL
from gluonjit.rows.running import SPARE

from . import FORMS, habit
from .outcomes import differences, plain


def picky(t: Any, bad: Any, error: BaseException) -> Any:
    """A net that raises for one of its samples, after some of its calls."""

    class Net(t.Net):
        def body(self, F: Any, x: Any, name: int = 0) -> Any:
            h = self.inner(x)
            if name == bad:
                raise error
            return self.out(h)

    return t.net(net=Net)


@habit()
def a_failing_sample_is_skipped(t: Any) -> None:
    net, log = picky(t, 1, ValueError("bad sample")), []
    t.zero(net)
    with t.record():
        total = 0
        for name, x in enumerate(t.inputs(4)):
            try:
                total = total + t.loss(net, x, name)
            except ValueError as error:
                log.append(f"{name}: {error}")
    t.backward(total)
    t.see("log", log)
    t.see("total", total)
    t.see("gradients", t.gradients(net))
    t.minibatch(net)


@habit()
def an_error_in_the_middle_of_a_minibatch(t: Any) -> None:
    net = picky(t, 2, KeyError("missing"))
    with t.raises("the minibatch", "missing"), t.record():
        losses = [t.loss(net, x, name) for name, x in enumerate(t.inputs(4))]
        t.backward(sum(losses))
    t.minibatch(net, label="after", step=True)
    t.minibatch(net, label="later")


@habit()
def an_interrupt_in_a_sample(t: Any) -> None:
    net = picky(t, 1, KeyboardInterrupt())
    with t.raises("the minibatch"), t.record():
        for name, x in enumerate(t.inputs(4)):
            t.loss(net, x, name)
    t.minibatch(net, label="after")


def trained(t: Any, net: Any) -> Any:
    """Losses and gradients of a minibatch."""
    t.zero(net)
    with t.record():
        losses = [t.loss(net, x) for x in t.inputs(3)]
        total = sum(losses)
    t.backward(total)
    return plain([losses, t.gradients(net)])


@habit()
def an_interrupt_at_any_line_of_the_library(t: Any) -> None:
    net = t.net()
    minibatch = partial(trained, t, net)
    first, wrong = minibatch(), []
    for number in interrupted(minibatch, 7):
        spare = [at for parts in [*SPARE.values()] for _, at in parts]  # at once: collection of garbage adds to it
        if len(set(spare)) < len(spare):
            wrong.append(f"spare memory twice after line {number}")
        wrong += differences(minibatch(), first, f"after line {number}")
    t.see("wrong after an interrupt at line", wrong)
    t.minibatch(net, label="after")


@habit()
def an_interrupt_as_any_function_of_the_library_is_entered(t: Any) -> None:
    net = t.net()
    minibatch = partial(trained, t, net)
    first, wrong = minibatch(), []
    for number in interrupted(minibatch, 1, calls=True):
        state = LOCAL.state
        if state.paused or state.eagerly or state.inside:
            wrong.append(f"{state.paused, state.eagerly, state.inside} after call {number}")
        wrong += differences(minibatch(), first, f"after call {number}")
    t.see("wrong after an interrupt at call", wrong)
    t.minibatch(net, label="after")


@habit()
def a_stop_iteration_in_a_sample(t: Any) -> None:
    net = picky(t, 1, StopIteration("end"))
    with t.raises("the minibatch", "end"), t.record():
        for name, x in enumerate(t.inputs(4)):
            t.loss(net, x, name)
    t.minibatch(net, label="after")


@habit(forms=FORMS)
def an_error_in_a_body(t: Any) -> None:
    class Part(t.Part):
        def body(self, F: Any, x: Any, strict: bool = False) -> Any:
            h = self.layer(x)
            if strict:
                raise NotImplementedError("no strict mode")
            return F.tanh(h)

    net = t.net(Part)
    for strict in (False, True):
        with t.raises(f"strict {strict}", "no strict mode" if strict else ""):
            t.see(f"{strict}", t.call(net, t.inputs()[0], strict))
    t.minibatch(net, label="after")


@habit(forms=FORMS)
def an_assertion_about_a_shape(t: Any) -> None:
    class Net(t.Net):
        def body(self, F: Any, x: Any) -> Any:
            assert x.shape[1] == 4, f"wrong width {x.shape[1]}"
            h = self.inner(x)
            assert h.shape == (x.shape[0], 4)
            return self.out(h)

    net = t.net(net=Net)
    t.minibatch(net, label="before")
    with t.raises("a wrong width", "wrong width 3"):
        t.call(net, t.array([[1, 2, 3]]))
    t.minibatch(net, label="after")


@habit(forms=FORMS)
def a_wrong_width(t: Any) -> None:
    net = t.net()
    for turn in range(2):
        with t.raises(f"call {turn}"):
            t.numbers(t.call(net, t.array([[1, 2, 3]])))
        t.minibatch(net, label=f"after {turn}")


@habit(forms=FORMS)
def a_wrong_width_under_record(t: Any) -> None:
    net = t.net()
    t.minibatch(net, label="before")
    with t.raises("the minibatch"), t.record():
        total = t.loss(net, t.inputs()[0]) + t.loss(net, t.array([[1, 2, 3]]))
        t.backward(total)
    t.minibatch(net, label="after")


@habit()
def shapes_that_do_not_broadcast(t: Any) -> None:
    net = t.net()
    with t.raises("the sum"):
        h = t.call(net, t.inputs()[0])
        t.numbers(h + t.array([[1, 2, 3]]))
    t.minibatch(net, label="after")


@habit()
def an_index_out_of_range(t: Any) -> None:
    net = t.net()
    with t.raises("the index"):
        t.numbers(t.call(net, t.inputs()[0])[5])
    t.minibatch(net, label="after")


@habit()
def a_dtype_that_does_not_fit(t: Any) -> None:
    net = t.net()
    with t.raises("the dtype"):
        t.numbers(t.call(net, t.array([[1, 2, 3, 4]], "float64")))
    t.minibatch(net, label="after")


@habit()
def an_integer_input(t: Any) -> None:
    net = t.net()
    with t.raises("the dtype"):
        t.numbers(t.call(net, t.array([[1, 2, 3, 4]], "int64")))
    t.minibatch(net, label="after")


@habit()
def an_argument_too_many(t: Any) -> None:
    net = t.net()
    with t.raises("too many"):
        t.call(net, t.inputs()[0], 3)
    with t.raises("unknown"):
        t.call(net, t.inputs()[0], mask=None)
    t.minibatch(net, label="after")


@habit()
def an_argument_too_few(t: Any) -> None:
    net = t.net()
    with t.raises("too few"):
        t.call(net)
    t.minibatch(net, label="after")


@habit()
def none_in_the_place_of_an_array(t: Any) -> None:
    net = t.net()
    with t.raises("no array"):
        t.numbers(t.call(net, None))
    t.minibatch(net, label="after")


@habit()
def an_attribute_that_is_mistyped(t: Any) -> None:
    class Net(t.Net):
        def body(self, F: Any, x: Any, wrong: bool = False) -> Any:
            return self.ouut(self.inner(x)) if wrong else self.out(self.inner(x))

    net = t.net(net=Net)
    with t.raises("mistyped", "ouut"):
        t.call(net, t.inputs()[0], True)
    t.minibatch(net, label="after")


@habit()
def an_unknown_method_of_a_result(t: Any) -> None:
    net = t.net()
    with t.raises("mistyped", "sume"):
        t.call(net, t.inputs()[0]).sume()
    t.minibatch(net, label="after")


@habit()
def an_error_while_handling_an_error(t: Any) -> None:
    net = picky(t, 5, ValueError("first"))
    with t.raises("both", "second"):
        try:
            t.call(net, t.inputs()[0], 5)
        except ValueError as error:
            raise RuntimeError("second") from error
    t.minibatch(net, label="after")


@habit()
def recursion_without_an_end(t: Any) -> None:
    class Net(t.Net):
        def body(self, F: Any, x: Any, deep: bool = False) -> Any:
            return self.turn(x) if deep else self.out(self.inner(x))

        def turn(self, x: Any) -> Any:
            return self.turn(self.inner(x))

    net = t.net(net=Net)
    with t.raises("recursion", anything=True):
        t.call(net, t.inputs()[0], True)
    t.minibatch(net, label="after")


@habit()
def finally_and_with_run_where_a_sample_fails(t: Any) -> None:
    log: list[str] = []

    class Region:
        def __enter__(self) -> None:
            log.append("in")

        def __exit__(self, *error: Any) -> None:
            log.append(f"out {error[0]}")

    class Net(t.Net):
        def body(self, F: Any, x: Any, bad: bool = False) -> Any:
            with Region():
                h = self.inner(x)
                if bad:
                    raise ValueError("bad")
            return self.out(h)

    net = t.net(net=Net)
    for bad in (False, True, False):
        with t.raises(f"{bad}"):
            t.see("result", t.call(net, t.inputs()[0], bad))
    t.see("log", log)
