"""One run of a habit, eager or batched, on one engine: nets, arrays, recording, and what the habit shows."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any, Callable

import numpy as np

import gluonjit
from gluonjit.errors import BatchClosedError, CaptureError

from .forms import WIDTH, Sample
from .outcomes import REFUSED, Raised, plain


class Trial:
    """What a habit is given. The programs of both engines read the same through it."""

    engine: str
    F: Any  # torch or mx.nd
    error: type[BaseException]  # of shapes that do not fit

    def __init__(self, form: str, batched: bool, options: tuple[tuple[str, Any], ...] = ()) -> None:
        self.form, self.batched, self.options = form, batched, dict(options)
        self.seen: list[tuple[str, Any]] = []
        self.nets: list[Any] = []
        self.before, self.captured = gluonjit.explain(), 0
        self.Part, self.Net = self.classes(form)

    def see(self, label: str, value: Any) -> None:
        """Take a value, array or nested data into the outcome."""
        self.seen.append((label, plain(value)))
        self.look()

    def look(self) -> None:
        """Note what the batch that ran last has captured."""
        report = gluonjit.explain()
        if report is not self.before:
            self.captured = max(self.captured, report.calls)

    @contextlib.contextmanager
    def raises(self, label: str, match: str = "", anything: bool = False) -> Iterator[None]:
        """Take the error of what is inside into the outcome, or that there was none; of any class, if said so."""
        found: BaseException | None = None
        try:
            yield
        except (Exception, KeyboardInterrupt) as error:
            found = error
        if found is not None and match not in str(found):
            raise AssertionError(f"{label}: {match!r} is not in the error") from found
        self.seen.append((label, found is not None if anything else Raised(found)))

    @contextlib.contextmanager
    def refused(self, error: type[BaseException], match: str) -> Iterator[None]:
        """What batched programs may not do, as documented; eager ones do it."""
        try:
            yield
        except error as found:
            assert self.batched and match in str(found), f"{found!r}: {match!r} is not in it"
        else:
            assert not self.batched, f"no {error.__name__}"

    def see_or_refusal(self, label: str, read: Callable[[], Any], error: Any, match: str) -> None:
        """Take a value into the outcome that batched programs may refuse, as documented, but not have wrong."""
        try:
            self.see(label, read())
        except error as found:
            assert self.batched and match in str(found), f"{found!r}: {match!r} is not in it"
            self.seen.append((label, REFUSED))

    @contextlib.contextmanager
    def refusable(self, label: str, match: str = "written to") -> Iterator[None]:
        """What a batched program may refuse, as documented, but not do wrong."""
        before = len(self.seen)
        try:
            yield
        except (CaptureError, BatchClosedError) as found:
            assert self.batched and match in str(found), f"{label}: {match!r} is not in {found!r}"
            del self.seen[before:]
            self.seen.append((label, REFUSED))

    def array(self, numbers: Any, dtype: str = "float32") -> Any:
        """An array with these numbers."""
        raise NotImplementedError

    def numbers(self, array: Any) -> Any:
        """The numbers of an array as one of numpy; the habit reads them here."""
        return plain(array)

    def inputs(self, count: int = 3, rows: int = 1, seed: int = 0) -> list[Any]:
        """Random arrays, (rows, WIDTH) each."""
        random = np.random.RandomState(seed)
        return [self.array(random.uniform(-1, 1, (rows, WIDTH))) for _ in range(count)]

    def net(self, part: Any = None, net: Any = None, hybridize: bool = True, **options: Any) -> Any:
        """A net of these classes with weights that are those of every other such net."""
        made = (self.Net if net is None else net)((self.Part if part is None else part)())
        self.fill(made)
        return self.hybridize(made, **options) if hybridize else made

    def hybridize(self, net: Any, **options: Any) -> Any:
        """Batch the net, where this trial does; returns it."""
        if self.batched:
            gluonjit.hybridize(net, dynamic_batch=True, **{**self.options, **options})
            self.nets.append(net)
        return net

    def close(self) -> None:
        """Leave every net eager."""
        self.look()
        for net in self.nets:
            gluonjit.hybridize(net, dynamic_batch=False)

    def call(self, net: Any, *args: Any, **kwargs: Any) -> Any:
        """The net's result for a sample, in the way of this form."""
        return net(*args, **kwargs) if self.form == "whole" else net(Sample(*args, **kwargs))

    def loss(self, net: Any, *args: Any, **kwargs: Any) -> Any:
        """The sum of the squares of the net's result."""
        result = self.call(net, *args, **kwargs)
        return (result * result).sum()

    def minibatch(
        self,
        net: Any,
        inputs: list[Any] | None = None,
        before: Callable[[int], Any] | None = None,
        label: str = "",
        step: bool = False,
    ) -> None:
        """Losses of a minibatch, one backward for their sum, and gradients; `before(k)` runs before sample k."""
        self.zero(net)
        losses = []
        with self.record():
            for number, x in enumerate(self.inputs() if inputs is None else inputs):
                if before is not None:
                    before(number)
                losses.append(self.loss(net, x))
            total = sum(losses)
        self.backward(total)
        self.see(f"{label} losses", losses)
        self.see(f"{label} gradients", self.gradients(net))
        if step:
            self.step(net)

    def weights(self, net: Any) -> dict[str, Any]:
        """Parameters by their names inside of the net."""
        raise NotImplementedError

    def arrays(self, net: Any) -> dict[str, Any]:
        """The arrays of parameters, as the engine has them."""
        raise NotImplementedError

    def values(self, net: Any) -> dict[str, Any]:
        """The numbers of parameters."""
        return {name: plain(value) for name, value in self.arrays(net).items()}

    def freeze(self, net: Any, frozen: bool) -> None:
        """Let all parameters learn no more, or again."""
        for weight in self.weights(net).values():
            self.freeze_one(weight, frozen)

    def freeze_one(self, weight: Any, frozen: bool) -> None:
        raise NotImplementedError

    def optimizer(self, net: Any, kind: str) -> Callable[[], Any]:
        """A function that does a step of the framework's own optimizer."""
        raise NotImplementedError

    def dense(self, seed: int) -> Any:
        """A layer of WIDTH to WIDTH with weights of its own."""
        made = self.new_dense()
        random = np.random.RandomState(seed)
        for weight in (made.weight, made.bias):
            numbers = random.uniform(-0.8, 0.8, weight.shape).astype("float32")
            if self.engine == "torch":
                weight.data.copy_(self.F.from_numpy(numbers))
            else:
                weight.initialize()
                weight.set_data(self.array(numbers))
        return made

    def new_dense(self) -> Any:
        raise NotImplementedError

    def dropout(self, rate: float) -> Any:
        """A layer of dropout."""
        raise NotImplementedError

    def mode(self, net: Any, training: bool) -> None:
        """What PyTorch's nets are told, and Gluon's read from recording."""

    def pause(self) -> Any:
        """A region in which nothing is recorded."""
        raise NotImplementedError

    def number(self, array: Any) -> float:
        """The number of an array of one, as the user reads it."""
        raise NotImplementedError

    def classes(self, form: str) -> tuple[Any, Any]:
        raise NotImplementedError

    def fill(self, net: Any) -> None:
        raise NotImplementedError

    def record(self) -> Any:
        raise NotImplementedError

    def backward(self, loss: Any) -> None:
        loss.backward()

    def zero(self, net: Any) -> None:
        raise NotImplementedError

    def gradients(self, net: Any) -> dict[str, Any]:
        raise NotImplementedError

    def step(self, net: Any, rate: float = 0.1) -> None:
        raise NotImplementedError


def start_numbers(names: list[str], shapes: list[Any]) -> list[Any]:
    """Weights to start with, the same for nets of the same shapes."""
    random = np.random.RandomState(7)
    return [random.uniform(-0.8, 0.8, shape).astype("float32") for _, shape in zip(names, shapes)]
