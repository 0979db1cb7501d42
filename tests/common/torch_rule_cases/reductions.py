"""Cases of sums, norms, extremes, softmax and sorting."""

from __future__ import annotations

import torch

from torch_rule_cases.case import b, case, i, x

SHAPES = [(1, 4), (3, 4), (2, 3, 4), (1, 3, 4), (4,), (1,)]

# fmt: off
for name in ("sum.default", "mean.default", "max.default", "min.default", "prod.default"):
    for shape in [*SHAPES, ()]:
        case(name, x(*shape))
case("max.default", i(2, 3, 4, dtype="float32"))  # gradients of ties are shared
case("min.default", i(2, 3, 4, dtype="float32"))
case("sum.default", i(5, 3, 4))
case("sum.default", i(5, 3, 4, dtype="int32"))
case("sum.default", b(3, 4))
case("prod.default", i(5, 3, 4, dtype="int32"))
for name in ("sum.default", "mean.default", "prod.default"):
    case(name, x(3, 4), dtype=torch.float64)
for name in ("_is_any_true.default", "_is_all_true.default"):  # of truth values alone
    for shape in SHAPES:
        case(name, b(*shape))
for name in ("any.default", "all.default"):
    for shape in SHAPES:
        case(name, b(*shape))
    case(name, x(3, 4))
    case(name, i(2, 3, 4, dtype="uint8"))
for name in ("sum.dim_IntList", "mean.dim", "amax.default", "amin.default"):
    for shape in SHAPES:
        for keep in (False, True):
            case(name, x(*shape), (-1,), keep, poly=len(shape) > 1)
            case(name, x(*shape), (0,), keep)
            if len(shape) > 1:
                case(name, x(*shape), (0, 1), keep)
            if len(shape) == 3:
                case(name, x(*shape), (1,), keep, poly=True)
                case(name, x(*shape), (0, -1), keep)
                case(name, x(*shape), (1, 2), keep)
    case(name, x(3, 4), ())
    case(name, x(), ())
    case(name, x(), (0,))
    case(name, x(3, 4), (), True)
case("amax.default", i(2, 3, 4, dtype="float32"), (1,))
case("sum.dim_IntList", x(3, 4), None)
case("sum.dim_IntList", x(3, 4), (1,), dtype=torch.float64, poly=True)
case("mean.dim", x(3, 4), (0,), True, dtype=torch.float64)
case("sum.dim_IntList", b(3, 4), (1,), poly=True)
for name in ("max.dim", "min.dim", "any.dim", "all.dim", "prod.dim_int", "argmax.default", "argmin.default"):
    for shape in SHAPES:
        for keep in (False, True):
            case(name, x(*shape), -1, keep, poly=len(shape) > 1)
            case(name, x(*shape), 0, keep)
            if len(shape) == 3:
                case(name, x(*shape), 1, keep, poly=True)
case("max.dim", x(), 0)
case("prod.dim_int", x(3, 4), 1, dtype=torch.float64, poly=True)
for name in ("argmax.default", "argmin.default"):
    for shape in [*SHAPES, ()]:
        case(name, x(*shape))
    case(name, x(3, 4), None, True)
for shape in SHAPES:
    for keep in (False, True):
        case("logsumexp.default", x(*shape), (-1,), keep, poly=len(shape) > 1)
        case("logsumexp.default", x(*shape), (0,), keep)
        for order in (1, 2, 3.5, float("inf")):
            case("linalg_vector_norm.default", x(*shape), order, (-1,), keep, poly=len(shape) > 1)
            case("norm.ScalarOpt_dim", x(*shape), order, (-1,), keep, poly=len(shape) > 1)
    case("linalg_vector_norm.default", x(*shape))
    case("linalg_vector_norm.default", x(*shape), 2, (0,))
    case("norm.ScalarOpt_dim", x(*shape), 2, (0,), True)
    case("norm.ScalarOpt_dim", x(*shape), None, (0,))
case("logsumexp.default", x(2, 3, 4), (0, 2))
case("logsumexp.default", x(2, 3, 4), (1, 2), True)
case("linalg_vector_norm.default", x(2, 3, 4), 2, (0, 1))
case("linalg_vector_norm.default", x(), 2)
case("linalg_vector_norm.default", x(3, 4), 2, (1,), dtype=torch.float64, poly=True)
case("norm.ScalarOpt_dim", x(2, 3, 4), 2, (0, 1))
for name in ("var.correction", "std.correction", "var_mean.correction"):
    for correction in (0, 1):
        for shape in [(1, 4), (3, 4), (2, 3, 4), (4,)]:
            for keep in (False, True):
                case(name, x(*shape), (-1,), correction=correction, keepdim=keep, poly=len(shape) > 1)
            if shape[0] > 1:
                case(name, x(*shape), (0,), correction=correction)
        case(name, x(2, 3, 4), (0, 2), correction=correction)
        case(name, x(2, 3, 4), (1, 2), correction=correction, keepdim=True)
    case(name, x(3, 4), (1,), poly=True)
    case(name, x(3, 4), None, correction=1)
for name in ("_softmax.default", "_log_softmax.default"):
    for shape in SHAPES:
        case(name, x(*shape), -1, False, poly=len(shape) > 1)
        case(name, x(*shape), 0, False)
    case(name, x(2, 3, 4), 1, False, poly=True)
    case(name, x(), 0, False)
for name in ("cumsum.default", "cumprod.default"):
    for shape in SHAPES:
        case(name, x(*shape), -1, poly=len(shape) > 1)
        case(name, x(*shape), 0)
    case(name, x(2, 3, 4), 1, poly=True)
    case(name, x(3, 4), 1, dtype=torch.float64, poly=True)
    case(name, i(4, 3, 4, dtype="int32"), 0)
for shape in SHAPES:
    case("sort.default", x(*shape), poly=len(shape) > 1)
    case("sort.default", x(*shape), 0, True)
    case("topk.default", x(*shape), 1, poly=len(shape) > 1)
    case("topk.default", x(*shape), 1, 0)
case("sort.default", x(2, 3, 4), 1, poly=True)
case("topk.default", x(3, 4), 2, -1, False, poly=True)
case("topk.default", x(3, 4), 2, 0)
case("topk.default", x(2, 3, 4), 3, 1, poly=True)
for shape in ((3, 4), (4,), (2, 3, 4)):
    for dim in (0, -1):
        far = len(shape) > 1 and dim < 0
        for name in ("cummax.default", "cummin.default", "logcumsumexp.default"):
            case(name, x(*shape), dim, poly=far)
        for keep in (False, True):
            case("median.dim", x(*shape), dim, keep, poly=far)
            case("kthvalue.default", x(*shape), 2, dim, keep, poly=far)
            case("mode.default", x(*shape), dim, keep, poly=far)
    case("kthvalue.default", x(*shape), 2, poly=len(shape) > 1)
    case("mode.default", x(*shape), poly=len(shape) > 1)
for dims in ((0,), (1,), (0, 1)):
    case("_fft_c2c.default", x(3, 4, dtype="complex64"), dims, 0, True, grad=False, fixed=True)
    case("_fft_r2c.default", x(3, 4), dims, 0, True, grad=False, fixed=True)
case("_fft_c2r.default", x(3, 4, dtype="complex64"), (1,), 2, 6, grad=False, fixed=True)
# fmt: on
