"""``python -m gluonjit rules``: how each operator runs for many samples at once."""

from __future__ import annotations

import sys
from collections.abc import Sequence


def main(kind: str | None = None, names: Sequence[str] = (), markdown: bool = False) -> int:
    """Print the table of operator rules; 1 where MXNet cannot be imported, 2 for an operator or kind that is none."""
    try:
        import mxnet as mx

        from gluonjit.engines.mxnet.rules import listing
    except (ImportError, OSError) as error:
        print(
            f"python -m gluonjit rules: the rules are those of MXNet's operators, but mxnet cannot be imported "
            f"({type(error).__name__}: {error}). Next: pip install 'gluonjit[mxnet]', then "
            f"python -m gluonjit doctor.",
            file=sys.stderr,
        )
        return 1
    try:
        rows = listing.select(kind, names)
    except LookupError as error:
        print(f"python -m gluonjit rules: {error.args[0]}", file=sys.stderr)
        return 2
    print(listing.as_markdown(rows, mx.__version__) if markdown else listing.as_text(rows))
    return 0
