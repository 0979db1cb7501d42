"""Throughput of all systems and of peers side by side: `python -m experiments.throughput`."""

WORKLOADS = ("treelstm-sick", "treelstm-builtin", "treelstm-synthetic", "bintree-sst", "bilstm", "lattice")
SYSTEMS = {
    "mxnet": ("imperative", "hybridized", "handbatched", "dynamic", "dynamic+reuse"),
    "torch": ("imperative", "dynamic"),
}
PEERS = {
    "mxnet": ("dynet", "torch-handbatched-ownbwd"),
    "torch": ("dynet", "torch-handbatched-ownbwd", "torch-handbatched", "torch-compile", "torchfold"),
}
ABLATED = "dynamic-"  # what names of systems begin with that leave an optimization out
RATE = 0.01  # of stochastic gradient descent, the rule of all systems
