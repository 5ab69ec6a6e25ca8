"""Containers of arrays as vectors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from agrad import tree
from agrad.program.arguments import bare_all, is_raw

__all__ = ["flatten", "flatten_func"]


def flatten(value: Any) -> tuple[Any, Callable[[Any], Any]]:
    """Join all numbers of a container into one vector; return it and the function that converts a vector to such a container.

    Raises TypeError if a part is not an array of numbers, or integers are mixed with floating-point numbers.

    >>> vector, unflatten = flatten([1.0, (2.0, 3.0)])
    >>> vector, unflatten(10 * vector)
    (array([1., 2., 3.]), [np.float64(10.0), (np.float64(20.0), np.float64(30.0))])
    """
    vector, back = tree.ravel(value)

    def unflatten(vector: Any) -> Any:
        found = back(vector)
        return bare_all(found) if is_raw(vector) else found

    return bare_all(vector) if is_raw(value) or not tree.flatten(value)[0] else vector, unflatten


def flatten_func(func: Callable[..., Any], example: Any) -> tuple[Callable[..., Any], Callable[[Any], Any], Any]:
    """Return a function of a container as a function of a vector, the conversion to a container, and the example's vector.

    >>> of_vector, unflatten, vector = flatten_func(lambda p: [2 * p[0], p[1]], [1.0, 3.0])
    >>> of_vector(vector)
    array([2., 3.])
    """
    vector, unflatten = flatten(example)
    return lambda x, *args: flatten(func(unflatten(x), *args))[0], unflatten, vector
