"""Throughput of all systems and of peers side by side: `python -m experiments.throughput`."""

WORKLOADS = ("treelstm-sick", "treelstm-builtin", "treelstm-synthetic", "bintree-sst", "bilstm", "lattice")
SYSTEMS = ("imperative", "hybridized", "handbatched", "dynamic", "dynamic+reuse")
PEERS = ("dynet", "torch-handbatched-ownbwd")
ENGINES = ("mxnet",)
