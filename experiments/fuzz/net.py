"""The net of all programs: its layers as text, so that a printed program holds those it uses."""

from __future__ import annotations

import inspect
import re
from typing import Any

from experiments.fuzz import blocks

LAYERS = {
    "embed": "nn.Embedding(7, 3)",
    "squash": "Squash()",
    "memory": "Memory()",
    "nested": "Nested()",
    "pairs": "Pairs()",
    "reader": "Reader()",
    "projector": "Projector()",
    "dense": "nn.Dense(2, in_units=3, flatten=False)",
    "norm": "nn.LayerNorm(in_channels=3)",
    "instance": "nn.InstanceNorm(in_channels=3)",
    "statistics": "nn.BatchNorm(in_channels=3, use_global_stats=True)",
    "lstm": "gluon.rnn.LSTMCell(3, input_size=3)",
    "gru": "gluon.rnn.GRUCell(3, input_size=3)",
    "rnn": "gluon.rnn.RNNCell(3, input_size=3)",
    "layer": "gluon.rnn.LSTM(3, input_size=3)",
    "convolution": "nn.Conv1D(2, 3, padding=1, in_channels=3)",
    "prelu": "nn.PReLU()",
    "swish": "nn.Swish()",
    "drop": "nn.Dropout(0.5)",
    "keep": "nn.Dropout(0)",
    "l1": "gluon.loss.L1Loss()",
    "l2": "gluon.loss.L2Loss()",
    "huber": "gluon.loss.HuberLoss()",
    "entropy": "gluon.loss.SoftmaxCrossEntropyLoss()",
    "logistic": "gluon.loss.SigmoidBinaryCrossEntropyLoss()",
    "kl": "gluon.loss.KLDivLoss(from_logits=False)",
    "w1": 'self.params.get("w1", shape=(4, 1))',
    "w2": 'self.params.get("w2", shape=(4, 2))',
    "w3": 'self.params.get("w3", shape=(4, 3))',
    "w4": 'self.params.get("w4", shape=(4, 4))',
    "gamma": 'self.params.get("gamma", shape=(3,))',
    "beta": 'self.params.get("beta", shape=(3,))',
    "vector": 'self.params.get("vector", shape=(1, 3))',
}
FUNCTIONS = ("blend", "fold")


def net_source(layers: list[str]) -> str:
    """The class of a net with these layers."""
    lines = [
        "class Net(gluon.Block):",
        "    def __init__(self):",
        "        super().__init__()",
        "        with self.name_scope():",
        *(f"            self.{name} = {LAYERS[name]}" for name in layers or ["embed"]),
        "",
        "    def forward(self, program, *arrays):",
        "        return program(self, *arrays)",
    ]
    return "\n".join(lines) + "\n"


def layers_in(text: str) -> list[str]:
    """The layers that a program uses, in the order of the table."""
    used = set(re.findall(r"\bnet\.(\w+)", text))
    return [name for name in LAYERS if name in used]


def blocks_in(text: str) -> list[str]:
    """The sources of the classes and functions of `blocks` that a text uses."""
    names = [*(name for name, item in vars(blocks).items() if inspect.isclass(item)), *FUNCTIONS]
    return [source_of(name) for name in names if re.search(rf"\b{name}\(", text)]


def source_of(name: str) -> str:
    """The source of a class or a cell, without the types that only a checker needs."""
    item = getattr(blocks, name)
    source = inspect.getsource(getattr(item, "function", item))
    return re.sub(r"( -> [\w.\[\], ]+)(?=:\n)", "", re.sub(r": (Any|int|float)\b", "", source))


def make_net(names: dict[str, Any]) -> Any:
    """The net with all layers; `names` are those that its text may use."""
    names = dict(names)
    exec(compile(net_source(list(LAYERS)), "<net>", "exec"), names)
    return names["Net"]()
