"""Write agrad/core/methods.pyi, where type checkers and editors find the methods that files above put on `Tensor`.

``python docs/make_methods.py`` writes the stub, from the classes that the source gives to `core.tensor.attached` and from
what its tables have put on `Tensor`; with ``--check`` it only tells whether the stub is up to date.
"""

from __future__ import annotations

import ast
import inspect
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from agrad.core.tensor import Tensor

ROOT = Path(__file__).resolve().parent.parent
STUB = ROOT / "agrad" / "core" / "methods.pyi"

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


if __name__ == "__main__":
    if sys.argv[1:] == ["--check"]:
        up_to_date = STUB.read_text(encoding="utf-8") == stub()
        sys.exit(0 if up_to_date else "agrad/core/methods.pyi is out of date: run docs/make_methods.py")
    STUB.write_text(stub(), encoding="utf-8")
