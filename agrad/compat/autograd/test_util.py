"""HIPS autograd's comparison of derivatives with finite differences."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

from agrad.compat.autograd.core import make_jvp, make_vjp, vspace
from agrad.compat.autograd.wrap_util import get_name, unary_to_nary

__all__ = ["check_equivalent", "check_grads", "combo_check", "scalar_close"]

TOLERANCE = 1e-6

#: The distance of the two points of a central difference.
STEP = 1e-6


def scalar_close(a: Any, b: Any) -> bool:
    """Return whether two numbers differ by less than 1e-6, absolutely or relative to their sum.

    >>> scalar_close(1e9, 1e9 + 1), scalar_close(1.0, 1.1)
    (True, False)
    """
    return bool(abs(a - b) < TOLERANCE or abs(a - b) / abs(a + b) < TOLERANCE)


def check_equivalent(x: Any, y: Any) -> None:
    """Assert that two values belong to one space and are close."""
    space, other = vspace(x), vspace(y)
    if space != other:
        raise AssertionError(f"VSpace mismatch:\nx: {space}\ny: {other}")
    along = space.randn()
    if not scalar_close(space.inner_prod(x, along), space.inner_prod(y, along)):
        raise AssertionError(f"Value mismatch:\nx: {x}\ny: {y}")


def numerical_jvp(f: Callable[..., Any], x: Any) -> Callable[..., Any]:
    """Return the Jacobian-vector product of a function of one argument by central differences."""
    space, result = vspace(x), vspace(f(x))

    def jvp(v: Any) -> Any:
        ahead = f(space.add(x, space.scalar_mul(v, STEP / 2)))
        behind = f(space.add(x, space.scalar_mul(v, -STEP / 2)))
        return result.scalar_mul(result.add(ahead, result.scalar_mul(behind, -1.0)), 1 / STEP)

    return jvp


def _check_vjp(f: Callable[..., Any], x: Any) -> None:
    vjp, y = make_vjp(f, x)
    space, result = vspace(x), vspace(y)
    along, cotangent = space.randn(), result.randn()
    pulled = space.covector(vjp(result.covector(cotangent)))
    if vspace(pulled) != space:
        raise AssertionError(f"the cotangent of {get_name(f)} is of {vspace(pulled)}, its argument of {space}")
    exact = space.inner_prod(along, pulled)
    numeric = result.inner_prod(cotangent, numerical_jvp(f, x)(along))
    if not scalar_close(numeric, exact):
        raise AssertionError(
            f"Derivative (VJP) check of {get_name(f)} failed with arg {x}:\nanalytic: {exact}\nnumeric:  {numeric}"
        )


def _check_jvp(f: Callable[..., Any], x: Any) -> None:
    along = vspace(x).randn()
    check_equivalent(make_jvp(f, x)(along)[1], numerical_jvp(f, x)(along))


@unary_to_nary
def check_grads(f: Callable[..., Any], x: Any, modes: Sequence[str] | None = None, order: int = 2) -> None:
    """Compare the derivatives of a function, in both modes, with finite differences along random directions.

    >>> import agrad as ag
    >>> check_grads(lambda x: ag.sin(x) * x)(0.7)
    """
    modes = ("fwd", "rev") if modes is None else modes
    if not set(modes) <= {"fwd", "rev"}:
        raise ValueError(f'modes are "fwd" and "rev", not {modes}')
    products = {"fwd": lambda x, v: make_jvp(f, x)(v)[1], "rev": lambda x, v: make_vjp(f, x)[0](v)}
    checks = {"fwd": _check_jvp, "rev": _check_vjp}
    for mode in ("fwd", "rev"):
        if mode not in modes:
            continue
        checks[mode](f, x)
        if order > 1:
            product = products[mode]
            product.__name__ = f"{'jvp' if mode == 'fwd' else 'vjp'}_{get_name(f)}"
            v = vspace(x if mode == "fwd" else f(x)).randn()
            check_grads(product, (0, 1), modes, order=order - 1)(x, v)


def combo_check(fun: Callable[..., Any], *options: Any, **settings: Any) -> Callable[..., None]:
    """Return a function that runs `check_grads` for all combinations of arguments, each from a list of values."""

    def check(*args: Sequence[Any], **kwargs: Sequence[Any]) -> None:
        for chosen in itertools.product(*args):
            for named in itertools.product(*kwargs.values()):
                check_grads(fun, *options, **settings)(*chosen, **dict(zip(kwargs, named, strict=True)))

    return check
