"""Options of `hybridize(dynamic_batch=True, ...)` and `batching(...)`: names, values, checks."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any

from gluonjit.analysis.schedulers import SCHEDULERS
from gluonjit.errors import OptionError

_CHOICES: dict[str, tuple[str, ...]] = {"granularity": ("auto", "cell", "op"), "scheduler": tuple(sorted(SCHEDULERS))}


@dataclass(frozen=True)
class Options:
    """How a region of a program is batched.

    sharing: equal calls on equal operands run once.
    granularity: "cell" captures a HybridBlock call as one node, "op" each operator in it; "auto" means "cell".
    scheduler: in which order, and so in which company, nodes run; one of `gluonjit.analysis.schedulers`.
    max_nodes, max_bytes: an open batch runs itself when it holds more nodes, or results of more bytes.
    profile: wait for the engine after each part, so that the times in the report are those of the work and not
        of handing it over; slower.
    check_finite: look at every result and gradient, and raise NotFiniteError that names the call, sample and line of
        the first that is a NaN or infinite; much slower.
    """

    sharing: bool = True
    granularity: str = "auto"
    scheduler: str = "depth"
    max_nodes: int = 200_000
    max_bytes: int = 2_000_000_000
    profile: bool = False
    check_finite: bool = False

    def updated(self, call: str, changes: dict[str, Any]) -> Options:
        """These options with `changes`; `call` is the user's call, for the error.

        Raises OptionError for an unknown name or an unusable value.
        """
        for name, value in changes.items():
            _check(call, name, value)
        return replace(self, **changes)


def _check(call: str, name: str, value: Any) -> None:
    known = {field.name: field for field in fields(Options)}
    if name not in known:
        raise OptionError(f"{call}: there is no option {name!r}; the options are {', '.join(sorted(known))}")
    if name in _CHOICES:
        if value not in _CHOICES[name]:
            raise OptionError(f"{call}: {name}={value!r}, but it can be {', '.join(map(repr, _CHOICES[name]))}")
    elif name in ("sharing", "profile", "check_finite"):
        if not isinstance(value, bool):
            raise OptionError(f"{call}: {name}={value!r}, but it is True or False")
    elif not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise OptionError(f"{call}: {name}={value!r}, but it is a whole number of at least 1")
