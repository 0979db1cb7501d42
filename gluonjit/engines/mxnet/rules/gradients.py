"""Inputs without a gradient: indices, lengths, labels.

If asked for one, MXNet raises, or returns uninitialized memory. If an index is computed from something that requires
gradients, a batch asks; MXNet's own history knows that the gradient is not needed, and does not.
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
