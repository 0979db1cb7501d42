"""The net of all programs: its layers as text."""

from __future__ import annotations

from experiments.fuzz.framework import Net
from experiments.fuzz.mxnet import blocks

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
    "annealed": "Annealed()",
    "noting": "Noting()",
}
FUNCTIONS = ("blend", "fold")
SOURCE = """class Net(gluon.Block):
    def __init__(self):
        super().__init__()
        with self.name_scope():
            {layers}

    def forward(self, program, *arrays):
        return program(self, *arrays)
"""
READY = 'net = Net()\nnet.initialize()\nnet.cast("{dtype}")'
NET = Net(blocks, LAYERS, FUNCTIONS, SOURCE, READY)
