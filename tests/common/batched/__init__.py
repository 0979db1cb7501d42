"""Rule cases that batch, and calls of the framework by cell: committed, so that no later version loses any.

`torch.json` and `mxnet.json` list the rule cases that run for all samples in one launch, and those that do so for any
number of rows. `calls-torch.json` and `calls-mxnet.json` have how many operators of the framework a step of each of the
zoo's cells calls. `tests/core/test_batched.py` compares; from the root of the repository,

    python -m tests.common.batched                              says what differs
    python -m tests.common.batched --write                      writes what is better, and what is new
    python -m tests.common.batched --write --because REASON     writes what is worse too, and why
"""

COMMAND = "python -m tests.common.batched --write"
