"""Steps as fused programs: one call in C for the whole of a step, forward and backward, in float32 on the host."""
