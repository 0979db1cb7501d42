"""The semantic-relatedness Tree-LSTM: run `python -m experiments.treelstm --help`."""

MODES = ("imperative", "hybridized", "handbatched", "dynamic", "plain-imperative", "plain", "plain-cell")
