"""From a function to its source, and from that to its twin, made once per code object."""

from __future__ import annotations

import ast
import linecache
import sys
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from copy import copy
from types import CellType, CodeType, FunctionType
from typing import Any, NamedTuple

from gluonjit.hybrid.capture.guards.owners import is_user_function
from gluonjit.hybrid.capture.guards.rewriting import HIDDEN, Rewriter, Unfollowable, located
from gluonjit.hybrid.capture.guards.scopes import FUNCTIONS, Function
from gluonjit.replaced import code_of

_MOST_TWINS = 4096
_MOST_FILES = 256
_FUTURES = 0x1000000 | 0x100000 | 0x80000 | 0x20000  # annotations, unicode_literals and so on: flags of a code


class _File(NamedTuple):
    """A source file as read, and the code of its functions, by first line and name."""

    text: str
    tree: ast.Module
    codes: dict[tuple[int, str], list[CodeType]]


_files: OrderedDict[str, _File] = OrderedDict()
_twins: OrderedDict[CodeType, CodeType | str] = OrderedDict()
_rewritten: dict[int, CodeType] = {}  # the twins and all that is nested in them, by address
_given: dict[CodeType, Function] = {}  # code that is in no file, with its source


def give_source(code: CodeType, node: Function) -> None:
    """Registers the source of code that is in no file."""
    _given[code] = node


def source_of(function: FunctionType) -> tuple[Function, str | None]:
    """Returns a function's source, and the name of its class. Raises Unfollowable."""
    return _node_of(code_of(function), function.__globals__)


def plain_source(function: Any) -> ast.FunctionDef | None:
    """Returns the source of a user's function that was defined without decorators; None for anything else."""
    if not is_user_function(function):
        return None
    try:
        node, _ = source_of(function)
    except Unfollowable:
        return None
    return node if isinstance(node, ast.FunctionDef) and not node.decorator_list else None


def is_twin(code: CodeType) -> bool:
    """True if this is the code of a twin, or of a function inside of one."""
    return _rewritten.get(id(code)) is code


def line() -> str:
    """Names the line of the program that is being followed."""
    frame: Any = sys._getframe(1)
    while frame is not None and not is_twin(frame.f_code):
        frame = frame.f_back
    return "it" if frame is None else f"line {frame.f_lineno} of {frame.f_code.co_name}"


def twin_of(function: FunctionType, hidden: Any) -> FunctionType:
    """Returns the twin of a function, which passes its reads and writes to `hidden`. Raises Unfollowable."""
    code = code_of(function)
    made = _twins.get(code)
    if made is None:
        try:
            made = _rewrite(code, function.__globals__)
        except Unfollowable as error:
            made = str(error)
        if len(_twins) >= _MOST_TWINS:
            old = _twins.popitem(last=False)[1]
            for part in _nested(old) if isinstance(old, CodeType) else ():
                _rewritten.pop(id(part), None)
        _twins[code] = made
        if isinstance(made, CodeType):
            _rewritten.update((id(part), part) for part in _nested(made))
    if isinstance(made, str):
        raise Unfollowable(made)
    cells = dict(zip(code.co_freevars, function.__closure__ or ()))
    cells[HIDDEN] = CellType(hidden)
    twin = FunctionType(
        made,
        function.__globals__,
        function.__name__,
        function.__defaults__,
        tuple(cells[name] for name in made.co_freevars),
    )
    twin.__kwdefaults__ = function.__kwdefaults__
    twin.__qualname__ = function.__qualname__
    return twin


def _rewrite(code: CodeType, namespace: dict[str, Any]) -> CodeType:
    node, owner = _node_of(code, namespace)
    node = deep_copy(node)
    _drop_defaults(node.args)
    free = frozenset(code.co_freevars)
    if isinstance(node, ast.AsyncFunctionDef):
        raise Unfollowable("it is asynchronous")
    node = Rewriter(free, owner).function(node)
    return compiled(node, owner, (*free, HIDDEN), code)


def _drop_defaults(arguments: ast.arguments) -> None:
    """Puts None in the place of defaults, which a function that is made has from the one that it stands for."""
    arguments.defaults = [ast.Constant(None) for _ in arguments.defaults]
    arguments.kw_defaults = [value and ast.Constant(None) for value in arguments.kw_defaults]


def compiled(node: Function, owner: str | None, free: Iterable[str], code: CodeType) -> CodeType:
    """Compiles a function as a replacement of `code`, in a class of this name. Raises Unfollowable.

    free: the names that it may have from around it.
    """
    if isinstance(node, ast.Lambda):
        inner: ast.stmt = ast.Expr(node)
    else:
        node.decorator_list = []
        inner = node
    body = "pass" if owner is None else f"class {owner}: pass"
    module = located(f"def around({', '.join(free)}):\n {body}", node)
    around = module.body[0]
    (around if owner is None else around.body[0]).body = [inner]
    ast.fix_missing_locations(module)
    try:
        made = compile(module, code.co_filename, "exec", code.co_flags & _FUTURES, True)
    except (SyntaxError, ValueError, RecursionError) as error:
        raise Unfollowable(f"its source cannot be followed ({error})") from None
    found: CodeType = made
    for name in ("around", owner, code.co_name):
        if name is not None:
            found = next(part for part in found.co_consts if isinstance(part, CodeType) and part.co_name == name)
    known = getattr(code, "co_qualname", None)  # from Python 3.11 on
    return found if known is None else _renamed(found, len(found.co_qualname), known)


def replacing(function: FunctionType, node: ast.FunctionDef, owner: str | None) -> CodeType:
    """Compiles the code of a function from a node that differs in its body, to be put in the place of its own."""
    code = code_of(function)
    node.args = copy(node.args)
    _drop_defaults(node.args)
    made = compiled(node, owner, code.co_freevars, code)
    if hasattr(code, "co_qualname"):
        made = made.replace(co_qualname=code.co_qualname)
    if made.co_freevars != code.co_freevars:
        raise Unfollowable("its variables cannot be distinguished")
    return made.replace(co_firstlineno=code.co_firstlineno)


def _renamed(code: CodeType, length: int, name: str) -> CodeType:
    """Replaces the start of the qualified name of code and of its inner functions, which tracebacks show."""
    consts = [_renamed(part, length, name) if isinstance(part, CodeType) else part for part in code.co_consts]
    return code.replace(co_qualname=name + code.co_qualname[length:], co_consts=tuple(consts))


def _node_of(code: CodeType, namespace: dict[str, Any]) -> tuple[Function, str | None]:
    """Returns a function's node in its source, and its class. Raises Unfollowable."""
    if code in _given:
        return _given[code], None
    place = (code.co_firstlineno, code.co_name)
    file = _read(code.co_filename, namespace)
    nodes, codes = list(_functions(file.tree, None, *place)), file.codes.get(place, [])
    which = [number for number, other in enumerate(codes) if other == code]
    if not which and "@pytest_ar" in namespace and len(nodes) == 1:  # pytest rewrites what a test asserts
        which = [0]
    if not nodes or not which:
        raise Unfollowable("its source is not available: define it in a file")
    if len(nodes) != len(codes) or (len(which) > 1 and len(nodes) > 1):
        raise Unfollowable("several functions of its name are on its line")
    return nodes[which[0]]


def _read(name: str, namespace: dict[str, Any]) -> _File:
    linecache.checkcache(name)
    text = "".join(linecache.getlines(name, namespace)) or _given_to_python(name)
    known = _files.get(name)
    if known is not None and known.text == text:
        return known
    if not text:
        raise Unfollowable("its source is not available: define it in a file")
    try:
        tree = ast.parse(text, name)
        compiled = compile(tree, name, "exec", 0, True)
    except (SyntaxError, ValueError, RecursionError):
        raise Unfollowable("its source is not available: define it in a file") from None
    file = _File(text, tree, {})
    for code in _nested(compiled):
        file.codes.setdefault((code.co_firstlineno, code.co_name), []).append(code)
    if len(_files) >= _MOST_FILES:
        _files.popitem(last=False)
    _files[name] = file
    return file


def _given_to_python(name: str) -> str:
    """Returns the program of `python -c`; a later comparison shows whether a function belongs to it."""
    given = getattr(sys, "orig_argv", [])
    return str(given[given.index("-c") + 1]) if name == "<string>" and "-c" in given[:-1] else ""


def _functions(node: ast.AST, owner: str | None, line: int, name: str) -> Iterator[tuple[Function, str | None]]:
    """Functions of a name that begin on a line, with the innermost class around each, in the order of the source."""
    for inner in ast.iter_child_nodes(node):
        first = _first_line(inner)
        if first <= line <= getattr(inner, "end_lineno", line):
            if first == line and isinstance(inner, FUNCTIONS) and getattr(inner, "name", "<lambda>") == name:
                yield inner, owner
            yield from _functions(inner, inner.name if isinstance(inner, ast.ClassDef) else owner, line, name)


def _first_line(node: ast.AST) -> int:
    """Returns the first line of a part of a program, decorators included; 0 if it has no position."""
    decorators = getattr(node, "decorator_list", ())
    return int(decorators[0].lineno if decorators else getattr(node, "lineno", 0))


def deep_copy(node: Any) -> Any:
    """Copies a part of a program, or a list of them: like `copy.deepcopy`, without its search for cycles."""
    if isinstance(node, list):
        return [deep_copy(part) for part in node]
    if not isinstance(node, ast.AST):
        return node
    made = type(node).__new__(type(node))
    made.__dict__.update({name: deep_copy(part) for name, part in node.__dict__.items()})
    return made


def _nested(code: CodeType) -> Iterator[CodeType]:
    yield code
    for part in code.co_consts:
        if isinstance(part, CodeType):
            yield from _nested(part)
