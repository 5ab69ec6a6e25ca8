"""What becomes of the numbers that a function asks for, told by its text.

`float(t)` is a float of Python's own, whatever `t` is, and what is done with an integer nobody can watch either: C code reads
it as it is. Where the text of the function that asks for one shows that it is returned, nothing else is done with it. And
where it shows that the number is one side of a sum or a product, the other side may tell of it, if it is met there.
"""

from __future__ import annotations

import ast
import functools
import linecache
import types
from collections.abc import Mapping
from typing import Literal

#: What has a return value of its own.
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)

#: What is done with two numbers, and can be told by either.
ARITHMETIC = (ast.Add, ast.Sub, ast.Mult, ast.Div)

Parents = Mapping[ast.AST, ast.AST]

#: First and last line, first and last column.
Place = tuple[int | None, ...]


@functools.lru_cache(maxsize=1024)
def use_of(code: types.CodeType, lasti: int) -> Literal["returned"] | Place | None:
    """Return what becomes of the number that an instruction asks for by `float` or `item`, and of which nothing else does.

    It is "returned" if it stands in a return statement, alone or in a tuple, list or dict, or is assigned to a name that is
    used nowhere else. If it is added, subtracted, multiplied or divided where it is asked for, it is the place of that. None
    for anything else, and where there is no text of the function.
    """
    try:
        parents = parents_in("".join(linecache.getlines(code.co_filename)))
    except SyntaxError:  # as a cell with a magic in it
        return None
    place = place_in(code, lasti)
    for node, above in parents.items():
        if isinstance(node, ast.Call) and asks_for_a_number(node) and place_of(node) == place:
            if stands_in_return(node, parents) or is_named_and_returned(node, parents):
                return "returned"
            is_operand = isinstance(above, ast.BinOp | ast.AugAssign) and isinstance(above.op, ARITHMETIC)
            return place_of(above) if is_operand else None  # type: ignore[arg-type]
    return None


def place_in(code: types.CodeType, lasti: int) -> Place:
    """Return where an instruction stands in the text."""
    return list(code.co_positions())[lasti // 2]


def place_of(node: ast.expr | ast.stmt) -> Place:
    """Return where a part of a text stands, as code objects tell it."""
    return node.lineno, node.end_lineno, node.col_offset, node.end_col_offset


def asks_for_a_number(call: ast.Call) -> bool:
    """Return whether a call is ``float(...)`` or ``....item()``."""
    asked = call.func
    return (isinstance(asked, ast.Name) and asked.id == "float") or (
        isinstance(asked, ast.Attribute) and asked.attr == "item"
    )


@functools.lru_cache(maxsize=8)
def parents_in(text: str) -> Parents:
    """Return what each part of a text is part of."""
    return {child: node for node in ast.walk(ast.parse(text)) for child in ast.iter_child_nodes(node)}


def stands_in_return(node: ast.AST, parents: Parents) -> bool:
    """Return whether an expression is returned, alone or in a tuple, list or dict."""
    above = parents[node]
    while isinstance(above, ast.Tuple | ast.List) or (isinstance(above, ast.Dict) and node in above.values):
        node, above = above, parents[above]
    return isinstance(above, ast.Return) or (isinstance(above, ast.Lambda) and node is above.body)


def is_named_and_returned(node: ast.AST, parents: Parents) -> bool:
    """Return whether an expression is assigned to one name, of which nothing is done but returning it."""
    above = parents[node]
    if not isinstance(above, ast.Assign) or len(above.targets) != 1 or not isinstance(above.targets[0], ast.Name):
        return False
    name, function = above.targets[0].id, function_of(node, parents)
    for part in () if function is None else ast.walk(function):
        if isinstance(part, ast.Global | ast.Nonlocal) and name in part.names:
            return False
        is_read = isinstance(part, ast.Name) and part.id == name and isinstance(part.ctx, ast.Load)
        if is_read and not (function_of(part, parents) is function and stands_in_return(part, parents)):
            return False
    return function is not None


def function_of(node: ast.AST, parents: Parents) -> ast.AST | None:
    """Return the function that an expression is part of; None for a module's or class's."""
    above = parents.get(node)
    while above is not None and not isinstance(above, FUNCTIONS):
        if isinstance(above, ast.ClassDef | ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp):
            return None
        above = parents.get(above)
    return above
