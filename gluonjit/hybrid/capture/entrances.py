"""Entrances: methods of a model, other than its call, by which a program runs a sample, as `net.log_likelihood(x, y)`.

`hybridize` gives those that compute with the model's parts code that first asks whether the call comes from outside of
samples of a dynamically batched model. Such a call is a sample like a call of the model itself. Methods that train,
call the model themselves or return nothing stay as they are, and so do those whose names begin with an underscore.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable
from types import CodeType, FunctionType
from typing import Any
from weakref import WeakKeyDictionary, ref

from gluonjit.hybrid.capture.guards.owners import is_user_function
from gluonjit.hybrid.capture.guards.rewriting import Unfollowable
from gluonjit.hybrid.capture.guards.sources import replacing, source_of
from gluonjit.hybrid.run.state import LOCAL
from gluonjit.replaced import code_of, stands_for

Run = Callable[[Any, FunctionType], Any]
"""Returns what calls a method of a model as a sample; None if the model is not batched now."""
IsPart = Callable[[Any, str], bool]

_NAME = "_gluonjit_entrance"
_REFUSED = (ast.Yield, ast.YieldFrom, ast.Await, ast.AsyncFunctionDef, ast.Global, ast.Nonlocal)
_OF_TRAINING = frozenset(
    """backward step zero_grad train eval to cpu cuda apply load_state_dict state_dict parameters save load hybridize
    save_parameters load_parameters collect_params initialize named_parameters""".split()
)

_entrances: WeakKeyDictionary[FunctionType, Entrance] = WeakKeyDictionary()


class Entrance:
    """Answers the code of one method, which asks at each call: by `run(owner, function)` if no sample is open."""

    def __init__(self, function: FunctionType, run: Run) -> None:
        self._function, self._run = ref(function), run

    def __call__(self, owner: Any) -> Any:
        """Returns what to call in place of the method, or None."""
        state = LOCAL.state
        if state.inside or state.paused or state.trace is not None:
            return None
        function = self._function()
        return None if function is None else self._run(owner, function)

    def __reduce__(self) -> Any:
        return _nothing, ()


def install(owner: Any, is_part: IsPart, run: Run, besides: frozenset[str]) -> None:
    """Gives the entrances of a model's class their code, once; `besides` are methods that the framework calls."""
    for base in type(owner).__mro__:
        for name, item in vars(base).items():
            if name.startswith("_") or name in besides or type(item) is not FunctionType or item in _entrances:
                continue
            if item.__code__ is code_of(item) and is_user_function(item):
                _install(item, owner, is_part, run)


def _install(function: FunctionType, owner: Any, is_part: IsPart, run: Run) -> None:
    code = function.__code__
    if code.co_argcount < 2 or not _runs_a_sample(function, owner, is_part, set()):
        return
    entrance = Entrance(function, run)
    try:
        function.__code__ = _with_entrance(function, entrance)
    except (Unfollowable, ValueError):  # variables of its own that another code would not have
        return
    _entrances[function] = entrance


def entrance_of(function: FunctionType) -> Entrance | None:
    """The entrance that a method is."""
    return _entrances.get(function)


def asks(node: ast.FunctionDef) -> list[ast.stmt]:
    """The statements by which the code of an entrance asks; a constant stands for what is asked."""
    given, name = node.args, ast.Name(_NAME, ast.Load())
    plain = [*given.posonlyargs, *given.args]
    args: list[ast.expr] = [ast.Name(arg.arg, ast.Load()) for arg in plain[1:]]
    args += [ast.Starred(ast.Name(given.vararg.arg, ast.Load()), ast.Load())] if given.vararg else []
    names = [ast.keyword(arg.arg, ast.Name(arg.arg, ast.Load())) for arg in given.kwonlyargs]
    names += [ast.keyword(None, ast.Name(given.kwarg.arg, ast.Load()))] if given.kwarg else []
    own = ast.Name(plain[0].arg, ast.Load())
    found: list[ast.stmt] = [
        ast.Assign([ast.Name(_NAME, ast.Store())], ast.Constant(_NAME)),
        ast.Assign([ast.Name(_NAME, ast.Store())], ast.Call(name, [own], [])),
        ast.If(ast.Compare(name, [ast.IsNot()], [ast.Constant(None)]), [ast.Return(ast.Call(name, args, names))], []),
    ]
    return [ast.copy_location(statement, node.body[0]) for statement in found]


def answered(code: CodeType, entrance: Entrance) -> CodeType:
    """Code with what is asked in the place of the constant that stands for it."""
    return code.replace(co_consts=tuple([entrance if each == _NAME else each for each in code.co_consts]))


def _with_entrance(function: FunctionType, entrance: Entrance) -> CodeType:
    node, around = source_of(function)
    if not isinstance(node, ast.FunctionDef):
        raise Unfollowable("it is not a plain function")
    new = copy.copy(node)
    new.body = [*asks(node), *node.body]
    made = answered(replacing(function, new, around), entrance)
    stands_for(made, code_of(function))
    return made


def _runs_a_sample(function: Any, owner: Any, is_part: IsPart, met: set[str]) -> bool:
    """Tells whether a method computes with parts of the model, itself or by other methods, and returns a result."""
    if not is_user_function(function) or not function.__code__.co_argcount:
        return False
    try:
        node, _ = source_of(function)
    except Unfollowable:
        return False
    if not isinstance(node, ast.FunctionDef) or node.decorator_list:
        return False
    own, computes, returns = function.__code__.co_varnames[0], False, False
    for part in ast.walk(node):
        if isinstance(part, _REFUSED) or (isinstance(part, ast.Name) and part.id == own and _is_bound(part)):
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
        method = getattr(type(owner), part.attr, None)
        if is_user_function(method):
            computes = _runs_a_sample(method, owner, is_part, met) or computes
        else:
            computes = computes or is_part(owner, part.attr)
    return computes and returns


def _is_bound(node: ast.Name) -> bool:
    return not isinstance(node.ctx, ast.Load)


def _nothing() -> Callable[[Any], None]:
    """An entrance in unpickled code: its method behaves as before."""
    return _no_answer


def _no_answer(owner: Any) -> None:
    """No answer."""
