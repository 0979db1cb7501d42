"""Instructions that read values, leave the recording, write, discard results, or raise."""

from __future__ import annotations

from experiments.fuzz.run import Run
from experiments.fuzz.vocabulary.table import COMMON, LINES

op, error, habit = COMMON.op, COMMON.error, COMMON.habit

LINES["unread"] = r"@sin({x} * 1.7) + @cos({x})\nnet.squash({rows})[0:1] * 3\n"

LINES["read"] = r"""
{x} * 0.5 if {x}.mean().@item() > 0.0123 else @sin({x})
{x} * 0.5 if bool({x}.sum() < 0.0321) else @sin({x})
"""

# What raises: the user's own exception, or something that the framework refuses.
LINES["fail"] = r"""
raise ValueError('in the middle of a sample')\n
raise KeyError('in the middle of a sample')\n
raise ZeroDivisionError('in the middle of a sample')\n
"""
LINES["misuse"] = """
{x}[77]
net.squash(@ones((1, 5), dtype={of(run.dtype)}) + 0 * @sum({x}).reshape((1, 1)))
"""

# What a sample does by values that it reads: rounds of a loop, and branches of its own.
LINES["decide"] = r"""
p = {x} * 0.7\nfor _ in range(4):\n    if p.mean().@item() > 0.{b % 5}1:\n        break\n    p = @sin(p) + 0.2\np * 1.0
p, k = {x} * 0.9, 1\nwhile k < 4 and p.sum().@item() < {1 + c % 3}.07:\n    p, k = p * 1.4 + 0.13, k + 1\np * k
p = {x} * 1.1\nif (p.mean() > 0.0321).@item():\n    p = p * float(p.mean().@item())\np * 1.0
"""
LINES["branch"] = r"""
p = branches([lambda: {x} * 1.5, lambda: @sin({y}) * {y}.mean().@item()])\np[0] + p[1]
p = branches([lambda k=k: {x} * (k + {y}.mean().@item()) for k in range(3)])\np[0] - p[1] * p[2]
p = branches([lambda: {x} * 1.5, lambda: {y} * (1 / ({x}.mean().@item() > -0.45))])\np[0] + p[1]
p = branches([lambda: branches([lambda: {x} * {y}.mean().@item()])[0], lambda: @sin({x})])\np[0] + p[1]
"""

# What is done to p, a result, and what is read afterwards; y looks like p.
LINES["write"] = r"""
p += 1
p *= 2
p -= {y}
p[0:1] = {y}[0:1] ?? x.ndim
p[-1] = 2 ?? x.ndim
q = p[0:1]\np += 1\np = p + q ?? x.ndim
q = p.detach()\np += 1\np = p + q
q = p.@copy()\np += 1\np = p + q
q = p * p\np += 1\np = q
"""
LINES["base"] = """
{x} * 1.5
@sin({x})
{x}.@copy()
@exp(-{x} * {x})
{x} + {y}
"""


@op
def unread(run: Run, a: int, b: int, c: int) -> str | None:
    """Write results that are not read."""
    return run.say("unread", a, b, c, x=run.pick(a), rows=run.rows(b))


@op
def without_history(run: Run, a: int, b: int, c: int) -> str | None:
    return run.say("without_history", a, b, c, x=run.pick(a))


@op
def read(run: Run, a: int, b: int, c: int) -> str | None:
    """A value that is needed in the middle."""
    return run.say("read", a, b, c, x=run.pick(a))


@op
def copies(run: Run, a: int, b: int, c: int) -> str | None:
    """An array of the program's own that is written to."""
    x = run.pick(a)
    return run.say("copies", a, b, c, x=x, at=("0", "-1", "0:1")[b % 3] if x.ndim else "...")


@error
def fail(run: Run, a: int, b: int, c: int) -> str | None:
    """The user's own exception."""
    return run.say("fail", a, b, c)


@error
def misuse(run: Run, a: int, b: int, c: int) -> str | None:
    """Something that the framework refuses."""
    return run.say("misuse", a, b, c, x=run.pick(a))


@habit
def write(run: Run, a: int, b: int, c: int) -> str | None:
    """Write in place into a result, or a view or a slice of one."""
    rows = b % 6 == 0
    x = run.rows(a) if rows else run.pick(a)
    y = run.like(x, b)
    base = f"net.squash({x})" if rows else run.say("base", b, 0, 0, x=x, y=y)
    body = run.say("write", a, 24 * a, c, x=x, y=y)
    text = f"p = {base}\n{body}"
    if run.spelling.paused and c % 2 == 0:
        text = "\n".join([run.spelling.paused, *("    " + line for line in text.split("\n"))])
    return f"{text}\np * 1.0"
