"""Cases of what changes shapes, repeats, joins and cuts."""

from __future__ import annotations

from experiments.conformance.rule_cases.case import case, w, x

# fmt: off
for shape, target in [((1, 8), (1, 8)), ((1, 8), (2, 4)), ((1, 8), (-1,)), ((1, 8), (0, 2, 4)), ((1, 8), (-1, 4)),
                      ((3, 8), (0, -1)), ((3, 8), (-1, 8)), ((3, 8), (-1, 4)), ((3, 8), (3, 2, 4)), ((8,), (2, 4)),
                      ((8,), (1, 8)), ((3, 2, 4), (0, -1)), ((3, 2, 4), (-1, 0, 4)), ((3, 2, 4), (0, -3)),
                      ((3, 2, 4), (-3, 0)), ((3, 2, 4), (0, 0, -4, 2, -1)), ((3, 8), (-2,)), ((1, 8), (-2, 1)),
                      ((1, 1), (1,)), ((1, 6), (0, 0, 1)), ((3, 8), (-4, 1, 3, -2))]:
    case("Reshape", {"shape": target}, x(*shape), poly=len(shape) == len(target) == 2 and target[0] == 0)
case("reshape", {"shape": "(-1, 0)", "reverse": True}, x(3, 2, 4))
case("Reshape", {"shape": "(0, 2, 4)"}, x(3, 8), poly=True)
case("Reshape", {"shape": "(-1, 2, 4)"}, x(3, 8), poly=True)
case("reshape_like", None, x(3, 8), x(3, 2, 4))
case("reshape_like", None, x(3, 8), w(3, 2, 4))
case("reshape_like", None, w(3, 8), x(3, 2, 4))
for shape in [(1, 4), (3, 4), (2, 3, 4), (4,)]:
    case("Flatten", None, x(*shape), poly=True)
    case("expand_dims", {"axis": 0}, x(*shape))
    case("expand_dims", {"axis": 1}, x(*shape), poly=True)
    case("expand_dims", {"axis": -1}, x(*shape), poly=True)
for shape, axis in [((1, 4), 0), ((1, 4), None), ((3, 1, 4), 1), ((3, 1, 4), None), ((1, 1), None), ((1, 1, 1), (0, 2)),
                    ((1, 3, 1), 0), ((3, 1, 1), (1, 2)), ((1, 3), -2)]:
    case("squeeze", {"axis": axis}, x(*shape), poly=shape[0] == 3 and axis is not None)
for shape, order in [((1, 4), None), ((3, 4), None), ((3, 4), (0, 1)), ((1, 4), (1, 0)), ((2, 3, 4), (0, 2, 1)),
                     ((2, 3, 4), (2, 0, 1)), ((1, 3, 4), (1, 0, 2)), ((2, 1, 4), (1, 0, 2)), ((4,), None)]:
    case("transpose", {"axes": order} if order else None, x(*shape), poly=bool(order) and order[0] == 0)
for shape in [(1, 4), (3, 4), (2, 3, 4)]:
    case("SwapAxis", {"dim1": 0, "dim2": 1}, x(*shape))
    case("swapaxes", {"dim1": 1, "dim2": len(shape) - 1}, x(*shape), poly=True)
    for name in ["reverse", "flip"]:
        case(name, {"axis": 0}, x(*shape))
        case(name, {"axis": "(1,)"}, x(*shape), poly=True)
    case("tile", {"reps": "(1, 2)"}, x(*shape), poly=True)
    case("tile", {"reps": "(2, 3)"}, x(*shape))
    case("tile", {"reps": "(2,)"}, x(*shape), poly=True)
    case("tile", {"reps": "(2, 1, 1, 3)"}, x(*shape))
    case("tile", {"reps": "(1, 1, 1)"}, x(*shape))
    case("repeat", {"repeats": 2}, x(*shape))
    case("repeat", {"repeats": 2, "axis": 1}, x(*shape), poly=True)
    case("repeat", {"repeats": 2, "axis": -1}, x(*shape), poly=True)
    case("repeat", {"repeats": 3, "axis": 0}, x(*shape))
case("tile", {"reps": "(2, 2, 2)"}, x(1, 3, 2))     # which at once would have too many axes
for shape, target in [((1, 4), (3, 4)), ((3, 1), (3, 4)), ((1, 1), (2, 3)), ((1, 4), (0, 4)), ((1,), (4,))]:
    case("broadcast_to", {"shape": target}, x(*shape))
    case("broadcast_like", None, x(*shape), w(*(t or s for s, t in zip(shape, target))))
    case("broadcast_like", None, x(*shape), x(*(t or s for s, t in zip(shape, target))))
    case("broadcast_like", None, w(*shape), x(*(t or s for s, t in zip(shape, target))))
case("broadcast_to", {"shape": "(0, 4)"}, x(3, 1), poly=True)
case("broadcast_axis", {"axis": 1, "size": 4}, x(3, 1), poly=True)
case("broadcast_axis", {"axis": 0, "size": 3}, x(1, 4))
case("broadcast_axis", {"axis": "(0, 1)", "size": "(3, 2)"}, x(1, 1))
case("broadcast_like", {"lhs_axes": "(0,)", "rhs_axes": "(1,)"}, x(1, 3), x(5, 4))

for shape in [(1, 4), (3, 4), (2, 3, 4)]:
    for axis in (0, 1, -1):
        case("Concat", {"dim": axis, "num_args": 2}, x(*shape), x(*shape), poly=axis != 0)
        case("Concat", {"dim": axis, "num_args": 3}, x(*shape), w(*shape), x(*shape))
        case("stack", {"axis": axis, "num_args": 2}, x(*shape), x(*shape), poly=axis != 0)
        case("stack", {"axis": axis, "num_args": 3}, x(*shape), w(*shape), x(*shape))
        case("slice_axis", {"axis": axis, "begin": 0, "end": "None"}, x(*shape), poly=True)
        case("slice_axis", {"axis": axis, "begin": -1, "end": "None"}, x(*shape), poly=axis != 0)
        case("slice_axis", {"axis": axis, "begin": 0, "end": 1}, x(*shape), poly=axis != 0)
    case("Concat", {"num_args": 2}, x(*shape), x(shape[0], 2, *shape[2:]), poly=True)
case("Concat", {"dim": 0, "num_args": 2}, x(1, 4), x(3, 4))
case("Concat", {"dim": 0, "num_args": 2}, x(4), x(3))
case("Concat", {"dim": 0, "num_args": 2}, x(1, 4), w(3, 4))
case("stack", {"num_args": 2}, x(4), x(4))
case("stack", {"num_args": 3}, x(1), x(1), x(1))
case("stack", {"num_args": 2, "axis": 1}, x(4), x(4), poly=True)
case("stack", {"num_args": 1, "axis": 1}, x(1, 4), poly=True)
for shape in [(1, 4), (3, 4), (2, 4, 4)]:
    case("SliceChannel", {"num_outputs": 2}, x(*shape), poly=True)
    case("SliceChannel", {"num_outputs": 4, "squeeze_axis": True}, x(*shape), poly=True)
    case("SliceChannel", {"num_outputs": shape[0], "axis": 0}, x(*shape))
    case("SliceChannel", {"num_outputs": shape[0], "axis": 0, "squeeze_axis": 1}, x(*shape))
    case("_split_v2", {"indices": "()", "sections": 2, "axis": 1}, x(*shape), poly=True)
    case("_split_v2", {"indices": "(0, 1)", "axis": 1, "squeeze_axis": 0}, x(*shape), poly=True)
case("_split_v2", {"indices": "(0, 1)", "axis": 0}, x(3, 4))
case("SliceChannel", {"num_outputs": 2, "axis": 0}, x(4))
case("SliceChannel", {"num_outputs": 1, "axis": 1}, x(1, 4), poly=True)
for begin, end, step in [("(None, 1)", "(None, 3)", None), ("(0, 1)", "(1, 3)", None), ("(0,)", "(1,)", None),
                         ("(None, -1)", "(None, None)", None), ("(None, None)", "(None, None)", "(None, -1)"),
                         ("(None, 0)", "(None, 4)", "(1, 2)"), ("(0, 1)", "(None, 2)", None)]:
    for shape in [(1, 4), (3, 4), (2, 4, 4)]:
        case("slice", {"begin": begin, "end": end, **({"step": step} if step else {})}, x(*shape),
             poly="None" in end[:5])
case("slice", {"begin": "(None,)", "end": "(None,)", "step": "(-1,)"}, x(3, 4))
case("slice", {"begin": "(1,)", "end": "(3,)"}, x(4))
case("crop", {"begin": "(0, 1)", "end": "(3, 3)"}, x(3, 4))
case("slice_like", None, x(3, 4), x(2, 3))
case("slice_like", None, x(3, 4), w(2, 3))
case("slice_like", None, w(3, 4), x(2, 3))
case("slice_like", {"axes": "(1,)"}, x(3, 4), x(2, 3))
case("slice_like", {"axes": "(-1,)"}, x(3, 4), x(3, 3))
