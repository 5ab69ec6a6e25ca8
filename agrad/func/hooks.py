"""Hooks that only compute: which may be part of a captured backward pass, told by their code.

A capture runs the backward pass of a call's results once, for nothing but its steps. What a hook did then beside computing
would be done too often, and at no later call; so a hook is looked at before it runs, and the `backward` of a `Function`
likewise. Its code writes to nothing outside of it, and calls and reads nothing but operations and members of tensors,
Python's own functions without effects, plain values, and functions of which the same holds. So what it computes depends on
the gradient, and on what is listed here.
"""

from __future__ import annotations

import builtins
import dis
import functools
import math
import operator
import types
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, NoReturn

from agrad import dtypes
from agrad.core import errors
from agrad.core.function import FunctionNode
from agrad.core.node import Node
from agrad.core.op import OPS
from agrad.core.tensor import Tensor
from agrad.func.guards import Link, is_plain
from agrad.func.origins import is_library, is_own
from agrad.func.program import same
from agrad.func.recording import CaptureError

#: Python's own functions and classes that a hook may call.
BUILTINS = frozenset(
    getattr(builtins, name)
    for name in (
        *("abs", "all", "any", "bool", "complex", "dict", "divmod", "enumerate", "filter", "float", "int"),
        *("isinstance", "len", "list", "map", "max", "min", "pow", "range", "reversed", "round", "set", "slice"),
        *("sorted", "sum", "tuple", "zip", "AssertionError", "TypeError", "ValueError"),
    )
)

#: Members of tensors and of agrad that do more than compute; `dropout` draws.
EFFECTS = frozenset(
    {
        *("backward", "compute", "detach_", "dropout", "fill", "persist", "put", "register_hook", "requires_grad_"),
        *("register_post_accumulate_grad_hook", "retain_grad"),
    }
)

#: Modules of agrad that a hook finds operations in.
SPACES = frozenset({"extra", "fft", "functional", "linalg", "nn", "special"})

#: Instructions by which code may change what is outside of it, or run what nobody has looked at.
REFUSED = (
    *("STORE_GLOBAL", "STORE_NAME", "STORE_ATTR", "DELETE_GLOBAL", "DELETE_NAME", "DELETE_ATTR", "DELETE_DEREF"),
    *("IMPORT_", "LOAD_BUILD_CLASS", "LOAD_NAME", "LOAD_SUPER", "LOAD_CLASSDEREF", "LOAD_FROM_DICT"),
)


@functools.cache
def readable() -> frozenset[str]:
    """Return the names of members that a hook may read, of whatever it holds."""
    names = {part for name in OPS for part in name.split(".")} | {*dir(Tensor), *dir(math), *dtypes.NAMES} | SPACES
    return frozenset(name for name in names - EFFECTS if not name.startswith("_"))


class Reads(NamedTuple):
    """What a hook that only computes depends on, beside the gradient.

    Attributes
    ----------
    what : str
        What messages call it.
    codes : list of code
        Of the functions that it runs.
    values : list
        The plain values that these read.
    links : list of Link
        What must be as it is whenever the hook runs.
    """

    what: str
    codes: list[types.CodeType]
    values: list[Any]
    links: list[Link]

    def alike(self, other: Reads) -> bool:
        """Return whether two hooks are of the same code and read the same."""
        if self.codes != other.codes or len(self.values) != len(other.values):
            return False
        return all(map(same, self.values, other.values))

    def refuse(self, why: str, where: str) -> NoReturn:
        """Tell that this may do more than compute."""
        raise CaptureError(f"capture: {self.what} {why}, so it may do more than compute{where}")


def reads_of(hook: Callable[..., Any], what: str = "a hook on what the function computes", ctx: Any = None) -> Reads:
    """Return what a hook depends on, beside the gradient.

    Parameters
    ----------
    hook : callable
        The hook.
    what : str, optional
        What messages call it.
    ctx : FunctionNode or False, optional
        Its first argument, whose attributes were put there by the call of a `Function`; False if that is an object whose
        attributes may not be read.

    Raises
    ------
    CaptureError
        If it cannot be shown that the hook does nothing but compute.
    """
    reads = Reads(what, [], [], [])
    _look(hook, reads, errors.called(), ctx)
    return reads


def _look(function: Any, reads: Reads, where: str, ctx: Any = None) -> None:
    """Look at a function that a hook runs, and note what it reads."""
    while hasattr(function, "__wrapped__") and is_library(function.__code__.co_filename):
        function = function.__wrapped__  # `once_differentiable`
    if isinstance(function, functools.partial):
        _look(function.func, reads, where)
        for value in (*function.args, *function.keywords.values()):
            _check(value, "an argument of partial", reads, where)
        return
    if not isinstance(function, types.FunctionType):
        reads.refuse(f"is no plain function, but of type {type(function).__name__}", where)
    if any(link.key is function for link in reads.links):  # it calls itself
        return
    for name in ("__code__", "__defaults__", "__kwdefaults__"):
        get = operator.attrgetter(name)
        reads.links.append(Link(get, function, get(function), f"the {name.strip('_')} of {function.__name__}"))
    for value in (*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()):
        _check(value, "a default value", reads, where)
    cells = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))
    _walk(function.__code__, function.__globals__, cells, reads, ctx)


def _walk(
    code: types.CodeType, names: dict[str, Any], cells: dict[str, types.CellType], reads: Reads, ctx: Any = None
) -> None:
    """Look at the instructions of a function, and of those within it; `cells` are those from outside of it."""
    reads.codes.append(code)
    own = {name: cell for name, cell in cells.items() if name not in code.co_cellvars}
    on_ctx = False  # the value on top is ctx
    for step in dis.get_instructions(code):
        kind, name = step.opname, step.argval
        where = f"\n  The code is at {errors.line_of(code, step.offset)}."
        if kind.startswith(REFUSED) or (kind == "STORE_DEREF" and name in own):
            reads.refuse(f"has {kind.lower()} {name}" if name else f"has {kind.lower()}", where)
        elif kind == "LOAD_GLOBAL":
            found = names if name in names else vars(builtins)
            if name not in found:
                reads.refuse(f"uses {name}, which is not there", where)
            reads.links.append(Link(found.__getitem__, name, found[name], name))
            _check(found[name], name, reads, where)
        elif kind in ("LOAD_DEREF", "LOAD_CLOSURE") and name in own:
            cell = own[name]
            if not _is_filled(cell):
                reads.refuse(f"uses {name}, which is not there", where)
            reads.links.append(Link(operator.attrgetter("cell_contents"), cell, cell.cell_contents, name))
            _check(cell.cell_contents, name, reads, where)
        elif kind in ("LOAD_ATTR", "LOAD_METHOD") and on_ctx:
            value = getattr(ctx, name, None)
            if ctx is False or callable(value) or isinstance(value, list | dict | set | deque) or is_own(type(value)):
                reads.refuse(f"uses {code.co_varnames[0]}.{name}", where)
        elif kind in ("LOAD_ATTR", "LOAD_METHOD") and name not in readable():
            reads.refuse(f"uses .{name}", where)
        if kind.startswith("LOAD_FAST") and ctx is not None:
            on_ctx = (name[-1] if isinstance(name, tuple) else name) == code.co_varnames[0]
        elif kind != "CACHE":
            on_ctx = False
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            _walk(constant, names, own, reads)


def _is_filled(cell: types.CellType) -> bool:
    try:
        return cell.cell_contents is not cell
    except ValueError:
        return False


def _check(value: Any, name: str, reads: Reads, where: str) -> None:
    """Look at a value that a hook reads from outside of it."""
    if is_plain(value):
        reads.values.append(value)
    elif isinstance(value, Tensor):
        reads.refuse(f"reads the tensor {name}, which may have another value when the backward pass runs", where)
    elif isinstance(value, types.ModuleType):
        if value is not math and value.__name__.partition(".")[0] != "agrad":
            reads.refuse(f"uses {name}", where)
    elif isinstance(value, types.FunctionType):
        if not str(value.__module__).startswith("agrad.") or not is_library(value.__code__.co_filename):
            _look(value, reads, where)
        elif value.__name__ not in readable():
            reads.refuse(f"calls {name}", where)
    elif not (isinstance(value, types.BuiltinFunctionType) and value.__self__ is math) and not any(
        value is known for known in BUILTINS
    ):
        reads.refuse(f"uses {name}", where)


def hooks_on(nodes: Sequence[Node]) -> list[Callable[..., Any]]:
    """Return the hooks on gradients of nodes."""
    return [hook for node in nodes if node.hooks is not None for hook in node.hooks.tensor.values()]


def functions_on(nodes: Sequence[Node], *, alone: bool) -> Iterator[Reads]:
    """Return what the derivatives of `Function`s depend on, and the hooks of modules, which one of them runs.

    Parameters
    ----------
    nodes : sequence of Node
        Among which they are.
    alone : bool
        Every backward pass comes to all of them.

    Raises
    ------
    CaptureError
        If it cannot be shown that one does nothing but compute, or that a hook runs only where it should.
    """
    for node in nodes:
        if isinstance(node, FunctionNode):
            for hook in getattr(node, "module_hooks", ()):
                if not alone:
                    raise CaptureError("capture: a module has backward hooks, and several results are differentiated")
                yield reads_of(hook, "a backward hook of a module", ctx=False)
            if is_own(node.function):
                yield reads_of(node.function.backward, f"the backward of {node.function.__name__}", node)


def are_alike(hooks: Sequence[Callable[..., Any]], reads: Sequence[Reads]) -> bool:
    """Return whether hooks are those of which it is known what they read, and read the same."""
    try:
        now = list(map(reads_of, hooks))
    except CaptureError:
        return False
    return len(now) == len(reads) and all(map(Reads.alike, now, reads))
