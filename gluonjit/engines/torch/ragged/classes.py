"""Classes of operators by how they treat packed and padded values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gluonjit.engines.torch.operators.binding import Writer
from gluonjit.engines.torch.operators.recurrent import RECURRENT
from gluonjit.engines.torch.operators.table import ROWS_OF, row_of
from gluonjit.program.axes.along import Along, Reduce
from gluonjit.program.axes.elementwise import Loss, Make, Map
from gluonjit.program.axes.row import Application, Row
from gluonjit.program.axes.samples import Samples
from gluonjit.program.axes.shapes import Expand, Keep, Permute, Reshape

_NAMED = {
    name if "." in name else f"{name}.default": kind
    for kind, names in {
        "cut": "slice.Tensor select.int narrow",
        "cut list": "split.Tensor split_with_sizes unsafe_split.Tensor unsafe_split_with_sizes unbind.int chunk "
        "unsafe_chunk",
        "join": "cat",
        "stack": "stack",
        "flip": "flip",
        "triangle": "tril triu",
        "diagonal": "diagonal",
        "masked": "masked_fill.Tensor",
        "attention": "_scaled_dot_product_flash_attention_for_cpu",
        "pick": "index_select",
        "gather": "gather",
        "embedding": "embedding",
        "one_hot": "one_hot",
        "index": "index.Tensor",
        "add": "index_add index_copy",
        "layer_norm": "native_layer_norm",
        "pad": "constant_pad_nd",
        "recurrent": " ".join(RECURRENT),
        "samples": "native_batch_norm",
        "": "_fft_c2c _fft_r2c _fft_c2r",
    }.items()
    for name in names.split()
}
_BY_ROW: tuple[tuple[type[Row], str], ...] = (
    (Reshape, "view"),
    (Expand, "expand"),
    (Permute, "permute"),
    (Keep, "keep"),
    (Loss, "loss"),
    (Map, "map"),
    (Make, "make"),
    (Reduce, "reduce"),
    (Along, "along"),
    (Samples, "samples"),
)


def class_of(name: str) -> str:
    """The class of an operator, "" for one that has none."""
    if name in _NAMED:
        return _NAMED[name]
    row = row_of(name)
    return next((kind for each, kind in _BY_ROW if isinstance(row, each)), "")


FIRST = {name: 0 for name in ROWS_OF if class_of(name) in ("cut", "cut list", "join")}
"""The dimension along which an operator works if none is given, where that is not the last one."""


def order_of(name: str, args: Mapping[str, Any], rank: int) -> list[int]:
    """The axes of what t, transpose or permute is given, in the order of its result's."""
    row = row_of(name)
    assert isinstance(row, Permute)
    return [axis % rank for axis in row.order(Application(name, args, [], [], Writer(0)), rank)]
