"""The mechanisms, and what turns each off."""

from __future__ import annotations

from experiments.mechanisms.mechanism import Mechanism

_T, _M = "gluonjit.engines.torch.", "gluonjit.engines.mxnet."


def _torch(*names: str) -> tuple[str, ...]:
    return tuple(f"engines/torch/{name}.py" for name in names)


MECHANISMS = (
    Mechanism(
        "row programs",
        (
            "rows",
            "native/rows",
            "engines/mxnet/fused_steps.py",
            *_torch("fused_steps"),
        ),
        without={"without": ("fused",)},
    ),
    Mechanism(
        "any number of children, any length",
        (
            "hybrid/capture/forms.py",
            "hybrid/capture/children.py",
            "program/children",
            "engines/torch/lengths",
            "program/lengths",
        ),
        without={"without": ("arity",)},
    ),
    Mechanism("hoisting", ("program/hoist.py",), without={"without": ("hoisting",)}),
    Mechanism(
        "cells made from source",
        ("hybrid/capture/outlining", "engines/mxnet/outlining.py", "engines/torch/outlining.py"),
        without={"outline": False},
    ),
    Mechanism("sharing of equal calls", (), without={"sharing": False}),
    Mechanism(
        "reused calls",
        (
            *(
                f"hybrid/capture/{name}.py"
                for name in ("reuse", "reusing", "reusable", "replaying", "templates", "here")
            ),
            "graph/replay.py",
            "engines/mxnet/reuse.py",
            "engines/torch/reuse.py",
        ),
    ),
    Mechanism("kept plans", ("analysis/plan_cache.py",), returns={"gluonjit.analysis.planner:kept_plan": None}),
    Mechanism("scheduler agenda", ("analysis/schedulers/agenda.py",), {"scheduler": "depth"}, {"scheduler": "agenda"}),
    Mechanism("scheduler greedy", ("analysis/schedulers/greedy.py",), {"scheduler": "depth"}, {"scheduler": "greedy"}),
    Mechanism(
        "scheduler agenda_static",
        ("analysis/schedulers/agenda_static.py",),
        {"scheduler": "depth"},
        {"scheduler": "agenda_static"},
    ),
    Mechanism("first-use check", ("hybrid/check",), without={"check": "never"}),
    Mechanism("choice of way", ("analysis/choice.py", "hybrid/choose/choosing.py", "analysis/costs")),
    Mechanism("eager or batched", ("analysis/pace.py", "hybrid/choose/pacing.py", "hybrid/choose/clock.py")),
    Mechanism(
        "unrolling",
        ("engines/mxnet/unrolling.py", *_torch("unrolling")),
        returns={_T + "kinds:captures_whole": False, _M + "unrolling:captures_whole": False},
    ),
    Mechanism("refusals by pattern", _torch("patterns"), returns={_T + "records:refused_before": None}),
    Mechanism("recurrent layers as operators", _torch("recurrent"), empties={_T + "recurrent:WHOLE": ""}),
    Mechanism(
        "BatchNorm in training",
        _torch("normalizing", "statistics", "pending_statistics"),
        returns={_T + "dynamic:normalized": None},
    ),
    Mechanism(
        "index by known numbers",
        (*_torch("indexing"), "engines/mxnet/indexing.py"),
        returns={_T + "indexing:opened": None, _T + "ops:admit": None, _M + "ops:by_numbers": None},
    ),
    Mechanism("whole numbers computed at once", _torch("known"), returns={_T + "ops:computed": None}),
    Mechanism(
        "values that inputs decide",
        ("hybrid/run/decided.py", *_torch("decided")),
        returns={_T + "engine:decided": None, _M + "computing:decided": None},
        passes={_T + "ops:read_decided": 0},
    ),
    Mechanism("rows that can still be read", _torch("chunks")),
    Mechanism(
        "writes without a copy",
        (*_torch("replacing"), "engines/mxnet/replacing.py"),
        returns={_T + "writes:replaced": None, _M + "lazy:replaces": False},
    ),
    Mechanism("values that backward needs, written over", _torch("overwrites", "saved")),
    Mechanism("weights announced and exposed", _torch("announced", "exposed")),
    Mechanism(
        "errors that a sample catches",
        _torch("enclosing_handler"),
        returns={_T + "ops:may_be_handled": False, _T + "recorder:may_be_handled": False},
    ),
    Mechanism("tensors made from nothing", _torch("making"), empties={_T + "making:MAKING": ""}),
    Mechanism("hooks of results", _torch("observing", "observed")),
    Mechanism("gradients of gradients", (*_torch("recorded"), "engines/mxnet/recorded.py")),
    Mechanism("other tracers", _torch("interop")),
)
"""One for each part of over 60 lines that a program could do without."""
