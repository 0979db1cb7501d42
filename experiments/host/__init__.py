"""Costs of gluonjit on the host: a captured call, by kind of call, against eager execution; and planning, per node."""

from typing import Any

MOST_CALLS = 4096  # each on a word of its own

WAY: dict[str, Any] = {"granularity": "cell", "scheduler": "depth", "sharing": True}
"""Options by which calls are captured: nothing is left to be chosen while they are timed."""
