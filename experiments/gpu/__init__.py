"""The models in PyTorch on a GPU: `python -m experiments.gpu`. It needs torch and numpy; a figure needs matplotlib."""

WORKLOADS = ("treelstm-sick", "bintree-sst", "bilstm")
HIDDEN = (150, 256, 512, 1024)
BATCH_SIZES = (64, 256, 1024)
SYSTEMS = ("gluonjit", "handbatched", "handbatched-ownbwd", "per-sample")
PHASES = ("train", "inference")
