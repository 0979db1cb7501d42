"""Rules: how each operator of ATen runs for many nodes at once, a table with one row an operator.

A program for one sample is a list of operators with known shapes. `batch_op` writes down what runs one of them for
all samples; `NotBatchable` says why an operator has to run for each alone.
"""
