"""The net of all programs: its layers as text."""

from __future__ import annotations

from experiments.fuzz.framework import Net
from experiments.fuzz.torch import blocks

LAYERS = {
    "embed": "nn.Embedding(7, 3)",
    "padded": "nn.Embedding(7, 3, padding_idx=2)",
    "bag": "nn.EmbeddingBag(7, 3, mode='sum')",
    "squash": "Squash()",
    "memory": "Memory()",
    "nested": "Nested()",
    "named": "Named()",
    "childsum": "ChildSum()",
    "gather": "Gather()",
    "reader": "Reader()",
    "counter": "Counter()",
    "drawn": "Drawn()",
    "projector": "Projector()",
    "dense": "nn.Linear(3, 2)",
    "frozen": "nn.Linear(3, 3).requires_grad_(False)",
    "bilinear": "nn.Bilinear(3, 3, 2)",
    "sequence": "nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Dropout(0.0), nn.Linear(4, 3), nn.Softmax(-1))",
    "norm": "nn.LayerNorm(3)",
    "group": "nn.GroupNorm(1, 3)",
    "statistics": "nn.BatchNorm1d(3).eval()",
    "instance": "nn.InstanceNorm1d(3, affine=True)",
    "lstm": "nn.LSTMCell(3, 3)",
    "gru": "nn.GRUCell(3, 3)",
    "rnn": "nn.RNNCell(3, 3)",
    "layer": "nn.LSTM(3, 3)",
    "grulayer": "nn.GRU(3, 3, batch_first=True)",
    "attention": "nn.MultiheadAttention(3, 1, batch_first=True)",
    "convolution": "nn.Conv1d(3, 2, 3, padding=1)",
    "transposed": "nn.ConvTranspose1d(3, 2, 2)",
    "image": "nn.Conv2d(1, 2, 2, padding=1)",
    "prelu": "nn.PReLU()",
    "drop": "nn.Dropout(0.5).eval()",
    "l1": "nn.L1Loss()",
    "mse": "nn.MSELoss()",
    "huber": "nn.HuberLoss(delta=0.3)",
    "smooth": "nn.SmoothL1Loss(reduction='sum')",
    "entropy": "nn.CrossEntropyLoss()",
    "weighted": "nn.CrossEntropyLoss(weight=torch.tensor([0.5, 1.0, 2.0]), ignore_index=1, reduction='sum')",
    "logistic": "nn.BCEWithLogitsLoss()",
    "kl": "nn.KLDivLoss(reduction='batchmean')",
    "cosine": "nn.CosineSimilarity(-1)",
    "w1": "nn.Parameter(torch.zeros(4, 1))",
    "w2": "nn.Parameter(torch.zeros(4, 2))",
    "w3": "nn.Parameter(torch.zeros(4, 3))",
    "w4": "nn.Parameter(torch.zeros(4, 4))",
    "vector": "nn.Parameter(torch.zeros(3))",
    "scale": "nn.Parameter(torch.zeros(()))",
    "annealed": "Annealed()",
    "noting": "Noting()",
}
FUNCTIONS = ("blend", "fold", "gathered", "pieces")
SOURCE = """class Net(nn.Module):
    def __init__(self):
        super().__init__()
        {layers}

    def forward(self, program, *arrays):
        return program(self, *arrays)
"""
READY = "net = Net().to(torch.{dtype})"
NET = Net(blocks, LAYERS, FUNCTIONS, SOURCE, READY)
