"""The engine for PyTorch: capture, operator rules, batched programs. Importing it imports torch."""

import torch  # noqa: F401 - before the files here, which replace functions of it when its import has ended
