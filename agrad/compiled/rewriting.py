"""Recompile a function from its source, with a hook at every read, call, change and branch.

The source must be the text of this very code. So the function's part of the syntax tree is first compiled unchanged, within
no more scopes than it needs. If that gives the same code, the part is compiled again with hooks, and the nested code objects
of both are paired.
"""

from __future__ import annotations

import ast
import linecache
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from types import CodeType
from typing import Any, TypeVar

from agrad.compiled.instrumentation import CURRENT, FUTURE, HOOKS, Pattern

#: Placeholder for `HOOKS`: a tree can hold only plain constants, so `HOOKS` replaces it in the compiled code.
MARK = "\0hooks\0"

#: The argument of functions that exist only for their cell; no source can contain such a name.
READER = ".reader"

#: The variable that holds a value until all its targets are bound; no source can contain such a name.
VALUE_NAME = ".value"

#: Flags of code objects: of functions, of nested functions, and of coroutines and asynchronous generators.
OPTIMIZED, NESTED, ASYNC = 0x1, 0x10, 0x80 | 0x200

#: The number of files whose trees, and imported names, are cached.
FILES = 16

#: By the ``id`` of a plain code object: that object, and its instrumented twin, or None and the lines that had none.
_TWINS: dict[int, tuple[CodeType, CodeType | None, list[str] | None]] = {}

#: By file: its lines and their tree, for the files used last.
_TREES: dict[str, tuple[list[str], ast.Module]] = {}

#: By file: its lines and the names that they appear to import.
_IMPORTS: dict[str, tuple[list[str], frozenset[str]]] = {}

#: Whether annotations are functions of their own, which run on demand.
LAZY_ANNOTATIONS = sys.version_info >= (3, 14)

T = TypeVar("T")

#: Whether the code of a class hides the variables of its comprehensions; `CodeType.replace` would make them visible.
HIDES_COMPREHENSIONS = sys.version_info[:2] == (3, 12)

LOAD, STORE, DEL = ast.Load(), ast.Store(), ast.Del()

#: Definitions, and other nodes with a scope of their own.
Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
Comprehension = ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp


#: Nodes that bind names in another way than by a target, or have a scope for the names inside.
BINDING: set[type[ast.AST]] = {
    *(ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda, ast.NamedExpr),
    *(ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp, ast.Global, ast.Nonlocal),
    *(ast.alias, ast.ExceptHandler, ast.MatchAs, ast.MatchStar, ast.MatchMapping),
}
if sys.version_info >= (3, 12):
    BINDING.add(ast.TypeAlias)


class PlainCode:
    """Holds the plain code object of an instrumented one, as its last constant."""

    __slots__ = ("code",)

    def __init__(self, code: CodeType) -> None:
        self.code: CodeType = code


def is_instrumented(code: CodeType) -> bool:
    """Return whether a code object is instrumented."""
    return plain_code(code) is not None


def plain_code(code: CodeType) -> CodeType | None:
    """Return the plain code object of an instrumented one; None for any other."""
    last = code.co_consts[-1] if code.co_consts else None
    return last.code if type(last) is PlainCode else None


def instrumented(code: CodeType) -> CodeType | None:
    """Return the instrumented twin of the code of a function or lambda.

    Parameters
    ----------
    code : CodeType
        The plain code.

    Returns
    -------
    CodeType or None
        The same object at every call. None if no source compiles to exactly this code, as for functions created by ``exec``
        and after a change of the file; and for coroutines and asynchronous generators.
    """
    known = _TWINS.get(id(code))
    if known is not None and (known[1] is not None or known[2] is _cached_lines(code.co_filename)):
        return known[1]
    if is_instrumented(code):
        return code
    if code.co_flags & ASYNC or (code.co_name[:1] == "<" and code.co_name != "<lambda>"):
        return None
    tracker, CURRENT.tracker = CURRENT.tracker, None  # the parser may itself be instrumented
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Python has issued them when it compiled the user's source
            lines = linecache.getlines(code.co_filename)
            if not _find_twins(code, lines):
                # Only here may the cached lines be stale: lines that match the code are not
                linecache.checkcache(code.co_filename)
                newer = linecache.getlines(code.co_filename)
                if newer is lines or not _find_twins(code, newer):
                    _TWINS[id(code)] = code, None, _cached_lines(code.co_filename)
    finally:
        CURRENT.tracker = tracker
    return _TWINS[id(code)][1]


def _twin_of(code: CodeType) -> CodeType | None:
    known = _TWINS.get(id(code))
    return None if known is None else known[1]


def _cached_lines(file: str) -> list[str] | None:
    """Return the lines of a file that `linecache` holds, without reading the file."""
    entry: tuple[Any, ...] = linecache.cache.get(file, ())
    return entry[2] if len(entry) > 2 else None


def _find_twins(code: CodeType, lines: list[str]) -> bool:
    """Store the twins of a code object and of the code nested in it, if `lines` are its source; return whether they are."""
    if not lines:
        return False
    try:
        for node, found in _candidates(code, lines):
            # Notebooks compile each statement of a cell by itself, without the imports in other statements
            for imported in (found, frozenset[str]()) if found else (found,):
                if _compiled(_isolated(node, node.body), code, imported) == code:
                    made = _compiled(Rewriter(code).target(node), code, imported)
                    twins: list[tuple[CodeType, CodeType]] = []
                    if _pair_codes(code, made, twins) is None:
                        return False
                    _TWINS.update((id(plain), (plain, twin, None)) for plain, twin in twins if _twin_of(plain) is None)
                    return _twin_of(code) is not None
    except (SyntaxError, ValueError, RecursionError):  # not Python's source, or nested too deeply with hooks
        pass
    return False


# -- finding a function in its file ----------------------------------------------------------------------------------


#: A function, and the names that its module imports: Python compiles calls of their attributes differently.
Candidate = tuple[ast.FunctionDef | ast.Lambda, frozenset[str]]


def _candidates(code: CodeType, lines: list[str]) -> Iterator[Candidate]:
    """Yield the definitions that may be the source of a code object."""
    if code.co_name != "<lambda>":
        yield from _in_own_lines(code, lines)
    tree = _once_per_file(_TREES, code.co_filename, lines, lambda: ast.parse("".join(lines)))
    imported = _imported_by(tree)
    line = code.co_firstlineno
    stack: list[ast.AST] = [tree]
    while stack:
        node = stack.pop()
        if isinstance(node, ast.FunctionDef):
            if node.name == code.co_name and _first_line(node) == line:
                yield node, imported
        elif isinstance(node, ast.Lambda) and code.co_name == "<lambda>" and node.lineno == line:
            yield node, imported
        stack.extend(part for part in ast.iter_child_nodes(node) if _covers(part, line))


def _first_line(node: Any) -> int:
    """Return the first line of a node, including its decorators."""
    decorators = getattr(node, "decorator_list", None)
    return int(decorators[0].lineno if decorators else node.lineno)


def _covers(node: ast.AST, line: int) -> bool:
    """Return whether a line may lie within a node."""
    last = getattr(node, "end_lineno", None)
    return last is None or _first_line(node) <= line <= last


def _once_per_file(known: dict[str, tuple[list[str], T]], file: str, lines: list[str], make: Callable[[], T]) -> T:
    """Return data made from the lines of a file, cached for all its functions."""
    entry = known.pop(file, None)
    if entry is None or entry[0] is not lines:
        entry = lines, make()
        while len(known) >= FILES:
            known.pop(next(iter(known)))
    known[file] = entry
    return entry[1]


def _imported_by(tree: ast.Module) -> frozenset[str]:
    """Return the names that a module imports outside of functions and classes."""
    found: set[str] = set()
    stack: list[ast.AST] = [*tree.body]
    while stack:
        node = stack.pop()
        if isinstance(node, ast.Import | ast.ImportFrom):
            found.update(alias.asname or alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.stmt | ast.ExceptHandler | ast.match_case) and not isinstance(node, Definition):
            stack.extend(ast.iter_child_nodes(node))
    return frozenset(found)


def _imported(lines: list[str]) -> frozenset[str]:
    """Guess the names that a module imports, by parsing only lines that look like imports."""
    found: list[str] = []
    is_within = False
    for i, line in enumerate(lines):
        rest = line.lstrip()
        if not rest:
            continue
        if rest is line:
            is_within = line.startswith(("def ", "class ", "async "))
        if not is_within and rest.startswith(("import ", "from ")):
            last = i + 1
            while last < len(lines) and (rest.rstrip()[-1:] == "\\" or rest.count("(") > rest.count(")")):
                rest += lines[last]
                last += 1
            found.append(rest)
    try:
        return _imported_by(ast.parse("".join(found)))
    except SyntaxError:  # these lines alone are no source: `_candidates` parses the whole file
        return frozenset()


def _in_own_lines(code: CodeType, lines: list[str]) -> Iterator[Candidate]:
    """Yield the function that begins at a code object's first line, without parsing the rest of the file."""
    first = code.co_firstlineno
    if not 1 <= first <= len(lines):
        return
    line = lines[first - 1]
    indent = len(line) - len(line.lstrip())
    last = _last_line(code)
    while last < len(lines):
        line = lines[last]
        rest = line.lstrip()
        if rest and len(line) - len(rest) <= indent and rest[0] not in ")]}#":
            break
        last += 1
    own = "".join(lines[first - 1 : last])
    text = "\n" * (first - 2) + "if 1:\n" + own if indent and first > 1 else "\n" * (first - 1) + own
    try:
        node: ast.AST = ast.parse(text).body[0]
    except SyntaxError:  # the function ends elsewhere: `_candidates` parses the whole file
        return
    if isinstance(node, ast.If):
        node = node.body[0]
    if isinstance(node, ast.FunctionDef) and node.name == code.co_name:
        yield node, _once_per_file(_IMPORTS, code.co_filename, lines, lambda: _imported(lines))


def _last_line(code: CodeType) -> int:
    last = max((line for *_, line in code.co_lines() if line is not None), default=code.co_firstlineno)
    return max(last, *map(_last_line, _codes(code)), last)


def _codes(code: CodeType) -> list[CodeType]:
    return [value for value in code.co_consts if isinstance(value, CodeType)]


# -- compiling ---------------------------------------------------------------------------------------------------------


def _names(code: CodeType) -> set[str]:
    return {*code.co_names, *code.co_varnames, *code.co_cellvars, *code.co_freevars}.union(*map(_names, _codes(code)))


def _scopes_around(code: CodeType) -> list[tuple[str, bool]]:
    """Return the names of the scopes around a function, outermost first, and whether each is a class."""
    scopes: list[tuple[str, bool]] = []
    for name in code.co_qualname.split(".")[:-1]:
        if name == "<locals>":
            scopes[-1] = scopes[-1][0], False
        else:
            scopes.append((name, True))
    return scopes


def _compiled(node: ast.FunctionDef | ast.Lambda, code: CodeType, imported: frozenset[str]) -> CodeType:
    """Compile a function within scopes in which its names mean the same as in a code object."""
    scopes = _scopes_around(code)
    has_class = any(is_class for _, is_class in scopes)
    bound = [ast.arg(name) for name in code.co_freevars if name != "__class__" or not has_class]
    body: list[ast.stmt] = [ast.Expr(node) if isinstance(node, ast.Lambda) else node]
    depth = 1
    for name, is_class in reversed(scopes):
        if is_class:
            body = [ast.ClassDef(name, [], [], body, [], **NO_PARAMETERS)]
        else:
            body = [ast.FunctionDef(name, _arguments(bound), body, [], **NO_PARAMETERS)]
        depth += 1
    # The scope around it is one of type parameters, or its name is declared global in a function
    if code.co_flags & NESTED and all(is_class for _, is_class in scopes):
        name = scopes[0][0] if scopes else code.co_name
        body = [ast.FunctionDef("around", _arguments(bound), [ast.Global([name]), *body], [], **NO_PARAMETERS)]
        depth += 1
    aliases = [ast.alias(name, None) for name in imported & _names(code)]
    tree = ast.Module([ast.Import(aliases), *body] if aliases else body, [])
    for part in ast.iter_child_nodes(tree):
        _locate(part)
    made: CodeType = compile(tree, code.co_filename, "exec", code.co_flags & FUTURE, dont_inherit=True)
    for _ in range(depth):
        made = _codes(made)[0]
    return made


#: The field ``type_params`` of a definition without any, if this version of Python has the field.
NO_PARAMETERS: dict[str, Any] = {"type_params": []} if "type_params" in ast.FunctionDef._fields else {}


def _locate(node: ast.AST) -> None:
    """Give a position to the generated nodes around a function."""
    if "lineno" in node._attributes and getattr(node, "lineno", None) is None:
        node.lineno = node.end_lineno = 1  # type: ignore[attr-defined]
        node.col_offset = node.end_col_offset = 0  # type: ignore[attr-defined]
        for part in ast.iter_child_nodes(node):
            _locate(part)
            if isinstance(part, ast.arguments):
                for name in part.args:
                    _locate(name)


def _arguments(names: list[ast.arg], vararg: ast.arg | None = None) -> ast.arguments:
    return ast.arguments([], names, vararg, [], [], None, [])


def _isolated(node: ast.FunctionDef | ast.Lambda, body: Any) -> ast.FunctionDef | ast.Lambda:
    """Return a function with another body, and without what the scope around evaluates: defaults, annotations, decorators."""
    old = node.args

    def bare(names: list[ast.arg]) -> list[ast.arg]:
        return [_node_at(name, ast.arg, name.arg) for name in names]

    vararg, kwarg = (bare([name])[0] if name else None for name in (old.vararg, old.kwarg))
    args = ast.arguments(
        bare(old.posonlyargs), bare(old.args), vararg, bare(old.kwonlyargs), [None] * len(old.kwonlyargs), kwarg, []
    )
    if isinstance(node, ast.Lambda):
        return _node_at(node, ast.Lambda, args, body)  # type: ignore[no-any-return]
    first = [
        _node_at(d, ast.Constant, None) for d in node.decorator_list[:1]
    ]  # a function begins with its first decorator
    return _node_at(node, ast.FunctionDef, node.name, args, body, first, **NO_PARAMETERS)  # type: ignore[no-any-return]


def _node_at(place: Any, kind: Callable[..., Any], *fields: Any, **more: Any) -> Any:
    """Create a node of a kind at the position of another node."""
    return kind(
        *fields,
        **more,
        lineno=place.lineno,
        col_offset=place.col_offset,
        end_lineno=place.end_lineno,
        end_col_offset=place.end_col_offset,
    )


def _pair_codes(plain: CodeType, made: CodeType, twins: list[tuple[CodeType, CodeType]]) -> CodeType | None:
    """Return the instrumented code of a plain one, and add it and the nested ones to `twins`; None if the two differ."""
    if plain.co_flags & ASYNC:
        return plain
    if HIDES_COMPREHENSIONS and plain.co_nlocals and not plain.co_flags & OPTIMIZED:
        return None
    own = [code for code in _codes(made) if code.co_varnames[:1] != (READER,)]
    nested = _codes(plain)
    if (
        len(own) != len(nested)
        or _shape(plain) != _shape(made)
        or set(plain.co_cellvars) != set(made.co_cellvars)
        or set(plain.co_varnames) != set(made.co_varnames) - {VALUE_NAME}
    ):
        return None
    replaced: dict[int, CodeType] = {}
    for inner, twin in zip(nested, own, strict=True):
        found = _pair_codes(inner, twin, twins)
        if found is None:
            return None
        replaced[id(twin)] = found
    constants = [
        HOOKS if type(value) is str and value == MARK else replaced.get(id(value), value) for value in made.co_consts
    ]
    # Code without hooks is complete if it uses no names; otherwise it belongs to annotations or type parameters
    is_whole = any(value is HOOKS for value in constants) or not (plain.co_names or plain.co_freevars)
    is_whole = is_whole or not plain.co_flags & OPTIMIZED
    if is_whole:
        constants.append(PlainCode(plain))
    code = made.replace(co_consts=tuple(constants), co_qualname=plain.co_qualname)
    if is_whole:
        twins.append((plain, code))
    return code


def _shape(code: CodeType) -> tuple[Any, ...]:
    """Return the properties of code that hooks do not change."""
    return (
        code.co_name,
        code.co_firstlineno,
        code.co_flags,
        code.co_argcount,
        code.co_posonlyargcount,
        code.co_kwonlyargcount,
        code.co_freevars,
    )


# -- scopes ------------------------------------------------------------------------------------------------------------


def mangled(name: str, private: str | None) -> str:
    """Return a name as Python mangles it within the class `private`."""
    if private is None or name[:2] != "__" or name[-2:] == "__" or "." in name:
        return name
    return f"_{private.lstrip('_')}{name}" if private.strip("_") else name


class Scope:
    """The names that a function, class or comprehension binds itself.

    Parameters
    ----------
    kind : {"function", "class", "comprehension"}
        The kind of scope.
    parent : Scope or None
        The scope around it.
    bound : iterable of str, optional
        Names that it binds, such as parameters.
    """

    def __init__(self, kind: str, parent: Scope | None, bound: Iterable[str] = ()) -> None:
        self.kind = kind
        self.parent = parent
        self.bound: set[str] = set(bound)
        self.globals: set[str] = set()
        self.nonlocals: set[str] = set()

    def add(self, nodes: Iterable[ast.AST | None], private: str | None) -> Scope:
        """Add the names that nodes bind."""
        names: list[str] = []
        stack = [(node, False) for node in nodes if node is not None]
        while stack:
            node, is_within = stack.pop()  # within a comprehension, only `:=` binds names of this scope
            kind = type(node)
            if kind is ast.Name:
                if not is_within and type(node.ctx) is not ast.Load:  # type: ignore[attr-defined]
                    names.append(node.id)  # type: ignore[attr-defined]
                continue
            if kind not in BINDING:
                stack.extend((part, is_within) for part in _parts(node))
                continue
            parts: Iterable[ast.AST | None]
            if isinstance(node, ast.NamedExpr):
                names.append(node.target.id)
                parts = (node.value,)
            elif isinstance(node, Definition):
                names.append(node.name)
                parts = (
                    *node.decorator_list,
                    *((*node.bases, *node.keywords) if isinstance(node, ast.ClassDef) else _evaluated(node.args)),
                )
            elif isinstance(node, ast.Lambda):
                parts = _evaluated(node.args)
            elif isinstance(node, Comprehension):
                first = node.generators[0].iter
                stack.append((first, is_within))
                stack.extend((part, True) for part in ast.iter_child_nodes(node))
                continue
            elif isinstance(node, ast.Global):
                self.globals.update(mangled(name, private) for name in node.names)
                continue
            elif isinstance(node, ast.Nonlocal):
                self.nonlocals.update(mangled(name, private) for name in node.names)
                continue
            elif isinstance(node, ast.alias):
                names.append(node.asname or node.name.partition(".")[0])
                continue
            elif kind.__name__ == "TypeAlias":
                parts = (node.name,)  # type: ignore[attr-defined]
            else:
                name = getattr(node, "rest" if kind is ast.MatchMapping else "name")
                if name is not None:
                    names.append(name)
                parts = _parts(node)
            stack.extend((part, is_within) for part in parts if part is not None)
        self.bound.update(mangled(name, private) for name in names)
        return self

    def kind_of(self, name: str) -> str:
        """Return the kind of a name: "local", "free" or "global"; in the body of a class "own", or "own free" if it may be free."""
        scope: Scope = self
        while scope.kind == "comprehension":
            if name in scope.bound:
                return "local"
            assert scope.parent is not None
            scope = scope.parent
        if scope.kind == "class":
            if scope is self:
                if name in scope.globals:
                    return "global"
                if name in scope.nonlocals:
                    return "free"
                is_free = name not in scope.bound and scope._is_free(name)
                return "own free" if is_free else "own"
            return "free" if scope._is_free(name) else "global"
        if name in scope.globals:
            return "global"
        if name in scope.nonlocals:
            return "free"
        if name in scope.bound:
            return "local"
        return "free" if scope._is_free(name) else "global"

    def _is_free(self, name: str) -> bool:
        """Return whether a scope around this one binds a name for it."""
        scope = self.parent
        while scope is not None:
            if scope.kind == "class":
                if name == "__class__":
                    return True
            elif name in scope.globals:
                return False
            elif name in scope.bound or name in scope.nonlocals:
                return True
            scope = scope.parent
        return False


def _parts(node: ast.AST) -> list[ast.AST]:
    """Return the direct children of a node."""
    found: list[ast.AST] = []
    for name in node._fields:
        value = getattr(node, name, None)
        if type(value) is list:
            found.extend(part for part in value if isinstance(part, ast.AST))
        elif isinstance(value, ast.AST):
            found.append(value)
    return found


def _evaluated(args: ast.arguments) -> tuple[ast.expr | None, ...]:
    return (*args.defaults, *args.kw_defaults)


def _parameters(args: ast.arguments) -> list[str]:
    all_of = (*args.posonlyargs, *args.args, *args.kwonlyargs, args.vararg, args.kwarg)
    return [name.arg for name in all_of if name is not None]


# -- hooks -------------------------------------------------------------------------------------------------------------

OPERATORS: dict[type[ast.AST], str] = {
    ast.Add: "add",
    ast.Sub: "sub",
    ast.Mult: "mul",
    ast.Div: "truediv",
    ast.FloorDiv: "floordiv",
    ast.Mod: "mod",
    ast.Pow: "pow",
    ast.MatMult: "matmul",
    ast.BitAnd: "and_",
    ast.BitOr: "or_",
    ast.BitXor: "xor",
    ast.LShift: "lshift",
    ast.RShift: "rshift",
    ast.UAdd: "pos",
    ast.USub: "neg",
    ast.Invert: "invert",
    ast.Eq: "eq",
    ast.NotEq: "ne",
    ast.Lt: "lt",
    ast.LtE: "le",
    ast.Gt: "gt",
    ast.GtE: "ge",
    ast.Is: "is_",
    ast.IsNot: "is_not",
    ast.In: "in",
    ast.NotIn: "not_in",
}


def is_constant(node: ast.expr | None) -> bool:
    """Return whether the compiler may replace an expression by its value."""
    if isinstance(node, ast.Constant):
        return True
    if isinstance(node, ast.BinOp):
        return is_constant(node.left) and is_constant(node.right)
    if isinstance(node, ast.UnaryOp):
        return is_constant(node.operand)
    return isinstance(node, ast.Tuple) and all(map(is_constant, node.elts))


def is_pattern(target: ast.expr) -> bool:
    """Return whether a target unpacks a value."""
    return isinstance(target, ast.Tuple | ast.List)


def pattern_of(target: Any) -> Pattern:
    """Return the patterns of a target's elements, None for one that does not unpack; and the position of the starred one."""
    elements, star = [], -1
    for i, element in enumerate(target.elts):
        part = element
        if isinstance(part, ast.Starred):
            part, star = part.value, i
        elements.append(pattern_of(part) if is_pattern(part) else None)
    return tuple(elements), star


class SourceSpan:
    """A position in the source, within one line."""

    __slots__ = ("col_offset", "end_col_offset", "end_lineno", "lineno")

    def __init__(self, lineno: int, col_offset: int, end_col_offset: int) -> None:
        self.lineno: int = lineno
        self.end_lineno: int = lineno
        self.col_offset: int = col_offset
        self.end_col_offset: int = end_col_offset


def position_of(node: Any) -> Any:
    """Return the position that Python reports for a node: for an attribute that spans lines, the position of its name."""
    if node.lineno == node.end_lineno:
        return node
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        return position_of(node.func)
    if isinstance(node, ast.Attribute):
        return SourceSpan(node.end_lineno or 0, max(0, node.end_col_offset - len(node.attr)), node.end_col_offset)  # type: ignore[operator, arg-type]
    return SourceSpan(node.lineno, node.col_offset, node.col_offset + 1)


class Rewriter:
    """Makes the tree of a function with hooks, and leaves the given tree unchanged."""

    def __init__(self, code: CodeType) -> None:
        classes = [name for name, is_class in _scopes_around(code) if is_class]
        #: The class that mangles private names here.
        self.private: str | None = classes[-1] if classes else None
        self.scope: Scope = Scope("function", None, code.co_freevars)
        if classes:
            self.scope = Scope("class", self.scope)
        #: The global and nonlocal names that the current statement binds.
        self.stored: list[tuple[str, str]] = []
        self.are_annotations_evaluated: bool = not LAZY_ANNOTATIONS and not code.co_flags & ANNOTATIONS

    def target(self, node: ast.FunctionDef | ast.Lambda) -> ast.FunctionDef | ast.Lambda:
        """Return the function with hooks in its body."""
        return _isolated(node, self.body_of(node))

    # -- making nodes -------------------------------------------------------------------------------------------------

    def hook(self, at: Any, name: str, *args: Any, keywords: Sequence[ast.keyword] = ()) -> ast.expr:
        """Return the call of a hook; arguments that are not nodes become constants."""
        place = position_of(at)
        nodes = [arg if isinstance(arg, ast.AST) else _node_at(place, ast.Constant, arg) for arg in args]
        called = _node_at(place, ast.Attribute, _node_at(place, ast.Constant, MARK), name, LOAD)
        return _node_at(place, ast.Call, called, nodes, list(keywords))  # type: ignore[no-any-return]

    def hook_statement(self, at: Any, name: str, *args: Any) -> ast.stmt:
        """Return the call of a hook as a statement."""
        return _node_at(position_of(at), ast.Expr, self.hook(at, name, *args))  # type: ignore[no-any-return]

    def reader(self, at: Any, name: str) -> ast.expr:
        """Return a lambda whose closure is the cell of a name."""
        argument = _node_at(at, ast.arg, READER)
        return _node_at(at, ast.Lambda, _arguments([], argument), _node_at(at, ast.Name, name, LOAD))  # type: ignore[no-any-return]

    def visit(self, node: Any) -> Any:
        """Return the replacement of a node: a node, or for a statement also a list."""
        visitor = VISITORS.get(type(node))
        return self.rebuilt(node) if visitor is None else visitor(self, node)

    def rebuilt(self, node: Any, **known: Any) -> Any:
        """Return a node with replaced parts: the `known` ones, and the others visited."""
        fields, is_new = [], bool(known)
        for name in node._fields:
            value = getattr(node, name, None)
            if name in known:
                new = known[name]
            elif isinstance(value, ast.AST):
                new = self.visit(value)
            elif isinstance(value, list) and value:
                new = self.block(value) if isinstance(value[0], ast.stmt) else self.visit_all(value)
            else:
                new = value
            is_new = is_new or new is not value
            fields.append(new)
        if not is_new:
            return node
        made = type(node)(*fields)
        if node._attributes:
            made.lineno, made.end_lineno = node.lineno, node.end_lineno
            made.col_offset, made.end_col_offset = node.col_offset, node.end_col_offset
        return made

    def visit_all(self, values: Sequence[Any]) -> list[Any]:
        return [self.visit(value) if isinstance(value, ast.AST) else value for value in values]

    def block(self, body: Sequence[ast.stmt]) -> list[ast.stmt]:
        """Return statements with hooks; before each, hooks announce the global and nonlocal names that it binds."""
        made: list[ast.stmt] = []
        for statement in body:
            outer, self.stored = self.stored, []
            new = self.visit(statement)
            for name, kind in dict.fromkeys(self.stored):
                at = position_of(statement)
                reader = self.reader(at, name) if kind == "nonlocal" else None
                made.append(self.hook_statement(at, "before_store", mangled(name, self.private), kind, reader))
            self.stored = outer
            made.extend(new if isinstance(new, list) else [new])
        return made

    # -- scopes -------------------------------------------------------------------------------------------------------

    def body_of(self, node: ast.FunctionDef | ast.Lambda) -> Any:
        """Return the body of a function with hooks."""
        args = node.args
        parameters = [mangled(name, self.private) for name in _parameters(args)]
        body = [node.body] if isinstance(node, ast.Lambda) else node.body
        outer, self.scope = self.scope, Scope("function", self.scope, parameters).add(body, self.private)
        gathered = [name for name in (args.vararg, args.kwarg) if name is not None]
        made: Any
        if isinstance(node, ast.Lambda):
            made = self.returned(node.body)
            if gathered:
                at = node.body
                first = [self.hook(at, "made", _node_at(at, ast.Name, name.arg, LOAD)) for name in gathered]
                both = _node_at(at, ast.Tuple, [*first, made], LOAD)
                made = _node_at(at, ast.Subscript, both, _node_at(at, ast.Constant, len(first)), LOAD)
        else:
            is_documented = _is_docstring(body[0])
            made = [*body[:1]] if is_documented else []
            at = position_of(body[-1] if is_documented and len(body) == 1 else body[is_documented])
            made += [self.hook_statement(at, "made", _node_at(at, ast.Name, name.arg, LOAD)) for name in gathered]
            made += self.block(body[is_documented:])  # type: ignore[arg-type]
        self.scope = outer
        return made

    def arguments(self, args: ast.arguments, *, are_annotated: bool) -> ast.arguments:
        """Return the arguments of a definition with hooks in defaults and annotations, which the scope around evaluates."""

        def one(name: ast.arg) -> ast.arg:
            if name.annotation is None or not are_annotated:
                return name
            return self.rebuilt(name)  # type: ignore[no-any-return]

        return ast.arguments(
            [one(name) for name in args.posonlyargs],
            [one(name) for name in args.args],
            one(args.vararg) if args.vararg else None,
            [one(name) for name in args.kwonlyargs],
            self.visit_all(args.kw_defaults),
            one(args.kwarg) if args.kwarg else None,
            self.visit_all(args.defaults),
        )

    def decorators(self, node: Definition) -> list[ast.expr]:
        """Return decorators with hooks, and innermost a hook that reports the object created."""
        made = [self.hook(d, "decorating", self.visit(d)) for d in node.decorator_list]
        at = SourceSpan(node.lineno, node.col_offset, node.col_offset + 1)
        return [*made, _node_at(at, ast.Attribute, _node_at(at, ast.Constant, MARK), "made", LOAD)]

    def within_parameters(self, node: Any) -> Scope:
        """Return the scope around the body of a definition: that of its type parameters, if it has any."""
        parameters = [mangled(p.name, self.private) for p in getattr(node, "type_params", ())]
        return Scope("function", self.scope, parameters) if parameters else self.scope

    def visit_function(self, node: Any) -> Any:
        self.storing(node.name)
        is_generic = bool(
            getattr(node, "type_params", None)
        )  # then annotations have a scope of their own, without hooks
        are_annotated = self.are_annotations_evaluated and not is_generic
        known: dict[str, Any] = {
            "decorator_list": self.decorators(node),
            "args": self.arguments(node.args, are_annotated=are_annotated),
            "returns": self.visit(node.returns) if node.returns is not None and are_annotated else node.returns,
            "body": node.body,
        }
        if not isinstance(node, ast.AsyncFunctionDef):
            outer, self.scope = self.scope, self.within_parameters(node)
            known["body"] = self.body_of(node)
            self.scope = outer
        return self.rebuilt(node, **({"type_params": node.type_params} if NO_PARAMETERS else {}), **known)

    def visit_lambda(self, node: ast.Lambda) -> Any:
        args = self.arguments(node.args, are_annotated=False)
        return self.hook(node, "made", _node_at(node, ast.Lambda, args, self.body_of(node)))

    def visit_class(self, node: Any) -> Any:
        self.storing(node.name)
        is_generic = bool(getattr(node, "type_params", None))
        known: dict[str, Any] = {"decorator_list": self.decorators(node)}
        if is_generic:
            known |= {"type_params": node.type_params, "bases": node.bases, "keywords": node.keywords}
        else:
            known |= {"bases": self.visit_all(node.bases), "keywords": self.visit_all(node.keywords)}
        outer, private = self.scope, self.private
        self.scope, self.private = self.within_parameters(node), node.name
        self.scope = Scope("class", self.scope).add(node.body, node.name)
        is_documented = _is_docstring(node.body[0])
        known["body"] = [*node.body[:is_documented], *self.block(node.body[is_documented:])]
        self.scope, self.private = outer, private
        return self.rebuilt(node, **known)

    def visit_comprehension(self, node: Any) -> Any:
        if any(part.is_async for part in node.generators):
            return node
        outer = self.scope
        bound = [
            mangled(part.id, self.private)
            for generator in node.generators
            for part in ast.walk(generator.target)
            if isinstance(part, ast.Name) and type(part.ctx) is ast.Store
        ]
        inner = Scope("comprehension", outer, bound)
        generators = []
        for generator in node.generators:
            values = self.visit(generator.iter)  # the scope around evaluates the first one
            self.scope = inner
            values = self.iterated_by(generator.iter, values, generator.target)
            ifs = [self.test(test) for test in generator.ifs]
            generators.append(ast.comprehension(self.visit(generator.target), values, ifs, 0))
        if isinstance(node, ast.DictComp):
            made = _node_at(node, ast.DictComp, self.hashed(node.key), self.visit(node.value), generators)
        else:
            visit = {ast.GeneratorExp: self.returned, ast.SetComp: self.hashed}.get(type(node), self.visit)
            element = visit(node.elt)
            made = _node_at(node, type(node), element, generators)
        self.scope = outer
        return self.hook(node, "made", made)

    def storing(self, name: str) -> None:
        """Record that the current statement binds or deletes a name."""
        kind = self.scope.kind_of(mangled(name, self.private))
        if kind in {"global", "free"}:
            self.stored.append((name, "global" if kind == "global" else "nonlocal"))

    # -- expressions --------------------------------------------------------------------------------------------------

    def test(self, node: Any) -> Any:
        """Return an expression that decides a branch, with a hook wherever Python tests the truth of a part."""
        if isinstance(node, ast.BoolOp):
            return self.rebuilt(node, op=node.op, values=[self.test(value) for value in node.values])
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            return self.visit(node)
        if isinstance(node, ast.IfExp):
            return self.rebuilt(
                node, test=self.test(node.test), body=self.test(node.body), orelse=self.test(node.orelse)
            )
        if isinstance(node, ast.Compare) and len(node.ops) > 1:
            return self.chained(node, is_tested=True)
        made = self.visit(node)
        return made if is_constant(node) or is_debug(node) else self.hook(node, "truth", made)

    def returned(self, node: Any) -> Any:
        """Return an expression whose value a function returns or yields."""
        return node if is_constant(node) else self.hook(node, "returned", self.visit(node))

    def iterated_by(self, node: Any, made: Any, target: Any = None) -> Any:
        """Return an expression over which Python iterates: `made` is `node` with hooks, and `target` gets each element."""
        if target is not None and is_pattern(target):
            return self.hook(node, "unpacking", made, pattern_of(target))
        return made if is_constant(node) else self.hook(node, "iterated", made)

    def unpacked(self, node: Any, made: Any, target: Any) -> Any:
        """Return an expression whose value a target unpacks; `made` is the expression with hooks."""
        pattern = pattern_of(target)
        if any(pattern[0]):
            return self.hook(node, "unpacked", made, pattern)
        is_display = isinstance(node, ast.Tuple) and not any(isinstance(part, ast.Starred) for part in node.elts)
        return made if is_display or is_constant(node) else self.hook(node, "iterated", made)

    def visit_name(self, node: ast.Name) -> Any:
        name = node.id
        if type(node.ctx) is not ast.Load:
            self.storing(name)
            return node
        full = mangled(name, self.private)
        kind = self.scope.kind_of(full)
        if kind == "local" or name == "__debug__":
            return node
        if kind == "global":
            return self.hook(node, "load_global", full, node)
        if kind == "own":
            return self.hook(node, "load_name", full, node)
        return self.hook(node, "load_free" if kind == "free" else "load_name", full, node, self.reader(node, name))

    def visit_attribute(self, node: ast.Attribute) -> Any:
        made, name = self.visit(node.value), mangled(node.attr, self.private)
        if type(node.ctx) is ast.Load:
            return self.hook(node, "attribute", made, name)
        before = "deleting_attribute" if type(node.ctx) is ast.Del else "writing_attribute"
        return self.rebuilt(node, value=self.hook(node, before, made, name), ctx=node.ctx)

    def visit_subscript(self, node: ast.Subscript) -> Any:
        made = self.visit(node.value)
        if type(node.ctx) is ast.Load:
            if is_constant(node.value) and is_constant(node.slice):
                return node
            return self.hook(node, "item", made, self.key(node.slice))
        if is_constant(node.slice) or isinstance(node.slice, ast.Slice):
            key = self.visit(node.slice)
        else:
            key = self.hook(node.slice, "hashed", self.key(node.slice))
        return self.rebuilt(node, value=self.hook(node, "writing_item", made), slice=key)

    def key(self, node: Any) -> Any:
        """Return an expression for the content of the brackets of a subscript."""
        if isinstance(node, ast.Slice):
            parts = [None if part is None else self.visit(part) for part in (node.lower, node.upper, node.step)]
            return self.hook(node, "slice", *parts)
        if isinstance(node, ast.Tuple):
            return self.rebuilt(node, elts=[self.key(part) for part in node.elts])
        return self.visit(node)

    def visit_call(self, node: ast.Call) -> Any:
        if isinstance(node.func, ast.Name) and node.func.id == "super" and not node.args and not node.keywords:
            return node
        keywords = [
            _node_at(
                k, ast.keyword, k.arg, self.visit(k.value) if k.arg else self.iterated_by(k.value, self.visit(k.value))
            )
            for k in node.keywords
        ]
        function = self.visit(node.func)
        return self.hook(node, "call", function, *self.visit_all(node.args), keywords=keywords)

    def visit_binary(self, node: ast.BinOp) -> Any:
        if is_constant(node):
            return node
        return self.hook(node, "binary", OPERATORS[type(node.op)], self.visit(node.left), self.visit(node.right))

    def visit_unary(self, node: ast.UnaryOp) -> Any:
        if is_constant(node):
            return node
        if isinstance(node.op, ast.Not):
            return self.rebuilt(node, op=node.op, operand=self.test(node.operand))
        return self.hook(node, "unary", OPERATORS[type(node.op)], self.visit(node.operand))

    def visit_boolean(self, node: ast.BoolOp) -> Any:
        *first, last = node.values
        return self.rebuilt(node, op=node.op, values=[*(self.test(value) for value in first), self.visit(last)])

    def visit_choice(self, node: ast.IfExp) -> Any:
        return self.rebuilt(node, test=self.test(node.test))

    def visit_compare(self, node: ast.Compare) -> Any:
        if len(node.ops) > 1:
            return self.chained(node, is_tested=False)
        left: Any = node.left
        left = self.hook(left, "history", self.visit(left.value)) if is_history_test(node) else self.visit(left)
        right = self.visit(node.comparators[0])
        return self.hook(node, "compare", OPERATORS[type(node.ops[0])], left, right)

    def chained(self, node: ast.Compare, *, is_tested: bool) -> Any:
        """Return a chained comparison by ``<`` of operands whose ``__lt__`` performs the original comparison."""
        operands = [node.left, *node.comparators]
        ops = [*(OPERATORS[type(op)] for op in node.ops), None]
        made = [
            self.hook(operand, "compared", self.visit(operand), op, op is not None or is_tested)
            for operand, op in zip(operands, ops, strict=True)
        ]
        return _node_at(node, ast.Compare, made[0], [_LESS] * len(node.ops), made[1:])

    def visit_formatted(self, node: ast.FormattedValue) -> Any:
        if is_constant(node.value):
            return self.rebuilt(node)
        return self.rebuilt(node, value=self.hook(node.value, "formatted", self.visit(node.value)))

    def visit_starred(self, node: ast.Starred) -> Any:
        if type(node.ctx) is not ast.Load:
            return self.rebuilt(node)
        return self.rebuilt(node, value=self.iterated_by(node.value, self.visit(node.value)))

    def visit_display(self, node: Any) -> Any:
        if type(getattr(node, "ctx", LOAD)) is not ast.Load:
            return self.rebuilt(node)
        return self.hook(node, "made", self.rebuilt(node))

    def hashed(self, node: Any) -> Any:
        """Return an expression whose value Python hashes: of equal ones, a set or a dict keeps the first."""
        made = self.visit(node)
        if isinstance(node, ast.Starred):
            return self.rebuilt(made, value=self.hook(node, "hashed_each", made.value))
        return made if is_constant(node) else self.hook(node, "hashed", made)

    def visit_set(self, node: ast.Set) -> Any:
        return self.hook(node, "made", self.rebuilt(node, elts=[self.hashed(part) for part in node.elts]))

    def visit_dict(self, node: ast.Dict) -> Any:
        pairs = zip(node.keys, node.values, strict=True)
        values, keys = [], []
        for key, value in pairs:
            keys.append(None if key is None else self.hashed(key))
            made = self.visit(value)
            values.append(self.iterated_by(value, made) if key is None else made)
        return self.hook(node, "made", self.rebuilt(node, keys=keys, values=values))

    def visit_yield(self, node: ast.Yield) -> Any:
        return node if node.value is None else self.rebuilt(node, value=self.returned(node.value))

    def visit_yield_from(self, node: ast.YieldFrom) -> Any:
        return self.rebuilt(node, value=self.iterated_by(node.value, self.visit(node.value)))

    def visit_unchanged(self, node: Any) -> Any:
        return node

    # -- statements ---------------------------------------------------------------------------------------------------

    def visit_return(self, node: ast.Return) -> Any:
        return node if node.value is None else self.rebuilt(node, value=self.returned(node.value))

    def visit_test(self, node: Any) -> Any:
        return self.rebuilt(node, test=self.test(node.test))

    def visit_for(self, node: ast.For) -> Any:
        return self.rebuilt(node, iter=self.iterated_by(node.iter, self.visit(node.iter), node.target))

    def visit_assign(self, node: ast.Assign) -> Any:
        made, targets = self.visit(node.value), self.visit_all(node.targets)
        if not any(map(is_pattern, node.targets)):
            return self.rebuilt(node, value=made, targets=targets)
        if len(targets) == 1:
            return [
                self.rebuilt(node, value=self.unpacked(node.value, made, node.targets[0]), targets=targets),
                *self.report_starred(targets[0]),
            ]
        return [
            _node_at(node, ast.Assign, [_node_at(node, ast.Name, VALUE_NAME, STORE)], made),
            self.deleting_value(
                node,
                [
                    _node_at(node, ast.Assign, [new], self.value_for(node, target))
                    for target, new in zip(node.targets, targets, strict=True)
                ],
            ),
        ]

    def report_starred(self, target: Any) -> Iterator[ast.stmt]:
        """Yield statements that report the lists that Python creates for starred names of a target."""
        for part in ast.walk(target):
            if isinstance(part, ast.Starred) and isinstance(part.value, ast.Name):
                yield self.report_made(part, part.value.id)

    def report_made(self, at: Any, name: str) -> ast.stmt:
        """Return a statement that reports the object that Python has created and bound to a name."""
        at = position_of(at)
        return _node_at(at, ast.Expr, self.hook(at, "made", _node_at(at, ast.Name, name, LOAD)))  # type: ignore[no-any-return]

    def deleting_value(self, at: Any, body: list[ast.stmt]) -> ast.stmt:
        """Return statements in a ``try`` that finally deletes the variable `VALUE_NAME`."""
        place = position_of(at)
        gone = _node_at(place, ast.Delete, [_node_at(place, ast.Name, VALUE_NAME, DEL)])
        return _node_at(at, ast.Try, body, [], [], [gone])  # type: ignore[no-any-return]

    def value_for(self, at: Any, target: Any) -> Any:
        """Return an expression for the value of `VALUE_NAME`, as a target takes it."""
        kept = _node_at(position_of(at), ast.Name, VALUE_NAME, LOAD)
        return self.unpacked(kept, kept, target) if is_pattern(target) else kept

    def visit_annotated(self, node: ast.AnnAssign) -> Any:
        is_evaluated = self.are_annotations_evaluated and self.scope.kind == "class"
        annotation = self.visit(node.annotation) if is_evaluated else node.annotation
        return self.rebuilt(node, annotation=annotation)

    def visit_augmented(self, node: ast.AugAssign) -> Any:
        target, op = node.target, OPERATORS[type(node.op)]
        if isinstance(target, ast.Name):
            loaded = self.visit(_node_at(target, ast.Name, target.id, LOAD))
            made = self.hook(node, "inplace", op, loaded, self.visit(node.value))
            return _node_at(node, ast.Assign, [self.visit(target)], made)
        o = self.visit(target.value)
        if isinstance(target, ast.Attribute):
            begun = self.hook(target, "augmenting_attribute", op, o, mangled(target.attr, self.private))
        else:
            begun = self.hook(target, "augmenting_item", op, o, self.key(target.slice))
        place = position_of(node)
        return _node_at(place, ast.Expr, _node_at(place, ast.Call, begun, [self.visit(node.value)], []))

    def visit_with(self, node: ast.With) -> Any:
        body = self.block(node.body)
        for item in reversed(node.items):
            manager, target = (
                self.hook(item.context_expr, "entering", self.visit(item.context_expr)),
                item.optional_vars,
            )
            if isinstance(target, ast.Name):
                entered = self.hook(target, "entered", _node_at(target, ast.Name, target.id, LOAD))
                body.insert(0, _node_at(target, ast.Assign, [self.visit(target)], entered))
            elif target is not None:
                entered = self.hook(target, "entered", _node_at(target, ast.Name, VALUE_NAME, LOAD))
                if is_pattern(target):
                    entered = self.unpacked(entered, entered, target)
                body.insert(
                    0, self.deleting_value(target, [_node_at(target, ast.Assign, [self.visit(target)], entered)])
                )
                target = _node_at(target, ast.Name, VALUE_NAME, STORE)
            body = [_node_at(node, ast.With, [ast.withitem(manager, target)], body)]
        return body

    def visit_import(self, node: Any) -> Any:
        for alias in node.names:
            self.storing(alias.asname or alias.name.partition(".")[0])
        if isinstance(node, ast.ImportFrom):
            names = tuple(alias.name for alias in node.names)
            return [self.hook_statement(node, "importing", node.module or "", names, node.level), node]
        return [*(self.hook_statement(node, "importing", alias.name, (), 0) for alias in node.names), node]

    def visit_handler(self, node: ast.ExceptHandler) -> Any:
        error = None
        if node.name is not None:
            self.storing(node.name)
            error = _node_at(position_of(node), ast.Name, node.name, LOAD)
        made = [self.hook_statement(node, "caught", error), *self.block(node.body)]
        return self.rebuilt(node, body=made)

    def visit_match(self, node: ast.Match) -> Any:
        cases = []
        for case in node.cases:
            kinds: list[ast.expr] = []
            pattern = self.pattern(case.pattern, kinds)
            guard = None if case.guard is None else self.test(case.guard)
            for kind in kinds:  # the pattern itself cannot have a hook: a case before it, which never matches, has it
                nothing, no_test = _node_at(kind, ast.MatchAs), self.hook(kind, "unmatched", self.visit(kind))
                cases.append(ast.match_case(nothing, no_test, [_node_at(position_of(kind), ast.Pass)]))
            cases.append(ast.match_case(pattern, guard, [*self.report_rests(case.pattern), *self.block(case.body)]))
        return self.rebuilt(node, subject=self.hook(node.subject, "matched", self.visit(node.subject)), cases=cases)

    def report_rests(self, pattern: ast.pattern) -> Iterator[ast.stmt]:
        """Yield statements that report the lists and dicts that Python creates for starred parts of a pattern."""
        for part in ast.walk(pattern):
            if isinstance(part, ast.MatchStar | ast.MatchMapping):
                name = part.name if isinstance(part, ast.MatchStar) else part.rest
                if name is not None:
                    yield self.report_made(part, mangled(name, self.private))

    def pattern(self, node: Any, kinds: list[ast.expr]) -> Any:
        """Return a pattern whose values are loaded by hooks; add the classes in it to `kinds`."""
        if isinstance(node, ast.MatchValue):
            return self.rebuilt(node, value=self.compared_with(node.value))
        if isinstance(node, ast.MatchMapping):
            keys = [self.compared_with(key) for key in node.keys]
            patterns = [self.pattern(part, kinds) for part in node.patterns]
            if node.rest is not None:
                self.storing(node.rest)
            return self.rebuilt(node, keys=keys, patterns=patterns)
        if isinstance(node, ast.MatchClass):
            kinds.append(node.cls)
            known = {name: [self.pattern(part, kinds) for part in getattr(node, name)] for name in CLASS_PATTERNS}
            return self.rebuilt(node, cls=node.cls, **known)
        if isinstance(node, ast.MatchSequence | ast.MatchOr):
            return self.rebuilt(node, patterns=[self.pattern(part, kinds) for part in node.patterns])
        if isinstance(node, ast.MatchAs | ast.MatchStar) and node.name is not None:
            self.storing(node.name)
        if isinstance(node, ast.MatchAs) and node.pattern is not None:
            return self.rebuilt(node, pattern=self.pattern(node.pattern, kinds))
        return node

    def compared_with(self, node: Any) -> Any:
        """Return a value of a pattern (a constant or a dotted name); hooks load a dotted name."""
        if not isinstance(node, ast.Attribute):
            return node
        return _node_at(node, ast.Attribute, self.hook(node, "holding", self.visit(node)), "value", LOAD)


def is_history_test(node: Any) -> bool:
    """Return whether a comparison is ``t.grad_fn is None`` or ``is not None``, which only reveals that there is a node."""
    other = node.comparators[0]
    return (
        isinstance(node.ops[0], ast.Is | ast.IsNot)
        and isinstance(node.left, ast.Attribute)
        and node.left.attr == "grad_fn"
        and isinstance(other, ast.Constant)
        and other.value is None
    )


def is_debug(node: ast.AST) -> bool:
    """Return whether a node is the constant ``__debug__``."""
    return isinstance(node, ast.Name) and node.id == "__debug__"


def _is_docstring(statement: Any) -> bool:
    """Return whether a statement is a docstring, if it is the first one."""
    value = statement.value if isinstance(statement, ast.Expr) else None
    return isinstance(value, ast.Constant) and isinstance(value.value, str)


_LESS = ast.Lt()
CLASS_PATTERNS = ("patterns", "kwd_patterns")
ANNOTATIONS = 0x1000000  # the flag of `from __future__ import annotations`

VISITORS: dict[type[ast.AST], Callable[[Rewriter, Any], Any]] = {
    ast.FunctionDef: Rewriter.visit_function,
    ast.AsyncFunctionDef: Rewriter.visit_function,
    ast.Lambda: Rewriter.visit_lambda,
    ast.ClassDef: Rewriter.visit_class,
    ast.ListComp: Rewriter.visit_comprehension,
    ast.SetComp: Rewriter.visit_comprehension,
    ast.DictComp: Rewriter.visit_comprehension,
    ast.GeneratorExp: Rewriter.visit_comprehension,
    ast.Name: Rewriter.visit_name,
    ast.Constant: Rewriter.visit_unchanged,
    ast.Attribute: Rewriter.visit_attribute,
    ast.Subscript: Rewriter.visit_subscript,
    ast.Call: Rewriter.visit_call,
    ast.BinOp: Rewriter.visit_binary,
    ast.UnaryOp: Rewriter.visit_unary,
    ast.BoolOp: Rewriter.visit_boolean,
    ast.IfExp: Rewriter.visit_choice,
    ast.Compare: Rewriter.visit_compare,
    ast.FormattedValue: Rewriter.visit_formatted,
    ast.Starred: Rewriter.visit_starred,
    ast.List: Rewriter.visit_display,
    ast.Set: Rewriter.visit_set,
    ast.Dict: Rewriter.visit_dict,
    ast.Yield: Rewriter.visit_yield,
    ast.YieldFrom: Rewriter.visit_yield_from,
    ast.Return: Rewriter.visit_return,
    ast.If: Rewriter.visit_test,
    ast.While: Rewriter.visit_test,
    ast.Assert: Rewriter.visit_test,
    ast.For: Rewriter.visit_for,
    ast.Assign: Rewriter.visit_assign,
    ast.AnnAssign: Rewriter.visit_annotated,
    ast.AugAssign: Rewriter.visit_augmented,
    ast.With: Rewriter.visit_with,
    ast.Import: Rewriter.visit_import,
    ast.ImportFrom: Rewriter.visit_import,
    ast.ExceptHandler: Rewriter.visit_handler,
    ast.Match: Rewriter.visit_match,
    ast.Load: Rewriter.visit_unchanged,
    ast.Store: Rewriter.visit_unchanged,
    ast.Del: Rewriter.visit_unchanged,
}
if sys.version_info >= (3, 12):
    VISITORS[ast.TypeAlias] = Rewriter.visit_unchanged  # Python evaluates its value on demand, and binds a local name
