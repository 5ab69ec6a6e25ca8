"""Write agrad/core/methods.pyi, where type checkers and editors find the methods that files above put on `Tensor`.

``python docs/make_methods.py`` writes the stub, from the classes that the source gives to `core.tensor.attached` and from
what its tables have put on `Tensor`; and agrad/torch_names.pyi, with those of them that `agrad` has as functions. With
``--check`` it only tells whether both are up to date.
"""

from __future__ import annotations

import ast
import inspect
import re
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from agrad import torch_functions
from agrad.core.tensor import Tensor
from agrad.dtypes import DType

ROOT = Path(__file__).resolve().parent.parent
STUB = ROOT / "agrad" / "core" / "methods.pyi"
FUNCTIONS = ROOT / "agrad" / "torch_names.pyi"

HEAD = '"""The methods that files above put on `Tensor`. Written by docs/make_methods.py."""\n\n'
# In a class of its own: within one, `int` would mean this method in the annotations of the others.
TABLES = "\n\nclass _FromTables:\n"
METHODS = "\n\nclass Methods(_FromTables):\n"


def attached(tree: ast.Module) -> Iterator[ast.ClassDef]:
    """Yield the classes of a file whose members are put on `Tensor`."""
    imports = [node for node in tree.body if isinstance(node, ast.ImportFrom) and node.module == "agrad.core.tensor"]
    if "attached" not in {alias.name for node in imports for alias in node.names}:
        return  # other classes have methods from above, too
    calls = {ast.unparse(node.value) for node in tree.body if isinstance(node, ast.Expr)}
    for node in tree.body:
        if isinstance(node, ast.ClassDef) and (
            f"attached({node.name})" in calls or "attached" in map(ast.unparse, node.decorator_list)
        ):
            yield node


def members(one: ast.ClassDef) -> dict[str, ast.stmt]:
    """Return the members of a class by name."""
    found: dict[str, ast.stmt] = {}
    for node in one.body:
        match node:
            case ast.FunctionDef(name=name) | ast.Assign(targets=[ast.Name(id=name)]):
                found[name] = node
            case ast.AnnAssign(target=ast.Name(id=name)):
                found[name] = node
    return found


def written(node: ast.stmt, source: str) -> str:
    """Return a member of a class as the stub has it: a function with its docstring in the place of its body."""
    if not isinstance(node, ast.FunctionDef):
        return f"    {ast.unparse(node)}\n"
    (node.args.posonlyargs or node.args.args)[0].annotation = None  # `self: Any`
    if node.args.kwarg is not None and node.args.kwarg.arg == "unknown":  # taken only to be refused
        node.args.kwarg = None
        node.decorator_list = [one for one in node.decorator_list if ast.unparse(one) != "refusing"]
    head = "".join(f"    @{ast.unparse(decorator)}\n" for decorator in node.decorator_list)
    head += f"    def {node.name}({ast.unparse(node.args)}) -> {ast.unparse(node.returns or node)}:"
    if ast.get_docstring(node) is None:
        return f"{head} ...\n"
    return f"{head}\n        {ast.get_source_segment(source, node.body[0])}\n"


def from_table(name: str, function: Callable[..., Any]) -> str:
    """Return a method that was made from a table as the stub has it."""
    takes = ", ".join([*(p if p == "self" else f"{p}: Any" for p in inspect.signature(function).parameters), "/"])
    in_place = re.fullmatch("__i(?!nvert)[a-z]+__", name)
    gives = "Self" if in_place else "Tensor"
    comment = "  # type: ignore[override]" if name in {"__eq__", "__ne__"} else ""
    return f"    def {name}({takes}) -> {gives}: ...{comment}\n"


def told(parts: list[ast.stmt], tree: ast.Module) -> Iterator[str]:
    """Yield the lines of a file that say what the names in annotations are."""
    hints = [
        node.returns if isinstance(node, ast.FunctionDef) else getattr(node, "annotation", None)
        for part in parts
        for node in ast.walk(part)
    ]
    names = {node.id for hint in hints if hint for node in ast.walk(hint) if isinstance(node, ast.Name)}
    for node in ast.walk(tree):
        match node:
            case ast.ImportFrom(module=module):
                yield from (f"from {module} import {a.name}\n" for a in node.names if a.name in names)
            case ast.Assign(targets=[ast.Name(id=name)]) if name in names:
                yield f"\n{ast.unparse(node)}\n"


def stub() -> str:
    """Return the stub."""
    lines = {"from typing import NamedTuple, Self\n"}
    known: set[str] = set()
    text = ""
    for file in sorted((ROOT / "agrad").rglob("*.py")):
        source = file.read_text(encoding="utf-8")
        tree = ast.parse(source)
        for one in attached(tree):
            found = members(one)
            known |= found.keys()
            lines.update(told(list(found.values()), tree))
            text += f"\n    # {file.relative_to(ROOT).as_posix()}, {one.name}\n\n"
            text += "".join(written(node, source) for node in found.values())
    home = ast.parse(STUB.with_suffix(".py").read_text(encoding="utf-8"))
    others = [node for node in home.body if isinstance(node, ast.ClassDef) and node.name != "Methods"]
    lines -= {f"from agrad.core.methods import {node.name}\n" for node in others}
    tables = "".join(
        from_table(name, member)
        for name, member in vars(Tensor).items()
        if inspect.isfunction(member) and name not in known and name not in members(tensor_class())
    )
    rest = "".join(f"\n\n{ast.unparse(node)}\n" for node in others)
    return (
        HEAD
        + "".join(sorted(lines, key=lambda line: (line[0] == "\n", line)))
        + rest
        + TABLES
        + tables
        + METHODS
        + text
    )


def tensor_class() -> ast.ClassDef:
    """Return the source of the class `Tensor`."""
    tree = ast.parse((ROOT / "agrad/core/tensor.py").read_text(encoding="utf-8"))
    return next(node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == "Tensor")


HEAD_OF_FUNCTIONS = '''"""PyTorch's names of `agrad`, to type checkers. Written by docs/make_methods.py."""

import builtins
from collections.abc import Sequence
from typing import Any

from agrad.core.tensor import Tensor
from agrad.dtypes import DType
from agrad.ops.torch_methods import Axis
'''


def functions() -> str:
    """Return the stub of the functions."""
    imports, rest = "", ""
    for name in sorted(torch_functions.NAMES):
        made = torch_functions.named(name)
        if name in torch_functions.__all__:
            imports += f"from agrad.torch_functions import {name} as {name}\n"
        elif not (inspect.isroutine(made) or inspect.isclass(made)):  # a dtype, or one of NumPy's ufuncs
            rest += f"\n{name}: {'DType' if isinstance(made, DType) else 'Any'}\n"
        elif name in torch_functions.METHODS:
            text = textwrap.indent(f'"""{made.__doc__}\n"""', "    ").replace("\n    \n", "\n\n")
            rest += f"\n\ndef {name}{signed(made)}:\n{text}\n"
        else:
            imports += f"from {made.__module__} import {made.__name__} as _{made.__name__}\n"
            rest += f"\n{name} = _{made.__name__}\n"
    return HEAD_OF_FUNCTIONS + imports + rest


def signed(function: Callable[..., Any]) -> str:
    """Return the signature of a function as a stub has it: without quotes, and not with PyTorch's `float` and `int`."""
    signature = inspect.signature(function)
    parameters = [
        p.replace(annotation="Any" if p.annotation is p.empty else p.annotation)
        for p in signature.parameters.values()
        if p.name != "unknown"
    ]
    result = "Tensor" if signature.return_annotation is signature.empty else signature.return_annotation
    text = str(signature.replace(parameters=parameters, return_annotation=result))
    text = re.sub(r"(: |-> )'([^']*)'", r"\1\2", text)
    return re.sub(r"\b(float|int)\b", r"builtins.\1", text).replace("-> Self", "-> Tensor")


STUBS = {STUB: stub, FUNCTIONS: functions}

if __name__ == "__main__":
    if sys.argv[1:] == ["--check"]:
        stale = [file.name for file, text in STUBS.items() if file.read_text(encoding="utf-8") != text()]
        sys.exit(f"{' and '.join(stale)} out of date: run docs/make_methods.py" if stale else 0)
    for file, text in STUBS.items():
        file.write_text(text(), encoding="utf-8")
