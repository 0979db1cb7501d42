"""What finer and coarser nodes cost and gain: `python -m experiments.tradeoff --help`."""
