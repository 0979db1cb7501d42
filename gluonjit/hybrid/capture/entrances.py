"""Entrances: methods of a model, other than its call, by which a program runs a sample, as `net.log_likelihood(x, y)`.

`hybridize` gives those that compute with the model's parts code that first asks whether the call comes from outside of
samples of a dynamically batched model. Such a call is a sample like a call of the model itself. Methods that train,
call the model themselves or return nothing stay as they are, and so do those that other methods of the model call, as
recursion does, and those whose names begin with an underscore.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable
from types import CodeType, FunctionType
from typing import Any, cast
from weakref import WeakKeyDictionary

from gluonjit.hybrid.capture.guards.facts import class_attribute
from gluonjit.hybrid.capture.guards.owners import is_user_function
from gluonjit.hybrid.capture.guards.rewriting import Unfollowable, located
from gluonjit.hybrid.capture.guards.sources import plain_source, replacing, source_of
from gluonjit.hybrid.capture.outlining.questions import asking
from gluonjit.replaced import ENTRANCES, KEY, code_of, stands_for

IsPart = Callable[[Any, str], bool]

_NAME = "_gluonjit_entrance"
_REFUSED = (ast.Yield, ast.YieldFrom, ast.Await, ast.AsyncFunctionDef, ast.Global, ast.Nonlocal)
_OF_TRAINING = frozenset(
    """backward step zero_grad train eval to cpu cuda apply load_state_dict state_dict parameters save load hybridize
    save_parameters load_parameters collect_params initialize named_parameters""".split()
)

_names: WeakKeyDictionary[FunctionType, str] = WeakKeyDictionary()  # of those that are entrances, by what they ask


def install(owner: Any, is_part: IsPart, model: type) -> None:
    """Gives the entrances of a model's class their code, once; `model` has the names that the framework calls.

    The cell of a batched model answers, by `entrance(owner, name)`: what to call instead, or None.
    """
    besides = {"forward", *dir(model)}
    own = [(name, item) for base in type(owner).__mro__ for name, item in vars(base).items() if is_user_function(item)]
    called = {called for name, item in own for called in _called(name, code_of(item))}
    for name, item in own:
        if not (name.startswith("_") or name in besides or name in called or item in _names):
            if item.__code__ is code_of(item):
                _install(item, owner, is_part)


def _called(name: str, code: CodeType) -> set[str]:
    """The names that a method may call as part of a sample: none if it trains, nor its own by `super()`."""
    names = set(code.co_names)
    return set() if names & _OF_TRAINING else names - ({name} if "super" in names else set())


def _install(function: FunctionType, owner: Any, is_part: IsPart) -> None:
    if function.__code__.co_argcount < 2 or not _runs_a_sample(function, owner, is_part, set()):
        return
    name = f"{function.__module__}.{function.__qualname__} {id(function)}"
    try:
        node, around = source_of(function)
        new = copy.copy(cast(ast.FunctionDef, asking(node, function)))
        new.body = [*asks(new, name), *new.body]
        made = replacing(function, new, around)
        stands_for(made, function.__code__)
        function.__code__ = made
    except (Unfollowable, ValueError):  # variables of its own that another code would not have
        return
    _names[function], ENTRANCES[name] = name, function


def entrance_of(function: FunctionType) -> str:
    """The name by which a method's code asks; "" of a method that is no entrance."""
    return _names.get(function, "")


def asks(node: ast.FunctionDef, name: str) -> list[ast.stmt]:
    """The statements by which the code of an entrance asks: of objects that every model has, for tracers to follow."""
    given = node.args
    plain = [*given.posonlyargs, *given.args]
    args = [arg.arg for arg in plain[1:]] + ([f"*{given.vararg.arg}"] if given.vararg else [])
    args += [f"{arg.arg}={arg.arg}" for arg in given.kwonlyargs] + ([f"**{given.kwarg.arg}"] if given.kwarg else [])
    own = plain[0].arg
    text = f"""
{_NAME} = {own}.__dict__.get({KEY!r})
if {_NAME} is not None:
    {_NAME} = {_NAME}.entrance({own}, {name!r})
    if {_NAME} is not None:
        return {_NAME}({", ".join(args)})
"""
    return located(text, node.body[0]).body  # type: ignore[no-any-return]


def _runs_a_sample(function: Any, owner: Any, is_part: IsPart, met: set[str]) -> bool:
    """True if a method computes with parts of the model, itself or by other methods, and returns a result."""
    node = plain_source(function)
    if node is None or not function.__code__.co_argcount:
        return False
    own, computes, returns = function.__code__.co_varnames[0], False, False
    for part in ast.walk(node):
        if isinstance(part, _REFUSED) or (
            isinstance(part, ast.Name) and part.id == own and not isinstance(part.ctx, ast.Load)
        ):
            return False
        returns = returns or (isinstance(part, ast.Return) and part.value is not None)
        if isinstance(part, ast.Call) and isinstance(part.func, ast.Name) and part.func.id in (own, "super", "locals"):
            return False
        if not isinstance(part, ast.Attribute):
            continue
        if part.attr in _OF_TRAINING:
            return False
        if not isinstance(part.value, ast.Name) or part.value.id != own or part.attr in met:
            continue
        met.add(part.attr)
        method = class_attribute(type(owner), part.attr)
        if is_user_function(method):
            computes = _runs_a_sample(method, owner, is_part, met) or computes
        else:
            computes = computes or is_part(owner, part.attr)
    return computes and returns
