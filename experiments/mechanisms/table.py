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
            "engines/mxnet/run/fused_steps.py",
            *_torch("run/fused_steps"),
        ),
        without={"without": ("fused",)},
    ),
    Mechanism(
        "any number of children, any length",
        (
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
        ("hybrid/capture/outlining", "engines/mxnet/capture/outlining.py", "engines/torch/capture/outlining.py"),
        without={"outline": False},
    ),
    Mechanism("sharing of equal calls", (), without={"sharing": False}),
    Mechanism(
        "reused calls",
        (
            "hybrid/capture/reuse",
            "graph/replay.py",
            "engines/mxnet/capture/reuse.py",
            "engines/torch/capture/reuse.py",
        ),
    ),
    Mechanism("kept plans", ("analysis/plan_cache.py",), returns={"gluonjit.analysis.planner:kept_plan": None}),
    Mechanism(
        "scheduler bound",
        ("analysis/schedulers/bound.py", "analysis/flat/searching.py"),
        {"scheduler": "depth"},
        {"scheduler": "bound"},
    ),
    Mechanism("scheduler beam", ("analysis/schedulers/beam.py",), {"scheduler": "depth"}, {"scheduler": "beam"}),
    Mechanism("first-use check", ("hybrid/check",), without={"check": "never"}),
    Mechanism("choice of way", ("analysis/choice.py", "hybrid/choose/choosing.py", "analysis/costs")),
    Mechanism("eager or batched", ("analysis/pace.py", "hybrid/choose/pacing.py", "hybrid/choose/clock.py")),
    Mechanism(
        "unrolling",
        (),
        returns={_T + "tracing.kinds:captures_whole": False, _M + "capture.calls:captures_whole": False},
    ),
    Mechanism("refusals by pattern", _torch("capture/patterns"), returns={_T + "capture.records:refused_before": None}),
    Mechanism(
        "recurrent layers as operators", _torch("tracing/recurrent"), empties={_T + "tracing.recurrent:WHOLE": ""}
    ),
    Mechanism(
        "BatchNorm in training",
        _torch("capture/normalizing", "values/pending_statistics"),
        returns={_T + "dynamic:normalized": None},
    ),
    Mechanism(
        "index by known numbers",
        (*_torch("capture/indexing"), "engines/mxnet/values/indexing.py"),
        returns={
            _T + "capture.indexing:opened": None,
            _T + "capture.ops:admit": None,
            _M + "capture.ops:by_numbers": None,
        },
    ),
    Mechanism("whole numbers computed at once", _torch("values/known"), returns={_T + "capture.ops:computed": None}),
    Mechanism(
        "values that inputs decide",
        ("hybrid/run/decided.py",),
        returns={_T + "engine:decided": None, _M + "values.computing:decided": None},
        passes={_T + "capture.ops:read_decided": 0},
    ),
    Mechanism("rows that can still be read", _torch("run/chunks")),
    Mechanism(
        "writes without a copy",
        (*_torch("capture/replacing"), "engines/mxnet/values/replacing.py"),
        returns={_T + "capture.writes:replaced": None, _M + "values.lazy:replaces": False},
    ),
    Mechanism("values that backward needs, written over", _torch("run/overwrites", "run/saved")),
    Mechanism("weights announced and exposed", _torch("announced", "framework/exposed")),
    Mechanism(
        "branches that only raise",
        ("hybrid/capture/assumed.py",),
        returns={_T + "values.lazy:assumed": None},
    ),
    Mechanism("tensors made from nothing", _torch("capture/making"), passes={_T + "capture.making:new": 1}),
    Mechanism("hooks of results", _torch("capture/observing")),
    Mechanism("gradients of gradients", (*_torch("run/recorded"), "engines/mxnet/run/recorded.py")),
    Mechanism("other tracers", _torch("interop")),
)
"""One for each part of over 60 lines that a program could do without."""
