"""The table of models."""

from __future__ import annotations

from experiments.zoo.row import Row
from experiments.zoo.torch import (
    bilstm_char,
    dag_rnn,
    lattice_lstm,
    mpnn,
    mv_rnn,
    pointer_net,
    seq2seq,
    set_attention,
    shift_reduce,
    tree_gru,
    treelstm_binary,
    treelstm_cell,
    treelstm_plain,
)

ROWS: dict[str, Row] = {
    module.ROW.name: module.ROW
    for module in (
        treelstm_cell,
        treelstm_plain,
        treelstm_binary,
        tree_gru,
        mv_rnn,
        bilstm_char,
        lattice_lstm,
        dag_rnn,
        mpnn,
        set_attention,
        pointer_net,
        seq2seq,
        shift_reduce,
    )
}
