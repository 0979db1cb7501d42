"""Emits any registered operator as a classic Symbol, or runs it on arrays, by its registered name.

Attributes arrive as strings: "(0, -1)", "[1,2]", "None", "True", "1", "float32". Tables say what operators do besides
their results, and which run for each sample by itself, with reasons.
"""

from __future__ import annotations

import ast
import ctypes
from collections.abc import Iterable, Mapping, Sequence
from functools import cache, lru_cache
from itertools import count
from typing import Any

import mxnet as mx
from mxnet.base import _LIB, SymbolHandle, c_handle_array, c_str, c_str_array, check_call, mx_uint, py_str
from mxnet.ndarray import NDArray

from gluonjit.engines.mxnet.framework.originals import operator_handle, run_operator

Attributes = Mapping[str, Any]
"""The attributes of one call as Python values; who reads one gives the default that the operator documents."""


def read(attrs: Mapping[str, Any] | Iterable[tuple[str, Any]]) -> Attributes:
    """Attributes as Python values; None where it says so."""
    return {key: literal(value) if value.__class__ is str else value for key, value in dict(attrs).items()}


def written(attrs: Iterable[tuple[str, Any]]) -> tuple[tuple[str, str], ...]:
    """Attributes as MXNet takes them."""
    return tuple((key, str(value)) for key, value in attrs)


def listed(given: Any) -> tuple[Any, ...]:
    """An attribute that is one value or several, or none, as a tuple."""
    return () if given is None else given if isinstance(given, tuple) else (given,)


@lru_cache(maxsize=1024)  # Python's compiler reads them
def literal(text: str) -> Any:
    """The Python value of an attribute's text; words that are no literal stay text."""
    if not text:
        return None
    if text in ("true", "false"):
        return text == "true"
    try:
        value = ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text
    return tuple(value) if isinstance(value, list) else value


@cache
def canonical(name: str) -> str:
    """The one name of an operator that may have many: `_Plus` and `_add` are `elemwise_add`."""
    real = ctypes.c_char_p()
    check_call(_LIB.MXSymbolGetAtomicSymbolName(ctypes.c_void_p(operator_handle(name)), ctypes.byref(real)))
    return str(py_str(real.value))


def apply(name: str, inputs: Sequence[Any], attrs: Mapping[str, Any], arrays: bool = False) -> Any:
    """The operator `name` on classic symbols, or its results on `arrays`, of which these are some.

    The generated functions of `mx.sym` insist on numpy symbols for numpy operators; underneath there is
    no such difference, and here every symbol is a classic one. Gradients have room in dense arrays.
    """
    attrs = {key: value for key, value in attrs.items() if key != "sparse_grad"}
    if arrays or (inputs and isinstance(inputs[0], NDArray)):
        found = run_operator(operator_handle(name), inputs, written(attrs.items()))
        return found[0] if len(found) == 1 else found
    handle = SymbolHandle()
    check_call(
        _LIB.MXSymbolCreateAtomicSymbol(
            ctypes.c_void_p(operator_handle(name)),
            mx_uint(len(attrs)),
            c_str_array(list(attrs)),
            c_str_array([str(value) for value in attrs.values()]),
            ctypes.byref(handle),
        )
    )
    symbol = mx.sym.Symbol(handle)
    check_call(
        _LIB.NNSymbolCompose(handle, c_str(_fresh(name)), mx_uint(len(inputs)), None, c_handle_array(list(inputs)))
    )
    return symbol


def _fresh(name: str) -> str:
    """Makes a unique name; using MXNet's counter would change the names of blocks that the program makes later."""
    return f"{name.lower().lstrip('_')}{next(_numbers)}"


_numbers = count()


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
    "its regions refer to their image by its place in the batch": """
        ROIPooling _contrib_ROIAlign _contrib_RROIAlign _contrib_PSROIPooling _contrib_DeformablePSROIPooling""",
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

_DRAWS = {
    "draws once per image": """
        _image_random_flip_left_right _image_random_flip_top_bottom _image_random_brightness _image_random_contrast
        _image_random_saturation _image_random_hue _image_random_color_jitter _image_random_lighting""",
    "draws neighbours in a sparse graph": """
        _contrib_dgl_csr_neighbor_non_uniform_sample _contrib_dgl_csr_neighbor_uniform_sample""",
    "draws into a fixed shape, independent of the number of samples": """
        _random_uniform _random_normal _random_gamma _random_exponential _random_poisson _random_negative_binomial
        _random_generalized_negative_binomial _random_randint _sample_unique_zipfian
        _npi_normal _npi_normal_n _npi_uniform _npi_uniform_n _npi_bernoulli _npi_choice _npi_exponential _npi_gamma
        _npi_gumbel _npi_logistic _npi_multinomial _npi_pareto _npi_rayleigh _npi_weibull _npi_powerd""",
    "permutes the rows of the whole batch": "_shuffle",
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

_FAILS = {
    "if a matrix is not positive definite": "_linalg_potrf _npi_cholesky",
    "if a matrix is singular": "_linalg_potri _linalg_inverse _npi_solve _npi_tensorinv _npi_tensorsolve",
    "if an algorithm of linear algebra does not converge, as on a NaN": """
        _linalg_syevd _npi_eigh _npi_eigvalsh _npi_svd _npi_norm _npi_eig _npi_eigvals _npi_pinv
        _npi_pinv_scalar_rcond""",
    "if an index is out of range": "gather_nd take",
    "if a percentile is out of range": "_npi_percentile",
    "if the parameters of a distribution are invalid": """
        _random_uniform _random_normal _random_gamma _random_exponential _random_poisson _random_negative_binomial
        _random_generalized_negative_binomial _random_randint
        _random_uniform_like _random_normal_like _random_gamma_like _random_exponential_like _random_poisson_like
        _random_negative_binomial_like _random_generalized_negative_binomial_like
        _npi_normal _npi_normal_n _npi_bernoulli _npi_choice _npi_exponential _npi_gamma _npi_gumbel _npi_logistic
        _npi_multinomial _npi_pareto _npi_powerd _npi_rayleigh _npi_weibull""",
    "if the user's code does": "Custom _CachedOp _CachedOpThreadSafe _CustomFunction _foreach _while_loop _cond",
    "if a condition does not hold": "_npx_constraint_check",
}

_INPUTS = {
    (0,): "Embedding _contrib_SparseEmbedding",
    (1,): """
        take pick batch_take gather_nd scatter_nd softmax_cross_entropy SoftmaxOutput
        SequenceMask SequenceLast SequenceReverse _contrib_index_copy ROIPooling _contrib_ROIAlign""",
    (1, 2, 3): "CTCLoss",
}


def _by_name(table: Mapping[Any, str]) -> dict[str, Any]:
    return {name: value for value, names in table.items() for name in names.split()}


ALONE: dict[str, str] = _by_name({**_REASONS, **_UNSIZED, **_STATEFUL, **_WRITES, **_DRAWS})
"""Operators that run for each sample by itself, and why."""
NO_RULE: dict[str, str] = _by_name(_NO_RULE)
"""Operators without a row: should a program call one of them all the same, it runs alone."""
WRITES = frozenset(_by_name(_WRITES))
"""Operators that write into their operands, so they run at once, on the arrays themselves."""
AT_ONCE = WRITES | frozenset(_by_name(_UNSIZED))
"""These, and those whose result's shape depends on numbers, or whose storage is sparse: they run at once."""
WITH_STATISTICS = ("BatchNorm", "_contrib_BatchNormWithReLU")
"""Operators on data, scale, shift, and a running mean and variance, which they change in training."""
STATEFUL = frozenset([*_by_name(_STATEFUL), *WRITES, *WITH_STATISTICS, "RNN"])
"""Operators that change something beyond their results, or run the user's code."""
NO_GRADIENT: dict[str, tuple[int, ...]] = _by_name(_INPUTS)
"""Positions of inputs without a gradient: indices, lengths, labels.

If asked for one, MXNet raises, or returns uninitialized memory. If an index is computed from something that requires
gradients, a batch asks; MXNet's own history knows that the gradient is not needed, and does not.
"""
_COMPARISONS = """equal not_equal greater greater_equal lesser lesser_equal less less_equal logical_and logical_or
    logical_xor""".split()
FLAT = frozenset(
    """BlockGrad zeros_like ones_like argmax argmin rint ceil floor trunc fix round logical_not one_hot
    _contrib_arange_like _npi_argmax _npi_argmin _npi_rint _npi_ceil _npi_floor _npi_trunc _npi_fix _npi_logical_not
    _npi_isfinite _npi_isinf _npi_isnan _np_all _np_any""".split()
) | {
    form.format(name)
    for name in _COMPARISONS
    for form in ("_{}", "_{}_scalar", "broadcast_{}", "_npi_{}", "_npi_{}_scalar")
}
"""Operators whose gradients are zeros, of no dtype: from some operators before them MXNet does not come back alive."""
MAY_FAIL = frozenset(_by_name(_FAILS))
"""Operators that may raise when they run, depending on values and not on shapes.

MXNet raises such an error at the first wait for something that depends on the operator, which may be far away. The list
was found by running every operator on zeros, negative, huge and infinite numbers, and on indices out of range.
"""
_KINDS = "uniform normal gamma exponential poisson negative_binomial generalized_negative_binomial".split()
DRAWN = frozenset([f"_random_{kind}_like" for kind in _KINDS] + [f"_sample_{kind}" for kind in _KINDS])
"""Operators with a row that draw for all samples at once: the same distribution, different numbers."""
RANDOM = frozenset([*_by_name(_DRAWS), *DRAWN, "_sample_multinomial", "Dropout", "RNN", "LeakyReLU"])
"""Operators that draw random numbers, some of them as their attributes say, so equal calls are not equal values."""


def draws(name: str, attrs: Attributes, training: bool = True) -> bool:
    """True if a call with these attributes may draw random numbers."""
    if name == "Dropout":
        return (training or attrs.get("mode", "training") == "always") and float(attrs.get("p", 0.5)) > 0.0
    if name == "LeakyReLU":
        return bool(attrs.get("act_type") == "rrelu")
    return name in RANDOM and (name != "RNN" or float(attrs.get("p", 0.0)) > 0.0)


def fails(name: str, attrs: Attributes) -> bool:
    """True if a call with these attributes may raise when it runs."""
    return name in MAY_FAIL and bool(name != "take" or attrs.get("mode") == "raise")


def acts(name: str, attrs: Attributes, training: bool = True) -> bool:
    """True if a call with these attributes has a state, or may draw random numbers."""
    return name in STATEFUL or draws(name, attrs, training)
