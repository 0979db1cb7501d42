"""Cases of picking and putting by whole numbers."""

from __future__ import annotations

from torch_rule_cases.case import b, case, i, w, x

# fmt: off
for dim in (0, 1, -1):
    size = 5 if dim == 0 else 4
    case("index_select.default", x(5, 4), dim, i(size, 3), fixed=True)
    case("index_select.default", x(5, 4, 2), dim, i(2, 3), fixed=True)
    case("index_add.default", x(5, 4), dim, i(size, 3), x(3, 4) if dim == 0 else x(5, 3), fixed=True)
    case("index_add.default", x(5, 4), dim, i(size, 3), x(3, 4) if dim == 0 else x(5, 3), alpha=0.5, fixed=True)
    case("index_add.default", w(5, 4), dim, i(size, 3), x(3, 4) if dim == 0 else x(5, 3), fixed=True)
    case("index_add.default", x(5, 4), dim, i(size, 3, shared=True), x(3, 4) if dim == 0 else x(5, 3), fixed=True)
    case("index_copy.default", x(2, 2), dim, i(2, 1), x(1, 2) if dim == 0 else x(2, 1), fixed=True)
    case("scatter.value", x(3, 4), dim, i(3, 2, 3), 0.5, fixed=True)
    case("scatter.src", x(3, 4), dim, i(3, 1, 1), x(1, 1), fixed=True)
    case("scatter_add.default", x(3, 4), dim, i(3, 2, 3), x(2, 3), fixed=True)
    case("scatter_add.default", w(3, 4), dim, i(3, 2, 3), x(2, 3), fixed=True)
    for reduce in ("sum", "mean", "amax", "amin", "prod"):
        case("scatter_reduce.two", x(3, 4, low=0.5), dim, i(3, 2, 3), x(2, 3, low=0.5), reduce, fixed=True)
    case("scatter_reduce.two", x(3, 4), dim, i(3, 2, 3), x(2, 3), "sum", include_self=False, fixed=True)
case("index_select.default", w(5, 4), 1, i(4, 3))
case("index_add.default", x(4), 0, i(4, 3), x(3), fixed=True)
case("index_add.default", x(), 0, i(1, 1), x(), alone=True)
case("scatter_add.default", x(4), 0, i(4, 3), x(3), fixed=True)
case("scatter_add.default", x(), 0, i(1), x())
case("index.Tensor", x(5, 4), [i(5, 3)], fixed=True)
case("index.Tensor", x(5, 4), [i(5, 3, low=-5)], fixed=True)
case("index.Tensor", x(5, 4), [i(5)], fixed=True)
case("index.Tensor", x(5, 4), [i(5, 2, 3)], fixed=True)
case("index.Tensor", x(5, 4), [i(5, 3, shared=True)], fixed=True)
case("index.Tensor", w(5, 4), [i(5, 3)])
case("index.Tensor", w(5, 4), [i(5, 3, 2)], poly=True)
case("index.Tensor", w(5, 4), [i(5, 3), i(4, 3)])
case("index.Tensor", w(5, 4), [i(5, 3), i(4)])
case("index.Tensor", x(5, 4), [i(5, 3), i(4, 3)], fixed=True)
case("index.Tensor", x(5, 4), [i(5, 3, 1), i(4, 2)], fixed=True)
case("index.Tensor", x(5, 4), [None, i(4, 3)], fixed=True)
case("index.Tensor", w(5, 4), [None, i(4, 3)], fixed=True)
case("index.Tensor", x(5, 4, 3), [None, i(4, 2), i(3, 2)], fixed=True)
case("index.Tensor", x(5, 4, 3), [None, i(4, 2, 2), None], fixed=True)
case("index.Tensor", x(5, 4, 3), [i(5, 2), None, i(3, 2)], fixed=True)
case("index.Tensor", x(5, 4), [b(5)], alone=True)
case("index_put.default", x(5, 4), [i(5, 1)], x(1, 4), fixed=True)
case("index_put.default", x(5, 4), [i(5, 1)], x(4), fixed=True)
case("index_put.default", x(5, 4), [i(5, 3)], x(3, 4), True, fixed=True)
case("index_put.default", x(5, 4), [i(5, 3)], x(), True, fixed=True)
case("index_put.default", x(5, 4), [i(5, 3), i(4, 3)], x(3), True, fixed=True)
case("index_put.default", w(5, 4), [i(5, 3), i(4, 3)], x(3), True, fixed=True)
case("index_put.default", x(5, 4), [i(5, 3, shared=True)], x(3, 4), True, fixed=True)
case("index_put.default", x(5, 4), [None, i(4, 1)], x(5, 1))
case("index_put.default", x(5, 4), [b(5)], x(4))
case("index_put.default", x(5, 4), [b(5)], x(1, 4), alone=True)
case("index_put.default", x(5, 4), [b(5, 4)], x())
for mode in (0, 1, 2):
    for begins in (i(1, 1), i(1, 2), i(1, 1, shared=True)):
        for name in ("_embedding_bag.default", "_embedding_bag_forward_only.default"):
            learns = name == "_embedding_bag.default"
            case(name, w(6, 4), i(6, 5), begins, False, mode, compared=1, fixed=True, grad=learns)
case("_embedding_bag.default", w(6, 4), i(6, 5), i(1, 1), False, 0, False, x(5), compared=1, fixed=True)
case("_embedding_bag.default", w(6, 4), i(6, 5), i(1, 1), True, 0, alone=True, fixed=True)
case("_embedding_bag.default", x(6, 4), i(6, 5), i(1, 1), False, 0, alone=True, fixed=True)
