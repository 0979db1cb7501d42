"""Options of `hybridize(dynamic_batch=True, ...)` and `batching(...)`: names, values, checks."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from difflib import get_close_matches
from typing import Any, ClassVar

from gluonjit.analysis.table import BREADTH, GONE, TABLE
from gluonjit.errors import OptionError

AUTO = "auto"
EAGER, BATCHED = "eager", "batched"
FIRST, ALWAYS, NEVER = "first", "always", "never"

SWITCHES = {
    "arity": "a cell is one kind for any number of children that it treats alike, and for operands of any length",
    "hoisting": "products of a cell with inputs alone run once, before the recursion",
    "fused": "a step whose operators all have an instruction runs in C as a whole, on the host",
}
"""The optimizations, by name; `without=(name, ...)` turns one off, with the same results."""


@dataclass(frozen=True)
class Options:
    """Options: how a region of a program is batched. "auto" leaves a choice to the cost model (see docs/costs.md).

    sharing: whether equal calls on equal operands run once: True, False or "auto".
    granularity: "cell" captures a HybridBlock call as one node, "op" each operator in it; "batched" chooses between
        these, and "eager" captures nothing. "auto" times the choice against "eager" and keeps the faster, unless
        another option names a way; in `batching()`, or if an option names a way, it means "batched" (see
        docs/choice.md).
    expand: HybridBlocks, by name or by class name, that do not become nodes: the calls inside them are captured.
    scheduler: the order in which nodes run, and so which run together; one of `gluonjit.analysis.schedulers`, or
        "auto".
    beam_width: how many states the scheduler "beam" goes on with after each step.
    flush_at: the number of samples at which an open batch runs itself; "auto": as many as pay; None: no limit.
    max_latency: with flush_at "auto", the most seconds from a sample's capture to its result; None: no limit.
    max_nodes, max_bytes: an open batch runs itself when it exceeds these numbers of nodes, or bytes of results.
    profile: wait for the engine after each part, so that the report shows the time of the work itself and not of
        handing it over; slower.
    check_finite: check every result and gradient, and raise NotFiniteError with the call, sample and line of the first
        NaN or infinity; much slower.
    without: names of `SWITCHES` to turn off: results stay the same, and the gain of each can be measured.
    copy_inputs: copy input arrays of up to this many bytes at capture, so that the program may then write to its own
        by any means, including numpy; a write to a larger one raises CaptureError if the framework counts it.
    reuse: a function from a call's arguments to a key, or None. When a call with a known key comes, its recorded calls
        are captured again at once, without running the block's Python (see docs/guide.md).
    outline: make cells from the straight-line tensor code of the models' own methods, found in their source (see
        docs/outlining.md): the same results, in fewer captured calls.
    check_reuse: capture every n-th reused call anyway, and compare it with the recording; None: never.
    check: compare batched programs with the operators that they were made from, run for one sample: "first", two nodes
        where a program first runs, and where it is first differentiated; "always", in each step; "never".
    """

    SWITCHES: ClassVar[dict[str, str]] = SWITCHES
    SCHEDULERS: ClassVar[tuple[str, ...]] = tuple(TABLE)

    sharing: bool | str = AUTO
    granularity: str = AUTO
    expand: tuple[str, ...] = ()
    scheduler: str = AUTO
    beam_width: int = BREADTH
    flush_at: int | str | None = None
    max_latency: float | None = None
    max_nodes: int = 200_000
    max_bytes: int = 2_000_000_000
    profile: bool = False
    check_finite: bool = False
    without: tuple[str, ...] = ()
    copy_inputs: int = 65_536
    reuse: Callable[..., Any] | None = None
    check_reuse: int | None = 1000
    outline: bool = True
    check: str = FIRST

    @property
    def leave_the_way_open(self) -> bool:
        """True if calls may run eagerly if that is faster: no option names a way to run them."""
        return all(getattr(self, name) == default for name, default in _WAYS.items())

    def updated(self, call: str, changes: dict[str, Any]) -> Options:
        """Returns these options with `changes`; `call` is the user's call, for the error.

        Raises OptionError for an unknown name or an unusable value.
        """
        changes = {name: _current(call, name, value) for name, value in changes.items()}
        for name, value in changes.items():
            refusal = _gone(name, value) or (_unknown(name, value) if name not in _RULES else "")
            if refusal:
                raise OptionError(f"{call}: {refusal}")
            usable, what = _RULES[name]
            if not usable(value):
                raise OptionError(f"{call}: {name}={value!r}, but it {what}")
        chosen = replace(self, **changes)
        if chosen.max_latency is not None and chosen.flush_at != AUTO:
            raise OptionError(
                f"{call}: max_latency={chosen.max_latency!r} with flush_at={chosen.flush_at!r}, but max_latency "
                'only limits flush_at="auto"'
            )
        return chosen


SWITCH = "dynamic_batch"
"""The keyword that turns dynamic batching on, next to the options."""


def _unknown(name: str, value: Any) -> str:
    """Says what is wrong with an unknown option, and what to type."""
    if name == SWITCH:
        return f"{SWITCH} is not an option here, as this call turns dynamic batching on by itself: leave it out"
    meant = near_option(name)
    if meant:
        return f"unknown option {name!r}: did you mean {meant}={value!r}?"
    return f"unknown option {name!r}; the options are {', '.join(sorted(_RULES))}"


def _gone(name: str, value: Any) -> str:
    """Says what to type instead of a removed option, or value of an option; "" for any other."""
    if name == "without":
        names = [one for one in value if one in _GONE_SWITCHES] if _is_names(value) else []
        listed = ", ".join(map(repr, names))
        return f"without={value!r}: {listed} was removed, as no program gained from it: leave it out" if names else ""
    if name == "scheduler" and isinstance(value, str) and value in GONE:
        return f"scheduler={value!r} was removed, as 'bound' decides faster: type scheduler='bound'"
    return f"{name}={value!r} was removed, {_GONE[name]}" if name in _GONE else ""


_GONE_SWITCHES = {"sums", "identities", "zeros", "activations", "splits"}


_GONE = {"executor": "as every plan runs step by step: leave it out"}
"""Removed options; with the reason, and what to type."""


def _current(call: str, name: str, value: Any) -> Any:
    """Returns a value, or what a removed one of equal results stands for, with a warning."""
    if name == "granularity" and isinstance(value, str) and value == "graph":
        text = f'{call}: granularity="graph" was removed, as no program gained from it: type granularity="cell"'
        warnings.warn(f"{text}, which runs now, or leave it out", FutureWarning, stacklevel=2)
        return "cell"
    return value


def near_option(name: str) -> str:
    """The option, or "dynamic_batch", that a name is or is nearly; "" where it is none."""
    plain = {known.replace("_", ""): known for known in (SWITCH, *_RULES)}
    given = "".join(name.lower().split("_"))
    if len(given) >= _TELLING and any(known.startswith(given) for known in plain):
        return next(plain[known] for known in plain if known.startswith(given))
    return next((plain[known] for known in get_close_matches(given, plain, 1, 0.8)), "")


def refuse_without_switch(call: str, names: Mapping[str, Any], backend: bool) -> None:
    """Raises OptionError if a framework's own call is given options of dynamic batching, which is off.

    backend: whether what the framework does not know is an option of a compiler's, and no other.
    """
    for name, value in names.items():
        meant = near_option(name)
        given = f"{call}({name}={value!r})"
        if not backend and (refusal := _gone(name, value)):
            raise OptionError(f"{given}: {refusal}")
        if meant == SWITCH:
            raise OptionError(f"{given}: unknown option {name!r}: did you mean {SWITCH}={value!r}?")
        if meant and not backend:
            missing = f"{call}({SWITCH}=True, {meant}={value!r})"
            raise OptionError(f"{given}: {meant} is an option of dynamic batching, which is off: type {missing}")


_TELLING = 5  # letters by which an option may be named


_Rule = tuple[Callable[[Any], bool], str]


def _one_of(*names: str) -> _Rule:
    return lambda value: isinstance(value, str) and value in names, f"must be one of {', '.join(map(repr, names))}"


def _is_count(value: Any, least: int = 1) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= least


def _is_names(value: Any) -> bool:
    return isinstance(value, tuple) and all(isinstance(name, str) for name in value)


def _is_latency(value: Any) -> bool:
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return value is None or (number and 0 < value < float("inf"))


_FLAG: _Rule = (lambda value: isinstance(value, bool), "must be True or False")
_COUNT: _Rule = (_is_count, "must be an integer of at least 1")
_RULES: dict[str, _Rule] = {
    "sharing": (lambda value: isinstance(value, bool) or value == AUTO, "must be True, False or 'auto'"),
    "granularity": _one_of(AUTO, BATCHED, EAGER, "cell", "op"),
    "expand": (_is_names, "must be a tuple of names of blocks, or of their classes"),
    "scheduler": _one_of(AUTO, *sorted(TABLE)),
    "beam_width": _COUNT,
    "flush_at": (
        lambda value: value is None or value == AUTO or _is_count(value),
        "must be an integer of at least 1, 'auto' or None",
    ),
    "max_latency": (_is_latency, "must be a positive number of seconds or None"),
    "max_nodes": _COUNT,
    "max_bytes": _COUNT,
    "profile": _FLAG,
    "check_finite": _FLAG,
    "without": (
        lambda value: _is_names(value) and set(value) <= set(SWITCHES),
        f"must be a tuple of names out of {', '.join(SWITCHES)}",
    ),
    "copy_inputs": (lambda value: _is_count(value, 0), "must be an integer number of bytes, 0 or more"),
    "reuse": (lambda value: value is None or callable(value), "must be a function of the call's arguments, or None"),
    "outline": _FLAG,
    "check_reuse": (lambda value: value is None or _is_count(value), "must be an integer of at least 1, or None"),
    "check": _one_of(FIRST, ALWAYS, NEVER),
}
assert set(_RULES) == {field.name for field in fields(Options)}

_LIMITS = {"beam_width", "max_nodes", "max_bytes", "copy_inputs", "check_reuse", "outline", "check"}
_WAYS = {field.name: field.default for field in fields(Options) if field.name not in _LIMITS}
"""Options that name a way to run calls, or something that only batches do, with what they are by default."""
