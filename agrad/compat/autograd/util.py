"""The helpers that HIPS autograd's programs import besides its operators: small functions on sequences, graphs and methods."""

from __future__ import annotations

import operator
import warnings
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from agrad.compat.autograd.test_util import check_grads

__all__ = ["func", "quick_grad_check", "subval", "subvals", "toposort"]


def func(f: Any) -> Any:
    """Return a method as a function, which it is.

    >>> func(str.upper)("a")
    'A'
    """
    return f


def subvals(x: Iterable[Any], ivs: Iterable[tuple[int, Any]]) -> tuple[Any, ...]:
    """Return a sequence with other values at some positions, as a tuple.

    >>> subvals([1, 2, 3], [(0, 7), (2, 9)])
    (7, 2, 9)
    """
    changed = list(x)
    for i, v in ivs:
        changed[i] = v
    return tuple(changed)


def subval(x: Iterable[Any], i: int, v: Any) -> tuple[Any, ...]:
    """Return a sequence with another value at one position, as a tuple."""
    return subvals(x, [(i, v)])


def toposort(end_node: Any, parents: Callable[[Any], Any] = operator.attrgetter("parents")) -> Iterator[Any]:
    """Return the nodes that lead to one, each before its parents; for user-defined nodes, as in `agrad.compat.autograd.tracer`.

    >>> list(toposort("d", {"d": "bc", "c": "a", "b": "a", "a": ""}.get))
    ['d', 'c', 'b', 'a']
    """
    children: dict[Any, int] = {}
    stack = [end_node]
    while stack:
        node = stack.pop()
        children[node] = children.get(node, 0) + 1
        if children[node] == 1:
            stack.extend(parents(node))
    ready = [end_node]
    while ready:
        yield (node := ready.pop())
        for parent in parents(node):
            children[parent] -= 1
            if not children[parent]:
                ready.append(parent)


def quick_grad_check(
    fun: Callable[..., Any], arg0: Any, extra_args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
) -> None:
    """Compare the gradient of a function with finite differences; autograd deprecates it in favour of `check_grads`."""
    warnings.warn("quick_grad_check is deprecated: use check_grads", DeprecationWarning, stacklevel=2)
    check_grads(lambda x: fun(x, *extra_args, **(kwargs or {})), modes=["rev"], order=1)(arg0)
