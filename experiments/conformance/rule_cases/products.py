"""Cases of products of matrices, and of linear algebra."""

from __future__ import annotations

import numpy as np

from experiments.conformance.rule_cases.case import Arg, case, w, x

# fmt: off
for flatten in (True, False):
    for shape in [(1, 4), (3, 4), (2, 2, 4)]:
        columns = int(np.prod(shape[1:])) if flatten else 4
        attrs = {"num_hidden": 5, "flatten": flatten}
        case("FullyConnected", attrs, x(*shape), w(5, columns), w(5), poly=True)
        case("FullyConnected", {**attrs, "no_bias": 1}, x(*shape), w(5, columns), poly=True)
        case("FullyConnected", attrs, x(*shape), w(5, columns), x(5))
        case("FullyConnected", attrs, x(*shape), x(5, columns), w(5))
        case("FullyConnected", {**attrs, "no_bias": 1}, x(*shape), x(5, columns))
        case("FullyConnected", attrs, w(*shape), x(5, columns), x(5))
case("FullyConnected", {"num_hidden": 5, "flatten": False}, x(4), w(5, 4), w(5))
case("FullyConnected", {"num_hidden": 5, "flatten": True}, x(3), w(5, 1), w(5), poly=True)
case("FullyConnected", {"num_hidden": 5}, x(1, 4, dtype="float64"), w(5, 4, dtype="float64"), w(5, dtype="float64"))
for left, right, attrs in [((1, 4), (4, 5), {}), ((3, 4), (4, 5), {}), ((4, 3), (4, 5), {"transpose_a": True}),
                           ((3, 4), (5, 4), {"transpose_b": True}), ((1, 4), (1, 4), {"transpose_b": 1}),
                           ((1, 4), (1, 4), {"transpose_a": 1}), ((4, 3), (5, 4), {"transpose_a": 1, "transpose_b": 1}),
                           ((4,), (4,), {}), ((3, 4), (4,), {}), ((4,), (4, 5), {}), ((2, 3, 4), (4, 5), {}),
                           ((3, 4), (4, 2, 5), {}), ((4,), (4, 2, 5), {})]:
    case("dot", attrs, x(*left), x(*right))
    case("dot", attrs, x(*left), w(*right), poly=len(left) > 1 and not attrs.get("transpose_a"))
    case("dot", attrs, w(*left), x(*right))
for left, right, attrs in [((1, 3, 4), (1, 4, 5), {}), ((2, 3, 4), (2, 4, 5), {}),
                           ((2, 4, 3), (2, 5, 4), {"transpose_a": 1, "transpose_b": 1})]:
    for name in ["batch_dot", "_linalg_gemm2"]:
        case(name, attrs, x(*left), x(*right), poly=True)
        case(name, attrs, w(*left), x(*right))
        case(name, attrs, x(*left), w(*right))
case("_linalg_gemm2", {"alpha": 2.0, "transpose_b": True}, x(3, 4), x(5, 4))
case("linalg_gemm2", None, x(3, 4), w(4, 5))

# Linear algebra.
for batch in ((), (1,), (2,), (2, 2)):
    square = {"low": 0.5, "high": 1.5}
    poly, fixed = bool(batch), not batch
    case("_linalg_gemm", {"alpha": 2.0, "beta": 0.5}, x(*batch, 3, 4), x(*batch, 4, 5), x(*batch, 3, 5), poly=poly)
    case("_linalg_gemm", {"transpose_b": 1}, x(*batch, 3, 4), w(*batch, 5, 4), x(*batch, 3, 5))
    case("_linalg_syrk", {"alpha": 1.5, "transpose": False}, x(*batch, 3, 4), poly=poly)
    case("_linalg_trmm", None, x(*batch, 3, 3), x(*batch, 3, 4), poly=poly)
    case("_linalg_trsm", None, Arg((*batch, 3, 3), spd=True), x(*batch, 3, 4), poly=poly, fixed=fixed)
    case("_linalg_potrf", None, Arg((*batch, 3, 3), spd=True), poly=poly, fixed=fixed)
    case("_linalg_potri", None, Arg((*batch, 3, 3), spd=True), poly=poly, fixed=fixed)
    case("_linalg_sumlogdiag", None, Arg((*batch, 3, 3), spd=True), poly=poly, fixed=fixed)
    case("_linalg_inverse", None, Arg((*batch, 3, 3), spd=True), poly=poly, fixed=fixed)
    case("_linalg_det", None, Arg((*batch, 3, 3), spd=True), poly=poly, fixed=fixed)
    case("_linalg_slogdet", None, Arg((*batch, 3, 3), spd=True), poly=poly, fixed=fixed)
    case("_linalg_gelqf", None, x(*batch, 3, 4), poly=poly)
    case("_linalg_syevd", None, Arg((*batch, 3, 3), spd=True), poly=poly, fixed=fixed, grad=False)
    case("_linalg_extractdiag", {"offset": 1}, x(*batch, 3, 3), poly=poly)
    case("_linalg_extracttrian", None, x(*batch, 3, 3), poly=poly)
    case("_linalg_makediag", {"offset": -1}, x(*batch, 3), poly=poly)
    case("_linalg_maketrian", None, x(*batch, 6), poly=poly)
    case("_contrib_box_nms", {"coord_start": 2, "score_index": 1, "id_index": 0}, x(*batch, 4, 6, low=0.0), poly=poly)
    case("_contrib_bipartite_matching", {"threshold": 0.1}, x(*batch, 3, 4, low=0.0), poly=poly, grad=False)
for shape in ((1, 4), (3, 4), (2, 3, 4), (4,), (1, 1)):
    case("diag", None, x(*shape))
    case("diag", {"k": 1}, x(*shape)) if shape != (1, 1) else None
case("diag", {"axis1": -1, "axis2": 0}, x(2, 3, 4))
case("linalg_sumlogdiag", None, Arg((1, 1), spd=True), fixed=True)
