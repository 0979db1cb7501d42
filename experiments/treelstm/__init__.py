"""The semantic-relatedness Tree-LSTM: run `python -m experiments.treelstm --help`."""

MODES = {
    "mxnet": ("imperative", "hybridized", "handbatched", "dynamic", "plain-imperative", "plain", "plain-cell"),
    "torch": ("imperative", "handbatched", "dynamic", "ownbwd", "compile", "fold"),
}
