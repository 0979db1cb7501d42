"""Rules: how each ATen operator runs for many nodes at once, a table with one row per operator.

A program for one sample is a list of operators with known shapes. `batch_op` emits what runs one of them for all
samples; `NotBatchable` says why an operator must run for each sample alone.
"""
