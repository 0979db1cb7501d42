"""Each operator of ATen batched by its rule gives what it gives sample by sample, in both conventions."""

from __future__ import annotations

from typing import Any, Callable

import pytest
import torch
import torch.nn as nn
import torch.nn.functional as F

import gluonjit  # noqa: F401
from gluonjit.engines.torch.framework.arrays import spec_of
from gluonjit.engines.torch.run.program import build, join, pieces
from gluonjit.engines.torch.tracing.recorder import recording
from gluonjit.graph import operand_groups
from gluonjit.program.axes.values import NotBatchable
from gluonjit.program.trace import TraceBuilder

SAMPLES = 4
VECTOR, ROW, ROWS = (4,), (1, 4), (3, 4)
Shape = tuple[int, ...]


def draw(shape: Shape, classes: int = 0) -> Any:
    return torch.randint(0, classes, shape) if classes else torch.randn(shape)


def leaves(result: Any) -> list[Any]:
    return [part for item in result for part in leaves(item)] if isinstance(result, (list, tuple)) else [result]


def batched(function: Callable[..., Any], make: Callable[[], list[Any]]) -> tuple[Any, list[Any], list[Any]]:
    """The batched program of a function, its results for some samples, and what the samples give by themselves."""
    samples = [make() for _ in range(SAMPLES)]
    builder = TraceBuilder([spec_of(tensor) for tensor in samples[0]])
    with recording(builder, lambda tensor: True) as recorder:
        places = [tensor.position for tensor in leaves(function(*recorder.placeholders()))]
    trace = builder.finish(places)
    built = build(trace)
    groups = [
        torch.cat([join(trace.operands[p], [sample[p] for sample in samples]) for (p,) in group])
        for group in operand_groups(trace.operands, built.poly)
    ]
    operands = pieces(operand_groups(trace.operands, built.poly), groups)
    found = built.program(operands, built.program.consts, SAMPLES)
    alone = [leaves(function(*sample)) for sample in samples]
    wanted = [join(output.spec, [one[k] for one in alone]) for k, output in enumerate(built.outputs)]
    return built, found, wanted


def check(function: Callable[..., Any], *shapes: Shape, classes: int = 0) -> Any:
    """Equal shapes, dtypes and numbers; with `classes` the last operand holds whole numbers below that."""
    torch.manual_seed(0)

    def make() -> list[Any]:
        last = len(shapes) - 1
        return [draw(shape, classes if k == last else 0) for k, shape in enumerate(shapes)]

    built, found, wanted = batched(function, make)
    assert len(found) == len(wanted)
    for actual, expected in zip(found, wanted):
        assert actual.shape == expected.shape
        assert actual.dtype == expected.dtype
        torch.testing.assert_close(actual, expected, rtol=1e-5, atol=1e-5, equal_nan=True)
    return built


TWO: dict[str, Callable[[Any, Any], Any]] = {
    "add": lambda a, b: a + b,
    "sums": lambda a, b: (a * 2).sum() + b.mean(),
    "cat": lambda a, b: torch.cat([a, b], -1),
    "cat rows": lambda a, b: torch.cat([a, b], 0),
    "stack": lambda a, b: torch.stack([a, b]),
    "stack last, max": lambda a, b: torch.stack([a, b], -1).max(-1),
    "where": lambda a, b: torch.where(a > 0, a, b),
    "norm, argmax": lambda a, b: (a.norm(), b.argmax(-1)),
    "max, min": lambda a, b: (a.max(), b.min()),
    "sort": lambda a, b: a.sort(-1),
    "cumsum": lambda a, b: a.cumsum(0),
    "chunk": lambda a, b: a.chunk(2, -1)[0] * b[..., :2],
    "einsum": lambda a, b: torch.einsum("...i,...i->...", a, b),
    "cosine": lambda a, b: F.cosine_similarity(a, b, dim=-1),
    "flip, roll": lambda a, b: a.flip(-1) + b.roll(1, -1),
    "gelu, silu": lambda a, b: F.gelu(a) + F.silu(b),
    "keepdim": lambda a, b: a.pow(2).sum(-1, keepdim=True) + b,
    "repeat": lambda a, b: a.repeat(2, 1),
    "expand": lambda a, b: a.expand(2, *a.shape),
    "pad": lambda a, b: F.pad(a, (1, 1)),
    "mean, std": lambda a, b: (a.mean(0), b.std()),
    "logsumexp": lambda a, b: a.logsumexp(-1),
    "flat": lambda a, b: a.reshape(-1) @ b.reshape(-1),
    "view": lambda a, b: a.view(2, -1),
    "normalize": lambda a, b: F.normalize(a, dim=-1),
    "dist": lambda a, b: torch.dist(a, b),
    "unbind": lambda a, b: a.unbind(0)[0] + b[0],
    "masked": lambda a, b: a.masked_fill(b > 0, -1.0),
    "made": lambda a, b: a.new_zeros(4) + b + torch.ones(4) + torch.zeros_like(a),
    "newaxis": lambda a, b: a[:, None] * 2,
    "clamp": lambda a, b: a.clamp(-1, 1).exp().log1p(),
    "double": lambda a, b: a.to(torch.float64) * b.double(),
    "any": lambda a, b: ((a > 0).any(-1), (b > 0).all()),
    "number of another dtype": lambda a, b: a.float() * b.sum().double(),
    "log_softmax over rows": lambda a, b: F.log_softmax(a, 0),
    "topk": lambda a, b: a.topk(2, -1),
    "outer": lambda a, b: torch.outer(a.reshape(-1), b.reshape(-1)),
    "tril": lambda a, b: torch.outer(a.reshape(-1), b.reshape(-1)).tril(),
    "trace of a product": lambda a, b: torch.einsum("ij,ij->i", a.reshape(2, -1), b.reshape(2, -1)),
    "written in place": lambda a, b: (a + 1).mul_(2).add_(b).relu_(),
    "permuted": lambda a, b: a.reshape(2, -1).t() @ b.reshape(2, -1),
    "gather": lambda a, b: a.gather(-1, b.argsort(-1)),
    "variance": lambda a, b: (a.var(-1), b.var(-1, unbiased=False)),
    "product": lambda a, b: (a.prod(), b.prod(-1)),
    "attention": lambda a, b: F.scaled_dot_product_attention(a.reshape(-1, 4), b.reshape(-1, 4), b.reshape(-1, 4)),
}


@pytest.mark.parametrize("shape", [VECTOR, ROW, ROWS], ids=["vector", "row", "rows"])
@pytest.mark.parametrize("name", TWO)
def test_functions_of_two_tensors_give_the_same_batched(name: str, shape: Shape) -> None:
    check(TWO[name], shape, shape)


@pytest.mark.parametrize("shape", [VECTOR, ROW, ROWS, (2, 3, 4)], ids=str)
def test_a_linear_layer_takes_vectors_and_rows(shape: Shape) -> None:
    built = check(nn.Linear(4, 6), shape)
    assert built.poly == (shape in (ROW, ROWS))


@pytest.mark.parametrize("lead", [(), (1,), (3,)], ids=str)
def test_recurrent_cells_give_the_same_batched(lead: Shape) -> None:
    lstm, gru = nn.LSTMCell(4, 5), nn.GRUCell(4, 5)
    check(lambda x, h, c: lstm(x, (h, c)), (*lead, 4), (*lead, 5), (*lead, 5))
    check(gru, (*lead, 4), (*lead, 5))


@pytest.mark.parametrize("shape", [VECTOR, ROW, ROWS], ids=["vector", "row", "rows"])
@pytest.mark.parametrize(
    "loss",
    [
        nn.MSELoss(),
        nn.MSELoss(reduction="sum"),
        nn.MSELoss(reduction="none"),
        nn.L1Loss(),
        nn.SmoothL1Loss(),
        nn.HuberLoss(),
        nn.BCEWithLogitsLoss(),
        nn.KLDivLoss(reduction="batchmean"),
        nn.PoissonNLLLoss(),
    ],
    ids=str,
)
def test_losses_of_two_tensors_give_the_same_batched(loss: Any, shape: Shape) -> None:
    check(loss, shape, shape)


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("shapes", [(VECTOR, ()), (ROW, (1,)), (ROWS, (3,))], ids=str)
def test_cross_entropy_gives_the_same_batched(reduction: str, shapes: tuple[Shape, Shape]) -> None:
    check(nn.CrossEntropyLoss(reduction=reduction), *shapes, classes=3)
    check(nn.CrossEntropyLoss(torch.rand(4), reduction=reduction, label_smoothing=0.1), *shapes, classes=3)
    check(nn.CrossEntropyLoss(reduction=reduction, ignore_index=1), *shapes, classes=3)


@pytest.mark.parametrize(
    ("layer", "shape"),
    [
        (nn.Conv2d(3, 4, 3), (3, 8, 8)),
        (nn.Conv2d(3, 4, 3), (2, 3, 8, 8)),
        (nn.Conv1d(3, 4, 3), (3, 8)),
        (nn.MaxPool2d(2), (3, 8, 8)),
        (nn.AvgPool2d(2), (3, 8, 8)),
        (nn.AdaptiveAvgPool2d(2), (3, 8, 8)),
        (nn.BatchNorm1d(4).eval(), ROWS),
        (nn.GroupNorm(2, 4), (1, 4, 5, 5)),
        (nn.GroupNorm(2, 4, affine=False), ROWS),
        (nn.LayerNorm(4), VECTOR),
        (nn.LayerNorm(4), ROWS),
        (nn.LayerNorm(4), (2, 3, 4)),
        (nn.LayerNorm((3, 4)), ROWS),
        (nn.TransformerEncoderLayer(4, 2, 8, batch_first=True, dropout=0.0), ROWS),
        (nn.Sequential(nn.Linear(4, 8), nn.ReLU(inplace=True), nn.Dropout(0.0), nn.Linear(8, 2)), VECTOR),
    ],
    ids=str,
)
def test_layers_give_the_same_batched(layer: Any, shape: Shape) -> None:
    check(layer, shape)


def test_attention_with_weights_gives_the_same_batched() -> None:
    attention = nn.MultiheadAttention(4, 2, batch_first=True)
    check(attention, ROWS, ROWS, ROWS)


def test_a_bilinear_layer_and_an_embedding_give_the_same_batched() -> None:
    check(nn.Bilinear(4, 4, 3), VECTOR, VECTOR)
    check(nn.Bilinear(4, 4, 3), ROW, ROW)
    table = nn.Embedding(10, 3)
    check(table, (5,), classes=10)
    check(table, (), classes=10)


def test_what_has_no_rule_says_so() -> None:
    with pytest.raises(NotBatchable, match="it has no rule"):
        check(torch.histc, (3, 3))


def test_random_draws_differ_from_sample_to_sample() -> None:
    torch.manual_seed(0)
    builder = TraceBuilder([spec_of(torch.ones(4))])
    with recording(builder, lambda tensor: True) as recorder:
        (result,) = [F.dropout(tensor, 0.5) for tensor in recorder.placeholders()]
    built = build(builder.finish([result.position]))
    (found,) = built.program([torch.ones(1000, 4)], built.program.consts, 1000)
    assert recorder.draws
    assert set(found.unique().tolist()) == {0.0, 2.0}
    assert abs(float(found.mean()) - 1.0) < 0.1
    assert len({tuple(row) for row in found.tolist()}) == 16
