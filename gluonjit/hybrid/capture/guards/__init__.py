"""Python's state and side effects in calls that are one node: the user's code is followed while a call is traced.

What it reads that outlives the call becomes a guard, by content, which is checked whenever what was traced is found
again. What writes to anything that outlives the call, or depends on what cannot be guarded, makes the call no node.
"""

from gluonjit.hybrid.capture.guards.again import AGAIN, changed, first_difference
from gluonjit.hybrid.capture.guards.facts import SLOT, Fact, is_plain
from gluonjit.hybrid.capture.guards.follower import Follower, follow
from gluonjit.hybrid.capture.guards.owners import is_user_function
from gluonjit.hybrid.capture.guards.reading import Known, Refused
from gluonjit.hybrid.capture.guards.variants import Noted, Variant, holding, put_record, too_many, variant_key

__all__ = [
    "AGAIN",
    "SLOT",
    "Fact",
    "Follower",
    "Known",
    "Noted",
    "Refused",
    "Variant",
    "changed",
    "first_difference",
    "follow",
    "holding",
    "is_plain",
    "is_user_function",
    "put_record",
    "too_many",
    "variant_key",
]
