"""Python's state and side effects in one-node calls: the user's code is followed while a call is traced.

A read of anything that outlives the call becomes a guard, by content, which is checked on every cache hit. A write to
anything that outlives the call, or a dependency that cannot be guarded, means that the call is not a node.
"""
