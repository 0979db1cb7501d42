"""Inputs without a gradient: indices, lengths, labels.

Asked for one, MXNet raises, or hands out memory that nobody has written. Where an index is computed from what is
learned, a batch asks; MXNet's own history knows that nobody needs it, and does not.
"""

from __future__ import annotations

_INPUTS = {
    (0,): "Embedding _contrib_SparseEmbedding",
    (1,): """
        take pick batch_take gather_nd scatter_nd softmax_cross_entropy SoftmaxOutput
        SequenceMask SequenceLast SequenceReverse _contrib_index_copy ROIPooling _contrib_ROIAlign""",
    (1, 2, 3): "CTCLoss",
}

NO_GRADIENT: dict[str, tuple[int, ...]] = {name: inputs for inputs, names in _INPUTS.items() for name in names.split()}
"""Positions of such inputs, by operator."""
