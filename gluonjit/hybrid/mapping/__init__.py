"""Samples that go on side by side, though their programs read values."""
