"""Modules that were deleted, with the names that they defined: `tests/core/test_gone.py` keeps them away.

Where a module gave way to one for all engines, the place it must not come back to is named.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Gone:
    """A module, or a folder of modules, that is gone.

    path: where it was in `gluonjit/`.
    names: the functions and classes of each of its files.
    within: where nothing may define most of these.
    """

    path: str
    names: tuple[str, ...]
    within: str = ""

    @property
    def definitions(self) -> list[set[str]]:
        """What each file defined."""
        return [set(names.split()) for names in self.names]


GONE: tuple[Gone, ...] = (
    Gone("hybrid/run/stepping", ("Indices SteppedSession",)),
    Gone("engines/torch/segments", ("into_rows put _with_none _along index_put _of_rows divided mean in_place_of",)),
    Gone("engines/mxnet/sized", ("_Own Sized of _has_room _compiled sized_count clear_sized",)),
    Gone("engines/torch/without_gradients", ("signatures_of with_gradients",)),
    Gone(
        "engines/torch/trace_sharing",
        ("remember take _function _shapes _signature Pairs paired _are_alike _are_weights _take _there _are_constant",),
    ),
    Gone("engines/mxnet/filling", ("fill_zero fill_zeros",)),
    Gone("engines/mxnet/function", ("differentiable go_back",)),
    Gone("engines/torch/session", ("put_lookup put_leaves Indices",)),
    Gone("engines/mxnet/session", ("put_lookup put_leaves Indices",)),
    Gone("engines/torch/indices", ("sent add_children",)),
    Gone("engines/torch/inputs", ("_look_up AsItWas",)),
    Gone("engines/torch/tape", ("TapeEntry BackwardPass",)),
    Gone("engines/mxnet/tape", ("RecordedStep Tape",)),
    Gone("engines/mxnet/reach", ("Reach let_in",)),
    Gone("engines/torch/pending_places", ("at_place _is_plain",)),
    Gone(
        "engines/torch/variadic/checking",
        ("agrees on_random_rows _decided_by tolerance_of are_near random_rows _all_alone _alone _together",),
    ),
    Gone("engines/mxnet/variadic/checking", ("agrees _random _alone _together _run",)),
    Gone("engines/mxnet/work", ("_dense _product _products _convolution _recurrent _flops work_of",)),
    Gone("engines/torch/work", ("_flops work_of",)),
    Gone(
        "engines/mxnet/variadic",
        (
            "MXNetDialect _folded _side_by_side _one_of _number",
            "build_variadic _apply _spread _rows_of_owners _gathered",
        ),
    ),
    Gone(
        "engines/torch/variadic",
        (
            "TorchDialect _alike _added _joined _repeated _each _values _summed _losses _without_axis _first_row "
            "_for_each _treats_alike",
            "build_variadic _applied _spread _rows_of _gathered _segment_sum _sum",
        ),
    ),
    Gone(
        "hybrid/capture/variadic",
        (
            "VariadicForm _Argument forms forms_of_rows _of_rows _in_lists _look _alike",
            "TracedKind VariadicCell Maker Joint join _exchanged _joint _roles _make_variadic _children _member",
            "ProgramInput Variadic _Value _VariadicMaker make_variadic",
            "Unlike Sum Listed Domain Dialect read terms_of",
            "Terms is_like _unrolled",
        ),
        "engines",
    ),
    Gone("engines/torch/ragged/checking", ("undrawn agrees _alone",)),
    Gone("engines/torch/ragged/packing", ("in_front Packer _viewed _along_windows _is_regrouped",)),
    Gone("engines/torch/ragged/padding", ("PaddedProgram _with_numbers _is_beginning _made",)),
    Gone("engines/torch/ragged/padded", ("PaddedTrace takes_number",)),
    Gone("engines/torch/ragged/along", ("reduced kept lost pooled convolved extended _fitted",)),
    Gone("engines/torch/ragged/classes", ("class_of order_of",)),
    Gone("engines/torch/ragged/selecting", ("Selector _how_chosen",)),
    Gone("engines/torch/packed", ("pack pad pad_list _filled run_layer _numbers _begins _beside _chosen _recorded",)),
    Gone("engines/torch/lone", ("_Context FunctionCall LoneFunction lone_kind cell_of_function",)),
    Gone(
        "engines/torch/nothing",
        ("Nothing empty_of empty_from _zeros _learning _sources _origin _given _used _reached",),
    ),
    Gone("engines/torch/assumed", ("assumed _as_is _error _computed",)),
    Gone("engines/torch/ctc", ("ctc_loss _numbers",)),
    Gone("analysis/grouping", ("Lists grouped sorting by_key released",)),
    Gone("analysis/schedulers/greedy", ("_same_type _parts _nearest _levels",)),
    Gone("analysis/structures", ("by_structure _Capture _mixed",)),
    Gone(
        "engines/torch/replay",
        (
            "Span OwnerSlices joined _axes Padding _fill",
            "Skeleton skeleton_of _beside new_often _drop _known plan_count clear_plans static_plan roomy "
            "_largest _work _make_room",
            "Dependencies reach_of _found",
            "Replayer HostRecorder CudaRecorder _alike _graph _side_stream recorder_for step_recorder_for stream_of",
            "ReplaySession ReplayTape _copies learned_inputs",
            "Axis GroupForm ResultForm StepForm SizedSkeleton NotStatic sized_skeleton _Reader",
            "Back StaticEntry StaticPlan",
            "StaticStepForm Lease LastRun StaticStep _fill StaticStepFunction form_of",
            "StaticSteps static_steps step_count clear_steps _replayed ReplayedSteps",
        ),
    ),
    Gone("engines/torch/executors", ("session_for _on_cuda _looks_at_steps _replayed",)),
    Gone(
        "engines/mxnet/peepholes",
        ("Peephole improved _activations _activation _splits _parts _slice _blocks _cover _columns _users",),
    ),
    Gone("engines/mxnet/zeros", ("PrunedTrace without_zeros _Rewriting _activation _needed _dependence",)),
    Gone(
        "engines/torch/trace", ("NeedsValue Operand TraceOp Trace renumbered placed TraceFindings Loops",), "engines/"
    ),
    Gone(
        "engines/mxnet/trace",
        (
            "NeedsValue SizeError TraceOp CallOperators Trace tracing trace_op _position _Placeholder _operator let_in "
            "operator_call infer inferred_count clear_inferred _infer _measured _refused reason_of map_structure",
        ),
    ),
    Gone(
        "engines/torch/fusing",
        (
            "row_program _plain _fused_program _fused_variadic _sums_rows _operand _whole _constant _applied "
            "_placed _finished",
        ),
        "engines/",
    ),
    Gone(
        "engines/torch/fusing_losses",
        ("_picked _index_select _nll_loss _loss _squared_error _linear_from _log_likelihood _log_sigmoid",),
        "engines/",
    ),
    Gone(
        "engines/torch/fusing_operators",
        (
            "_number _each _unary _binary two _as_wide _plain _reversed_sub _power _softplus _clamp _product "
            "_mm _addmm _linear _total _softmax _leaky _dot _logsumexp _layer_norm _like",
        ),
        "engines/",
    ),
    Gone(
        "engines/torch/fusing_shapes",
        ("_transposed _reshaped _cut _split _unbind _slice _select _cat",),
        "engines/torch/operators",
    ),
    Gone("engines/torch/fusing_values", ("RowMatrix IntegerColumn Const rows_in is_row",), "engines/"),
    Gone("engines/mxnet/fusing", ("fused_program _Reading",), "engines/"),
    Gone(
        "engines/mxnet/fusing_operators",
        (
            "_each _unary _limited _filled _clip _scalar _binary _add_n _fully_connected _activation "
            "_slice_axis _slice _columns _cut _reshape _split _concat _take _dot _total _softmax _pick "
            "_argmax _same",
        ),
        "engines/",
    ),
    Gone("engines/mxnet/fusing_values", ("RowMatrix Group Folded Const Beside rows_in row_in",), "engines/"),
    Gone("engines/torch/hoist", ("Piece Cut cut used_alone _owners _may_be_cut _piece _without",), "engines/"),
    Gone("engines/mxnet/hoist", ("Cut cut _without product_kind",), "engines/"),
    Gone(
        "engines/torch/other_rows",
        ("TracedCall without_rows _blind _rows_of note_traced of_other_rows _between _have _trace_of",),
    ),
    Gone("analysis/splitting", ("captured_nodes _cut _add_products",), "analysis/"),
    Gone(
        "analysis/traces",
        (
            "Damaged Fields _shown check _Looks _made _check_kind _check_children _check_families _look _form",
            "TraceLeaf TracedTable TraceKind TraceNodes BatchTrace addition",
            "write_trace read_trace _unique _encoded _encoded_kind _decoded _spec _kind _work _nodes",
            "merged Restored restored variant graph_of _kind _fill _operands _marks",
            "TraceInput RowOwners owners_of _inputs sample_numbers resampled _Nodes _Made _frozen",
            "trace_of save_graph _kind _nodes _samples",
        ),
    ),
    Gone(
        "engines/torch/rules",
        (
            "mm addmm _plus _whole mv _times_transposed _each_times dot _dots bmm baddbmm trilinear attention",
            "elementwise _total _average nll",
            "pointwise masked _cast _common _fits _broadcast _replaced filled made_like",
            "reduced _dims _over_all _takes_several _extras _without kept transformed",
            "viewed moved axis order_of permuted expanded along paired cut cut_list rest_of concatenated stacked",
            "Instruction OperatorCall call_operator _Slot regular",
        ),
        "engines/torch",
    ),
    Gone(
        "engines/mxnet/rules",
        (
            "OperatorCall Rule alone rules_of alone_of",
            "Val normal_axis convert reshape reshaped with_shape spread Together together all_rows",
            "reduced_axes remaining reduction over_all _unflattened along_axis norm argmax_channel",
            "unary aligned _rows_align _padded broadcast equal_shapes add_n where leaky_relu prelu dropout multicast",
            "same_elements _shared transposed swap_axes over_axes _spelled tile _tiled repeat broadcast_to_shape",
            "fully_connected _one_weight _weight_of_each _plus_bias _matrix_transposed _dot_shared_right _dot_each",
            "embedding _take_from_shared _take_same_places _take_by_sample _in_range _offset _with_sample",
        ),
        "engines/mxnet",
    ),
)
