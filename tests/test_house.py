"""The rules of the house: what imports what, what `import agrad` costs, and that the versions agree."""

from __future__ import annotations

import ast
import datetime as dt
import functools
import importlib
import inspect
import os
import re
import runpy
import shutil
import subprocess
import sys
import textwrap
import tomllib
import types
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "agrad"

# -- the tables: adjust here ------------------------------------------------------------------------------------------

#: Libraries that nothing under agrad/ imports, not even inside a function.
ARRAY_LIBRARIES = {"cupy", "dask", "jax", "numpy", "scipy", "torch"}

#: Loaded at the first tensor, not by `import agrad`.
LATE = {"array_api_compat", "pluggy"}

#: Lowest first. A module imports, at module level, from its own rank and below. "agrad.x" is that one module,
#: "agrad.x.*" the module and everything under it; the longest match counts.
LAYERS = [
    [
        "agrad.core.backend",
        "agrad.core.blank",
        "agrad.core.cpython",
        "agrad.core.errors",
        "agrad.core.executor",
        "agrad.core.facts",
        "agrad.core.mode",
        "agrad.core.names",
        "agrad.core.once",
        "agrad.core.port",
        "agrad.core.requirements",
        "agrad.core.spec",
        "agrad.dtypes",
        "agrad.view.elsewhere",
        "agrad.view.format",
        "agrad.view.notebook",
    ],
    ["agrad.core.hooks"],
    ["agrad.core.node"],
    ["agrad.core.cotangents", "agrad.core.rule"],
    ["agrad.core.plan"],
    ["agrad.core.methods", "agrad.core.tensor"],
    ["agrad.core.buffers", "agrad.core.materialize", "agrad.core.operands", "agrad.core.saved", "agrad.core.tree"],
    ["agrad.core.op"],
    ["agrad.core.entry", "agrad.core.declare", "agrad.core.kernels", "agrad.core.describe"],
    ["agrad.core.commit", "agrad.core.transfers", "agrad.core.history", "agrad.core.anomaly"],
    ["agrad.core.engine"],
    ["agrad.core.forward", "agrad.core.function"],
    ["agrad.core"],
    ["agrad.plugin.*"],
    ["agrad.ops.*", "agrad.numpy.*"],
    ["agrad.numpy.random", "agrad.program.*", "agrad.random.*", "agrad.serialization.*", "agrad.tree"],
    ["agrad.compiled.*"],
    [
        "agrad.autograd.*",
        "agrad.func.*",
        "agrad.lazy",
        "agrad.nn.*",
        "agrad.optim.*",
        "agrad.plugin.backend",
        "agrad.plugin.programs",
        "agrad.testing.*",
        "agrad.utils.*",
        "agrad.view.*",
    ],
    [
        "agrad.accelerator",
        "agrad.cuda",
        "agrad.distributions",
        "agrad.extra",
        "agrad.fft",
        "agrad.linalg",
        "agrad.scipy.*",
        "agrad.sparse",
        "agrad.special",
        "agrad.torch_functions",
    ],
    ["agrad", "agrad.__main__", "agrad.backends.*", "agrad.torch_names"],
    [
        "agrad.chunk_manager",
        "agrad.compat.*",
        "agrad.einops",
        "agrad.xarray",
        "agrad.testing.kit",
        "agrad.testing.report",
        "agrad.testing.reproducing",
        "agrad.testing.suite.*",
    ],
]

#: What plugins and examples import of agrad: no other module, and of these the names that they list.
PUBLIC = {
    "agrad",
    "agrad.func",
    "agrad.numpy",
    "agrad.plugin.backend",
    "agrad.plugin.programs",
    "agrad.random",
    "agrad.scipy.integrate",
    "agrad.testing",
    "agrad.tree",
}

#: Imports from a higher rank that wait: written in a function, or under TYPE_CHECKING for annotations alone. The layers
#: do not hold for them, so each must stay within one of CIRCLES. This list may only become shorter.
UPWARD = {
    ("agrad.core.node", "agrad.core.tensor"): "annotations: a leaf's node knows its tensor",
}

#: A circle may have so many files.
FEW = 4

#: What imports itself by way of others, imports that wait and those of stubs included. This list, too, may only become
#: shorter.
CIRCLES = {
    frozenset({"agrad.core.backend", "agrad.core.spec"}): "annotations: a spec knows its backend, which makes it",
    frozenset({"agrad.core.methods", "agrad.core.node", "agrad.core.tensor"}): (
        "annotations: of a leaf's node, which knows its tensor, and of the stub of the tensor's methods"
    ),
}

#: The ports (`core.port`), which a file declares because it ranks below what it calls, with the files that define them.
#: Each is a call upwards that imports nothing, so this list may only become shorter.
PORTS = {
    "agrad.core.backend.functions_of": "agrad.ops.namespace",
    "agrad.core.backend.kernels_of": "agrad.core.kernels",
    "agrad.core.backend.plugins": "agrad.plugin",
    "agrad.core.node.call_node": "agrad.core.engine",
    "agrad.core.tensor.compute": "agrad.core.materialize",
}

#: Names of a module that the last lines of another one give a value, so that nobody finds them who reads their own file.
#: The list may only become shorter: of agrad's own modules there is none.
INJECTED: dict[tuple[str, str], str] = {
    ("agrad.view.tracebacks", "sys.excepthook"): "Python's place for what shows uncaught errors",
    ("agrad.view.tracebacks", "warnings.showwarning"): "Python's place for what shows warnings",
}

#: What CPython alone has, and `agrad.core.cpython` alone uses.
CPYTHON = {
    "_getframe",
    "co_code",
    "co_positions",
    "get_referents",
    "get_referrers",
    "getprofile",
    "getrefcount",
    "gettrace",
    "opmap",
    "opname",
    "setprofile",
    "settrace",
}

#: Tables of ops by name, by module and what they are bound to: all that is a fact about an op stands at its declaration. What
#: may have one: kernels, which a backend lists by their names; texts of kernels in another language; rules of a pass, each
#: about one op. Of the kit the samples are not asked, which are by op. This list may only become shorter.
TABLES = {
    ("agrad_dask.task_memory", "ALIKE"): "functions of NumPy's and Dask's whose names are no ops'",
    ("agrad.compiled.calling", "SPECIAL"): "Python's functions",
    ("agrad.compiled.instrumentation", "BINARY"): "Python's operators",
    ("agrad.compiled.rewriting", "OPERATORS"): "Python's operators",
    ("agrad.compiled.effects", "_CALLING_METHODS"): "functions of Python's math",
    ("agrad.core.facts", "BINARY"): "Python's operators: their names are no ops'",
    ("agrad.core.kernels", "PRIMITIVES"): "methods that every backend has, in the contract",
    ("agrad.nn.functional.layers", "embedding_bag"): "values of a parameter of PyTorch's",
    ("agrad.program.inference", "WRITTEN"): "kernels on outlines",
    ("agrad.program.outlines", "ALIKE"): "kernels on outlines",
    ("agrad.program.outlines", "FLOATING"): "kernels on outlines",
    ("agrad.program.outlines", "NUMERIC"): "kernels on outlines",
    ("agrad.program.outlines", "FUNCTIONS"): "kernels on outlines",
    ("agrad.program.outlines", "WRITTEN"): "kernels on outlines",
    ("agrad.program.passes", "IDENTITIES"): "rules of a pass",
    ("agrad.program.passes", "POINTS"): "rules of a pass",
    ("agrad.program.passes", "_lying_in_c"): "rules of a pass",
    ("agrad.compiled.tracing", ""): "Python's operators",
    ("agrad.numpy.shaping", "_EDGES"): "modes of NumPy's pad",
    ("agrad.numpy.ufuncs", ""): "rows that say how NumPy's ufuncs act",
    ("agrad.ops.namespace", "public_functions"): "the standard has them in two chapters",
    ("agrad.optim.lr_scheduler", "__init__"): "settings",
    ("agrad.scipy.stats.base", "without_variable"): "methods of SciPy's distributions",
    ("agrad.testing.suite.running", "SIGNS"): "what a test may not compare",
    ("agrad.testing.suite.test_basics", "FOUR"): "calls of a test",
    ("agrad.testing.suite.test_creation", "CREATED"): "calls of a test",
    ("agrad.testing.suite.test_creation", "MADE_OF"): "calls of a test",
    ("agrad.testing.suite.test_laziness", "READS_INDICES"): "what a test may not ask",
    ("agrad.utils.unwinding", "_operators"): "Python's operators",
    ("agrad.testing.suite.test_namespace", "CALLS"): "calls of a test",
    ("agrad.testing.suite.test_namespace", "DATA_DEPENDENT"): "calls of a test",
    ("agrad.testing.suite.test_namespace", "test_nothing_has_no_largest"): "calls of a test",
    ("agrad.testing.suite.test_namespace", "test_results_of_no_axes_are_arrays"): "calls of a test",
    ("agrad.testing.suite.test_programs", "refused"): "what a test expects, said anew",
    ("agrad.torch_functions", "METHODS"): "methods that PyTorch has as functions",
    ("agrad_cupy.backend", "_AROUND"): "kernels",
    ("agrad_cupy.backend", "_INSTEAD"): "kernels",
    ("agrad_cupy.fusion", "_FUNCTIONS"): "texts of kernels in CUDA C++",
    ("agrad_cupy.fusion", "_OPERATORS"): "texts of kernels in CUDA C++",
    ("agrad_cupy.fusion", "_SAME"): "texts of kernels in CUDA C++",
    ("agrad_cupy.fusion", "_TESTS"): "texts of kernels in CUDA C++",
    ("agrad_cupy.fusion", "_WRITTEN"): "texts of kernels in CUDA C++",
    ("agrad_cupy.graphs", "REFUSED"): "what CuPy's kernels do in a capture",
    ("agrad_dask.image_kernels", "OPS_ON_IMAGES"): "kernels",
    ("agrad_dask.kernels", "KERNELS"): "kernels",
    ("agrad_dask.reductions", "OF_TWO"): "kernels",
    ("agrad_dask.scipy_kernels", "SIGNATURES"): "kernels",
    ("agrad_dask.scipy_kernels", "_SPARSE"): "kernels",
    ("agrad_numpy.executor", "FORMS"): "texts of kernels in NumPy",
    ("agrad_numpy.executor", "_view"): "texts of kernels in NumPy",
    ("agrad_numpy.export", "HELPERS"): "texts of kernels in NumPy",
    ("agrad_numpy.export", "REAL"): "texts of kernels in NumPy",
    ("agrad_numpy.export", "SPELLED"): "texts of kernels in NumPy",
    ("agrad_numpy.extra_kernels", "EXTRA_KERNELS"): "kernels",
    ("agrad_numpy.image_kernels", "IMAGE_KERNELS"): "kernels",
    ("agrad_numpy.kernels", "IN_SINGLE"): "kernels",
    ("agrad_numpy.kernels", "KERNELS"): "kernels",
    ("agrad_numpy.linalg_kernels", "kernel"): "kernels",
    ("agrad_numpy.nn_kernels", "NN_KERNELS"): "kernels",
    ("agrad_numpy.native.diagonals", "ELEMENTWISE"): "instructions",
    ("agrad_numpy.native.diagonals", "MOVES"): "shuffles",
    ("agrad_numpy.native.elementwise", "BASIC"): "instructions",
    ("agrad_numpy.native.elementwise", "COMPARISONS"): "instructions",
    ("agrad_numpy.native.elementwise", "FILLED"): "instructions",
    ("agrad_numpy.native.elementwise", "FINITE"): "instructions",
    ("agrad_numpy.native.elementwise", "LOGICAL"): "instructions",
    ("agrad_numpy.native.elementwise", "POWERS"): "instructions",
    ("agrad_numpy.native.elementwise", "UNARY"): "instructions",
    ("agrad_numpy.native.elementwise", "supports"): "instructions",
    ("agrad_numpy.native.elementwise", "value"): "instructions",
    ("agrad_numpy.native.expanding", "WRITTEN_OUT"): "what becomes instructions",
    ("agrad_numpy.native.expanding", "ways"): "what becomes instructions",
    ("agrad_numpy.native.kernels", "__init__"): "copies",
    ("agrad_numpy.native.kernels", "_linalg"): "instructions",
    ("agrad_numpy.native.kernels", "_value"): "shuffles",
    ("agrad_numpy.native.kernels", "view_of"): "shuffles",
    ("agrad_numpy.native.lowering", "VIEWS"): "shuffles",
    ("agrad_numpy.native.lowering", "_is_copy"): "copies",
    ("agrad_numpy.native.lowering", "_is_tiny"): "shuffles",
    ("agrad_numpy.native.lowering", "indexed"): "copies",
    ("agrad_numpy.native.lowering", "WRITTEN_LINALG"): "instructions",
    ("agrad_numpy.native.lowering", "is_sum"): "instructions",
    ("agrad_numpy.native.lowering", "lapack"): "loops of NumPy's",
    ("agrad_numpy.native.vector_math", "FAR_AWAY"): "instructions",
    ("agrad_numpy.native.vector_math", "FUNCTIONS"): "instructions",
}

#: So many names of ops are a table.
MANY = 3

# -- reading the source -----------------------------------------------------------------------------------------------


def name_of(file: Path) -> str:
    parts = file.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


FILES = {name_of(file): file for file in sorted(PACKAGE.rglob("*.py"))}
#: Those, and the plugins' by their own names.
SOURCES = FILES | {
    name_of(file).split(".", 2)[2]: file for file in sorted(ROOT.glob("plugins/*_backend/agrad_*/**/*.py"))
}


#: Those of the plugins, and the examples, among which are plugins.
OUTSIDE = {module: file for module, file in SOURCES.items() if module not in FILES} | {
    name_of(file): file for file in sorted(ROOT.glob("examples/**/*.py")) if "tests" not in file.parts
}


@functools.cache
def tree_of(module: str) -> ast.Module:
    return ast.parse(SOURCES[module].read_text(encoding="utf-8"), SOURCES[module])


def targets(node: ast.stmt | ast.expr, module: str) -> Iterator[str]:
    """Return the modules that an import statement, or a call of import_module or __import__, names."""
    match node:
        case ast.Import():
            yield from (alias.name for alias in node.names)
        case ast.ImportFrom():
            base = node.module or ""
            if node.level:
                package = module.split(".") if SOURCES[module].name == "__init__.py" else module.split(".")[:-1]
                base = ".".join([*package[: len(package) - node.level + 1], *base.split(".")]).rstrip(".")
            for alias in node.names:  # `from agrad.core import errors` means agrad.core.errors
                member = f"{base}.{alias.name}"
                yield member if member in SOURCES else base
        case ast.Call(
            func=ast.Name(id="import_module" | "__import__") | ast.Attribute(attr="import_module"),
            args=[ast.Constant(value=str(name)), *_],
        ):
            yield name


def is_type_checking(test: ast.expr) -> bool:
    return ast.unparse(test) in {"TYPE_CHECKING", "typing.TYPE_CHECKING"}


def module_level(node: ast.AST) -> Iterator[ast.stmt]:
    """Return the import statements that run when the module is imported."""
    for child in ast.iter_child_nodes(node):
        match child:
            case ast.Import() | ast.ImportFrom():
                yield child
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.Lambda():
                pass
            case ast.If(test=test) if is_type_checking(test):
                for statement in child.orelse:
                    yield from module_level(ast.Module([statement], []))
            case _:
                yield from module_level(child)


def rank_of(module: str) -> int | None:
    """Return the rank of the longest entry of LAYERS that covers the module."""
    found, length = None, 0
    for rank, layer in enumerate(LAYERS):
        for entry in layer:
            stem = entry.removesuffix(".*")
            covers = module == stem or (entry != stem and module.startswith(stem + "."))
            if covers and len(stem) > length:
                found, length = rank, len(stem)
    return found


@functools.cache
def imported(module: str) -> tuple[set[str], set[str]]:
    """Return our modules that a module imports as it is imported itself, and those that wait (UPWARD says how).

    What only its stub imports waits, too.
    """
    tree, stub = tree_of(module), SOURCES[module].with_suffix(".pyi")
    nodes = [*ast.walk(tree), *(ast.walk(ast.parse(stub.read_text(encoding="utf-8"))) if stub.exists() else ())]
    now = {target for node in module_level(tree) for target in targets(node, module)}
    every = {t for node in nodes if isinstance(node, ast.stmt | ast.expr) for t in targets(node, module)}
    return now & FILES.keys() - {module}, (every - now) & FILES.keys() - {module}


def circles(edges: dict[str, set[str]]) -> set[frozenset[str]]:
    """Return the groups of modules that reach each other, of two and more."""

    def reached(start: str) -> set[str]:
        found, stack = set(), [start]
        while stack:
            new = edges[stack.pop()] - found
            found |= new
            stack.extend(new)
        return found

    below = {module: reached(module) for module in edges}
    groups = {frozenset(m for m in below[module] if module in below[m]) for module in edges}
    return {group for group in groups if len(group) > 1}


def modules_bound(tree: ast.Module, module: str) -> dict[str, str]:
    """Return the names that imports anywhere in a file bind to modules, with the modules."""
    bound = {}
    for node in ast.walk(tree):
        match node:
            case ast.Import():
                for alias in node.names:
                    first = alias.name.partition(".")[0]
                    bound[alias.asname or first] = alias.name if alias.asname else first
            case ast.ImportFrom():
                for alias, target in zip(node.names, targets(node, module), strict=True):
                    if target in SOURCES and target.endswith(f".{alias.name}"):
                        bound[alias.asname or alias.name] = target
    return bound


def private(tree: ast.Module, module: str) -> Iterator[tuple[int, str]]:
    """Return where a file imports what is not public, or reaches it as an attribute, and what."""
    bound = modules_bound(tree, module)
    for node in ast.walk(tree):
        found: list[str] = []
        match node:
            case ast.Import():
                found = [alias.name for alias in node.names if alias.name not in PUBLIC]
            case ast.ImportFrom(module=str(base), level=0) if base.partition(".")[0] == "agrad":
                shown = importlib.import_module(base).__all__ if base in PUBLIC else ()
                members = [f"{base}.{alias.name}" for alias in node.names if alias.name not in shown]
                found = [member for member in members if member not in PUBLIC]
            case ast.Attribute(value=ast.Name(id=name), attr=attr) if bound.get(name) == "agrad":
                found = [f"agrad.{attr}"] if f"agrad.{attr}" in {"agrad.core", "agrad.ops", "agrad.plugin"} else []
        yield from ((node.lineno, name) for name in found if name.partition(".")[0] == "agrad")


def ports(tree: ast.Module, module: str) -> tuple[set[str], set[str]]:
    """Return the ports that a file declares, and those that it defines."""
    bound = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            for alias, target in zip(node.names, targets(node, module), strict=True):
                own = target in SOURCES and target.endswith(f".{alias.name}")
                bound[alias.asname or alias.name] = target if own else f"{target}.{alias.name}"
    declared, defined = set(), set()
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef(name=name, decorator_list=[ast.Name(id="Port")]):
                declared.add(f"{module}.{name}")
            case ast.Call(func=ast.Name(id="Port") | ast.Attribute(attr="Port")) | ast.Attribute(attr="Port"):
                declared.add(f"{module}:{node.lineno}")  # in no way that can be read here
            case ast.Call(func=ast.Attribute(value=port, attr="define")):
                first, *rest = ast.unparse(port).split(".")
                defined.add(".".join([bound.get(first, f"{module}.{first}"), *rest]))
    return declared, defined


def injections(tree: ast.Module, module: str) -> Iterator[tuple[int, str]]:
    """Return where a file sets or deletes an attribute of another module, and which."""
    bound = modules_bound(tree, module)

    def module_in(expression: ast.expr) -> str | None:
        match expression:
            case ast.Name(id=name):
                return bound.get(name)
            case ast.Attribute(value=value, attr=name):
                package = module_in(value)
                return f"{package}.{name}" if f"{package}.{name}" in SOURCES else None
            case ast.Subscript(value=ast.Attribute(attr="modules"), slice=ast.Constant(value=str(name))):
                return name  # sys.modules["agrad.core.op"]
        return None

    for node in ast.walk(tree):
        match node:
            case ast.Attribute(value=value, attr=name, ctx=ast.Store() | ast.Del()):
                target = module_in(value)
            case ast.Call(func=ast.Name(id="setattr" | "delattr"), args=[value, key, *_]):
                target, name = module_in(value), key.value if isinstance(key, ast.Constant) else ast.unparse(key)
            case ast.Subscript(
                value=ast.Call(func=ast.Name(id="vars"), args=[value]) | ast.Attribute(value=value, attr="__dict__"),
                slice=key,
                ctx=ast.Store() | ast.Del(),
            ):
                target, name = module_in(value), key.value if isinstance(key, ast.Constant) else ast.unparse(key)
            case _:
                continue
        if target is not None and target != module:
            yield node.lineno, f"{target}.{name}"


def words(node: ast.AST | None) -> set[str]:
    """The texts that stand in a collection, also within others, and the words of a text that is split."""
    match node:
        case ast.Constant(value=str(text)):
            return {text} if " " not in text else set()
        case ast.Call(func=ast.Attribute(value=ast.Constant(value=str(text)), attr="split")):
            return {*text.split()}
        case ast.Call(func=ast.Name(id="dict"), keywords=keywords):
            return {keyword.arg for keyword in keywords if keyword.arg}
        case ast.Starred(value=inner) | ast.MatchValue(value=inner):
            return words(inner)
        case ast.Dict(keys=keys, values=values):
            return set().union(*map(words, [*keys, *values]))
        case ast.Set(elts=parts) | ast.List(elts=parts) | ast.Tuple(elts=parts):
            return set().union(*map(words, parts))
        case ast.MatchOr(patterns=parts):
            return set().union(*map(words, parts))
    return set()


def compared(function: ast.FunctionDef) -> set[str]:
    """The texts that a function compares with, one by one."""
    found: set[str] = set()
    for node in ast.walk(function):
        match node:
            case ast.Compare(left=left, comparators=others):
                found |= set().union(*map(words, [left, *others]))
            case ast.match_case(pattern=pattern):
                found |= words(pattern)
    return found


def tables(node: ast.AST, ops: set[str], where: str = "") -> Iterator[str]:
    """Where tables of ops stand: what they are bound to, or the function that they are in."""
    found = words(node)
    match node:
        case ast.FunctionDef(name=name):
            where, found = name, compared(node)
        case ast.ClassDef(name=name):
            where = name
        case ast.Assign(targets=[target]) | ast.AnnAssign(target=target) | ast.AugAssign(target=target):
            where = ast.unparse(target)
        case ast.Constant(value=str(text)) if 2 * sum(word in ops for word in text.split()) > len(text.split()):
            found = {*text.split()}  # names rather than prose
    if where == "__all__":
        return
    if len(found & ops) >= MANY:
        yield where
    else:
        for child in ast.iter_child_nodes(node):
            yield from tables(child, ops, where)


# -- imports ----------------------------------------------------------------------------------------------------------


def test_there_is_something_to_read():
    assert "agrad.core.errors" in FILES


@pytest.mark.parametrize("module", FILES)
def test_no_array_library_is_imported(module):
    found = [
        f"{FILES[module].relative_to(ROOT)}:{node.lineno} imports {target}"
        for node in ast.walk(tree_of(module))
        if isinstance(node, ast.stmt | ast.expr)
        for target in targets(node, module)
        if target.partition(".")[0] in ARRAY_LIBRARIES
    ]
    assert not found, "\n".join(found)


@pytest.mark.parametrize("module", sorted(SOURCES.keys() - {"agrad.core.cpython"}))
def test_the_interpreter_is_asked_in_one_room(module):
    found = [
        f"{SOURCES[module].name}:{node.lineno} uses {ast.unparse(node)}"
        for node in ast.walk(tree_of(module))
        # to name one of `sys`, as a table of what functions do, is no use of it
        if (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in CPYTHON)
        or (isinstance(node, ast.Attribute) and node.attr in CPYTHON and node.attr.startswith(("co_", "op")))
        or (isinstance(node, ast.stmt) and not {"dis", "gc", "opcode"}.isdisjoint(targets(node, module)))
    ]
    assert not found, "\n".join(found)


@pytest.mark.parametrize("module", FILES)
def test_layers_import_one_way(module):
    own = rank_of(module)
    assert own is not None, f"{module} has no layer: add it to LAYERS"
    found = []
    for node in module_level(tree_of(module)):
        for target in dict.fromkeys(targets(node, module)):
            if target.partition(".")[0] != "agrad":
                continue
            rank = rank_of(target)
            assert rank is not None, f"{target}, imported by {module}, has no layer: add it to LAYERS"
            if rank > own:
                found.append(f"{FILES[module].relative_to(ROOT)}:{node.lineno} imports {target}, a higher layer")
    assert not found, "\n".join(found)


@pytest.mark.parametrize("module", OUTSIDE)
def test_plugins_and_examples_import_what_is_public(module):
    file = OUTSIDE[module]
    tree = ast.parse(file.read_text(encoding="utf-8"), file)
    found = [
        f"{file.relative_to(ROOT)}:{line} imports {name}, which is private" for line, name in private(tree, module)
    ]
    assert not found, "\n".join(found)


#: Attributes of other libraries' objects that begin with _: a named tuple's, and NumPy's table of functions.
OF_OTHERS = {"_ARRAY_API", "_replace"}


def test_plugins_read_no_private_attributes_of_agrads_objects():
    plugins = {
        file: ast.parse(file.read_text(encoding="utf-8")) for file in (ROOT / "plugins").glob("*/agrad_*/**/*.py")
    }
    assert len(plugins) > 40
    own: dict[Path, set[str]] = {}
    for file, tree in plugins.items():
        names = own.setdefault(file.relative_to(ROOT).parents[-3], set())
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                names.add(node.name)
            elif isinstance(node, ast.Attribute | ast.Name) and isinstance(node.ctx, ast.Store):
                names.add(node.attr if isinstance(node, ast.Attribute) else node.id)
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                names.add(node.value)  # what is set by `setattr`, or a slot
    found = [
        f"{file.relative_to(ROOT)}:{node.lineno} reads {node.attr}, which is private"
        for file, tree in plugins.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and node.attr.startswith("_") and not node.attr.endswith("__")
        if not (isinstance(node.value, ast.Name) and node.value.id in ("self", "cls"))
        if node.attr not in own[file.relative_to(ROOT).parents[-3]] | OF_OTHERS
    ]
    assert not found, "\n".join(found)


def test_private_imports_are_found():
    source = """
        import numpy, agrad.core.op, agrad.func
        import agrad as ag
        from agrad import Tensor, core, func, nonsense, _OPS
        from agrad.plugin import manager
        from agrad.plugin.backend import Backend, Port
        from agrad.program.program import Step
        from agrad_dask import origins
        def f():
            from agrad.compiled import compiling
            return ag.core.op, ag.func, ag.sin, origins.core
    """
    found = [name for _, name in private(ast.parse(textwrap.dedent(source)), "agrad_dask.blocks")]
    assert sorted(found) == sorted(
        [
            "agrad.core.op",
            "agrad.core",
            "agrad.nonsense",
            "agrad._OPS",
            "agrad.plugin.manager",
            "agrad.plugin.backend.Port",
            "agrad.program.program.Step",
            "agrad.compiled.compiling",
            "agrad.core",
        ]
    )


def test_what_waits_imports_one_way_too():
    found = {
        (module, target)
        for module in FILES
        for target in imported(module)[1]
        if (rank_of(target) or 0) > (rank_of(module) or 0)
    }
    new = found - UPWARD.keys()
    assert not new, (
        f"{sorted(new)} import a higher layer in a function or under TYPE_CHECKING: move what they need down"
    )
    gone = UPWARD.keys() - found
    assert not gone, f"{sorted(gone)} import a higher layer no more: delete them from UPWARD"


def test_circles_are_small_and_known():
    found = circles({module: set.union(*imported(module)) for module in FILES})
    large = [sorted(circle) for circle in {*found, *CIRCLES} if len(circle) > FEW]
    assert not large, f"more than {FEW} files import each other: {large}"
    new = [sorted(circle) for circle in found - CIRCLES.keys()]
    assert not new, f"{new} import each other: break the circle, or shorten one in CIRCLES to it"
    gone = [sorted(circle) for circle in CIRCLES.keys() - found]
    assert not gone, f"{gone} import each other no more: delete the circle from CIRCLES"
    across = [pair for pair in UPWARD if not any(circle.issuperset(pair) for circle in CIRCLES)]
    assert not across, f"{across} leave their circle: move what they need down"


def test_ports_are_few_and_defined_above():
    declared, defined = set(), {}
    for module in SOURCES:
        here, there = ports(tree_of(module), module)
        declared |= here
        defined |= dict.fromkeys(there, module)
    assert declared == PORTS.keys(), (
        "a port is declared, or gone, that PORTS does not say: can what is called move down?"
    )
    assert defined == PORTS
    for port, module in PORTS.items():
        assert rank_of(module) > rank_of(port.rpartition(".")[0]), f"{module} ranks below {port}: import it"


def test_no_module_sets_a_name_of_another():
    found = {(module, name): line for module in SOURCES for line, name in injections(tree_of(module), module)}
    new = [f"{SOURCES[m].relative_to(ROOT)}:{found[m, n]} sets {n}" for m, n in sorted(found.keys() - INJECTED.keys())]
    assert not new, "\n".join([*new, "a name gets its value in its own file: import it, or pass it as an argument"])
    gone = INJECTED.keys() - found.keys()
    assert not gone, f"{sorted(gone)} are set from outside no more: delete them from INJECTED"


def test_circles_and_names_set_from_outside_are_found():
    edges = {"a": {"b"}, "b": {"c", "d"}, "c": {"a"}, "d": {"e"}, "e": {"d", "f"}, "f": {"f"}}
    assert circles(edges) == {frozenset("abc"), frozenset("de")}
    source = """
        import sys, agrad, agrad.core.op
        import agrad.core.mode as m
        from agrad.core import errors, op as o
        from . import spec
        from agrad.core.tensor import Tensor
        agrad.core.op.one = o.two, (m.three, *errors.four) = 5
        o.five += 1
        del o.six
        setattr(o, "seven", 7)
        vars(o)["eight"] = o.__dict__["nine"] = sys.modules["agrad.core.op"].ten = 10
        def f(self):
            from agrad.core import engine
            engine.eleven: int = 11
            for spec.twelve in (): pass
            self.op = o.call = 13
            Tensor.member = o.OPS["x"] = o.OPS.x = agrad.core.op.OPS.x = errors.mine = 14
    """
    found = [name for _, name in injections(ast.parse(textwrap.dedent(source)), "agrad.core.errors")]
    assert sorted(found) == sorted(
        f"agrad.core.{name}"
        for name in [
            "op.one",
            "op.two",
            "mode.three",
            "op.five",
            "op.six",
            "op.seven",
            "op.eight",
            "op.nine",
            "op.ten",
            "engine.eleven",
            "spec.twelve",
            "op.call",
        ]
    )


def test_ports_are_found():
    source = """
        from agrad.core import node
        from agrad.core.port import Port
        from agrad.core.tensor import compute as c

        @Port
        def one(): ...

        two = Port(f)
        three = port.Port

        node.call_node.define(f)
        c.define(f)
        one.define(f)
    """
    declared, defined = ports(ast.parse(textwrap.dedent(source)), "agrad.core.errors")
    assert declared == {"agrad.core.errors.one", "agrad.core.errors:9", "agrad.core.errors:10"}
    assert defined == {"agrad.core.node.call_node", "agrad.core.tensor.compute", "agrad.core.errors.one"}


def test_the_reader_sees_what_it_should():
    source = """
        import numpy.linalg
        from typing import TYPE_CHECKING
        if TYPE_CHECKING:
            import hidden
        else:
            import shown
        try:
            from agrad.core import errors, nonsense
        finally:
            pass
        class C:
            from . import errors
            def f(self):
                import hidden
        importlib.import_module("torch.nn")
    """
    tree = ast.parse(textwrap.dedent(source))
    module = "agrad.core.errors"
    seen = [target for node in module_level(tree) for target in targets(node, module)]
    assert seen == ["numpy.linalg", "typing", "shown", "agrad.core.errors", "agrad.core", "agrad.core.errors"]
    calls = [t for node in ast.walk(tree) if isinstance(node, ast.expr) for t in targets(node, module)]
    assert calls == ["torch.nn"]


def declared() -> set[str]:
    """The names of agrad's ops, and of the kernels that have none."""
    importlib.import_module("agrad.ops.scipy.linalg")
    importlib.import_module("agrad.ops.scipy.signal")
    importlib.import_module("agrad.ops.scipy.sparse")
    ops = importlib.import_module("agrad.core.op").OPS
    own = {name for name, op in ops.items() if op.entry.__module__.startswith("agrad.")}
    return own | importlib.import_module("agrad.core.facts").WITHOUT_OP.keys()


def test_what_is_known_of_ops_stands_at_their_declarations():
    ops = declared()
    modules = [module for module in SOURCES if not module.startswith("agrad.testing.samples.")]  # they are by op
    found = {(module, where) for module in modules for where in tables(tree_of(module), ops)}
    assert found == TABLES.keys()


def test_tables_of_ops_are_found():
    source = """
        __all__ = ["add", "exp", "log"]
        FEW = {"add", "exp"}
        A = frozenset({*("add", "exp"), "log"})
        B: dict[str, str] = {"arccos": "acos", "arcsin": "asin", **{"arctan": "atan"}}
        C = "add exp log"
        D = C | {name: 1 for name in "zeros ones full".split()}
        def e(op):
            "The sum of all is where any may be."
            return op in ("add", "exp", "log")
        F = dict(add=1, exp=2, log=3)
        def g(op):
            if op == "add" or op in ("exp",):
                return op != "log"
        def h(op):
            match op:
                case "add" | "exp": return 1
                case "log": return 2
    """
    found = [*tables(ast.parse(textwrap.dedent(source)), declared())]
    assert found == ["A", "B", "C", "D", "e", "F", "g", "h"]


# -- a fresh interpreter ----------------------------------------------------------------------------------------------

BLOCK = """
    import sys

    class Block:
        def find_spec(self, name, path=None, target=None):
            if name.partition(".")[0] in {blocked!r}:
                raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

    sys.meta_path.insert(0, Block())
"""


def python(source: str, *, blocked: set[str] = frozenset()) -> str:
    """Run the source in a fresh interpreter that cannot import what is blocked, and return what it prints."""
    code = textwrap.dedent(BLOCK).format(blocked=blocked) + textwrap.dedent(source)
    environment = {key: value for key, value in os.environ.items() if not key.startswith("AGRAD_")}
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_agrad_imports_without_anything_else():
    python("import agrad", blocked=ARRAY_LIBRARIES | LATE)


def test_without_a_backend_the_first_tensor_says_what_to_install():
    source = """
        import agrad

        try:
            agrad.asarray([1.0])
        except Exception as error:
            print(error)
    """
    assert 'pip install "agrad[numpy]"' in python(source, blocked=ARRAY_LIBRARIES)


def test_importing_agrad_loads_no_array_library_and_no_plugin():
    source = """
        before = set(sys.modules)
        import agrad
        print(*{name.partition(".")[0] for name in set(sys.modules) - before})
    """
    loaded = set(python(source).split())
    assert "agrad" in loaded
    assert not loaded & (ARRAY_LIBRARIES | LATE)


# -- names ------------------------------------------------------------------------------------------------------------

#: Names of chapters that another file defines: the standard has them in two namespaces, or PyTorch has.
TWICE = {"agrad.ops.linalg": {"matrix_transpose"}}


def listed(tree: ast.Module) -> list[str] | None:
    """Return the names in a file's own ``__all__``, or None if it has no such list."""
    for node in tree.body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return [name.value for name in getattr(node.value, "elts", ()) if isinstance(name, ast.Constant)]
    return None


@pytest.mark.parametrize("module", [module for module in FILES if module.startswith("agrad.ops.")])
def test_chapters_list_what_they_define(module):
    tree = ast.parse(FILES[module].read_text(encoding="utf-8"))
    names = listed(tree) or []
    assert len(names) == len(set(names))
    here = {node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    here |= {name.id for node in tree.body for name in ast.walk(node) if isinstance(name, ast.Name)}
    assert set(names) - here == TWICE.get(module, set()) | ({"e", "inf", "nan", "pi"} & set(names))


#: Names of `agrad.extra` and `agrad.numpy` of which the latter is not made of the former, and why.
DEFINED_TWICE = {
    "cumprod": "both are other names of the standard's cumulative_prod",
    "cumsum": "both are other names of the standard's cumulative_sum",
    "fill_diagonal": "NumPy's changes its argument, repeats values, and may wrap",
}


def made_of(function, seen):
    """Return the functions of `agrad.ops.extra` that a function of `agrad.numpy` names, itself or by helpers there."""
    function = inspect.unwrap(getattr(function, "_function", function))
    if function.__module__.startswith("agrad.ops.extra"):
        return {function.__name__}
    if not function.__module__.startswith("agrad.numpy") or function in seen:
        return set()
    seen.add(function)
    found, codes = set(), [function.__code__]
    for code in codes:
        codes += [inside for inside in code.co_consts if isinstance(inside, types.CodeType)]
        found |= {name for name in code.co_names if name == "extra"}
        named = (function.__globals__.get(name) for name in code.co_names)
        found.update(*(made_of(each, seen) for each in named if isinstance(each, types.FunctionType)))
    return found


def test_no_function_is_defined_both_in_extra_and_in_numpy():
    from agrad import extra
    from agrad import numpy as agrad_numpy

    both = [name for name in extra.__all__ if hasattr(agrad_numpy, name)]
    assert len(both) > 60
    assert {name for name in both if not made_of(getattr(agrad_numpy, name), set())} == DEFINED_TWICE.keys()


#: Classes that other libraries call alike: PyTorch's and SciPy's distributions, PyTorch's and NumPy's generators, PyTorch's and HIPS
#: autograd's nodes, results of NumPy's.
THEIRS = """
    Bernoulli Beta Dirichlet Distribution EigResult Gamma Generator MultivariateNormal Node Uniform
"""

#: Words that are of two public classes each, which users' programs may name. This list only gets shorter.
ONE_WORD_FOR_TWO = """
    DType Memory
"""


def test_a_class_is_called_as_no_other():
    found = Counter(node.name for module in SOURCES for node in tree_of(module).body if isinstance(node, ast.ClassDef))
    assert {name for name, count in found.items() if count > 1} - {*THEIRS.split()} == {*ONE_WORD_FOR_TWO.split()}


def test_the_public_namespace_lists_no_name():
    assert listed(ast.parse(FILES["agrad"].read_text(encoding="utf-8"))) is None
    source = """
        import agrad

        for name in agrad.__all__:
            value = getattr(agrad, name)
            home = getattr(value, "__module__", getattr(value, "__name__", "agrad"))
            print(name, home) if home.partition(".")[0] != "agrad" else None
        print(len(agrad.__all__) - len(set(agrad.__all__)))
    """
    assert python(source) == "0\n"  # and nothing that is another's is public


# -- continuous integration -------------------------------------------------------------------------------------------

WORKFLOW = ROOT / ".github/workflows/ci.yml"


def sessions() -> set[str]:
    """Return the names of the sessions in the noxfile."""
    tree = ast.parse((ROOT / "noxfile.py").read_text(encoding="utf-8"))
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
    return {f.name for f in functions if any("nox.session" in ast.unparse(d) for d in f.decorator_list)}


def jobs() -> dict:
    yaml = pytest.importorskip("yaml")
    return yaml.safe_load(WORKFLOW.read_text(encoding="utf-8"))["jobs"]


def matrix(job: dict, key: str) -> list[str]:
    return job["strategy"]["matrix"][key]


def test_the_workflow_calls_sessions_that_exist():
    steps = [step for job in jobs().values() for step in job["steps"]]
    commands = [step["run"] for step in steps if "run" in step]
    called = {name for command in commands for name in re.findall(r"nox -s (\w+)", command)}
    assert called <= sessions()
    assert {"backend", "conformance", "gpu", "minimum", "tests", "wheels"} <= called
    assert ".ci/run" in commands
    assert "nox -s tests" in (ROOT / ".ci/run").read_text(encoding="utf-8")


#: Stands for Python: it makes an environment of stubs.
BARE_PYTHON = """#!/usr/bin/env bash
mkdir -p "$3/bin"
echo "PATH='$3/bin':\\$PATH" > "$3/bin/activate"
printf '#!/bin/sh\\n' > "$3/bin/python"
printf '#!/bin/sh\\ncat; pwd; ls -A; echo nox "$@"; exit 3\\n' > "$3/bin/nox"
chmod +x "$3/bin/python" "$3/bin/nox"
"""


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash")
def test_all_checks_run_in_a_folder_called_as_the_package(tmp_path):
    python = tmp_path / "python"
    python.write_text(BARE_PYTHON)
    python.chmod(0o755)
    (tmp_path / "temporary").mkdir()
    done = subprocess.run(
        ["bash", str(ROOT / ".ci/run")],
        cwd=tmp_path,
        env={**os.environ, "PYTHON": str(python), "TMPDIR": str(tmp_path / "temporary")},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 3, done.stderr  # that of nox
    folder, *files, command = done.stdout.splitlines()
    assert re.search(r" [^/]*/agrad$", folder), folder
    assert {"agrad", "noxfile.py", "pyproject.toml", "tests"} <= {*files}
    assert ".nox" not in files
    assert command == "nox -s tests"
    assert not [*(tmp_path / "temporary").iterdir()]


def test_the_workflow_covers_every_python_and_backend():
    prefix = "Programming Language :: Python :: 3."
    pythons = [c.rpartition(" ")[2] for c in project("pyproject.toml")["classifiers"] if c.startswith(prefix)]
    text = (ROOT / "noxfile.py").read_text(encoding="utf-8")
    table = text.partition("BACKENDS: ")[2].partition("\n}\n")[0]
    for name in ("tests", "backends"):
        assert matrix(jobs()[name], "python") == pythons
    assert matrix(jobs()["backends"], "backend") == re.findall(r'^    "(\w+)": \(', table, flags=re.MULTILINE)
    systems = {row["os"] for row in jobs()["backends"]["strategy"]["matrix"]["include"] if row["backend"] == "numpy"}
    assert systems == {"macos-latest", "windows-latest"}


def test_the_standards_suite_is_pinned():
    (ref,) = (s["with"]["ref"] for s in jobs()["conformance"]["steps"] if "ref" in s.get("with", {}))
    assert re.fullmatch(r"[0-9a-f]{40}", ref)


# -- versions ---------------------------------------------------------------------------------------------------------

PROJECTS = ["pyproject.toml", *(f"plugins/{name}_backend/pyproject.toml" for name in ("numpy", "dask", "cupy"))]


def project(path: str) -> dict:
    return tomllib.loads((ROOT / path).read_text(encoding="utf-8"))["project"]


def test_every_project_is_here():
    assert {f"plugins/{file.parent.name}/pyproject.toml" for file in ROOT.glob("plugins/*/pyproject.toml")} == set(
        PROJECTS[1:]
    )


@pytest.mark.parametrize("path", PROJECTS)
def test_versions_and_pins_agree(path):
    version = project("pyproject.toml")["version"]
    meta = project(path)
    assert meta["version"] == version
    extras = [need for extra in meta.get("optional-dependencies", {}).values() for need in extra]
    pins = [need for need in [*meta["dependencies"], *extras] if need.startswith("agrad")]
    assert pins
    assert all(pin.endswith(f"=={version}") for pin in pins)


def test_agrad_knows_its_version():
    import agrad

    assert agrad.__version__ == project("pyproject.toml")["version"]


@pytest.fixture
def releasing(tmp_path):
    """What states the version, copied, and the function that sets it there."""
    for path in [*PROJECTS, "agrad/__init__.py", "CITATION.cff"]:
        place = tmp_path / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text((ROOT / path).read_text(encoding="utf-8"), encoding="utf-8")
    (tmp_path / "CHANGELOG.md").write_text("# Changelog\n\n## [Unreleased]\n\n### Added\n\n- X.\n", encoding="utf-8")
    return tmp_path, runpy.run_path(str(ROOT / ".ci/set_version.py"))["set_version"]


def test_one_script_sets_every_version(releasing):
    place, set_version = releasing
    set_version(place, "7.8.9", dt.date(2030, 1, 2))
    paths = [*PROJECTS, "agrad/__init__.py", "CITATION.cff"]
    texts = {path: (place / path).read_text(encoding="utf-8") for path in paths}
    now = project("pyproject.toml")["version"]
    for path, text in texts.items():
        expected = (ROOT / path).read_text(encoding="utf-8")
        assert text == re.sub(
            rf'((?:version__|^version) = "|^version: |agrad[^"]*==){re.escape(now)}(?="|$)',
            r"\g<1>7.8.9",
            expected,
            flags=re.MULTILINE,
        )
        assert text.count("7.8.9") >= 1
    changelog = (place / "CHANGELOG.md").read_text(encoding="utf-8")
    assert changelog == "# Changelog\n\n## [Unreleased]\n\n## [7.8.9] - 2030-01-02\n\n### Added\n\n- X.\n"


def test_the_first_release_has_the_version_that_stands_there(releasing):
    place, set_version = releasing
    now = project("pyproject.toml")["version"]
    set_version(place, now, dt.date(2030, 1, 2))
    assert f"## [Unreleased]\n\n## [{now}] - 2030-01-02\n" in (place / "CHANGELOG.md").read_text(encoding="utf-8")
    assert f'version = "{now}"' in (place / "pyproject.toml").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("version", "spoilt", "message"),
    [
        ("1.2", None, "'1.2' is no version such as 1.2.3"),
        (None, None, "already"),
        ("7.8.9", "plugins/dask_backend/pyproject.toml", "states the version .* 0 times"),
        ("7.8.9", "CHANGELOG.md", "no section"),
    ],
)
def test_a_version_that_cannot_be_set_changes_nothing(releasing, version, spoilt, message):
    place, set_version = releasing
    if spoilt:
        (place / spoilt).write_text("", encoding="utf-8")
    elif version is None:  # the present one, once it is released
        with (place / "CHANGELOG.md").open("a", encoding="utf-8") as changelog:
            changelog.write(f"\n## [{project('pyproject.toml')['version']}] - 2030-01-02\n")
    before = {file: file.read_bytes() for file in place.rglob("*") if file.is_file()}
    with pytest.raises(ValueError, match=message):
        set_version(place, version or project("pyproject.toml")["version"], dt.date(2030, 1, 2))
    assert {file: file.read_bytes() for file in before} == before


def test_actions_are_pinned_by_hash():
    """A tag of an action can be moved to other code; the hash of a commit cannot."""
    for file in (ROOT / ".github/workflows").iterdir():
        for used in re.findall(r"uses: (.*)", file.read_text(encoding="utf-8")):
            assert re.fullmatch(r"[\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", used), f"{file.name}: {used}"


# -- what is supported ------------------------------------------------------------------------------------------------


def test_the_page_of_supported_versions_states_what_the_projects_declare():
    page = (ROOT / "docs/supported.md").read_text(encoding="utf-8")
    rows = dict(re.findall(r"^\| `?([\w.-]+)`? \| ([\d.]+)", page, re.MULTILINE))
    needs = {}
    for path in PROJECTS:
        meta = project(path)
        assert meta["requires-python"] == f">={rows['Python']}"
        extras = [need for extra in meta.get("optional-dependencies", {}).values() for need in extra]
        declared = [re.fullmatch(r"([\w-]+)(?:\[\w+\])?>=([\d.]+)", need) for need in [*meta["dependencies"], *extras]]
        needs |= {found[1]: found[2] for found in declared if found}
    assert {name: version for name, version in rows.items() if name != "Python"} == needs
