"""The engine for PyTorch: capture, operator rules, batched programs. Importing it imports torch."""

from gluonjit.engines.torch.hook import install

__all__ = ["install"]
