"""Commands of ``python -m gluonjit``; the doctor is in `install`."""

import sys


def failed(command: str, *lines: str, code: int = 1) -> int:
    """Tells why a command fails; returns its exit status."""
    for line in lines:
        print(f"python -m gluonjit {command}: {line}", file=sys.stderr)
    return code
