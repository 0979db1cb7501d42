"""Cases of sums, means, extremes, softmax, sorting and picking."""

from __future__ import annotations

from experiments.conformance.rule_cases.case import case, i, w, x

# fmt: off
for name in "sum mean max min prod nansum nanprod norm".split():
    for shape in [(1, 4), (3, 4), (1, 3, 4), (2, 3, 4), (4,), (1,), (1, 1)]:
        case(name, None, x(*shape))
        case(name, {"keepdims": True}, x(*shape))
        case(name, {"axis": "(0,)"}, x(*shape))
        case(name, {"axis": 0, "keepdims": 1}, x(*shape))
        if len(shape) > 1:
            case(name, {"axis": -1}, x(*shape), poly=True)
            case(name, {"axis": "(1,)", "keepdims": True}, x(*shape), poly=True)
            case(name, {"axis": "(0, 1)"}, x(*shape))
            case(name, {"axis": "[0,1]", "keepdims": True}, x(*shape))
            if name != "norm":
                case(name, {"axis": 0, "exclude": True}, x(*shape), poly=True)
                case(name, {"axis": 1, "exclude": True}, x(*shape))
case("sum", {"axis": "()"}, x(3, 4))
case("sum_axis", {"axis": "None"}, x(3, 4))
case("norm", {"ord": 1}, x(3, 4))
case("norm", {"ord": 1, "axis": 1}, x(3, 4), poly=True)
case("norm", {"ord": 1, "axis": "(0, 1)"}, x(3, 4))
case("norm", {"ord": 1, "axis": "(1, 2)"}, x(2, 3, 4), poly=True)
for shape in [(1, 4), (3, 4), (2, 3, 4)]:
    case("moments", {"axes": "(1,)"}, x(*shape), poly=True)
    case("moments", {"axes": "(0,)"}, x(*shape))
    case("moments", {"axes": "(0, 1)", "keepdims": True}, x(*shape))
for name in ["argmax", "argmin"]:
    for shape in [(1, 4), (3, 4), (2, 3, 4), (4,)]:
        for keepdims in (False, True):
            case(name, {"keepdims": keepdims}, x(*shape))
            case(name, {"axis": 0, "keepdims": keepdims}, x(*shape))
            if len(shape) > 1:
                case(name, {"axis": 1, "keepdims": keepdims}, x(*shape), poly=True)
case("argmax_channel", None, x(3, 4), poly=True, grad=False)
for name in ["softmax", "log_softmax", "softmin", "sort", "argsort"]:
    for shape in [(1, 4), (3, 4), (2, 3, 4), (4,)]:
        case(name, None, x(*shape), poly=len(shape) > 1, grad=name != "sort")  # sort's default axis breaks its gradient
        case(name, {"axis": 0}, x(*shape))
        if len(shape) > 1:
            case(name, {"axis": 1}, x(*shape), poly=True)
case("softmax", {"temperature": 2.0, "axis": "-2"}, x(3, 4))
case("softmax", {"use_length": True, "axis": 1}, x(3, 4), i(5, 3, low=1, dtype="int32"), poly=True)
case("softmax", {"use_length": True, "axis": 0}, x(3, 4), i(4, 4, low=1, dtype="int32"))
case("softmax", {"use_length": True, "axis": 1}, x(3, 4), i(5, 3, low=1, dtype="int32", shared=True))
case("sort", {"axis": "None"}, x(3, 4))
case("argsort", {"axis": "None", "is_ascend": 0}, x(3, 4))
for returns in ["value", "indices", "mask", "both"]:
    case("topk", {"k": 2, "ret_typ": returns}, x(3, 4), poly=True)
    case("topk", {"k": 2, "ret_typ": returns, "axis": 0}, x(3, 4))
    case("topk", {"k": 2, "ret_typ": returns, "axis": "None"}, x(3, 4))
    case("topk", {"k": 1, "ret_typ": returns}, x(4))
for shape in [(1, 4), (3, 4)]:
    case("pick", None, x(*shape), i(4, shape[0]), poly=True)
    case("pick", {"keepdims": True}, x(*shape), i(4, shape[0]), poly=True)
    case("pick", {"axis": 1}, x(*shape), i(4, shape[0], 1), poly=True)
    case("pick", {"axis": 0}, x(*shape), i(shape[0], 4))
    case("pick", {"axis": 0, "keepdims": 1}, x(*shape), i(shape[0], 4))
    case("pick", {"axis": 1, "mode": "wrap"}, x(*shape), i(9, shape[0], low=-9), poly=True)
    case("pick", None, w(*shape), i(4, shape[0]))
    case("pick", None, x(*shape), i(4, shape[0], shared=True))
case("choose_element_0index", None, x(3, 4), i(4, 3), poly=True)
