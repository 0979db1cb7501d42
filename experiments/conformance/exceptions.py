"""Documented differences from eager execution, each with its reason. None of them is a wrong number."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from typing import NamedTuple

from experiments.conformance.outcome import Finding


class Exempt(NamedTuple):
    """A difference that is meant: names and cases by pattern, its kind, a part of its text, and the reason."""

    names: str
    cases: str
    kind: str
    text: str
    reason: str


EXCEPTIONS: dict[str, tuple[Exempt, ...]] = {
    "torch": (),
    "mxnet": (
        Exempt(
            "np unique",
            "*",
            "exception",
            "it is not in a computational graph",
            "np.unique has no gradient and runs at once: MXNet refuses to go backward from it alone, and gives zeros "
            "where it was recorded",
        ),
        Exempt(
            "operator Deconvolution",
            "* training*",
            "exception",
            "!is_view|could not execute a primitive",
            "MXNet's own backward pass of Deconvolution fails where a weight is a view, computed, or used twice, as "
            "eagerly in a pass for two samples; a weight of an input is one row of a batch",
        ),
    ),
}


def exempt(engine: str, name: str, finding: Finding) -> Exempt | None:
    """The documented exception that a finding is, if it is one."""
    for each in EXCEPTIONS[engine]:
        if fnmatchcase(name, each.names) and fnmatchcase(finding.case, each.cases) and finding.kind == each.kind:
            if re.search(each.text, finding.text):
                return each
    return None
