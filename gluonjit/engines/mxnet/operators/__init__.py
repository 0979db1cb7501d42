"""MXNet's operators by what they do with their axes, a table with one row per operator.

A program for one sample is a list of operators with known shapes. `batch_op` emits the symbol that runs one of them for
all samples; `NotBatchable` says why an operator must run for each sample alone.
"""
