"""Random per-sample programs, run one sample at a time and batched, and compared."""

HABITS = ("state", "effects", "writes", "weights", "buffers")
