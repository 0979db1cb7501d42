"""Two checkouts of this repository side by side, in turns: `python -m experiments.throughput --against CHECKOUT`."""
