"""MXNet's own operators and functions as programs for one sample: a sample of them."""

from __future__ import annotations

import pytest

from experiments.conformance import on_mxnet
from experiments.conformance.exceptions import exempt

# At least one of each class of operators: what is done to each element, along axes, to shapes, by indices, to samples.
NAMES = {
    "operator": """
        tanh _power_scalar broadcast_sub where clip LeakyReLU sum norm argmax softmax sort topk FullyConnected dot
        batch_dot Convolution Pooling BatchNorm LayerNorm Reshape transpose tile broadcast_to Concat stack SliceChannel
        slice slice_like SwapAxis reverse Embedding take gather_nd pick one_hot SequenceMask SequenceReverse CTCLoss RNN
        SoftmaxOutput Dropout _linalg_potrf _npi_subtract _np_sum _npi_einsum _npi_concatenate _npi_where
    """,
    "nd": "tanh add concat sum sgd_update moveaxis",
    "np": "tanh add concatenate einsum mean cumsum where flip tensordot argmax",
    "npx": "relu softmax topk",
    "nd.linalg": "gemm2 potrf",
    "np.linalg": "norm inv",
    "nd.random": "normal",
}
CASES = [(group, name) for group, names in NAMES.items() for name in names.split()]


@pytest.mark.parametrize(("group", "name"), CASES)
def test_as_eager(group: str, name: str) -> None:
    record = on_mxnet.check(group, name, 2, lambda case: None)
    differing = [found for found in record.findings if not exempt("mxnet", f"{group} {name}", found)]
    assert not differing, differing
    assert record.cases


def test_names() -> None:
    assert all(name in on_mxnet.names(group, 0) for group, name in CASES)
