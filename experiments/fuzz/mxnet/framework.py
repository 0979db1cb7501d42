"""MXNet: how its programs are drawn, written and judged."""

from __future__ import annotations

import re
from ctypes import POINTER, byref, c_char_p, c_int
from typing import Any

import mxnet as mx
from mxnet import nd

from experiments.fuzz.case import Action, Case, Choices, Given, Minibatch, Way, dtype_of, shapes
from experiments.fuzz.comparing import attempt
from experiments.fuzz.framework import Framework
from experiments.fuzz.mxnet import prelude
from experiments.fuzz.mxnet.dialect import DIALECT, TABLE
from experiments.fuzz.mxnet.net import NET
from experiments.fuzz.mxnet.plants import PLANTS

TOLERANCE = 1e-5
# The eager program itself is no nearer to the truth: see "Logarithms of a softmax" in docs/decisions/reports.md.
TOLERANCE_OF_LOGARITHM = 1e-4
_LOGARITHMS = ("log_softmax", "net.entropy", "net.kl")
TOLERANCE_OF_HALF = 2e-2

# Differences that are known and meant: MXNet raises with this text, and a batch does not.
KNOWN = {
    "it is not in a computational graph": "backward of what depends on nothing learned does nothing in a batch",
    "no inputs in computation graph that require gradients": "the same",
}

# The eager program cannot say what is right where MXNet frees a constant array's entry with the first history that
# goes through it, and then fails in the second; and where it gives up half-way because of a head or a variable that
# has no part in the history.
FREED = "any container is empty"
HALF_WAY = ("autograd.backward(losses", ", grad raises")

# In a scope the program's own arrays are MXNet's. One that captured calls have read beside a weight is in a graph for
# eager MXNet alone, and so is what MXNet computes from it.
REFUSED_WRITE = (
    "Assigning to NDArrays that are already in a computational graph",
    "Inplace operations (+=, -=, x[:]=, etc) are not supported when recording",
)
IN_SCOPE = "with scope(batched"
HYBRIDIZED = "net.hybridize("

CHOICES = Choices(
    table=TABLE,
    losses=("gluonjit.add_n({})", "sum({})", "nd.stack(*{}).sum()", "nd.concat(*{}, dim=0).mean()", "nd.add_n(*{})"),
    backwards=("total", "total", "total", "list", "each", "twice", "heads", "grad", "scaled"),
    readings=("after", "before", "end", "none", "some"),
    after=("trainer", "trainer", "set_data", "write", "add"),
    between=2,
    hows=(*["hybridize"] * 6, "both", "scope"),
    wholes=("float32", "int64"),
    shapes=shapes,
)


class MXNet(Framework):
    """MXNet."""

    name = "mxnet"
    choices = CHOICES
    dialect = DIALECT
    prelude = prelude
    net = NET
    plants = PLANTS

    def array(self, numbers: Any, dtype: str) -> Any:
        return nd.array(numbers, dtype=dtype)

    def given(self, name: str, numbers: Any, dtype: str, learn: bool) -> list[str]:
        return [
            f'{name} = nd.array({numbers.tolist()}, dtype="{dtype}")',
            *([f"{name}.attach_grad()"] if learn else []),
        ]

    def cast(self, text: str, dtype: str) -> str:
        return f'{text}.astype("{dtype}")'

    def hybridize(self, options: str) -> str:
        return f"net.hybridize(dynamic_batch=True{options})"

    def trainer(self) -> str:
        return 'trainer = gluon.Trainer(parameters(net, names), "sgd", {"learning_rate": 0.1})'

    def call(self, program: str, arguments: list[str], way: Way) -> str:
        return f"net({', '.join([program, *arguments])})"

    def mode(self, way: Way) -> str:
        return f"autograd.record({way.train_mode})" if way.record else "autograd.predict_mode()"

    def loss(self, case: Case, minibatch: Minibatch, learned: list[str]) -> str:
        """Tie a loss to what it does not depend on, where MXNet would refuse the whole call otherwise."""
        if not case.way.record or minibatch.backward not in ("list", "heads", "grad"):
            return "loss_of(out)"
        tied = ["net.vector.data()", *(learned if minibatch.backward == "grad" else [])]
        return f"loss_of(out, [{', '.join(tied)}])"

    def carried(self, text: str, detach: bool, before: Minibatch) -> str:
        return text + ".detach()" if detach else text

    def forget(self, number: int, case: Case, learned: list[str]) -> list[str]:
        return [f"forget_gradients(net, names, [{', '.join(learned)}])"]

    def backward(self, number: int, case: Case, learned: list[str]) -> list[str]:
        minibatch = case.minibatches[number]
        style = minibatch.backward
        if style == "grad" and learned:
            call = f"autograd.grad(total, [{', '.join(learned)}])"
            return [
                "if losses:",
                f'    found_gradients = attempt(found, "minibatch {number}, grad", lambda: {call})',
                f'    keep(found, "minibatch {number}, grad", found_gradients)',
            ]
        calls = {
            "list": ["autograd.backward(losses)"],
            "each": [f"losses[{k}].backward()" for k in range(len(minibatch.samples))],
            "twice": ["total.backward(retain_graph=True)", "total.backward()"],
            "heads": ["autograd.backward(losses, [nd.array([0.5 + k]) for k in range(len(losses))])"],
            "scaled": ["total.backward(nd.array([0.3]))"],
        }.get(style, ["total.backward()"])
        lines = [f'    attempt(found, "minibatch {number}, {call}", lambda: {call})' for call in calls]
        lines += [f'    keep(found, "minibatch {number}, gradient of {name}", [{name}.grad])' for name in learned]
        lines.append(f'    record_gradients(found, "minibatch {number}", net, names)')
        return ["if losses:", *lines]

    def action(self, action: Action, way: Way, inputs: list[tuple[str, Given]]) -> list[str]:
        if action.what == "trainer":
            return ['attempt(found, "trainer", lambda: trainer.step(1, ignore_stale_grad=True))']
        if action.what == "set_data":
            return [f'change(net, names, {action.number}, "{way.dtype}")']
        if not inputs:
            return []
        name, given = inputs[action.number % len(inputs)]
        if action.what == "buffer":
            if way.record and action.at != -1:  # MXNet's own backward would read what was written
                return []
            return self.buffer(name, given.shape, dtype_of(given), given.learn, action.number)
        if action.what == "write":
            return [f'{name}[:] = values({given.shape}, {action.number}, "{dtype_of(given)}")']
        return [f"{name} += 0.125"]

    def buffer(self, name: str, shape: tuple[int, ...], dtype: str, learn: bool, number: int) -> list[str]:
        """Lines that write into an input: as a loader does that fills its buffer again."""
        made = f'values({shape}, {number}, "{dtype}")'
        inner = [f"{name}[:] = {made}", f"{name} += 0.125", f"{name} *= 0.5", f"{made}.copyto({name})"][number // 7 % 4]
        return ["with autograd.pause():", f"    {inner}"]

    def nudged(self, text: str, by: float) -> str:
        text = text.replace("fill(net, names, ", f"fill(net, names, nudge={by}, dtype=")
        return re.sub(r'( x\d+ = nd\.array\(.*, dtype="float\d+"\))', rf"\1 * {1 + by}", text)

    def end(self, net: Any, found: dict[str, Any], batched: bool) -> None:
        if batched:
            attempt(found, "the end", lambda: net.hybridize(dynamic_batch=False))
        attempt(found, "waiting", mx.nd.waitall)  # errors of operators that nobody waited for

    def unusable(self, name: str, value: Any) -> bool:
        if not isinstance(value, mx.base.MXNetError):
            return False
        return FREED in str(value) or any(part in name for part in HALF_WAY)

    def known(self, value: Any) -> bool:
        return isinstance(value, mx.base.MXNetError) and any(text in str(value) for text in KNOWN)

    def recorded(self, value: Any) -> bool:
        return any(text in str(value) for text in REFUSED_WRITE)

    def limit(self, wanted: Any, found: Any, text: str) -> bool:
        return found is None and self.recorded(wanted) and IN_SCOPE in text and HYBRIDIZED not in text

    def tolerance(self, text: str, dtypes: frozenset[str]) -> float:
        if "float16" in dtypes:
            return TOLERANCE_OF_HALF
        return TOLERANCE_OF_LOGARITHM if any(name in text for name in _LOGARITHMS) else TOLERANCE

    def operators(self) -> frozenset[str]:
        names, size = POINTER(c_char_p)(), c_int()
        mx.base.check_call(mx.base._LIB.MXListAllOpNames(byref(size), byref(names)))
        return frozenset(names[k].decode() for k in range(size.value))


FRAMEWORK = MXNet()
