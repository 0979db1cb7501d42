"""Running a model's samples eagerly and batched, with its calls watched or not, on any engine."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from typing import Any

from gluonjit.errors import ReuseError, VerifyError
from gluonjit.hybrid.capture.functions import CellFunction
from gluonjit.hybrid.capture.outlining.outlines import AS_WRITTEN
from gluonjit.hybrid.capture.reuse.cache import Recordings
from gluonjit.hybrid.explain.report import Report
from gluonjit.hybrid.run.engine import engine_of
from gluonjit.hybrid.run.state import LOCAL
from gluonjit.hybrid.verify.comparing import Mode, Runs, compared
from gluonjit.hybrid.verify.leftovers import Framework, Leftovers
from gluonjit.hybrid.verify.verification import CallEvent, Log, Loss, Patch, RunOutcome, Witness, batched_with, swapped
from gluonjit.replaced import KEY


def run_reusing(cell: Any, run: Callable[[], RunOutcome]) -> RunOutcome:
    """A batched run; if calls may be reused, all of them are, and each is compared with its recording."""
    if cell.reuse is None:
        return run()
    try:
        with swapped([(cell, "recordings", Recordings(1))]):
            run()
            return run()
    except ReuseError as error:
        raise VerifyError(f"verify(): {error}") from error


class Verifying:
    """Compares eager and batched execution of models. An engine derives from it.

    engine: its name; off: the user's call that turns batching off; framework: its arrays and models; enable, disable:
    turn batching on, with options, and off; silent: whether what is called now is no part of the program.

    * `run(net, samples, loss, log, eager, mode)`: runs a model and goes back from losses: on its own weights, in a
      mode, with the samples numbered in a log.
    * `watching(log, on)`: functions that log the framework's own calls, where `on` says so, in the place of the
      framework's.
    * `kept_gradients(net, samples)`: saves what backward writes to, and restores it at the end.
    * `parts(net)`: a model and all models in it.
    * `probed(array)`: an array plus zeros that get a gradient, and these zeros; None if it has no gradient.
    * `gradient(probe)`: the numbers of the gradient of such zeros.
    """

    run: Callable[..., RunOutcome]
    watching: Callable[..., list[Patch]]
    kept_gradients: Callable[..., AbstractContextManager[None]]
    parts: Callable[..., Iterable[Any]]
    probed: Callable[..., tuple[Any, Any]]
    gradient: Callable[..., Any]
    engine = ""
    off = ""
    framework: Framework
    enable: Callable[[Any, dict[str, Any]], None]
    disable: Callable[[Any], None]
    silent = False

    def switch(self, net: Any, options: dict[str, Any] | None) -> None:
        """Turns dynamic batching on with these options, or off."""
        self.disable(net) if options is None else self.enable(net, options)

    def trains(self, net: Any, train_mode: bool) -> bool:
        """Tells the mode for which a model may have been traced before."""
        return train_mode

    def verify(
        self, net: Any, samples: Sequence[Any], loss: Loss | None, rtol: float | None, train_mode: bool, options: Any
    ) -> Report:
        """Implements `gluonjit.verify`."""

        def run(eager: bool, mode: Mode) -> RunOutcome:
            def run_once() -> RunOutcome:
                return self.run(net, samples, loss, None, eager, mode)

            return run_once() if eager else run_reusing(net.__dict__[KEY], run_once)

        def watched(probing: bool, eager: bool, witness: Witness | None, mode: Mode) -> list[CallEvent]:
            log = Log(self.framework.array, self.probed if probing else lambda array: (array, None), witness)
            whole = (net.__dict__[KEY], "reuse", None)  # calls that do not run cannot be watched
            with AS_WRITTEN, swapped([*self._observing(log), whole]):
                self.run(net, samples, loss, log, eager, mode)
            return log.events

        named = [(f"sample {number}", sample) for number, sample in enumerate(samples)]
        left = Leftovers(self.framework, [("net", net), ("loss", loss), *named])
        forget = engine_of(self.engine).clear_caches
        with batched_with(net, KEY, options, self.switch), self.kept_gradients(net, samples):
            cells = [part.__dict__[KEY] for part in self.parts(net) if KEY in part.__dict__]
            promised = net.__dict__[KEY].reuse is not None
            numbers = self.framework.numbers
            runs = Runs(run, watched, numbers, self.gradient, self.off, left, forget, cells, promised)
            return compared(runs, rtol, train_mode, self.trains(net, train_mode))

    def _observing(self, log: Log) -> list[Patch]:
        """Functions that log calls of declared cells, and the framework's own, on this thread."""
        thread, function = LOCAL.state, CellFunction.__call__

        def on() -> bool:
            return LOCAL.state is thread and thread.trace is None and not self.silent

        def watched_function(cell: CellFunction, *args: Any, **kwargs: Any) -> Any:
            if on():
                return log.call(cell.name, (args, kwargs), lambda: function(cell, *args, **kwargs))
            return function(cell, *args, **kwargs)

        return [*self.watching(log, on), (CellFunction, "__call__", watched_function)]

    def unlogged(self, run: Callable[[], Any]) -> Any:
        """Runs what is no part of the program."""
        with swapped([(self, "silent", True)]):
            return run()
