"""Operators that run for each sample by itself, each with its reason."""

from __future__ import annotations

from .rule import Rule, alone

_REASONS = {
    "the number of its results depends on values": """
        _contrib_boolean_mask _contrib_getnnz _npx_nonzero _npi_unique _npi_bincount _npi_delete
        _npi_insert_scalar _npi_insert_slice _npi_insert_tensor _npi_diag_indices_from""",
    "sets entries by indices, which would have to name the sample too": """
        scatter_nd _scatter_set_nd _contrib_index_copy fill_element_0index""",
    "sets entries by a mask": "_npi_boolean_mask_assign_scalar _npi_boolean_mask_assign_tensor",
    "sums up the whole batch": "_contrib_allclose all_finite multi_all_finite multi_sum_sq _histogram",
    "mixes its rows": "khatri_rao _contrib_count_sketch _contrib_index_array",
    "holds sparse storage": """
        _sparse_retain _square_sum cast_storage _contrib_SparseEmbedding
        _scatter_elemwise_div _scatter_plus_scalar _scatter_minus_scalar""",
    "is a detector with anchors beside the batch": """
        _contrib_MultiBoxPrior _contrib_MultiBoxTarget _contrib_MultiBoxDetection _contrib_MultiProposal
        _contrib_Proposal _contrib_box_iou _contrib_box_encode _contrib_box_decode""",
    "joins parameters": "_rnn_param_concat",
    "is not known to be exact by rows": """
        _contrib_fft _contrib_ifft _contrib_hawkesll _contrib_calibrate_entropy
        _contrib_ModulatedDeformableConvolution _image_to_tensor _image_normalize _image_resize _image_crop
        _image_flip_left_right _image_flip_top_bottom _image_adjust_lighting
        _npi_average _npi_percentile _npi_polyval _npi_ediff1d _npi_tensorinv _npi_tensorsolve
        _npi_pinv _npi_pinv_scalar_rcond _npi_eig _npi_eigvals""",
    "has no gradient and does not say so, so no graph can hold it": "_slice_assign _slice_assign_scalar",
    "has a backward that no graph can hold": "_npi_copysign_scalar _npi_rcopysign_scalar",
}

_STATEFUL = {
    "runs the user's code": "Custom _CachedOp _CachedOpThreadSafe _CustomFunction _foreach _while_loop _cond",
    "keeps statistics of the batch": "_contrib_SyncBatchNorm BatchNorm_v1 IdentityAttachKLSparseReg",
    "moves between devices": "_CrossDeviceCopy _copyto",
    "writes into what it is given": "_set_value reset_arrays _npi_share_memory",
    "checks a value on the way": "_npx_constraint_check",
}

_RANDOM = """
    _image_random_flip_left_right _image_random_flip_top_bottom _image_random_brightness _image_random_contrast
    _image_random_saturation _image_random_hue _image_random_color_jitter _image_random_lighting"""

RULES: dict[str, Rule] = {
    **{name: alone(reason) for reason, names in _REASONS.items() for name in names.split()},
    **{name: alone(reason, stateful=True) for reason, names in _STATEFUL.items() for name in names.split()},
    **{name: alone("draws once for an image", random=True) for name in _RANDOM.split()},
}
