"""Linear algebra on matrices in the last axes: all axes before them are batch axes."""

from __future__ import annotations

from .rule import Emit, OperatorCall, Rule, rules_of
from .symbols import apply
from .values import ROWS, STACK, NotBatchable, Val, convert, reshape, together


def matrices(core: int = 2, scalar: bool = False) -> Emit:
    """Makes a rule for inputs that end in `core` axes; with `scalar` the result has none of them."""

    def emit(call: OperatorCall) -> list[Val]:
        if call.attrs.integer("axis", -2) != -2:
            raise NotBatchable(f"{call.name} with matrices on other axes than the last two")
        operands = together(call.inputs, rows_exact=call.data.ndim > core)
        if operands.layout == STACK and scalar and call.data.ndim == core:
            return call.deliver_each(call.same(operands.symbols), ())
        return call.deliver_of(operands)

    return emit


def gemm(call: OperatorCall) -> list[Val]:
    """alpha * A B + beta * C by batch_dot, for the reason that gemm2 has."""
    if call.attrs.integer("axis", -2) != -2:
        raise NotBatchable(f"{call.name} with matrices on other axes than the last two")
    operands = together(call.inputs, rows_exact=call.data.ndim > 2)
    left, right, addend = operands.symbols
    transposes = {key: call.attrs.flag(key) for key in ("transpose_a", "transpose_b")}
    product = apply(
        "batch_dot", [reshape(left, call.inputs[0].shape[-2:]), reshape(right, call.inputs[1].shape[-2:])], transposes
    )
    rest = call.shape[1:] if operands.layout == ROWS else call.shape
    scaled = apply("_mul_scalar", [reshape(product, rest)], {"scalar": call.attrs.number("alpha", 1.0)})
    added = apply("_mul_scalar", [addend], {"scalar": call.attrs.number("beta", 1.0)})
    return call.deliver(apply("elemwise_add", [scaled, added], {}), operands.layout, operands.poly)


def diag(call: OperatorCall) -> list[Val]:
    """The diagonal over two axes, or a matrix from a vector."""
    stacked = convert(call.data, STACK)
    if stacked.ndim == 1 and stacked.dtype not in ("float32", "float64"):
        raise NotBatchable(f"diag of a vector of {stacked.dtype}")
    if stacked.ndim == 1:
        made = apply("_linalg_makediag", [stacked.sym], {"offset": call.attrs.integer("k", 0)})
        return call.deliver(made, STACK)
    first = call.axis("axis1", 0)
    second = call.axis("axis2", 1)
    return call.deliver(call.same([stacked.sym], axis1=first + 1, axis2=second + 1), STACK)


LAST_AXES = "stacked, or rows of batches of matrices"

RULES: dict[str, Rule] = {
    **rules_of(
        """_linalg_potrf _linalg_potri _linalg_trmm _linalg_trsm _linalg_syrk _linalg_gelqf _linalg_syevd
        _linalg_inverse _linalg_extractdiag _linalg_extracttrian _contrib_box_nms _contrib_bipartite_matching""",
        matrices(),
        notes=LAST_AXES,
    ),
    **rules_of("_linalg_det _linalg_slogdet _linalg_sumlogdiag", matrices(scalar=True), notes=LAST_AXES),
    **rules_of("_linalg_makediag _linalg_maketrian", matrices(core=1), notes=LAST_AXES),
    "_linalg_gemm": Rule("rewritten", gemm, notes="batch_dot"),
    "diag": Rule("rewritten", diag, notes="axes shifted by the sample axis"),
}
