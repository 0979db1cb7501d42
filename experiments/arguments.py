"""Numbers as arguments of commands."""

from __future__ import annotations

import argparse


def whole(text: str, least: int = 0) -> int:
    """Read a whole number."""
    try:
        value = int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number") from None
    if value < least:
        raise argparse.ArgumentTypeError(f"{text} is less than {least}")
    return value


def count(text: str) -> int:
    """Read a whole number of at least 1."""
    return whole(text, 1)
