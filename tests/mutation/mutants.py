"""Small faults to plant in a source file, one at a time: where they stand, what they change, how a test reaches them.

A mutant is an edit of the file's text, so that all else (lines, comments, names of parameters) stays as it was. Nothing
is planted in docstrings, annotations, messages, imports and what only a type checker reads.
"""

from __future__ import annotations

import ast
import hashlib
import itertools
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

#: What stands for an operator.
OPERATORS = {
    ast.Add: ("+", "-"),
    ast.Sub: ("-", "+"),
    ast.Mult: ("*", "/"),
    ast.Div: ("/", "*"),
    ast.FloorDiv: ("//", "*"),
    ast.Mod: ("%", "*"),
    ast.Pow: ("**", "*"),
    ast.MatMult: ("@", "*"),
    ast.BitAnd: ("&", "|"),
    ast.BitOr: ("|", "&"),
    ast.BitXor: ("^", "|"),
    ast.LShift: ("<<", ">>"),
    ast.RShift: (">>", "<<"),
}
COMPARISONS = {
    ast.Lt: ("<", "<="),
    ast.LtE: ("<=", "<"),
    ast.Gt: (">", ">="),
    ast.GtE: (">=", ">"),
    ast.Eq: ("==", "!="),
    ast.NotEq: ("!=", "=="),
    ast.Is: ("is", "is not"),
    ast.IsNot: ("is not", "is"),
    ast.In: ("in", "not in"),
    ast.NotIn: ("not in", "in"),
}
#: Names that are easily taken for one another, where both are at hand.
PAIRS = [
    ("x1", "x2"),
    ("x", "y"),
    ("a", "b"),
    ("A", "B"),
    ("g", "ans"),
    ("min", "max"),
    ("start", "stop"),
    ("lower", "upper"),
    ("rows", "columns"),
    ("first", "second"),
    ("before", "after"),
    ("old", "new"),
    ("primals", "tangents"),
]
TWIN = {**dict(PAIRS), **{b: a for a, b in PAIRS}}

#: Functions of Python that give something like their argument; those of an array library (``xp.conj``) are known by xp.
WRAPPERS = {"tuple", "list", "sorted", "reversed", "set", "abs", "frozenset", "copy", "int", "float", "bool"}
#: Calls that are typing or messages.
SILENT = {"cast", "TypeVar", "ParamSpec", "warn", "overload", "NewType"}
#: Calls in which swapping arguments or leaving one out gives an error at once.
PLAIN = {"isinstance", "issubclass", "getattr", "setattr", "hasattr", "delattr", "super", "range", "type"}
#: Those in which the order of arguments is all one.
SYMMETRIC = {"add", "equal", "gcd", "logical_and", "logical_or", "max", "maximum", "min", "minimum", "multiply", "zip"}


@dataclass(frozen=True)
class Mutant:
    """One planted fault.

    Attributes
    ----------
    path : str
        The file, as ``agrad/core/node.py``.
    line : int
        Where it stands.
    where : str
        The function and class around it, dotted; empty at module level.
    kind : str
        The name of the operator of mutation.
    start, end : int
        The bytes replaced.
    text : str
        What replaces them.
    before, after : str
        The line, or lines, without and with it.
    probes : tuple of (int, int) or str
        What runs where it has an effect: the bytes of an expression, ``(start, -1)`` of a statement, and for what runs
        at import ``"op:module.name"``, the op it declares.
    key : str
        What it is called from one version of the file to the next.
    """

    path: str
    line: int
    where: str
    kind: str
    start: int
    end: int
    text: str
    before: str
    after: str
    probes: tuple[tuple[int, int] | str, ...]
    key: str

    def apply(self, source: bytes) -> bytes:
        return source[: self.start] + self.text.encode() + source[self.end :]

    def __str__(self) -> str:
        place = f"{self.path}:{self.line}" + (f" in {self.where}" if self.where else "")
        return f"{self.key}  {place}  ({self.kind})\n    - {self.before}\n    + {self.after}"


class Scope:
    """Where the walk stands."""

    def __init__(self, names: tuple[str, ...] = (), *, runs: bool = False, functions: tuple = (), around=None) -> None:
        self.names = names  # of classes and functions
        self.runs = runs  # inside a function's body: not at import
        self.functions = functions  # the function definitions and lambdas around
        self.around = around  # the class or function definition whose decorators, defaults or body run at import


class Finder:
    """Finds the mutants of one file."""

    def __init__(self, source: bytes, path: str) -> None:
        self.source, self.path = source, path
        self.tree = ast.parse(source)
        starts = [0, *(m.end() for m in re.finditer(b"\n", source))]
        self.starts = starts
        self.found: list[tuple] = []
        self.loads = self._loads()

    # -- places -------------------------------------------------------------------------------------------------------

    def span(self, node: ast.AST) -> tuple[int, int]:
        return (
            self.starts[node.lineno - 1] + node.col_offset,
            self.starts[node.end_lineno - 1] + node.end_col_offset,
        )

    def text(self, node: ast.AST) -> str:
        start, end = self.span(node)
        return self.source[start:end].decode()

    def gap(self, left: ast.AST, right: ast.AST, token: str) -> tuple[int, int] | None:
        """Find an operator between two expressions, past parentheses and comments."""
        start, end = self.span(left)[1], self.span(right)[0]
        between = re.sub(rb"#[^\n]*", lambda m: b" " * len(m[0]), self.source[start:end])
        word = token.encode()
        pattern = rb"\s+".join(re.escape(part) for part in word.split())
        if word.isalpha() or b" " in word:
            pattern = rb"\b" + pattern + rb"\b"
        found = re.search(pattern, between)
        return None if found is None else (start + found.start(), start + found.end())

    def _loads(self) -> dict[str, list[tuple[int, int]]]:
        """Give, for each global name, the places in functions that read it."""
        found: dict[str, list[tuple[int, int]]] = {}
        for function in ast.walk(self.tree):
            if isinstance(function, ast.Lambda):
                bodies = [function.body]
            elif isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
                bodies = function.body
            else:
                continue
            for body in bodies:
                for node in self._read(body):
                    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
                        found.setdefault(node.id, []).append(self.span(node))
        return found

    def _read(self, node: ast.AST) -> Iterator[ast.AST]:
        """Walk what may be wrapped in a call: no annotation, pattern, f-string or decorator."""
        yield node
        for name, value in ast.iter_fields(node):
            if name in ("annotation", "returns", "pattern", "decorator_list", "bases", "type_params"):
                continue
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, ast.AST) and not isinstance(child, ast.JoinedStr):
                    yield from self._read(child)

    def first(self, body: list[ast.stmt]) -> list[tuple[int, int]]:
        """Give the place of what runs first in a body."""
        for statement in body:
            match statement:
                case ast.Expr(value=ast.Constant()) | ast.Pass() | ast.Global() | ast.Nonlocal() | ast.Import():
                    continue
                case ast.ImportFrom() | ast.FunctionDef() | ast.ClassDef() | ast.AsyncFunctionDef():
                    continue
                case ast.If() | ast.While():
                    return [self.span(statement.test)]
                case ast.For():
                    return [self.span(statement.iter)]
                case ast.With():
                    return [self.span(statement.items[0].context_expr)]
                case ast.Try():
                    return self.first(statement.body)
                case ast.Match():
                    return [self.span(statement.subject)]
                case ast.AsyncFor() | ast.AsyncWith():
                    return []
                case _:
                    return [(self.span(statement)[0], -1)]
        return []

    def bodies(self, node: ast.AST) -> list[tuple[int, int] | str]:
        """Give the places where the functions in a node begin."""
        found: list[tuple[int, int] | str] = []
        for each in ast.walk(node):
            if isinstance(each, ast.FunctionDef):
                found += self.first(each.body)
            elif isinstance(each, ast.Lambda):
                found.append(self.span(each.body))
        return found

    # -- what is found ------------------------------------------------------------------------------------------------

    def add(self, kind: str, node: ast.AST, start: int, end: int, text: str, scope: Scope) -> None:
        self.found.append((kind, node, start, end, text, scope, self.statement, self.holder))

    def replace(self, kind: str, node: ast.AST, text: str, scope: Scope) -> None:
        self.add(kind, node, *self.span(node), text, scope)

    def mutants(self) -> list[Mutant]:
        self.statement: ast.AST = self.tree
        self.holder: ast.expr | None = None  # the innermost expression that a call can be put around
        self.body(self.tree.body, Scope())
        made, seen = [], {}
        for kind, node, start, end, text, scope, statement, holder in self.found:
            first = self.source.rfind(b"\n", 0, start) + 1
            last = self.source.find(b"\n", end)
            before = self.source[first:last].decode()
            after = (self.source[first:start] + text.encode() + self.source[end:last]).decode()
            before, after = (" ".join(part.split()) for part in (before, after))
            where = ".".join(scope.names)
            named = (self.path, where, kind, before, after)
            seen[named] = seen.get(named, -1) + 1
            key = hashlib.sha256(repr((*named, seen[named])).encode()).hexdigest()[:8]
            probes = tuple(self.probes(node, scope, statement, holder))
            made.append(Mutant(self.path, node.lineno, where, kind, start, end, text, before, after, probes, key))
        return made

    def probes(self, node: ast.AST, scope: Scope, statement: ast.AST, holder: ast.expr | None) -> list:
        if scope.runs:
            if holder is not None:
                return [self.span(holder)]
            return [(self.span(statement)[0], -1)]
        around = scope.around
        if isinstance(around, ast.FunctionDef):
            body = self.first(around.body)
            module = self.path.removesuffix(".py").replace("/", ".")
            return body or [f"op:{module}.{'.'.join([*scope.names[:-1], around.name])}"]
        if isinstance(around, ast.Lambda):
            return [self.span(around.body)]
        if isinstance(around, ast.ClassDef):
            return self.bodies(around) or self.bodies(self.tree)
        targets = statement.targets if isinstance(statement, ast.Assign) else [getattr(statement, "target", None)]
        names = [t.id for t in targets if isinstance(t, ast.Name)]
        return [place for name in names for place in self.loads.get(name, [])] or self.bodies(self.tree)

    # -- statements ---------------------------------------------------------------------------------------------------

    def body(self, statements: Iterable[ast.stmt], scope: Scope) -> None:
        for statement in statements:
            self.visit(statement, scope)

    def visit(self, node: ast.stmt, scope: Scope) -> None:
        simple = not isinstance(
            node, ast.If | ast.While | ast.For | ast.With | ast.Try | ast.Match | ast.FunctionDef | ast.ClassDef
        )
        if simple:
            self.statement = node
        self.holder = None
        removable = False
        match node:
            case ast.Import() | ast.ImportFrom() | ast.Assert() | ast.Global() | ast.Nonlocal() | ast.Pass():
                return
            case ast.Expr(value=ast.Constant()):
                return
            case ast.Raise():
                if node.exc is not None:
                    self.replace("raise removed", node, "pass", scope)
                return
            case ast.Break():
                self.replace("break to continue", node, "continue", scope)
            case ast.Continue():
                self.replace("continue to break", node, "break", scope)
            case ast.FunctionDef():
                self.function(node, scope)
            case ast.ClassDef():
                inner = Scope((*scope.names, node.name), runs=scope.runs, functions=scope.functions, around=node)
                self.body(node.body, inner)
            case ast.If():
                if is_type_checking(node.test):
                    self.body(node.orelse, scope)
                    return
                self.condition(node.test, scope)
                self.body(node.body, scope)
                self.body(node.orelse, scope)
            case ast.While():
                self.condition(node.test, scope)
                self.body([*node.body, *node.orelse], scope)
            case ast.For():
                self.expression(node.iter, scope)
                self.body([*node.body, *node.orelse], scope)
            case ast.With():
                for item in node.items:
                    self.expression(item.context_expr, scope)
                self.body(node.body, scope)
            case ast.Try():
                self.body(node.body, scope)
                for handler in node.handlers:
                    self.body(handler.body, scope)
                self.body([*node.orelse, *node.finalbody], scope)
            case ast.Match():
                self.expression(node.subject, scope)
                for case in node.cases:
                    if case.guard is not None:
                        self.condition(case.guard, scope)
                    self.body(case.body, scope)
            case ast.Return(value=value) if value is not None:
                if not isinstance(value, ast.Constant) and not is_message(value):
                    self.replace("return None", node, "return None", scope)
                self.expression(value, scope)
            case ast.Assign(targets=targets, value=value):
                names = {t.id for t in targets if isinstance(t, ast.Name)}
                if names & {"__all__", "__slots__"} or is_message(value) or is_alias(value):
                    return
                removable = not names
                for target in targets:
                    self.target(target, scope)
                self.expression(value, scope)
            case ast.AnnAssign(target=target, value=value) if value is not None:
                removable = not isinstance(target, ast.Name)
                self.expression(value, scope)
            case ast.AugAssign(op=op):
                removable = True
                if not is_message(node.value):
                    if (place := self.gap(node.target, node.value, OPERATORS[type(op)][0] + "=")) is not None:
                        self.add("arithmetic", node, *place, OPERATORS[type(op)][1] + "=", scope)
                    self.expression(node.value, scope)
            case ast.Delete():
                removable = True
            case ast.Expr(value=value):
                if isinstance(value, ast.Yield | ast.YieldFrom):
                    if value.value is not None:
                        self.expression(value.value, scope)
                    return
                removable = not silent(value)
                self.expression(value, scope)
        if removable:
            self.holder = None
            self.statement = node
            self.replace("statement removed", node, "pass", scope)

    def function(self, node: ast.FunctionDef, scope: Scope) -> None:
        if node.name in ("__repr__", "__str__") or any("overload" in ast.unparse(d) for d in node.decorator_list):
            return
        names = (*scope.names, node.name)
        # Decorators and defaults run where the definition does: what they do shows when the function is called.
        outer = Scope(names, runs=False, functions=scope.functions, around=node)
        kept = self.statement
        self.statement = node
        for decorator in node.decorator_list:
            if isinstance(decorator, ast.Call):
                self.call_arguments(decorator, outer)
        self.defaults(node.args, outer)
        self.statement = kept
        self.body(node.body, Scope(names, runs=True, functions=(*scope.functions, node)))

    def defaults(self, arguments: ast.arguments, scope: Scope) -> None:
        for default in [*arguments.defaults, *arguments.kw_defaults]:
            if default is not None:
                self.holder = None
                self.expression(default, scope)

    def target(self, node: ast.expr, scope: Scope) -> None:
        """Go through the keys of a target of assignment."""
        if isinstance(node, ast.Subscript):
            self.holder = None
            self.expression(node.slice, scope)

    def condition(self, node: ast.expr, scope: Scope) -> None:
        if not isinstance(node, ast.Compare | ast.BoolOp | ast.Constant | ast.NamedExpr) and not (
            isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not)
        ):
            self.holder = node
            self.replace("condition negated", node, f"not ({self.text(node)})", scope)
        self.expression(node, scope)

    # -- expressions --------------------------------------------------------------------------------------------------

    def expression(self, node: ast.expr, scope: Scope) -> None:
        if isinstance(node, ast.JoinedStr) or is_message(node):
            return
        kept = self.holder
        if not isinstance(node, ast.Slice | ast.Starred) and isinstance(getattr(node, "ctx", ast.Load()), ast.Load):
            self.holder = node
        self.changes(node, scope)
        self.parts(node, scope)
        self.holder = kept

    def parts(self, node: ast.expr, scope: Scope) -> None:
        """Go on with the expressions in an expression."""
        match node:
            case ast.Lambda():
                inner = Scope((*scope.names, "<lambda>"), functions=scope.functions, around=node)
                self.defaults(node.args, inner)
                self.holder = node.body
                within = Scope((*scope.names, "<lambda>"), runs=True, functions=(*scope.functions, node))
                self.expression(node.body, within)
            case ast.Call():
                if silent(node):
                    if name_of(node.func) == "cast" and len(node.args) == 2:
                        self.expression(node.args[1], scope)
                    return
                if isinstance(node.func, ast.Attribute):
                    self.expression(node.func.value, scope)
                self.call_arguments(node, scope)
            case ast.Tuple() if self.slices(node):
                for element in node.elts:  # a key: a slice among them cannot be put into a call, nor can the key
                    self.holder = None
                    self.expression(element, scope)
            case ast.Subscript():
                self.expression(node.value, scope)
                kept = self.holder
                self.expression(node.slice, scope)
                self.holder = kept
            case ast.ListComp() | ast.SetComp() | ast.GeneratorExp():
                self.expression(node.elt, scope)
                self.comprehensions(node.generators, scope)
            case ast.DictComp():
                self.expression(node.key, scope)
                self.expression(node.value, scope)
                self.comprehensions(node.generators, scope)
            case ast.IfExp():
                self.condition(node.test, scope)
                self.expression(node.body, scope)
                self.expression(node.orelse, scope)
            case _:
                for child in ast.iter_child_nodes(node):
                    if isinstance(child, ast.expr):
                        self.expression(child, scope)

    def slices(self, node: ast.Tuple) -> bool:
        return any(isinstance(element, ast.Slice) for element in node.elts)

    def comprehensions(self, generators: list[ast.comprehension], scope: Scope) -> None:
        for generator in generators:
            self.expression(generator.iter, scope)
            for test in generator.ifs:
                self.condition(test, scope)

    def call_arguments(self, node: ast.Call, scope: Scope) -> None:
        arguments = node.args[:1] if name_of(node.func) in ("isinstance", "issubclass") else node.args
        for argument in arguments:
            self.expression(argument, scope)
        for keyword in node.keywords:
            if name_of(node.func) != "zip":  # strict=True guards against what does not happen
                self.expression(keyword.value, scope)

    def changes(self, node: ast.expr, scope: Scope) -> None:
        """Note the faults of this very expression."""
        match node:
            case ast.BinOp(left=left, op=op, right=right):
                token, other = OPERATORS[type(op)]
                if (place := self.gap(left, right, token)) is not None:
                    self.add("arithmetic", node, *place, other, scope)
            case ast.UnaryOp(op=ast.USub() | ast.Not() | ast.Invert(), operand=operand):
                self.replace("sign or not dropped", node, f"({self.text(operand)})", scope)
            case ast.Compare(left=left, ops=ops, comparators=others):
                for a, op, b in zip([left, *others[:-1]], ops, others, strict=True):
                    token, other = COMPARISONS[type(op)]
                    if (place := self.gap(a, b, token)) is not None:
                        self.add("comparison", node, *place, other, scope)
            case ast.BoolOp(op=op, values=values):
                token, other = ("and", "or") if isinstance(op, ast.And) else ("or", "and")
                for a, b in itertools.pairwise(values):
                    if (place := self.gap(a, b, token)) is not None:
                        self.add("and to or", node, *place, other, scope)
            case ast.Constant(value=bool(value)):
                self.replace("True to False", node, str(not value), scope)
            case ast.Constant(value=int(value)):
                self.replace("constant", node, str(value + 1), scope)
            case ast.Constant(value=float(value)):
                self.replace("constant", node, repr(value * 2 if value else 1.0), scope)
            case ast.Name(id=name, ctx=ast.Load()) if name in TWIN and scope.runs:
                if any(TWIN[name] in parameters(function) for function in scope.functions[-1:]):
                    self.replace("operand swapped", node, TWIN[name], scope)
            case ast.Slice(upper=upper) if upper is not None and not isinstance(upper, ast.Constant):
                self.replace("slice end", upper, f"({self.text(upper)}) - 1", scope)
            case ast.Call() if not silent(node):
                self.call(node, scope)

    def call(self, node: ast.Call, scope: Scope) -> None:
        name = name_of(node.func)
        of_library = isinstance(node.func, ast.Attribute) and ast.unparse(node.func.value).split(".")[0] in {
            "xp",
            "np",
            "da",
            "math",
        }
        if node.args and not isinstance(node.args[0], ast.Starred) and (of_library or name in WRAPPERS):
            self.replace("call dropped", node, f"({self.text(node.args[0])})", scope)
        if name in PLAIN:
            return
        starred = any(isinstance(argument, ast.Starred) for argument in node.args)
        if len(node.args) >= 2 and not starred and name not in SYMMETRIC:
            a, b = node.args[-2:]
            if not (is_message(a) or is_message(b)):
                between = self.source[self.span(a)[1] : self.span(b)[0]].decode()
                swapped = self.text(b) + between + self.text(a)
                self.add("arguments swapped", node, self.span(a)[0], self.span(b)[1], swapped, scope)
        parts = [*node.args, *node.keywords]
        for i, keyword in enumerate(node.keywords):
            if keyword.arg is None or is_message(keyword.value) or name == "zip":
                continue
            start, end = self.span(keyword)
            position = len(node.args) + i
            if position:
                start = self.span(parts[position - 1])[1]
                if self.source[start:end].count(b"(") != self.source[start:end].count(b")"):
                    continue
            self.add("keyword dropped", keyword, start, end, "", scope)


def parameters(function: ast.AST) -> set[str]:
    arguments = function.args  # type: ignore[attr-defined]
    return {a.arg for a in [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]}


def name_of(function: ast.expr) -> str:
    match function:
        case ast.Attribute(attr=name) | ast.Name(id=name):
            return name
    return ""


def silent(node: ast.expr) -> bool:
    """Tell whether a call is typing or a message."""
    return isinstance(node, ast.Call) and name_of(node.func) in SILENT


def is_message(node: ast.expr) -> bool:
    """Tell whether an expression is text."""
    match node:
        case ast.JoinedStr() | ast.Constant(value=str()):
            return True
        case ast.BinOp(left=left, right=right):
            return is_message(left) or is_message(right)
    return False


def is_alias(node: ast.expr) -> bool:
    """Tell whether a value is a type for annotations, as ``int | tuple[int, ...]``."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
        return is_alias(node.left) or is_alias(node.right)
    if isinstance(node, ast.Subscript):
        return is_alias(node.value)
    return isinstance(node, ast.Name) and node.id in ("int", "float", "tuple", "list", "Callable", "Mapping", "None")


def is_type_checking(test: ast.expr) -> bool:
    return ast.unparse(test) in ("TYPE_CHECKING", "typing.TYPE_CHECKING")


def find(source: bytes, path: str) -> list[Mutant]:
    """Give every mutant of a file, by where it stands."""
    return sorted(Finder(source, path).mutants(), key=lambda mutant: (mutant.start, mutant.end, mutant.text))


def is_fault(mutant: Mutant, source: bytes) -> bool:
    """Tell whether a mutant is a program, and another one."""
    changed = mutant.apply(source)
    try:
        compile(changed, mutant.path, "exec")
    except (SyntaxError, ValueError):
        return False
    return changed != source


def sample(root: Path, mutants: Iterable[Mutant], count: int, seed: int) -> list[Mutant]:
    """Draw mutants, at most one of a line: the same ones from a source that has changed elsewhere."""

    def drawn(*what: object) -> str:
        return hashlib.sha256(repr((seed, *what)).encode()).hexdigest()

    lines: dict[tuple, list[Mutant]] = {}
    for mutant in mutants:
        lines.setdefault((mutant.path, mutant.where, mutant.before), []).append(mutant)
    chosen: list[Mutant] = []
    for line in sorted(lines, key=lambda line: drawn(*line)):
        if len(chosen) == count:
            break
        source = (root / line[0]).read_bytes()
        for mutant in sorted(lines[line], key=lambda mutant: drawn(mutant.key)):
            if is_fault(mutant, source):
                chosen.append(mutant)
                break
    return sorted(chosen, key=lambda mutant: (mutant.path, mutant.start))


def instrument(source: bytes, mutants: Iterable[Mutant], probe: str = "_agrad_probe") -> bytes:
    """Put a call before each mutant that notes its key: ``(_hit('k') or (expression))``."""
    inserted: list[tuple] = []
    for mutant in mutants:
        for place in set(mutant.probes):
            if isinstance(place, str):
                continue
            start, end = place
            if end < 0:
                inserted.append((start, 1, -len(source), f"_hit({mutant.key!r}); "))
            else:
                inserted.append((start, 1, -end, f"(_hit({mutant.key!r}) or ("))
                inserted.append((end, 0, -start, "))"))
    pieces, position = [], 0
    for place, _, _, text in sorted(inserted):
        pieces += [source[position:place], text.encode()]
        position = place
    changed = b"".join([*pieces, source[position:]])
    tree = ast.parse(changed)
    # On the line of the first import, so that no line moves.
    for statement in tree.body:
        if isinstance(statement, ast.ImportFrom | ast.Import):
            lines = changed.split(b"\n")
            line = lines[statement.end_lineno - 1]
            at = statement.end_col_offset
            lines[statement.end_lineno - 1] = line[:at] + f"; from {probe} import _hit".encode() + line[at:]
            return b"\n".join(lines)
    for statement in tree.body:  # a file without imports: before its first assignment
        if isinstance(statement, ast.Assign | ast.AnnAssign):
            lines = changed.split(b"\n")
            lines[statement.lineno - 1] = f"from {probe} import _hit; ".encode() + lines[statement.lineno - 1]
            return b"\n".join(lines)
        if not isinstance(statement, ast.Expr):
            break
    return source  # not probed: a function comes first


def read(root: Path, paths: Iterable[str]) -> list[Mutant]:
    """Give all mutants of the files under a root."""
    return [mutant for path in paths for mutant in find((root / path).read_bytes(), path)]
