"""Tests of programs in PyTorch."""
