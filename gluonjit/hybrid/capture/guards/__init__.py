"""Python's state and side effects in calls that are one node: the user's code is followed while a call is traced.

What it reads that outlives the call becomes a guard, by content, which is checked whenever what was traced is found
again. What writes to anything that outlives the call, or depends on what cannot be guarded, makes the call no node.
"""
