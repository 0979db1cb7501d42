"""Cases of norms, convolutions, pooling and losses."""

from __future__ import annotations

from torch_rule_cases.case import Arg, b, case, fixed, i, w, x

NONE, MEAN, SUM = 0, 1, 2
LOGITS = "binary_cross_entropy_with_logits.default"

# fmt: off
for shape in [(4,), (1, 4), (3, 4), (2, 3, 4)]:
    case("native_layer_norm.default", x(*shape), (4,), w(4), w(4), 1e-5, poly=len(shape) > 1)
    case("native_layer_norm.default", x(*shape), (4,), None, None, 1e-5, poly=len(shape) > 1)
case("native_layer_norm.default", x(3, 4), (3, 4), w(3, 4), None, 1e-5)
case("native_layer_norm.default", x(2, 3, 4), (3, 4), w(3, 4), w(3, 4), 1e-5, poly=True)
case("native_layer_norm.default", x(3, 4), (4,), x(4), w(4), 1e-5)
PLAIN = ((1,), (0,), (1,), False, (0,), 1)
WIDE = ((2, 1), (1, 0), (1, 2), False, (0, 0), 1)
for samples in (1, 3):
    case("convolution.default", x(samples, 2, 5), w(3, 2, 3), w(3), *PLAIN, poly=True)
    case("convolution.default", x(samples, 2, 5), w(3, 2, 3), None, *PLAIN, poly=True)
    case("convolution.default", x(samples, 2, 5, 6), w(3, 2, 3, 2), w(3), *WIDE, poly=True)
    case("convolution.default", x(samples, 2, 4), w(2, 1, 3), w(2), (1,), (1,), (1,), False, (0,), 2, poly=True)
    case("convolution.default", x(samples, 2, 4), w(2, 3, 3), w(3), (2,), (0,), (1,), True, (1,), 1, poly=True)
    statistics = (w(4), w(4), fixed(w(4)), fixed(w(4, low=0.5)))
    case("native_batch_norm.default", x(samples, 4), *statistics, False, 0.1, 1e-5, compared=1, poly=True)
    given = (None, None, *statistics[2:], False, 0.1, 1e-5)
    case("native_batch_norm.default", x(samples, 4, 3), *given, compared=1, poly=True)
case("native_batch_norm.default", x(3, 4), w(4), w(4), w(4), w(4, low=0.5), True, 0.1, 1e-5, alone=True)
for shape in [(3, 4), (2, 4, 3), (3, 4, 2, 2)]:
    case("native_batch_norm.default", x(*shape), w(4), w(4), None, None, True, 0.1, 1e-5, compared=1)
    case("native_batch_norm.default", x(*shape), None, None, None, None, True, 0.1, 1e-5)
case("convolution.default", x(3, 2, 5), x(3, 2, 3), None, *PLAIN)
case("convolution.default", w(3, 2, 5), x(3, 2, 3), None, *PLAIN)
for shape in [(2, 4, 6), (1, 2, 4, 6), (3, 2, 4, 6)]:
    any_rows = len(shape) == 4
    case("max_pool2d_with_indices.default", x(*shape), (2, 2), poly=any_rows)
    case("max_pool2d_with_indices.default", x(*shape), (2, 2), (1, 1), (1, 1), poly=any_rows)
    case("avg_pool2d.default", x(*shape), (2, 2), poly=any_rows)
    case("avg_pool2d.default", x(*shape), (2, 2), (1, 1), (1, 1), False, False, poly=any_rows)
    case("_adaptive_avg_pool2d.default", x(*shape), (2, 3), poly=any_rows)
for samples in (1, 3):
    case("upsample_nearest2d.default", x(samples, 2, 4, 6), (8, 12), 2.0, 2.0, poly=True)
    case("upsample_bilinear2d.default", x(samples, 2, 4, 6), (8, 9), True, poly=True)
    case("upsample_bicubic2d.default", x(samples, 2, 4, 6), (8, 9), False, poly=True)
    case("upsample_nearest1d.default", x(samples, 2, 4), (8,), poly=True)
    case("upsample_linear1d.default", x(samples, 2, 4), (7,), False, poly=True)
    case("upsample_nearest3d.default", x(samples, 2, 4, 3, 2), (8, 6, 4), poly=True)
    case("upsample_trilinear3d.default", x(samples, 2, 4, 3, 2), (8, 5, 4), True, poly=True)
for shape in [(2, 6), (1, 2, 6), (3, 2, 6)]:
    case("avg_pool1d.default", x(*shape), (2,), poly=len(shape) == 3)
for shape in [(2, 4, 4, 4), (1, 2, 4, 4, 4), (3, 2, 4, 4, 4)]:
    case("max_pool3d_with_indices.default", x(*shape), (2, 2, 2), poly=len(shape) == 5)
    case("avg_pool3d.default", x(*shape), (2, 2, 2), poly=len(shape) == 5)
    case("_adaptive_avg_pool3d.default", x(*shape), (3, 2, 1), poly=len(shape) == 5)
    case("adaptive_max_pool3d.default", x(*shape), (3, 2, 1), poly=len(shape) == 5)
for shape in [(1, 4), (3, 4), (4,)]:
    case("constant_pad_nd.default", x(*shape), (1, 2), poly=len(shape) > 1)
    case("constant_pad_nd.default", x(*shape), (1, 0), 0.5, poly=len(shape) > 1)
case("constant_pad_nd.default", x(3, 4), (1, 1, 0, 2))
case("constant_pad_nd.default", x(2, 3, 4), (1, 1, 0, 2), poly=True)
case("constant_pad_nd.default", x(2, 3, 4), (-1, 0), poly=True)

for shape in [(1, 4), (3, 4), (4,), ()]:
    for reduction in (NONE, MEAN, SUM):
        any_rows = reduction == NONE and len(shape) > 1
        for name in ("mse_loss.default", "smooth_l1_loss.default", "huber_loss.default"):
            case(name, x(*shape), x(*shape), reduction, poly=any_rows)
            case(name, x(*shape), w(*shape), reduction, fixed=True)
            case(name, w(*shape), x(*shape), reduction, fixed=True)
        case("soft_margin_loss.default", x(*shape), fixed(x(*shape)), reduction, poly=any_rows)
        case("soft_margin_loss.default", x(*shape), fixed(w(*shape)), reduction, fixed=True)
        case("soft_margin_loss.default", w(*shape), fixed(x(*shape)), reduction, fixed=True)
        between = Arg(shape, low=0.1, high=0.9)
        case("binary_cross_entropy.default", between, between, None, reduction, poly=any_rows)
        case("binary_cross_entropy.default", between, between, fixed(w(*shape)), reduction, fixed=True)
        for weight in (None, fixed(x(*shape))):
            case(LOGITS, x(*shape), between, weight, None, reduction, poly=any_rows)
for reduction in (NONE, MEAN, SUM):
    case("smooth_l1_loss.default", x(3, 4), x(3, 4), reduction, 0.3, poly=reduction == NONE)
    case("huber_loss.default", x(3, 4), x(3, 4), reduction, 0.3, poly=reduction == NONE)
    case(LOGITS, x(3, 4), x(3, 4), None, fixed(w(4)), reduction, poly=reduction == NONE)
    case(LOGITS, x(3, 4), x(3, 4), fixed(w(4)), fixed(x(4)), reduction, fixed=True)
    for scores, classes in ((x(5), i(5)), (x(1, 5), i(5, 1)), (x(3, 5), i(5, 3))):
        for ignored in (-100, 1):
            counts = 1 if reduction == NONE else 2
            case("nll_loss_forward.default", scores, classes, None, reduction, ignored, compared=counts)
            case("nll_loss_forward.default", scores, classes, fixed(w(5, low=0.1)), reduction, ignored, compared=counts)
        own = fixed(x(5, low=0.1))
        case("nll_loss_forward.default", scores, classes, own, reduction, -100, compared=counts, fixed=True)
case("nll_loss_forward.default", w(3, 5), i(5, 3), None, MEAN, -100)
case("masked_fill.Scalar", x(3, 4), b(3, 4), -1.0, poly=True)

STEPS = {"lstm.input": 4, "gru.input": 3, "rnn_tanh.input": 1, "rnn_relu.input": 1}
for name, gates in STEPS.items():
    for bidirectional, first in ((False, False), (True, True)):
        ways = 1 + bidirectional
        weights = [part for _ in range(ways) for part in (w(gates * 2, 4), w(gates * 2, 2), w(gates * 2), w(gates * 2))]
        shape, rest = ((2, 3, 4) if first else (3, 2, 4)), (True, 1, 0.0, True, bidirectional, first)
        for begin in (x, w):
            states = [begin(ways, 2, 2), begin(ways, 2, 2)] if name == "lstm.input" else begin(ways, 2, 2)
            case(name, x(*shape), states, weights, *rest, fixed=True)
case("gru.input", x(3, 2, 4), w(1, 2, 2), [x(6, 4), w(6, 2)], False, 1, 0.0, True, False, False, alone=True)
for shape in ((3, 2, 5, 7), (2, 5, 7)):
    case("adaptive_max_pool2d.default", x(*shape), (3, 2), poly=len(shape) == 4)
    case("im2col.default", x(*shape), (3, 2), (1, 1), (1, 0), (2, 1), poly=len(shape) == 4)
for shape in ((3, 8, 12), (8, 12)):
    case("col2im.default", x(*shape), (4, 5), (2, 2), (1, 1), (0, 0), (1, 1), poly=len(shape) == 3)
# fmt: on
