"""Cases of layers: one batch first, or time first and the batch second."""

from __future__ import annotations

from experiments.conformance.rule_cases.case import Arg, case, i, w, x

# fmt: off
for batch in (1, 3):
    kernel = {"kernel": "(3, 3)", "num_filter": 2}
    case("Convolution", kernel, x(batch, 3, 5, 5), w(2, 3, 3, 3), w(2), poly=True)
    case("Convolution", {**kernel, "no_bias": True, "layout": "NCHW"}, x(batch, 3, 5, 5), w(2, 3, 3, 3), poly=True)
    case("Convolution", {"kernel": "(3,)", "num_filter": 2}, x(batch, 3, 5), w(2, 3, 3), w(2), poly=True)
    case("Convolution_v1", kernel, x(batch, 3, 5, 5), w(2, 3, 3, 3), w(2), poly=True)
    case("Deconvolution", {**kernel, "no_bias": True}, x(batch, 3, 4, 4), w(3, 2, 3, 3), poly=True)
    case("Pooling", {"kernel": "(2, 2)", "pool_type": "avg", "stride": "(2, 2)"}, x(batch, 3, 4, 4), poly=True)
    case("Pooling", {"kernel": "(2,)", "pool_type": "max"}, x(batch, 3, 4), poly=True)
    case("Pooling", {"global_pool": True, "kernel": "(1, 1)"}, x(batch, 3, 4, 4), poly=True)
    case("Pooling_v1", {"kernel": "(2, 2)", "pool_type": "max"}, x(batch, 3, 4, 4), poly=True)
    statistics = (w(3), w(3), w(3), w(3, low=0.1))
    case("BatchNorm", {"fix_gamma": False}, x(batch, 3), *statistics, poly=True, training=False)
    case("BatchNorm", {"fix_gamma": True}, x(batch, 3, 4, 4), *statistics, poly=True, training=False)
    case("BatchNorm", {"fix_gamma": False, "axis": -1}, x(batch, 4, 3), *statistics, poly=True, training=False)
    case("InstanceNorm", None, x(batch, 3, 4, 4), w(3), w(3), poly=True)
    case("GroupNorm", {"num_groups": 2}, x(batch, 4, 5), w(2), w(2), poly=True)
    case("LRN", {"nsize": 3}, x(batch, 4, 3, 3), poly=True)
    for mode in ("instance", "channel", "spatial"):
        case("L2Normalization", {"mode": mode}, x(batch, 3, 4), poly=True)
    case("SoftmaxActivation", None, x(batch, 3, 4), poly=True)
    case("SoftmaxActivation", {"mode": "channel"}, x(batch, 3, 4), poly=True)
    width = "(0,0,0,0,1,2,1,1)"
    case("Pad", {"mode": "constant", "pad_width": width, "constant_value": 2}, x(batch, 2, 3, 3), poly=True)
    case("pad", {"mode": "edge", "pad_width": width}, x(batch, 2, 3, 3), poly=True)
    case("depth_to_space", {"block_size": 2}, x(batch, 4, 2, 3), poly=True)
    case("space_to_depth", {"block_size": 2}, x(batch, 1, 4, 6), poly=True)
    case("im2col", {"kernel": "(2, 2)"}, x(batch, 2, 3, 3), poly=True)
    case("col2im", {"kernel": "(2, 2)", "output_size": "(3, 3)"}, x(batch, 8, 4), poly=True)
    case("UpSampling", {"scale": 2, "sample_type": "nearest", "num_args": 1}, x(batch, 2, 3, 3), poly=True)
    case("UpSampling", {"scale": 2, "sample_type": "bilinear", "num_filter": 2, "num_args": 2},
         x(batch, 2, 3, 3), w(2, 1, 4, 4), poly=True)
    case("Crop", {"num_args": 2, "offset": "(1, 1)"}, x(batch, 2, 5, 5), x(batch, 2, 3, 3), poly=True)
    case("Crop", {"num_args": 1, "h_w": "(2, 2)"}, x(batch, 2, 5, 5), poly=True)
    case("_contrib_AdaptiveAvgPooling2D", {"output_size": "(2, 2)"}, x(batch, 2, 5, 5), poly=True)
    case("_contrib_BilinearResize2D", {"height": 4, "width": 6}, x(batch, 2, 3, 3), poly=True)
    case("GridGenerator", {"transform_type": "affine", "target_shape": "(3, 3)"}, x(batch, 6), poly=True)
    case("BilinearSampler", None, x(batch, 2, 4, 4), x(batch, 2, 3, 3, low=-0.9, high=0.9), poly=True)
    case("SpatialTransformer", {"transform_type": "affine", "sampler_type": "bilinear", "target_shape": "(3, 3)"},
         x(batch, 2, 4, 4), x(batch, 6, low=-0.4, high=0.4), poly=True)
    case("Correlation", {"kernel_size": 1, "max_displacement": 1, "pad_size": 1}, x(batch, 2, 4, 4), x(batch, 2, 4, 4),
         poly=True)
    case("_contrib_DeformableConvolution", {**kernel, "no_bias": True}, x(batch, 2, 5, 5),
         x(batch, 18, 3, 3, low=0.1, high=0.4), w(2, 2, 3, 3), poly=True)
    case("_contrib_div_sqrt_dim", None, x(batch, 4), poly=True)
    case("LayerNorm", None, x(batch, 4), w(4), w(4), poly=True)
    case("LayerNorm", {"axis": 1}, x(batch, 3, 4), w(3), w(3), poly=True)
    case("LayerNorm", {"axis": 0}, x(batch + 1, 4), w(batch + 1), w(batch + 1))
    case("LayerNorm", {"output_mean_var": True}, x(batch, 4), w(4), w(4), poly=True, grad=False)
    for name in ("LinearRegressionOutput", "LogisticRegressionOutput", "MAERegressionOutput"):
        case(name, None, x(batch, 4), Arg((batch, 4), grad=False), poly=True)
    case("SVMOutput", None, x(batch, 4), i(4, batch), poly=True)
    case("SoftmaxOutput", {"grad_scale": 2.0}, x(batch, 4), i(4, batch), poly=True)
    case("SoftmaxOutput", {"multi_output": True}, x(batch, 4, 3), i(4, batch, 3), poly=True)
    case("SoftmaxOutput", {"normalization": "valid"}, x(batch, 4), i(4, batch), alone=True)
    case("MakeLoss", {"grad_scale": 2.0}, x(batch, 4), poly=True)
    case("MakeLoss", {"normalization": "batch"}, x(batch, 4), alone=True)
    case("softmax_cross_entropy", None, x(batch, 4), i(4, batch))
    for axis in (0, 1):
        time_first = (4, batch, 2) if axis == 0 else (batch, 4, 2)
        lengths = i(5, batch, low=1)
        for name in ("SequenceMask", "SequenceLast", "SequenceReverse"):
            if axis == 1 and name == "SequenceReverse":
                continue
            if name != "SequenceLast":     # which without lengths ends the process in MXNet itself
                case(name, {"axis": axis}, x(*time_first), poly=axis == 1)
            case(name, {"axis": axis, "use_sequence_length": True}, x(*time_first), lengths, poly=axis == 1)
            case(name, {"axis": axis, "use_sequence_length": 1}, x(*time_first),
                 i(5, batch, low=1, shared=True), fixed=True)
    case("CTCLoss", None, x(6, batch, 4), i(4, batch, 2, low=1))
    case("CTCLoss", {"use_data_lengths": True, "use_label_lengths": True}, x(6, batch, 4), i(4, batch, 3, low=1),
         i(7, batch, low=5), i(3, batch, low=1))
    for mode, gates in (("rnn_tanh", 1), ("lstm", 4), ("gru", 3)):
        states = [x(1, batch, 3)] * (2 if mode == "lstm" else 1)
        size = gates * (3 * 2 + 3 * 3 + 6)
        attrs = {"mode": mode, "state_size": 3, "num_layers": 1}
        case("RNN", {**attrs, "state_outputs": True}, x(4, batch, 2), w(size), *states)
        case("RNN", attrs, x(4, batch, 2), w(size), *(w(*state.shape) for state in states))
    heads = 2
    case("_contrib_interleaved_matmul_selfatt_qk", {"heads": heads}, x(5, batch, 12))
    case("_contrib_interleaved_matmul_selfatt_valatt", {"heads": heads}, x(5, batch, 12), x(batch * heads, 5, 5))
    case("_contrib_interleaved_matmul_encdec_qk", {"heads": heads}, x(5, batch, 4), x(3, batch, 8))
    case("_contrib_interleaved_matmul_encdec_valatt", {"heads": heads}, x(3, batch, 8), x(batch * heads, 5, 3))
case("_contrib_div_sqrt_dim", None, x(4))
case("Convolution", {"kernel": "(3,)", "num_filter": 2, "no_bias": 1}, x(1, 3, 5), x(2, 3, 3), alone=True)
case("BatchNorm", {"fix_gamma": False}, x(2, 3), w(3), w(3), w(3), w(3), alone=True)
case("BatchNorm", {"fix_gamma": False, "use_global_stats": True}, x(2, 3), w(3), w(3), w(3), w(3, low=0.1))
case("BatchNorm", {"fix_gamma": False, "axis": 0}, x(3, 4), w(3), w(3), w(3), w(3), alone=True, training=False)
case("_contrib_BatchNormWithReLU", {"fix_gamma": False}, x(2, 3, 4, 4), w(3), w(3), w(3), w(3), alone=True)
case("RNN", {"mode": "gru", "state_size": 3, "num_layers": 1, "p": 0.5}, x(4, 1, 2), w(63), x(1, 1, 3), alone=True)
case("_rnn_param_concat", {"dim": 0, "num_args": 2}, w(6), w(3))
case("_rnn_param_concat", {"dim": 0, "num_args": 2}, x(6), w(3), alone=True)
