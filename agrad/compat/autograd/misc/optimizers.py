"""Stochastic optimisers of containers of arrays, as functions: they take a gradient function and return the parameters.

`agrad.optim` has more of them, as objects.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from agrad.compat.autograd.misc.flatten import flatten

__all__ = ["adam", "rmsprop", "sgd", "unflatten_optimizer"]

#: Takes a container and the number of the iteration; returns the gradient, in the container's structure.
Gradient = Callable[[Any, int], Any]

#: Called in every iteration with the parameters, its number and the gradient.
Callback = Callable[[Any, int, Any], Any]


def unflatten_optimizer(optimize: Callable[..., Any]) -> Callable[..., Any]:
    """Turn an optimiser of vectors, ``optimize(grad, x, callback, ...)``, into one of containers."""

    @functools.wraps(optimize)
    def of_container(grad: Gradient, x0: Any, callback: Callback | None = None, *args: Any, **kwargs: Any) -> Any:
        start, unflatten = flatten(x0)

        def tell(x: Any, i: int, g: Any) -> None:
            assert callback is not None
            callback(unflatten(x), i, unflatten(g))

        told = None if callback is None else tell
        return unflatten(optimize(lambda x, i: flatten(grad(unflatten(x), i))[0], start, told, *args, **kwargs))

    return of_container


@unflatten_optimizer
def sgd(
    grad: Gradient,
    x: Any,
    callback: Callback | None = None,
    num_iters: int = 200,
    step_size: float = 0.1,
    mass: float = 0.9,
) -> Any:
    """Follow the gradient downhill, with momentum.

    >>> sgd(lambda x, i: 2 * (x - 3.0), 0.0, num_iters=300).round(4)
    np.float64(3.0)
    """
    velocity: Any = 0.0
    for i in range(num_iters):
        g = grad(x, i)
        if callback is not None:
            callback(x, i, g)
        velocity = mass * velocity - (1.0 - mass) * g
        x = x + step_size * velocity
    return x


@unflatten_optimizer
def rmsprop(
    grad: Gradient,
    x: Any,
    callback: Callback | None = None,
    num_iters: int = 100,
    step_size: float = 0.1,
    gamma: float = 0.9,
    eps: float = 1e-8,
) -> Any:
    """Follow the gradient downhill, divided by the root of its mean square.

    >>> rmsprop(lambda x, i: 2 * (x - 3.0), 0.0, num_iters=300, step_size=0.02).round(1)
    np.float64(3.0)
    """
    square: Any = 1.0
    for i in range(num_iters):
        g = grad(x, i)
        if callback is not None:
            callback(x, i, g)
        square = square * gamma + g**2 * (1 - gamma)
        x = x - step_size * g / (square**0.5 + eps)
    return x


@unflatten_optimizer
def adam(
    grad: Gradient,
    x: Any,
    callback: Callback | None = None,
    num_iters: int = 100,
    step_size: float = 0.001,
    b1: float = 0.9,
    b2: float = 0.999,
    eps: float = 1e-8,
) -> Any:
    """Follow the running mean of the gradient downhill, divided by the root of its mean square.

    Source: Kingma, Ba: Adam: a method for stochastic optimization (2015).

    >>> adam(lambda x, i: 2 * (x - 3.0), 0.0, num_iters=300, step_size=0.1).round(2)
    np.float64(3.0)
    """
    mean: Any = 0.0
    square: Any = 0.0
    for i in range(num_iters):
        g = grad(x, i)
        if callback is not None:
            callback(x, i, g)
        mean = b1 * mean + (1 - b1) * g
        square = b2 * square + (1 - b2) * g**2
        unbiased = mean / (1 - b1 ** (i + 1))
        x = x - step_size * unbiased / ((square / (1 - b2 ** (i + 1))) ** 0.5 + eps)
    return x
