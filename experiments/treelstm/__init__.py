"""The semantic-relatedness Tree-LSTM: run `python -m experiments.treelstm --help`."""
