"""Cases of products of matrices."""

from __future__ import annotations

from torch_rule_cases.case import case, fixed, i, w, x

# fmt: off
for rows in (1, 3):
    case("mm.default", x(rows, 4), w(4, 5), poly=True)
    case("mm.default", x(rows, 4), x(4, 5), fixed=True)
    case("mm.default", w(rows, 4), x(4, 5))
    case("addmm.default", w(5), x(rows, 4), w(4, 5), poly=True)
    case("addmm.default", w(1, 5), x(rows, 4), w(4, 5), poly=True)
    case("addmm.default", w(), x(rows, 4), w(4, 5), poly=True)
    case("addmm.default", w(rows, 5), x(rows, 4), w(4, 5), fixed=True)
    case("addmm.default", x(rows, 5), x(rows, 4), w(4, 5), fixed=True)
    case("addmm.default", x(5), x(rows, 4), w(4, 5), fixed=True)
    case("addmm.default", x(), x(rows, 4), w(4, 5), fixed=True)
    case("addmm.default", w(5), x(rows, 4), x(4, 5), fixed=True)
    case("addmm.default", w(5), w(rows, 4), x(4, 5), fixed=True)
    case("addmm.default", x(5), w(rows, 4), w(4, 5), fixed=True)
    case("addmm.default", w(5), x(rows, 4), w(4, 5), beta=0.5, alpha=2, fixed=True)
    case("addmm.default", x(rows, 5), x(rows, 4), x(4, 5), beta=2, alpha=0.5, fixed=True)
case("mv.default", x(3, 4), x(4), fixed=True)
case("mv.default", x(3, 4), w(4), fixed=True)
case("mv.default", w(3, 4), x(4))
for name in ("dot.default", "vdot.default"):
    case(name, x(4), x(4))
    case(name, x(4), w(4))
    case(name, w(4), x(4))
    case(name, i(4, 4, dtype="int32"), i(4, 4, dtype="int32"))
case("bmm.default", x(2, 3, 4), x(2, 4, 5), fixed=True)
case("bmm.default", x(2, 3, 4), w(2, 4, 5), fixed=True)
case("bmm.default", w(2, 3, 4), x(2, 4, 5), fixed=True)
case("baddbmm.default", x(2, 3, 5), x(2, 3, 4), x(2, 4, 5), fixed=True)
case("baddbmm.default", w(2, 3, 5), x(2, 3, 4), x(2, 4, 5), fixed=True)
case("baddbmm.default", w(5), x(2, 3, 4), x(2, 4, 5), fixed=True)
case("baddbmm.default", x(1, 3, 5), x(2, 3, 4), w(2, 4, 5), fixed=True)
case("baddbmm.default", w(2, 3, 5), w(2, 3, 4), x(2, 4, 5), fixed=True)
case("baddbmm.default", x(5), x(2, 3, 4), x(2, 4, 5))
case("baddbmm.default", x(2, 3, 5), x(2, 3, 4), x(2, 4, 5), beta=2)
for kinds in ((x, w, x), (x, x, x), (w, w, x)):
    first, second, third = kinds
    case("_trilinear.default", first(1, 4), second(5, 4, 6), third(1, 6), (1, 3), (0,), (1, 2), (2, 3), fixed=True)
for mask in (None, fixed(w(3, 5)), fixed(w(1, 1, 3, 5)), fixed(x(1, 2, 3, 5))):
    case("_scaled_dot_product_flash_attention_for_cpu.default", x(1, 2, 3, 4), x(1, 2, 5, 4), x(1, 2, 5, 4),
         attn_mask=mask, compared=1, fixed=True)
case("_scaled_dot_product_flash_attention_for_cpu.default", x(2, 2, 3, 4), w(2, 2, 5, 4), x(2, 2, 5, 4),
     compared=1, fixed=True, scale=0.5)
for mask in (x(3, 5), x(1, 5), x(1, 2, 3, 5), x(1, 1, 3, 5)):  # of a sample, for all of its rows or heads
    case("_scaled_dot_product_flash_attention_for_cpu.default", x(2, 2, 3, 4), x(2, 2, 5, 4), x(2, 2, 5, 4), 0.0, False,
         attn_mask=fixed(mask), compared=1, fixed=True)
for left, right in ((x(3, 4), x(5, 4)), (x(3, 4), w(5, 4)), (w(3, 4), x(5, 4)), (x(2, 3, 4), x(2, 5, 4))):
    case("_cdist_forward.default", left, right, 1.0, None, fixed=True)
    case("_cdist_forward.default", left, right, 2.0, 0, fixed=True)
for shape in ((3, 3), (2, 3, 3)):
    case("linalg_inv_ex.default", x(*shape), compared=1, fixed=True)
    case("_linalg_det.default", x(*shape), compared=1, fixed=True)
    case("_linalg_slogdet.default", x(*shape), compared=2, fixed=True)
    case("_linalg_svd.default", x(*shape), False, False, compared=0, grad=False, fixed=True)
    case("_linalg_eigh.default", x(*shape), compared=1, fixed=True)
    case("linalg_qr.default", x(*shape), fixed=True)
    case("linalg_matrix_exp.default", x(*shape), fixed=True)
    case("_linalg_solve_ex.default", x(*shape), x(*shape), compared=1, fixed=True)
    case("linalg_solve_triangular.default", x(*shape, low=0.5), x(*shape), upper=True, fixed=True)
case("linalg_cholesky_ex.default", x(1, 1, low=0.5), compared=1, fixed=True)
case("linalg_cholesky_ex.default", x(3, 1, 1, low=0.5), compared=1, fixed=True)
case("_linalg_solve_ex.default", x(3, 3), x(3), compared=1, fixed=True)
case("_linalg_solve_ex.default", w(3, 3), x(3, 2), compared=1, fixed=True)
case("_linalg_solve_ex.default", x(2, 3, 3), x(2, 3), fixed=True)
case("linalg_solve_triangular.default", w(3, 3, low=0.5), x(3, 2), upper=False, fixed=True)
case("cholesky_solve.default", x(3, 2), x(3, 3, low=0.5), fixed=True)
# fmt: on
