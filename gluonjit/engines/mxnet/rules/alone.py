"""Operators that run for each sample by itself, each with its reason."""

from __future__ import annotations

from .rule import Rule, alone, alone_of

_REASONS = {
    "sets entries by indices, which would have to name the sample too": "_scatter_set_nd fill_element_0index",
    "sets rows by indices that are computed or not distinct; by known distinct indices nothing runs": """
        scatter_nd _contrib_index_copy""",
    "sets entries by a mask": "_npi_boolean_mask_assign_scalar _npi_boolean_mask_assign_tensor",
    "sums over the whole batch": "all_finite multi_all_finite multi_sum_sq _histogram",
    "mixes its rows": "khatri_rao _contrib_count_sketch _contrib_index_array",
    "works on sparse storage": """
        _square_sum _contrib_SparseEmbedding _scatter_elemwise_div _scatter_plus_scalar _scatter_minus_scalar""",
    "is a detector whose anchors are not per sample": """
        _contrib_MultiBoxPrior _contrib_MultiBoxTarget _contrib_MultiBoxDetection _contrib_MultiProposal
        _contrib_Proposal _contrib_box_iou _contrib_box_encode _contrib_box_decode""",
    "is not known to be exact by rows": """
        _contrib_fft _contrib_ifft _contrib_hawkesll _contrib_calibrate_entropy
        _contrib_ModulatedDeformableConvolution _image_to_tensor _image_normalize _image_resize _image_crop
        _image_flip_left_right _image_flip_top_bottom _image_adjust_lighting
        _npi_average _npi_percentile _npi_polyval _npi_ediff1d _npi_tensorinv _npi_tensorsolve
        _npi_pinv _npi_pinv_scalar_rcond _npi_eig _npi_eigvals""",
    "has no gradient and does not declare that, so no graph can hold it": "_slice_assign _slice_assign_scalar",
    "has a backward that no graph can hold": "_npi_copysign_scalar _npi_rcopysign_scalar",
    "works on quantized numbers, whose range is that of the whole array": """
        _contrib_quantize _contrib_quantize_asym _contrib_quantize_v2 _contrib_dequantize _contrib_requantize
        _contrib_quantized_act _contrib_quantized_batch_norm _contrib_quantized_concat _contrib_quantized_conv
        _contrib_quantized_elemwise_add _contrib_quantized_elemwise_mul _contrib_quantized_embedding
        _contrib_quantized_flatten _contrib_quantized_fully_connected _contrib_quantized_pooling
        _contrib_quantized_rnn""",
    "walks a sparse graph": """
        _contrib_dgl_adjacency _contrib_dgl_graph_compact _contrib_dgl_subgraph _contrib_edge_id""",
    "computes with the norms of all parameters": "multi_lars",
}

_UNSIZED = {
    "its result has another shape than MXNet infers": "_contrib_allclose",
    "the number of its results depends on values": """
        _contrib_boolean_mask _contrib_getnnz _npx_nonzero _npi_unique _npi_bincount _npi_delete
        _npi_insert_scalar _npi_insert_slice _npi_insert_tensor _npi_diag_indices_from""",
    "its result is kept in sparse storage, which no batch has": "cast_storage _sparse_retain",
}

_STATEFUL = {
    "runs the user's code": "Custom _CachedOp _CachedOpThreadSafe _CustomFunction _foreach _while_loop _cond",
    "keeps statistics of the batch": "_contrib_SyncBatchNorm BatchNorm_v1 IdentityAttachKLSparseReg",
    "moves between devices": "_CrossDeviceCopy _copyto",
    "reads the memory layout of arrays": "_npi_share_memory",
    "checks a value during execution": "_npx_constraint_check",
}

_WRITES = {
    "writes into its operands, at once": "_set_value reset_arrays",
    "updates a weight or an optimizer's state in place, at once": """
        sgd_update sgd_mom_update mp_sgd_update mp_sgd_mom_update nag_mom_update mp_nag_mom_update
        multi_sgd_update multi_sgd_mom_update multi_mp_sgd_update multi_mp_sgd_mom_update
        preloaded_multi_sgd_update preloaded_multi_sgd_mom_update preloaded_multi_mp_sgd_update
        preloaded_multi_mp_sgd_mom_update signsgd_update signum_update adam_update _adamw_update _mp_adamw_update
        _multi_adamw_update _multi_mp_adamw_update ftml_update ftrl_update rmsprop_update rmspropalex_update
        lamb_update_phase1 lamb_update_phase2 mp_lamb_update_phase1 mp_lamb_update_phase2 _multi_lamb_update
        _multi_mp_lamb_update _sparse_adagrad_update _contrib_group_adagrad_update""",
}

_SAMPLES_OF_GRAPHS = "_contrib_dgl_csr_neighbor_non_uniform_sample _contrib_dgl_csr_neighbor_uniform_sample"

_RANDOM = """
    _image_random_flip_left_right _image_random_flip_top_bottom _image_random_brightness _image_random_contrast
    _image_random_saturation _image_random_hue _image_random_color_jitter _image_random_lighting"""


def _of(reasons: dict[str, str], **flags: bool) -> dict[str, Rule]:
    return {name: alone(reason, **flags) for reason, names in reasons.items() for name in names.split()}


RULES: dict[str, Rule] = {
    **_of(_REASONS),
    **_of(_UNSIZED, unsized=True),
    **_of(_STATEFUL, stateful=True),
    **_of(_WRITES, stateful=True, writes=True),
    **alone_of(_RANDOM, "draws once per image", random=True),
    **alone_of(_SAMPLES_OF_GRAPHS, "draws neighbours in a sparse graph", random=True),
}

_NO_RULE = {
    "holds Python code, and is called only by MXNet's older interfaces": "_NDArray _Native",
    "stands for a missing gradient in MXNet's own graphs": "_NoGradient",
    "adds up gradients in MXNet's own graphs": "_grad_add",
    "is made by MXNet's own passes over a graph": """
        _zeros_without_dtype _sg_mkldnn_conv _sg_mkldnn_fully_connected _sg_mkldnn_selfatt_qk
        _sg_mkldnn_selfatt_valatt""",
    "is a function on the host's images, not an operator of a graph": """
        _cvcopyMakeBorder _cvimdecode _cvimread _cvimresize _imdecode""",
    "writes into its second argument": "_onehot_encode",
}

NO_RULE: dict[str, str] = {name: reason for reason, names in _NO_RULE.items() for name in names.split()}
"""Operators without a rule: should a program call one of them all the same, it runs alone."""
