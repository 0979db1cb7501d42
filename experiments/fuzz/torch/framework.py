"""PyTorch: how its programs are drawn, written and judged."""

from __future__ import annotations

import re
from typing import Any

import torch
from torch.nn import functional

import gluonjit
from experiments.fuzz.case import Action, Case, Choices, Given, Minibatch, Way, dtype_of, shapes
from experiments.fuzz.comparing import attempt
from experiments.fuzz.framework import Framework
from experiments.fuzz.torch import prelude
from experiments.fuzz.torch.dialect import DIALECT, TABLE
from experiments.fuzz.torch.net import NET
from experiments.fuzz.torch.plants import PLANTS

TOLERANCE = 1e-5
TOLERANCE_OF_DOUBLE = 1e-9  # where nothing is of float32: what is computed in float32 all the same shows
TOLERANCE_OF_HALF = 2e-2

# What the eager program raises where a batch, whose history lives as long as anybody holds a result of it, need not;
# which gradients were added before it raised is not said anywhere.
GIVES_UP = (
    "backward through the graph a second time",
    "derivative for aten::",
    "ZeroTensors are immutable",  # it adds in place to a gradient that it has made no memory for
)
# What it raises where a tensor that backward reads has been written to; a batch has its own copies of inputs.
REFUSED = "modified by an inplace operation"
WRITTEN_INPUT = re.compile(r"^ +x\d+(\.| [*+]=)", re.MULTILINE)
# What a batch may raise: a history that was there before it is freed by the first backward that goes through it.
FREED = "Trying to backward through the graph a second time (or directly access saved tensors"
# And its own is freed as a whole, also where autograd would have found that it had kept nothing there.
FREED_TOO = "an earlier backward has freed the history of this batch"
# What waits for a loss that goes backward a minibatch late must not be written to before.
WRITTEN = "was written to after captured calls had read it"
# Nor a weight, which is documented; eager PyTorch reads it at the call.
WRITTEN_WEIGHT = "was written to after calls that use it were captured and before they ran"
# What a batch does not raise: it knows nothing of views that came several at once, and gives what they say.
ONE_OF_SEVERAL = "This view is the output of a function that returns multiple views"
# What a batch need not raise: of several results of one launch all have a history where one has.
NO_HISTORY = "does not require grad and does not have a grad_fn"

PARTLY = ("each", "some", "part", "late")  # backward comes from some of the results

CHOICES = Choices(
    table=TABLE,
    losses=(
        "gluonjit.add_n({})",
        "sum({})",
        "torch.stack({}).sum()",
        "torch.stack({}).mean()",
        "torch.cat([loss.reshape(1) for loss in {}]).sum()",
        "sum({0}) / len({0})",
    ),
    backwards=(
        *["total"] * 3,
        *("list", "each", "some", "part", "twice", "heads", "grad", "weights", "scaled", "inputs", "late"),
    ),
    readings=("after", "before", "end", "none", "some"),
    after=("trainer", "trainer", "set_data", "write", "add"),
    between=3,  # a weight that is written to while calls that use it wait is an error of the program's
    hows=(*["hybridize"] * 3, *["whole"] * 3, "both", "scope", "scope"),
    wholes=("int64",),
    shapes=lambda n: [*shapes(n), shapes(n)[2], ()],
    options=(
        (0.2, "scheduler", gluonjit.Options.SCHEDULERS),
        (0.08, "flush_at", (1, 2, 3, 5)),
        (0.08, "expand", (("Nested",), ("childsum", "Memory"), ("Linear",), ("Net",))),
        (0.03, "profile", (True,)),
    ),
)


class PyTorch(Framework):
    """PyTorch."""

    name = "torch"
    choices = CHOICES
    dialect = DIALECT
    prelude = prelude
    net = NET
    plants = PLANTS

    def array(self, numbers: Any, dtype: str) -> Any:
        return torch.tensor(numbers.tolist(), dtype=getattr(torch, dtype))

    def given(self, name: str, numbers: Any, dtype: str, learn: bool) -> list[str]:
        made = f"{name} = torch.tensor({numbers.tolist()}, dtype=torch.{dtype})"
        return [made, *([f"{name}.requires_grad_()"] if learn else [])]

    def cast(self, text: str, dtype: str) -> str:
        return f"{text}.to(torch.{dtype})"

    def hybridize(self, options: str) -> str:
        return f"gluonjit.hybridize(net, dynamic_batch=True{options})"

    def trainer(self) -> str:
        learned = "[tensor for tensor in parameters(net, names).values() if tensor.requires_grad]"
        return f"trainer = torch.optim.SGD({learned} or [torch.zeros(1)], lr=0.1)"

    def call(self, program: str, arguments: list[str], way: Way) -> str:
        """Whole programs may be one node of a cell; an object that holds one is no plain constant."""
        whole = way.how == "whole" or (way.how == "scope" and way.train_mode)
        return f"net({', '.join([program if whole else f'Program({program})', *arguments])})"

    def mode(self, way: Way) -> str:
        if way.record:
            return "torch.enable_grad()"
        return "torch.no_grad()" if way.train_mode else "torch.inference_mode()"

    def loss(self, case: Case, minibatch: Minibatch, learned: list[str]) -> str:
        return f"loss_of(out, torch.{case.way.dtype})"

    def carried(self, text: str, detach: bool, before: Minibatch) -> str:
        return text if before.backward == "late" and not detach else f"{text}.detach()"

    def forget(self, number: int, case: Case, learned: list[str]) -> list[str]:
        return [f"forget_gradients(net, names, [{', '.join(learned)}], {len(case.arrays) + number})"]

    def backward(self, number: int, case: Case, learned: list[str]) -> list[str]:
        minibatch, dtype = case.minibatches[number], case.way.dtype
        style, last = minibatch.backward, number + 1 == len(case.minibatches)
        if style == "late" and not last:
            return ["late = total"]
        lines = []
        if number and case.minibatches[number - 1].backward == "late":
            lines.append(f'if late is not None:\n    attempt(found, "minibatch {number - 1}, late", late.backward)')
        if style in ("grad", "weights"):
            sources = f"[{', '.join(learned)}]" if style == "grad" else _WEIGHTS
            call = f"torch.autograd.grad(total, {sources}, allow_unused=True)"
            return [
                *lines,
                f"if losses and {sources}:",
                f'    found_gradients = attempt(found, "minibatch {number}, grad", lambda: {call})',
                f'    keep(found, "minibatch {number}, grad", found_gradients)',
            ]
        heads = f"[torch.tensor(0.5 + k, dtype=torch.{dtype}) for k in range(len(losses))]"
        calls = {
            "list": ["torch.autograd.backward(losses)"],
            "each": [f"losses[{k}].backward()" for k in range(len(minibatch.samples))],
            "some": ["losses[0].backward()", "sum(losses[1:]).backward()"],
            "part": ["losses[-1].backward()"],
            "twice": ["total.backward(retain_graph=True)", "total.backward()"],
            "heads": [f"torch.autograd.backward(losses, {heads})"],
            "scaled": [f"total.backward(torch.tensor(0.3, dtype=torch.{dtype}))"],
            "inputs": [f"total.backward(inputs=[{', '.join(learned)}])"] if learned else ["total.backward()"],
        }.get(style, ["total.backward()"])
        body = [f'    attempt(found, "minibatch {number}, {call}", lambda: {call})' for call in calls]
        partly = any(m.backward in PARTLY for m in case.minibatches[: number + 1])
        for name in learned:
            of = f", {name}" if partly else ""
            body.append(f'    read(found, "minibatch {number}, gradient of {name}", {name}.grad{of})')
        body.append(f'    record_gradients(found, "minibatch {number}", net, names{", True" if partly else ""})')
        return [*lines, "if losses:", *body]

    def action(self, action: Action, way: Way, inputs: list[tuple[str, Given]]) -> list[str]:
        if action.what == "trainer":
            return ['attempt(found, "trainer", trainer.step)']
        if action.what == "set_data":
            return [f"change(net, names, {action.number})"]
        if not inputs:
            return []
        name, given = inputs[action.number % len(inputs)]
        if action.what == "buffer":
            return self.buffer(name, given.shape, dtype_of(given), given.learn, action.number)
        made = f"values({given.shape}, {action.number}, torch.{dtype_of(given)})"
        return [
            "with torch.no_grad():",
            f"    {name}.copy_({made})" if action.what == "write" else f"    {name} += 0.125",
        ]

    def begin(self, case: Case, inputs: list[str]) -> list[str]:
        """Views of an input show what is written to it later; what a batch gives for them does not."""
        written = any(action.what in ("write", "add", "buffer") for m in case.minibatches for action in m.actions)
        return [f"{name} = {name}.clone()" for name in inputs] if written else []

    def buffer(self, name: str, shape: tuple[int, ...], dtype: str, learn: bool, number: int) -> list[str]:
        """Lines that write into an input: as a loader does that fills its buffer again."""
        made = f"values({shape}, {number}, torch.{dtype})"
        way = number // 7 % (3 if learn else 6)
        inner = [f"{name}.copy_({made})", f"{name} += 0.125", f"{name}.mul_(0.5)"]
        if way < len(inner):
            return ["with torch.no_grad():", f"    {inner[way]}"]
        return [
            [f"{name}.numpy()[...] = {made}.numpy()", f"{name}.numpy()[...] *= 0.5", f"{name}.data.add_(0.25)"][way - 3]
        ]

    def nudged(self, text: str, by: float) -> str:
        text = text.replace("fill(net, names, ", f"fill(net, names, nudge={by}, dtype=")
        return re.sub(r"( x\d+ = torch\.tensor\(.*, dtype=torch\.float\d+\))", rf"\1 * {1 + by}", text)

    def end(self, net: Any, found: dict[str, Any], batched: bool) -> None:
        if batched:
            attempt(found, "the end", lambda: gluonjit.hybridize(net, dynamic_batch=False))

    def unusable(self, name: str, value: Any) -> bool:
        return isinstance(value, RuntimeError) and any(text in str(value) for text in GIVES_UP)

    def known(self, value: Any) -> bool:
        return False

    def refused(self, value: Any) -> bool:
        return isinstance(value, RuntimeError) and REFUSED in str(value)

    def copied(self, text: str) -> bool:
        return WRITTEN_INPUT.search(text) is not None

    def limit(self, wanted: Any, found: Any, text: str) -> bool:
        late = "late.backward" in text and (FREED_TOO in str(found) or WRITTEN in str(found))
        waits = "touch(" in text and WRITTEN_WEIGHT in str(found)
        waits = waits or (self.copied(text) and "requires_grad_()" in text and WRITTEN in str(found))
        waits = waits or (wanted is None and "allow_unused" in text and REFUSED in str(found))  # no way leads there
        allowed = any(text in str(wanted) for text in (NO_HISTORY, ONE_OF_SEVERAL))
        return late or waits or allowed or FREED in str(found)

    def tolerance(self, text: str, dtypes: frozenset[str]) -> float:
        if "float16" in dtypes:
            return TOLERANCE_OF_HALF
        lesser = re.search(r"torch\.float32|torch\.float16|\.float\(\)|\.half\(\)", text)
        return TOLERANCE_OF_DOUBLE if text and lesser is None and "float32" not in dtypes else TOLERANCE

    def operators(self) -> frozenset[str]:
        return frozenset([*dir(torch), *dir(torch.Tensor), *dir(functional)])


_WEIGHTS = "[tensor for tensor in parameters(net, names).values() if tensor.requires_grad]"
FRAMEWORK = PyTorch()
