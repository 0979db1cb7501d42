"""Random per-sample programs, run one sample at a time and batched: what must be equal is compared."""

HABITS = ("state", "effects", "writes", "weights", "buffers")
