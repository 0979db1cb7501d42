"""The operations on arrays of MXNet; the modules that fill the table are imported by `engine`."""

from __future__ import annotations

from experiments.fuzz.run import Table

TABLE = Table()
op = TABLE.op
error = TABLE.error
