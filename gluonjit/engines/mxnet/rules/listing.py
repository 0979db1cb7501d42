"""The table of rules for people: each operator, how it runs for many samples, and notes."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence

import mxnet as mx
from mxnet.base import _LIB, check_call, mx_uint, py_str

from gluonjit.hybrid.explain.listing import ListedRule, Page, of_kind, unknown

from .alone import NO_RULE
from .symbols import canonical
from .table import RULES

HOW = {
    "elementwise": "unchanged",
    "row-wise": "unchanged",
    "axis": "unchanged",
    "shape": "rewritten",
    "rewritten": "rewritten",
    "constant": "once",
    "alone": "alone",
    "no rule": "alone",
}
"""Words for how the operators of each kind run."""

KINDS = {
    "elementwise": "elementwise, so in any layout",
    "row-wise": "row by row, with parameters that are the same for all samples",
    "axis": "along axes: on rows if axis 0 takes no part, else on stacked samples with every axis shifted by one",
    "shape": "one reshape to the known shape of a sample, with -1 for the samples",
    "rewritten": "other operators, or other attributes, that do the same for all samples",
    "constant": "the same for every sample, so computed once",
    "alone": "runs for each sample by itself",
    "no rule": "not an operator of user programs; if called, it runs for each sample by itself",
}
"""Words for what all operators of a kind have in common, where a rule has no note of its own."""


def describe() -> list[ListedRule]:
    """Every rule, and every operator without one."""
    rows = [ListedRule(name, rule.kind, HOW[rule.kind], _note(name)) for name, rule in RULES.items()]
    rows += [ListedRule(name, "no rule", HOW["no rule"], NO_RULE.get(name, KINDS["no rule"])) for name in unruled()]
    return sorted(rows)


def _note(name: str) -> str:
    rule = RULES[name]
    note = rule.reason or rule.notes or KINDS[rule.kind]
    return f"{note}; may fail, depending on values" if rule.may_fail and rule.kind != "alone" else note


def unruled() -> list[str]:
    """Registered operators without a rule; for a backward operator there need be none."""
    return sorted({name for name in map(canonical, registered()) if name not in RULES})


def registered() -> list[str]:
    """Names and other names of all forward operators of this build of MXNet."""
    count, names = mx_uint(), ctypes.POINTER(ctypes.c_char_p)()
    check_call(_LIB.MXListAllOpNames(ctypes.byref(count), ctypes.byref(names)))
    listed = [str(py_str(names[k])) for k in range(count.value)]
    return [name for name in listed if "backward" not in name]


def select(kind: str | None, names: Sequence[str]) -> list[ListedRule]:
    """The lines of one kind, of some operators by any of their names, or all. LookupError names what is wrong."""
    rows = describe()
    if names:
        wanted = {_registered_name(name) for name in names}
        rows = [row for row in rows if row.operator in wanted]
    return of_kind(rows, kind, KINDS)


def _registered_name(name: str) -> str:
    """The operator behind a name that a program may write: `mx.nd.softmax`, `elemwise_add`, `contrib.box_nms`."""
    plain = name.replace("mx.", "").replace("nd.", "").replace("sym.", "")
    for prefix, short in (("_contrib_", "contrib."), ("_linalg_", "linalg."), ("_npi_", "np."), ("_npx_", "npx.")):
        if plain.startswith(short):
            plain = prefix + plain[len(short) :]
    try:
        return canonical(plain)
    except ValueError:
        raise unknown(name, "MXNet", registered()) from None


_HEAD = """\
# Operators

How each operator of MXNet {version} runs for many samples at once. Made by

```bash
python -m gluonjit rules --engine mxnet --markdown > docs/operators.md
```

`python -m gluonjit rules NAME` looks one up by any of its names. The names here are those under which MXNet
registers an operator; `mx.nd.elemwise_add`, `x + y` and `_Plus` are one operator.
[operators-torch.md](operators-torch.md) lists the operators of PyTorch.

* **unchanged**: the operator itself runs once, on the rows of all samples or on all samples stacked.
* **rewritten**: other operators or other attributes do the same for all samples.
* **once**: the result is the same for all samples.
* **alone**: the operator runs for each sample by itself, with the same result as without batching.

A call that its rule cannot handle (a shape, an attribute, rows of varying length) also runs alone, and the report of
the batch says why.
"""

PAGE = Page(_HEAD.format(version=mx.__version__), HOW, KINDS)
