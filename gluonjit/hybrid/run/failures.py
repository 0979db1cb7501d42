"""Errors that inherit the library's and the framework's class, and the path from a failed step to the failing call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

from gluonjit.errors import CaptureError, FlushError, GluonJITError
from gluonjit.graph import Graph, Value, line_of, raised_at, user_line
from gluonjit.graph.frames import is_library
from gluonjit.hybrid.run.batch import Batch
from gluonjit.hybrid.run.state import LOCAL

NEXT = "gluonjit.hybridize(net, dynamic_batch=False) runs the same code eagerly."
REPORT = (
    "This is a fault of gluonjit, not of the program: please report it, with the program, this message and what "
    f"`python -m gluonjit doctor` prints. {NEXT}"
)
_FAULTS = (AssertionError, AttributeError, LookupError, NameError, NotImplementedError, TypeError, ValueError)
_PACKAGE = __name__.partition(".")[0]

_Ours = TypeVar("_Ours", bound=GluonJITError)
_kinds: dict[tuple[type[GluonJITError], type[BaseException]], Any] = {}


def both(ours: type[_Ours], theirs: type[BaseException], text: str) -> _Ours:
    """Returns an error of the library's class `ours` that is also one of the framework's class `theirs`.

    So handlers for either find it. To who reads it, it is `ours`; it can be pickled.
    """
    if issubclass(ours, theirs) or issubclass(theirs, GluonJITError):
        return ours(text)
    try:
        return _joint(ours, theirs)(text)  # type: ignore[no-any-return]
    except TypeError:  # its class wants more than a text
        return ours(text)


def refused(theirs: type[BaseException], text: str) -> CaptureError:
    """Returns the error of a call that cannot be captured because of the program; `theirs` is its eager error.

    It says on which line, where the call is in no sample, of which `of_sample` says that.
    """
    state = LOCAL.state
    if state.batch is not None:
        state.batch.failed = state.batch.graph.rows
    line = None if state.inside else line_of(user_line())
    if line is not None:
        text = f"{text} (At {line}.)"
    return both(CaptureError, theirs, text)


class Check(NamedTuple):
    """A pending value whose truth the program took for given; what it raises else, and where it asked."""

    value: Value
    truth: bool
    theirs: type[Exception]
    line: Any
    asked: str
    sample: int


def check(graph: Graph, engine: Any) -> None:
    """Raises the error of the first check of a graph that has run whose value is not as the program took it for."""
    for each in graph.checks:
        if bool(graph.owner.session.runner.numbers_of(engine.force(each.value))) is not each.truth:
            sample = f" in sample {each.sample}" if each.sample >= 0 else ""
            text = (
                f"{each.theirs.__name__} at {line_of(each.line)}{sample}: {each.asked} raises it where a value is "
                f"{not each.truth}, as it was when the batch ran. {NEXT}"
            )
            raise both(FlushError, each.theirs, text)


def note_sample(error: BaseException, number: int) -> None:
    """Adds to an error, from Python 3.11 on, in which sample of `gluonjit.map` it was raised."""
    if hasattr(error, "add_note"):
        error.add_note(f"in sample {number} of gluonjit.map")


_FRAMEWORKS = (RuntimeError, TypeError, IndexError, ValueError, AssertionError)


def of_framework(error: Exception) -> bool:
    """True if an error is the framework's, or this library's in its place, and says what is wrong."""
    if isinstance(error, (GluonJITError, RecursionError)) or not isinstance(error, _FRAMEWORKS):
        return False
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return trace is not None and is_library(trace.tb_frame.f_globals)


def of_sample(error: Exception, batch: Batch) -> Exception:
    """Returns the error to raise if a sample has raised `error`: a CaptureError names the sample and the line.

    So does what the framework itself has raised, or this library in its place, which becomes a CaptureError too. What
    the user's own code raises is left as it is.
    """
    number = batch.sample - 1
    batch.failed = next((row for row, sample in reversed(batch.graph.marks) if sample == number), 0)
    line = raised_at(error.__traceback__) or line_of(user_line())
    where = f" (In sample {number}, at {line}.)" if number >= 0 else f" (At {line}.)"
    if isinstance(error, CaptureError):
        error.args = (f"{error}{where}",)
        return error
    if not of_framework(error):
        return error
    said = both(CaptureError, type(error), f"{error}{where}")
    said.__cause__ = error
    return said


def _joint(ours: type[GluonJITError], theirs: type[BaseException]) -> Any:
    """The class of both, made once."""
    made = _kinds.get((ours, theirs))
    if made is None:
        content = {
            "__module__": ours.__module__,
            "__doc__": ours.__doc__,
            "__str__": lambda self: str(self.args[0]) if len(self.args) == 1 else Exception.__str__(self),
            "__reduce__": lambda self: (_restored, (ours, theirs, self.args), self.__dict__ or None),
        }
        made = _kinds[ours, theirs] = type(ours.__name__, (ours, theirs), content)
    return made


def _restored(ours: type[GluonJITError], theirs: type[BaseException], args: tuple[Any, ...]) -> Any:
    """Returns an error from its pickle."""
    return _joint(ours, theirs)(*args)


def failed(check: Any, number: int, error: Exception, again: Callable[[], None] | None = None) -> Exception | None:
    """Returns the error of a step that failed: its nodes run once more, one by one, until one of them fails.

    None where all of them run, and the step has to run so, as its program is at fault.

    again: runs the step once more, where the framework may tell of an error later than it happens. It tells once: a
    step that runs now has met an older one.
    """
    found = _failing(check, number)
    if found is not None:
        return found
    if again is not None and _runs(again):
        for earlier in range(number):
            found = _failing(check, earlier)
            if found is not None:
                return found
        return _older(error)
    if check.raised(number, error):
        return None
    step = check.plan.steps[number]
    record, nodes = step.parts[0]
    said = check.runner.reason_of(error).rstrip(". ")
    text = (
        f"{step.count} calls of {step.kind.name} run together failed, though each runs by itself: {said}. The "
        f"first is the {check.provenance.describe(record, int(nodes[0]))}. "
        f"{NEXT if isinstance(error, MemoryError) else REPORT}"
    )
    return both(FlushError, type(error), text)


def of_library(error: BaseException) -> BaseException:
    """Returns the error to raise if a flush has raised `error`: what is this library's own says so.

    Errors of its own classes, of the framework, of the user's code and of the machine are left as they are.
    """
    if isinstance(error, GluonJITError) or not isinstance(error, _FAULTS):
        return error
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    place = "" if trace is None else str(trace.tb_frame.f_globals.get("__name__", ""))
    if place.partition(".")[0] != _PACKAGE:
        return error
    return both(FlushError, type(error), f"{type(error).__name__} in {place}: {error}. {REPORT}")


def _failing(check: Any, number: int) -> Exception | None:
    """Returns the error of the first node of a step that fails when run alone."""
    step = check.plan.steps[number]
    for record, nodes in step.parts:
        for node in nodes.tolist():
            try:
                check.run_alone(record, node, step.mode)
            except Exception as own:
                said = check.runner.reason_of(own).rstrip(". ")
                text = f"The {check.provenance.describe(record, node)}, failed when it ran: {said}. {NEXT}"
                return both(FlushError, type(own), text)
    return None


def _runs(again: Callable[[], None]) -> bool:
    try:
        again()
    except Exception:
        return False
    return True


def _older(error: Exception) -> Exception:
    """Returns the framework's own error, of a call before the batch ran."""
    text = (
        f"{error}\n\nNo call of the batch has failed: this happened before it ran, to an input or a weight that "
        "the batch reads, in work that the framework was given earlier. Wait for that array where it is computed."
    )
    try:
        return type(error)(text)
    except TypeError:  # its class wants more than a text
        return error
