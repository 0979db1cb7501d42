"""The cases of all rules, by subject. A module here puts its cases into `CASES` when it is imported."""

from importlib import import_module
from pkgutil import iter_modules

from experiments.conformance.rule_cases.case import CASES, Arg, Case

for _module in iter_modules(__path__):
    import_module(f"{__name__}.{_module.name}")

__all__ = ["CASES", "Arg", "Case"]
