"""What programs do with results in Python: looks, conversions, comparisons, containers."""

from __future__ import annotations

import copy
import gc
import math
import weakref
from typing import Any

from . import FORMS, habit


def result(t: Any, rows: int = 1, seed: int = 0) -> Any:
    return t.call(t.net(), t.inputs(rows=rows, seed=seed)[0])


@habit(forms=FORMS)
def looks_are_known(t: Any) -> None:
    h = result(t, 3)
    size = h.size if t.engine == "mxnet" else h.numel()
    t.see("shape", [tuple(h.shape), len(h), h.ndim, size])
    t.see("dtype", str(h.dtype).replace("torch.", ""))
    t.see("is", [isinstance(h, t.array([0]).__class__), bool(h is not None), h is h, callable(h)])
    t.see("numbers", h)


@habit(forms=FORMS)
def numbers_are_taken_one_by_one(t: Any) -> None:
    h = result(t, 3)
    t.see("rows", [t.numbers(row) for row in h])
    t.see("entry", t.number(h[1, 0]) if t.engine == "torch" else t.number(h[1][0]))
    first, second, third = h
    t.see("unpacked", [first, second, third])
    t.see("float", t.number(h[2][1]))
    t.see("rounded", f"{t.number(h[0][0]):.4f} {round(t.number(h[0][1]), 3)}")
    t.see("whole", h)


@habit()
def printing_shows_the_numbers(t: Any) -> None:
    h = result(t)
    shown = [f"{h}", str(h), repr(h)]
    plain = t.array(t.numbers(h))
    t.see("as plain", [t.numbers(plain).round(3).tolist()])
    t.see("placeholders", ["lazy" in text.lower() or "needs" in text.lower() for text in shown])
    t.see("digits", [f"{abs(t.numbers(h)[0, 0]):.3f}" in text.replace("\n", "") for text in shown])


@habit()
def comparisons_are_arrays_of_truth(t: Any) -> None:
    h = result(t, 2)
    t.see("greater", t.numbers(h > 0).astype("float32"))
    t.see("equal", t.numbers(h == h).astype("float32"))
    t.see("truth", [bool(h.sum() > 0), bool((h > -100).sum() == 4), not h.sum() > 1e6])
    with t.raises("ambiguous"):
        bool(h)


@habit()
def a_result_is_a_key_and_a_member(t: Any) -> None:
    net = t.net()
    one, other = (t.call(net, x) for x in t.inputs(2))
    table = {one: "one", other: "other"}
    t.see("found", [table[one], table[other], len({one, other, one}), hash(one) == hash(one), one in table])
    by_id = {id(h): k for k, h in enumerate((one, other))}
    t.see("ids", [by_id[id(one)], by_id[id(other)]])
    t.see("values", list(table))


@habit("torch")
def membership_in_a_list_compares(t: Any) -> None:
    """`in` asks `==` and the truth of that, which for one number is a truth."""
    net = t.net()
    losses = [t.loss(net, x) for x in t.inputs()]
    t.see("found", [losses[1] in losses, losses.index(losses[2]), losses.count(losses[0])])


@habit("torch")
def a_weak_reference_ends_with_the_result(t: Any) -> None:
    net = t.net()
    h = t.call(net, t.inputs()[0])
    seen = weakref.ref(h)
    t.see("alive", seen() is h)
    t.numbers(h)
    del h
    gc.collect()
    t.see("ended", seen() is None)


@habit()
def results_are_compared_with_none_and_types(t: Any) -> None:
    net, state = t.net(), None
    for x in t.inputs():
        h = t.call(net, x)
        state = h if state is None else state + h
        t.see("kind", [h is None, type(h) is type(h), isinstance(h, (list, tuple)), hasattr(h, "shape")])
    t.see("state", state)


@habit()
def numbers_of_numpy_and_math_mix_with_results(t: Any) -> None:
    import numpy as np

    h = result(t, 2)
    scaled = h / math.sqrt(h.shape[1]) * float(np.float32(2)) - int(np.int64(1))
    t.see("scaled", scaled)
    t.see("power", (1 - h) ** 2 / 3)
    t.see("reversed", [2 * h, 1 / (h + 10), 3 - h, -h])
    t.see("sum of python", sum([row.sum() for row in h]))


@habit()
def numpy_reads_a_result(t: Any) -> None:
    import numpy as np

    h = result(t, 2)
    h = h.detach()
    read = h.numpy() if t.engine == "torch" else h.asnumpy()
    t.see("numpy", [float(np.abs(read).sum()), read.shape, str(read.dtype)])
    t.see("back", t.array(read) + h)


@habit()
def the_index_of_the_largest_chooses_what_comes_next(t: Any) -> None:
    """Greedy decoding: the word with the best score goes into the next step."""
    net, table = t.net(), t.inputs(2)
    x, words = table[0], []
    for _ in range(5):
        scores = t.call(net, x)
        words.append(int(t.numbers(scores.argmax(1) if t.engine == "torch" else scores.argmax(axis=1))[0]))
        x = table[words[-1]] * (1 + 0.1 * len(words))
    t.see("words", words)


@habit()
def a_while_loop_goes_on_until_a_number_is_small(t: Any) -> None:
    class Net(t.Net):
        def body(self, F: Any, x: Any) -> Any:
            turns = 0
            while abs(x).sum() > 0.5 and turns < 6:
                x, turns = self.inner(x) * 0.5, turns + 1
            self.turns.append(turns)
            return self.out(x)

        def setup(self) -> None:
            self.turns: list[int] = []

    net = t.net(net=Net)
    t.minibatch(net, t.inputs(4))
    t.see("turns", net.turns)


@habit()
def a_result_is_copied(t: Any) -> None:
    h = result(t)
    h = h.detach()
    t.see("copies", [copy.copy(h), copy.deepcopy(h), copy.deepcopy([h, {"h": h}])])


@habit()
def results_are_pickled(t: Any) -> None:
    import pickle

    h = result(t).detach()
    t.see("back", pickle.loads(pickle.dumps([h, h])))


@habit()
def results_wait_for_long_in_a_list(t: Any) -> None:
    """Read after three more minibatches with steps: they are what they were."""
    net, kept = t.net(), []
    for epoch in range(3):
        with t.record():
            losses = [t.loss(net, x) for x in t.inputs(seed=epoch)]
            total = sum(losses)
        kept += [losses[0], total]
        t.zero(net)
        t.backward(total)
        t.step(net)
    t.see("kept", kept)


@habit()
def results_that_nobody_reads_cost_no_others(t: Any) -> None:
    net = t.net()
    for x in t.inputs(4):
        t.call(net, x)
    t.minibatch(net)


@habit()
def a_tensor_goes_through_a_string_and_a_list(t: Any) -> None:
    h = result(t, 2)
    numbers = h.tolist() if t.engine == "torch" else h.asnumpy().tolist()
    t.see("list", numbers)
    t.see("again", t.array(numbers) * 2)


@habit()
def a_slice_of_a_result_goes_on(t: Any) -> None:
    net = t.net()
    t.zero(net)
    with t.record():
        h = t.call(net, t.inputs(rows=3)[0])
        total = (h[0] * 2).sum() + h[1:3].sum() - (h[:, 1] ** 2).sum() + h[-1].sum()
    t.backward(total)
    t.see("total", total)
    t.see("gradients", t.gradients(net))
