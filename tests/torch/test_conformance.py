"""PyTorch's own operators, modules and chains of operators as programs for one sample: a sample of them."""

from __future__ import annotations

import pytest

pytest.importorskip("expecttest", reason="torch.testing._internal needs it")

from experiments.conformance import on_torch
from experiments.conformance.exceptions import exempt

# At least one of each class of operators: what is done to each element, along axes, to shapes, by indices, to samples.
OPERATORS = """
    add abs clamp where sigmoid nn.functional.gelu sum mean amax norm.fro var argmax cumsum softmax sort topk
    mm matmul einsum nn.functional.linear nn.functional.conv2d view permute movedim expand unsqueeze split chunk unbind
    cat stack hstack gather index_select take_along_dim index_put scatter_add nn.functional.embedding
    nn.functional.layer_norm nn.functional.batch_norm nn.functional.cross_entropy nn.functional.max_pool2d
    tril diag zeros_like roll linalg.inv linalg.norm polygamma.polygamma_n_0 nonzero
""".split()
MODULES = ["nn.Linear", "nn.BatchNorm1d", "nn.GRUCell", "nn.LayerNorm", "nn.CrossEntropyLoss", "nn.Embedding"]


@pytest.fixture(scope="module", autouse=True)
def prepared() -> None:
    on_torch.prepare()


def compare(group: str, name: str) -> None:
    record = on_torch.check(group, name, 1, lambda case: None)
    differing = [found for found in record.findings if not exempt("torch", f"{group} {name}", found)]
    assert not differing, differing
    assert record.cases


@pytest.mark.parametrize("name", OPERATORS)
def test_operator(name: str) -> None:
    compare("operator", name)


@pytest.mark.parametrize("name", MODULES)
def test_module(name: str) -> None:
    compare("module", name)


@pytest.mark.parametrize("seed", range(3))
def test_chain(seed: int) -> None:
    compare("chain", str(seed))


def test_names() -> None:
    assert set(OPERATORS) < set(on_torch.names("operator", 0)) and set(MODULES) < set(on_torch.names("module", 0))
    assert on_torch.names("chain", 2) == ["0", "1"]
