"""Layers of a network: their first axis is the batch, and parameters are the same for all samples."""

from __future__ import annotations

from collections.abc import Callable

from .attributes import Attributes
from .elementwise import unary
from .rule import Emit, OperatorCall, Rule, alone_of, rules_of
from .symbols import apply
from .values import ROWS, STACK, NotBatchable, Val, all_rows, convert, reshape

Refusal = Callable[[Attributes, bool], "str | None"]


def layer(data: int = 1, least: int = 2, refuse: Refusal | None = None) -> Emit:
    """The first `data` inputs go by rows of at least `least` axes, all others are parameters.

    `refuse` says why, where attributes or learning make the rows depend on one another.
    """

    def emit(call: OperatorCall) -> list[Val]:
        reason = refuse(call.attrs, call.learning) if refuse else None
        if reason:
            raise NotBatchable(f"{call.name}: {reason}")
        count = data if data > 0 else len(call.inputs)
        parameters = call.inputs[count:]
        if any(not value.shared for value in parameters):
            raise NotBatchable(f"{call.name}: parameters that are not the same for all samples")
        if call.data.ndim < least:
            raise NotBatchable(f"{call.name}: data of fewer than {least} axes")
        rows, poly = all_rows(call.inputs[:count])
        return call.deliver(call.same([*rows, *(value.sym for value in parameters)]), ROWS, poly)

    return emit


def batch_not_first(attrs: Attributes, learning: bool) -> str | None:
    layout = attrs.text("layout", "None")
    first = layout == "None" or layout.startswith("N")
    return None if first else f"layout {layout} does not begin with the batch"


def normalised_over_batch(attrs: Attributes, learning: bool) -> str | None:
    normalization = attrs.text("normalization", "null")
    return None if normalization == "null" else f"its gradient is divided by the batch ({normalization})"


WITH_STATISTICS = ("BatchNorm", "_contrib_BatchNormWithReLU")
"""Operators on data, scale, shift, and a running mean and variance, which they change in training."""


def statistics_of_batch(attrs: Attributes, learning: bool) -> str | None:
    if learning and not attrs.flag("use_global_stats"):
        return "in training its statistics are those of the batch, and so is what its gradient uses"
    if attrs.integer("axis", 1) not in (1, 2, 3, 4, -1):
        return "the channels may lie along the batch"
    return "returns the statistics too" if attrs.flag("output_mean_var") else None


def padded_batch(attrs: Attributes, learning: bool) -> str | None:
    return "pads the batch" if any((attrs.axes("pad_width") or ())[:2]) else None


def upsample(call: OperatorCall) -> list[Val]:
    bilinear = call.attrs.text("sample_type", "nearest") == "bilinear"
    return layer(data=1 if bilinear else 0, least=4)(call)


def layer_norm(call: OperatorCall) -> list[Val]:
    """Along one axis, with one scale and shift for all samples."""
    data, parameters = call.data, call.inputs[1:]
    if data.shared or any(not value.shared for value in parameters):
        raise NotBatchable("LayerNorm: parameters that are not the same for all samples")
    axis = call.axis("axis", -1)
    symbols = [value.sym for value in parameters]
    return call.deliver_along(axis > 0, lambda sym, by: call.same([sym, *symbols], axis=axis + by))


def div_sqrt_dim(call: OperatorCall) -> list[Val]:
    """Divides by the root of the last axis' length, which must not become the one of rows."""
    data = call.data
    if data.ndim == 1 and data.rows:
        data = convert(data, STACK)
    return call.deliver(call.same([data.sym]), data.layout, data.poly)


def softmax_cross_entropy(call: OperatorCall) -> list[Val]:
    """The operator adds up the whole batch, so the sum is taken for each sample."""
    (data, label), poly = all_rows(call.inputs)
    if poly:
        raise NotBatchable("softmax_cross_entropy sums over rows of varying length")
    rows = call.data.shape[0]
    likelihood = apply("pick", [apply("log_softmax", [data], {"axis": 1}), label], {"axis": 1})
    each = apply("sum", [reshape(likelihood, (rows,))], {"axis": 1})
    return call.deliver_each(apply("negative", [each], {}), ())


def make_loss(call: OperatorCall) -> list[Val]:
    reason = normalised_over_batch(call.attrs, call.learning)
    if reason:
        raise NotBatchable(f"MakeLoss: {reason}")
    return unary(call)


_LOOKS_AT_BATCH = "alone if its gradient is divided by the batch"

RULES: dict[str, Rule] = {
    **rules_of(
        "Convolution Convolution_v1 Deconvolution Pooling Pooling_v1",
        layer(1, 3, batch_not_first),
        notes="row by row; alone if the layout does not begin with the batch",
    ),
    **rules_of("_contrib_DeformableConvolution", layer(2, 4, batch_not_first)),
    **{
        name: Rule(
            "row-wise", layer(1, 2, statistics_of_batch), stateful=True, notes="alone in training, and under recording"
        )
        for name in WITH_STATISTICS
    },
    **rules_of("InstanceNorm GroupNorm LRN", layer(1, 3)),
    **rules_of("L2Normalization SoftmaxActivation GridGenerator", layer()),
    **rules_of("Pad", layer(1, 4, padded_batch), notes="row by row; alone if the batch is padded"),
    **rules_of("depth_to_space space_to_depth im2col _contrib_AdaptiveAvgPooling2D", layer(1, 4)),
    **rules_of("col2im", layer(1, 3)),
    **rules_of("Correlation BilinearSampler SpatialTransformer Crop", layer(0)),
    **rules_of("LinearRegressionOutput LogisticRegressionOutput MAERegressionOutput", layer(2, 1)),
    **rules_of("SVMOutput", layer(2)),
    "SoftmaxOutput": Rule("row-wise", layer(2, 2, normalised_over_batch), notes=_LOOKS_AT_BATCH),
    "MakeLoss": Rule("elementwise", make_loss, notes=_LOOKS_AT_BATCH),
    "UpSampling": Rule("row-wise", upsample, notes="row by row; with bilinear the weight is the same for all"),
    "_contrib_BilinearResize2D": Rule(
        "row-wise", layer(data=0, least=4), notes="row by row; with mode like the second input gives the size"
    ),
    "LayerNorm": Rule("axis", layer_norm, notes="rows unless axis 0 takes part"),
    "_contrib_div_sqrt_dim": Rule("elementwise", div_sqrt_dim),
    "softmax_cross_entropy": Rule("rewritten", softmax_cross_entropy, notes="summed for each sample"),
    **alone_of(
        "ROIPooling _contrib_ROIAlign _contrib_RROIAlign _contrib_PSROIPooling _contrib_DeformablePSROIPooling",
        "its regions refer to their image by its place in the batch",
    ),
}
