"""What goes into a net and comes out of it."""

from __future__ import annotations

import dataclasses
from collections import OrderedDict, namedtuple
from typing import Any

from . import FORMS, habit

State = namedtuple("State", "h c")


@dataclasses.dataclass
class Pair:
    left: Any
    right: Any = None


def body_net(t: Any, body: Any) -> Any:
    """A net whose part has this body, on whatever the sample gives."""

    class Part(t.Part):
        def body(self, F: Any, *args: Any) -> Any:
            return body(self, F, *args)

    class Net(t.Net):
        def body(self, F: Any, *args: Any) -> Any:
            return self.inner(*args)

    return t.net(Part, Net)


def learn(t: Any, net: Any, calls: list[tuple[Any, ...]], total: Any) -> None:
    """Gradients of what `total` makes of the results."""
    t.zero(net)
    with t.record():
        loss = sum(total(t.call(net, *args)) for args in calls)
    t.backward(loss)
    t.see("loss", loss)
    t.see("gradients", {name: g for name, g in t.gradients(net).items() if name.startswith("part")})


@habit(forms=FORMS)
def a_list_of_arrays_of_any_length(t: Any) -> None:
    def body(self: Any, F: Any, xs: Any) -> Any:
        return F.tanh(sum(self.layer(x) for x in xs))

    given = t.inputs(6)
    learn(t, body_net(t, body), [(given[:1],), (given[1:3],), (given[2:6],), ([given[0]] * 3,)], lambda h: h.sum())


@habit(forms=FORMS)
def an_empty_list_of_children(t: Any) -> None:
    def body(self: Any, F: Any, x: Any, children: Any) -> Any:
        h = self.layer(x)
        return F.tanh(h + sum(children) if children else h)

    a, b, c = t.inputs(3)
    learn(t, body_net(t, body), [(a, []), (b, [a, c]), (c, []), (a, [b])], lambda h: (h * h).sum())


@habit(forms=FORMS)
def a_list_of_children_is_changed_after_the_call(t: Any) -> None:
    def body(self: Any, F: Any, x: Any, children: Any) -> Any:
        return F.tanh(self.layer(x) + sum(children))

    net, (a, b, c) = body_net(t, body), t.inputs(3)
    children = [a]
    results = []
    for more in (b, c):
        results.append(t.call(net, a, children))
        children.append(more)
        children[0] = more
    children.clear()
    t.see("results", results)


@habit(forms=("cell", "whole"))
def pairs_and_named_tuples_of_states(t: Any) -> None:
    def body(self: Any, F: Any, x: Any, state: Any) -> Any:
        h, c = state
        return State(F.tanh(self.layer(x) + h), c + h)

    net, (a, b, c) = body_net(t, body), t.inputs(3)
    t.zero(net)
    with t.record():
        state = State(a, b)
        for x in (a, b, c):
            state = t.call(net, x, state)
            state = State(h=state.h, c=state.c * 0.5)
        loss = (state.h * state.c).sum()
    t.backward(loss)
    t.see("loss", loss)
    t.see("fields", [type(state).__name__, list(state._fields), list(state)])


@habit(forms=("cell", "whole"))
def dictionaries_in_and_out(t: Any) -> None:
    def body(self: Any, F: Any, batch: Any) -> Any:
        h = F.tanh(self.layer(batch["x"]) * batch["more"]["factor"])
        return {"h": h, "twice": {"h": h * 2}, "name": batch["name"]}

    a, b = t.inputs(2)
    calls = [({"x": x, "more": {"factor": f}, "name": "n"},) for x, f in ((a, 1.0), (b, 0.5), (a, 2))]
    net = body_net(t, body)
    learn(t, net, calls, lambda out: (out["h"] * out["twice"]["h"]).sum())
    out = t.call(net, *calls[0])
    t.see("keys", [list(out), out["name"], sorted(out["twice"])])


@habit(forms=("cell", "whole"))
def a_dataclass_goes_in(t: Any) -> None:
    def body(self: Any, F: Any, pair: Any) -> Any:
        h = self.layer(pair.left)
        return F.tanh(h) if pair.right is None else F.tanh(h + pair.right)

    a, b, c = t.inputs(3)
    learn(t, body_net(t, body), [(Pair(a),), (Pair(b, c),), (Pair(c, a),)], lambda h: (h * h).sum())


@habit(forms=("cell", "whole"))
def a_dataclass_comes_out(t: Any) -> None:
    def body(self: Any, F: Any, x: Any) -> Any:
        h = self.layer(x)
        return Pair(F.tanh(h), h)

    net = body_net(t, body)
    learn(t, net, [(x,) for x in t.inputs()], lambda pair: (pair.left * pair.right).sum())
    t.see("type", type(t.call(net, t.inputs()[0])).__name__)


@habit(forms=FORMS)
def numbers_strings_and_none_choose_what_is_done(t: Any) -> None:
    def body(self: Any, F: Any, x: Any, how: Any, factor: Any, mask: Any) -> Any:
        h = self.layer(x) * factor
        h = F.tanh(h) if how == "tanh" else F.relu(h)
        return h if mask is None else h * mask

    a, b, c = t.inputs(3)
    calls = [(a, "tanh", 1, None), (b, "relu", 2.5, None), (c, "tanh", 1.0, a), (a, "tanh", True, b), (b, "tanh", 0, c)]
    learn(t, body_net(t, body), calls, lambda h: (h * h).sum())


@habit(forms=("cell", "whole"))
def scalars_of_numpy_are_factors(t: Any) -> None:
    import numpy as np

    def body(self: Any, F: Any, x: Any, factor: Any) -> Any:
        return F.tanh(self.layer(x) * float(factor))

    factors = [np.float32(0.5), np.float64(2), np.int64(3), np.array(0.25)]
    learn(t, body_net(t, body), [(x, f) for x, f in zip(t.inputs(4), factors)], lambda h: (h * h).sum())


@habit()
def labels_are_integers_of_any_kind(t: Any) -> None:
    import numpy as np

    net, labels = t.net(), [1, np.int64(0), np.array(1), True]
    t.zero(net)
    with t.record():
        total = 0
        for x, label in zip(t.inputs(4), labels):
            scores = t.call(net, x)
            total = total - t.F.log_softmax(scores, -1)[0][int(label)]
    t.backward(total)
    t.see("gradients", t.gradients(net))


@habit(forms=("cell", "whole"))
def constants_and_none_come_out(t: Any) -> None:
    def body(self: Any, F: Any, x: Any) -> Any:
        return F.tanh(self.layer(x)), None, 3, "name", [1.5, True]

    net = body_net(t, body)
    learn(t, net, [(x,) for x in t.inputs()], lambda out: out[0].sum() * out[2])
    t.see("constants", list(t.call(net, t.inputs()[0])[1:]))


@habit(forms=FORMS)
def the_input_itself_comes_out(t: Any) -> None:
    def body(self: Any, F: Any, x: Any) -> Any:
        return x, F.tanh(self.layer(x))

    net, given = body_net(t, body), t.inputs()
    learn(t, net, [(x,) for x in given], lambda out: (out[0] * out[1]).sum())
    t.see("input", t.call(net, given[0])[0])


@habit(forms=FORMS)
def one_result_comes_out_twice(t: Any) -> None:
    def body(self: Any, F: Any, x: Any) -> Any:
        h = F.tanh(self.layer(x))
        return h, h, h + 1

    learn(t, body_net(t, body), [(x,) for x in t.inputs()], lambda out: (out[0] * out[1] + out[2]).sum())


@habit(forms=FORMS)
def one_array_goes_in_twice(t: Any) -> None:
    def body(self: Any, F: Any, left: Any, right: Any) -> Any:
        return F.tanh(self.layer(left)) * right

    a, b, c = t.inputs(3)
    learn(t, body_net(t, body), [(a, a), (a, b), (c, c), (b, a)], lambda h: h.sum())


@habit(forms=FORMS)
def the_same_sample_comes_twice_in_a_minibatch(t: Any) -> None:
    net, (a, b) = t.net(), t.inputs(2)
    t.minibatch(net, [a, b, a, a])


@habit(forms=("cell", "whole"))
def a_sequence_of_arrays_comes_out(t: Any) -> None:
    def body(self: Any, F: Any, xs: Any) -> Any:
        states, h = [], xs[0]
        for x in xs:
            h = F.tanh(self.layer(x) + h)
            states.append(h)
        return states

    net, given = body_net(t, body), t.inputs(5)
    learn(t, net, [(given[:2],), (given[:5],), (given[3:4],)], lambda states: sum((h * h).sum() for h in states))
    t.see("length", [len(t.call(net, given[:k])) for k in (1, 3)])


@habit(forms=("whole",))
def an_ordered_dict_and_a_tuple_of_tuples(t: Any) -> None:
    def body(self: Any, F: Any, table: Any) -> Any:
        return tuple((name, F.tanh(self.layer(x))) for name, (x, _) in table.items())

    a, b, c = t.inputs(3)
    calls = [(OrderedDict(one=(a, 1), two=(b, 2)),), (OrderedDict(three=(c, 3)),)]
    learn(t, body_net(t, body), calls, lambda out: sum(h.sum() for _, h in out))


@habit(forms=FORMS)
def rows_of_many_numbers(t: Any) -> None:
    net = t.net()
    t.minibatch(net, [t.inputs(rows=n, seed=n)[0] for n in (1, 3, 2, 3)])


@habit("torch", forms=FORMS)
def arrays_without_rows(t: Any) -> None:
    net = t.net()
    t.minibatch(net, [t.inputs()[0], t.F.zeros(0, 4), t.inputs()[1]])
    t.see("empty", t.call(net, t.F.zeros(0, 4)))


@habit("torch", forms=FORMS)
def keywords_and_defaults(t: Any) -> None:
    class Part(t.Part):
        def body(self, F: Any, x: Any, factor: float = 1.0, *, gate: bool = False, **more: Any) -> Any:
            h = self.layer(x) * factor
            return F.sigmoid(h) * sum(more.values(), 1) if gate else F.tanh(h)

    net, x = t.net(Part), t.inputs()[0]
    calls: list[dict[str, Any]] = [{}, {"factor": 2.0}, {"gate": True}, {"gate": True, "bonus": 2}, {"factor": 2.0}]
    t.see("results", [t.call(net, x, **keywords) for keywords in calls])


@habit(forms=("cell",))
def keywords_of_a_cell(t: Any) -> None:
    class Net(t.Net):
        def body(self, F: Any, x: Any) -> Any:
            return self.out(self.inner(x, factor=2.0) + self.inner(x=x) + self.inner(factor=0.5, x=x))

    class Part(t.Part):
        def body(self, F: Any, x: Any, factor: float = 1.0) -> Any:
            return F.tanh(self.layer(x) * factor)

    t.minibatch(t.net(Part, Net))


@habit(forms=FORMS)
def a_mean_over_a_sequence_divides_by_its_length(t: Any) -> None:
    def body(self: Any, F: Any, xs: Any) -> Any:
        return F.tanh(sum(self.layer(x) for x in xs) / len(xs))

    given = t.inputs(6)
    learn(t, body_net(t, body), [(given[:k],) for k in (1, 2, 3, 6)], lambda h: (h * h).sum())


@habit(forms=FORMS)
def options_in_a_dictionary_beside_children(t: Any) -> None:
    def body(self: Any, F: Any, x: Any, children: Any, options: Any) -> Any:
        h = self.layer(x) * options.get("scale", 1.0)
        return F.tanh(h + sum(children) if children else h)

    a, b, c = t.inputs(3)
    given = [(a, [], {}), (b, (a, c), {}), (c, [b], {"scale": 2.0}), (a, [b, c, a], {"scale": 2.0, "other": None})]
    learn(t, body_net(t, body), given, lambda h: (h * h).sum())


@habit(forms=FORMS)
def children_and_arrays_in_dictionaries(t: Any) -> None:
    def body(self: Any, F: Any, x: Any, node: Any) -> Any:
        h = self.layer(x) * node["x"]
        for child in node["children"]:
            h = h + child["h"] * child["by"]["weight"]
        return F.tanh(h)

    a, b, c = t.inputs(3)
    child = {"h": b, "by": {"weight": c}}
    given = [(a, {"x": c, "children": [child] * count}) for count in (0, 1, 3, 2, 3)]
    learn(t, body_net(t, body), given, lambda h: (h * h).sum())


@habit(forms=FORMS)
def a_slice_beside_children(t: Any) -> None:
    def body(self: Any, F: Any, xs: Any, part: Any) -> Any:
        return F.tanh(sum(self.layer(x) for x in xs[part]))

    given = t.inputs(6)
    calls = [(given[:count], slice(begin, None)) for begin, count in ((0, 2), (1, 4), (0, 5), (1, 2))]
    learn(t, body_net(t, body), calls, lambda h: (h * h).sum())


@habit(forms=FORMS)
def a_key_whose_repr_does_something(t: Any) -> None:
    class Key:
        asked = 0

        def __repr__(self) -> str:
            Key.asked += 1
            return "a key"

    keys = [Key(), Key()]

    class Part(t.Part):
        def setup(self) -> None:
            self.table = {keys[0]: 2.0}

        def body(self, F: Any, x: Any) -> Any:
            h = F.tanh(self.layer(x))
            return h * self.table.get(keys[0], 1.0) + (0.5 if keys[1] in self.table else 0.0)

    class Net(t.Net):
        def body(self, F: Any, *args: Any) -> Any:
            return self.inner(*args)

    net, given = t.net(Part, Net), t.inputs(4)
    t.see("before", [t.call(net, x) for x in given])
    net.part.table[keys[1]] = 1.0
    t.see("after", [t.call(net, x) for x in given])
    t.see("asked", Key.asked)
