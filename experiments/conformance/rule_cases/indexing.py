"""Cases of look-ups, of what is made of nothing, and of what no rule batches."""

from __future__ import annotations

from experiments.conformance.rule_cases.case import case, i, w, x

# fmt: off
for shape in [(1,), (3,), (2, 3), (1, 3)]:
    case("Embedding", {"input_dim": 7, "output_dim": 5}, i(7, *shape), w(7, 5), poly=True)
    case("one_hot", {"depth": 5}, i(5, *shape), poly=True)
    case("take", None, w(7, 5), i(7, *shape), poly=True)
    case("take", {"axis": 1}, w(7, 5), i(5, *shape))
    case("take", {"axis": -1}, w(2, 7, 5), i(5, *shape, dtype="int32"))
    case("take", {"mode": "wrap"}, w(7, 5), i(20, *shape, low=-20), poly=True)
    case("take", {"axis": 1}, x(3, 5), i(5, *shape, shared=True), poly=True)
    case("take", {"axis": 0}, x(3, 5), i(3, *shape, shared=True))
    case("take", {"axis": 0}, x(3, 5), i(9, *shape, low=-9))
    case("take", {"axis": 0, "mode": "wrap"}, x(3, 5), i(9, *shape, low=-9))
    case("take", {"axis": 0}, x(3), i(3, *shape, dtype="int64"))
    case("take", {"axis": 0}, x(1, 2, 4), i(3, *shape))
case("one_hot", {"depth": 5, "dtype": "int32", "on_value": 3}, i(5, 3, dtype="int32"), poly=True)
case("Embedding", {"input_dim": 7, "output_dim": 5}, i(7, 3), x(7, 5), alone=True)
case("batch_take", None, x(3, 4), i(4, 3, dtype="int32"), poly=True, grad=False)
case("batch_take", None, x(1, 4), i(4, 1, dtype="int32", shared=True), grad=False)
case("gather_nd", None, x(3, 4), i(3, 2, 5))
case("gather_nd", None, w(3, 4), i(3, 2, 5))
case("gather_nd", None, x(3, 4), i(3, 2, 5, shared=True))
case("gather_nd", None, x(3, 4), i(3, 1, 5))
case("gather_nd", None, x(3, 4, 2), i(3, 2, 2, 2, dtype="int32"))
case("gather_nd", None, x(4), i(4, 1, 3))
for name in ["_zeros", "_ones"]:
    case(name, {"shape": "(1, 4)", "dtype": "float32"})
case("_full", {"shape": "(1, 4)", "value": 2.5})
case("_arange", {"start": 0, "stop": 4})
case("_linspace", {"start": 0, "stop": 4, "num": 5})
case("_eye", {"N": 3})
for name in "uniform normal gamma exponential poisson negative_binomial generalized_negative_binomial".split():
    case(f"_random_{name}", {"shape": "(1, 4)"}, alone=True)
case("_random_randint", {"low": 0, "high": 4, "shape": "(1, 4)"}, alone=True)

# Shapes and places.
for shape in ((1, 4), (3, 4), (4,)):
    case("shape_array", None, x(*shape), grad=False)
    case("size_array", None, x(*shape), grad=False)
    case("_contrib_arange_like", {"start": 1.0, "step": 0.1}, x(*shape), grad=False)
    case("_contrib_arange_like", {"axis": 0, "start": 2, "step": -3}, x(*shape), grad=False)
    case("_contrib_arange_like", {"axis": -1, "repeat": 2}, x(*shape), grad=False)
case("_slice_assign", {"begin": "(0, 1)", "end": "(2, 3)"}, x(3, 4), x(2, 2), alone=True)
case("_ravel_multi_index", {"shape": "(3, 4)"}, i(3, 2, 5), grad=False)
case("_unravel_index", {"shape": "(3, 4)"}, i(12, 5), grad=False)

# Alone, whatever the arguments.
case("_shuffle", None, x(3, 4), alone=True)
case("_contrib_boolean_mask", None, x(3, 4), i(2, 3), alone=True)
case("scatter_nd", {"shape": "(3, 4)"}, x(5), i(3, 2, 5), alone=True)
case("Custom", {"op_type": "nothing"}, x(3, 4), alone=True, outputs=[((3, 4), "float32")])
case("khatri_rao", {"num_args": 2}, x(2, 3), x(2, 3), alone=True)
case("cast_storage", {"stype": "default"}, x(2, 3), alone=True)
