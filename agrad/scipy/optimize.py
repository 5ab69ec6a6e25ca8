"""Roots, fixed points and minima by SciPy's solvers, as differentiable functions of what the equations depend on.

SciPy searches, with derivatives from agrad; the result is differentiated by `agrad.func.implicit`.
Source: Blondel et al., Efficient and modular implicit differentiation, 2021.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from agrad import tree
from agrad.core import names as _names
from agrad.core.errors import UnsupportedOp
from agrad.core.tensor import Tensor
from agrad.func.arguments import bare, is_raw
from agrad.func.implicit import ImplicitError, implicit
from agrad.func.jacobian import jacrev
from agrad.ops.creation import asarray
from agrad.ops.statistical import sum as total
from agrad.ops.ufunc import to_numpy
from agrad.optim.minimizing import minimize as minimized
from agrad.scipy.integrate import moves, refuse_lazy, scipys

__all__ = ["brentq", "fixed_point", "least_squares", "minimize", "root"]

#: Methods of `root` that take a Jacobian.
_NEWTONS = ("hybr", "lm")


def root(
    fun: Callable[..., Any], x0: Any, args: Any = (), method: str = "hybr", tol: float | None = None, **options: Any
) -> Any:
    """Find a root of a vector function; differentiable by its further arguments.

    Parameters
    ----------
    fun : callable
        ``fun(x, *args)``, made of agrad's functions (of tensors), gives a vector of the shape of x.
    x0 : Tensor or array
        Where to begin, shape (n,). It has no derivative: the root does not depend on it.
    args : tuple, optional
        Further arguments: tensors, containers of them, whatever the function takes.
    method : str, optional
        Any of SciPy's function. "hybr" and "lm" get the Jacobian from agrad.
    tol : float, optional
        When to end.
    **options
        Others of SciPy's function: ``callback``, ``options``.

    Returns
    -------
    scipy.optimize.OptimizeResult
        SciPy's, with ``x`` as a tensor, raw where `x0` and all arguments are.

    Raises
    ------
    ImplicitError
        If x is to be differentiated: where there is no solution, or it has no derivative.
    UnsupportedOp
        On lazy arrays.
    ValueError
        What SciPy finds wrong with the arguments.

    Source: Blondel et al., Efficient and modular implicit differentiation, 2021.

    Examples
    --------
    >>> import agrad as ag
    >>> from agrad.scipy.optimize import root
    >>> a = ag.tensor(2.0, requires_grad=True)
    >>> found = root(lambda x, a: x**2 - a, [1.0], (a,))
    >>> found.success, found.x.detach(), ag.grad(found.x.sum(), a)  # 1 / (2 sqrt(2))
    (True, tensor([1.4142]), (tensor(0.3536),))
    """

    def solve(*args: Any) -> Any:
        if method in _NEWTONS:
            options["jac"] = _slopes(fun, args, x0)
        return scipys("optimize").root(_numbers(fun, args, x0), _start(x0), method=method, tol=tol, **options)

    return _found("root", solve, fun, "root", x0, args)


def fixed_point(
    func: Callable[..., Any], x0: Any, args: Any = (), xtol: float = 1e-8, maxiter: int = 500, method: str = "del2"
) -> Any:
    """Find a fixed point of a function; differentiable by its further arguments.

    Parameters
    ----------
    func : callable
        ``func(x, *args)``, made of agrad's functions (of tensors), gives x again at the fixed point.
    x0 : Tensor, array or number
        Where to begin.
    args : tuple, optional
        Further arguments: tensors, containers of them, whatever the function takes.
    xtol : float, optional
        When to end.
    maxiter : int, optional
        How many steps there may be.
    method : {"del2", "iteration"}, optional
        Whether to accelerate by Aitken's method.

    Returns
    -------
    Tensor or array
        The fixed point, of the shape of `x0`; raw where `x0` and all arguments are.

    Raises
    ------
    ImplicitError
        If the fixed point is to be differentiated and has no derivative.
    RuntimeError
        If none is found.
    UnsupportedOp
        On lazy arrays.

    Source: Blondel et al., Efficient and modular implicit differentiation, 2021.

    Examples
    --------
    >>> import agrad as ag
    >>> from agrad.scipy.optimize import fixed_point
    >>> a = ag.tensor(1.0, requires_grad=True)
    >>> x = fixed_point(lambda x, a: ag.cos(a * x), 0.7, (a,))
    >>> x.detach(), ag.grad(x, a)
    (tensor(0.7391), (tensor(-0.2975),))
    """

    def solve(*args: Any) -> Any:
        return scipys("optimize").fixed_point(_numbers(func, args, x0), _start(x0), (), xtol, maxiter, method)

    return _found("fixed_point", solve, func, "fixed_point", x0, args)


def brentq(
    f: Callable[..., Any],
    a: Any,
    b: Any,
    args: Any = (),
    xtol: float = 2e-12,
    rtol: float = 8.881784197001252e-16,
    maxiter: int = 100,
    full_output: bool = False,
    disp: bool = True,
) -> Any:
    """Find a root of a function of one number within an interval, by Brent's method; differentiable by its further arguments.

    Parameters
    ----------
    f : callable
        ``f(x, *args)``, made of agrad's functions (of tensors), gives a number.
    a, b : Tensor or float
        The interval: the signs of the function differ at its ends. They have no derivative.
    args : tuple, optional
        Further arguments: tensors, containers of them, whatever the function takes.
    xtol, rtol : float, optional
        When to end.
    maxiter : int, optional
        How many steps there may be.
    full_output : bool, optional
        Return SciPy's report, too.
    disp : bool, optional
        Raise if no root is found.

    Returns
    -------
    Tensor or float
        The root, 0-d; raw where all arguments are. With `full_output`, and the report.

    Raises
    ------
    ImplicitError
        If the root is to be differentiated and was not found, or has no derivative.
    RuntimeError
        If none is found.
    UnsupportedOp
        On lazy arrays.
    ValueError
        If the signs do not differ.

    Source: Brent, Algorithms for minimization without derivatives, 1973; Blondel et al., 2021.

    Examples
    --------
    >>> import agrad as ag
    >>> from agrad.scipy.optimize import brentq
    >>> e = ag.tensor(0.3, requires_grad=True)
    >>> x = brentq(lambda x, e: x - e * ag.sin(x) - 1, 0, 2, (e,))  # Kepler's equation
    >>> x.detach(), ag.grad(x, e)
    (tensor(1.2881), (tensor(1.0480),))
    """

    def solve(*args: Any) -> Any:
        low, high = float(_start(a)), float(_start(b))
        x, found = scipys("optimize").brentq(_numbers(f, args, a), low, high, (), xtol, rtol, maxiter, True, disp)
        found.x, found.success, found.message = x, found.converged, found.flag
        return found

    found = _found("brentq", solve, f, "root", a, args)
    return (found.x, found) if full_output else found.x


def minimize(
    fun: Callable[..., Any],
    x0: Any,
    args: Any = (),
    method: str | None = None,
    tol: float | None = None,
    **options: Any,
) -> Any:
    """Find where a function is least; differentiable by its further arguments.

    Parameters
    ----------
    fun : callable
        ``fun(x, *args)``, made of agrad's functions (of tensors), gives a number.
    x0 : Tensor or array
        Where to begin, shape (n,). It has no derivative: the minimum does not depend on it.
    args : tuple, optional
        Further arguments: tensors, containers of them, whatever the function takes.
    method : str, optional
        Any of SciPy's function; all get the derivatives they want from agrad. Default: "BFGS".
    tol : float, optional
        When to end. The derivative is as exact as x is.
    **options
        Others of SciPy's function: ``options``, and where nothing is differentiated ``bounds`` and ``constraints``.

    Returns
    -------
    scipy.optimize.OptimizeResult
        SciPy's, with ``x`` as a tensor, raw where `x0` and all arguments are.

    Raises
    ------
    ImplicitError
        If x is to be differentiated: where no minimum was found, or it has no derivative.
    UnsupportedOp
        On lazy arrays; with limits, if x is to be differentiated.
    ValueError
        What SciPy finds wrong with the arguments.

    See Also
    --------
    agrad.optim.minimize : The same for containers of parameters, without derivatives of the result.

    Notes
    -----
    Source: Blondel et al., Efficient and modular implicit differentiation, 2021.

    Examples
    --------
    >>> import agrad as ag
    >>> from agrad.scipy.optimize import minimize
    >>> data = ag.tensor([1.0, 2.0, 6.0], requires_grad=True)
    >>> found = minimize(lambda x, data: ag.sum(ag.sqrt(1 + (x - data) ** 2)), [0.0], (data,), tol=1e-10)
    >>> ag.grad(found.x.sum(), data)  # of a location that resists the last one
    (tensor([0.2144, 0.7721, 0.0135]),)
    """
    limits = [name for name in ("bounds", "constraints") if options.get(name) is not None and options.get(name) != ()]
    if limits and moves(args):
        raise UnsupportedOp(
            "scipy.optimize.minimize with limits, of what is differentiated,",
            "",
            f"drop {', '.join(limits)}, or write the conditions of the minimum as the residual of func.implicit",
        )

    def solve(*args: Any) -> Any:
        more = options if tol is None else {"tol": tol, **options}
        return minimized(fun, asarray(_start(x0), device=_device(x0, args)), args=args, method=method or "BFGS", **more)

    return _found("minimize", solve, fun, "minimum", x0, args)


def least_squares(fun: Callable[..., Any], x0: Any, args: Any = (), method: str = "trf", **options: Any) -> Any:
    """Find where a sum of squares is least; differentiable by the function's further arguments, as a fit by its data.

    Parameters
    ----------
    fun : callable
        ``fun(x, *args)``, made of agrad's functions (of tensors), gives a vector: what is squared.
    x0 : Tensor or array
        Where to begin, shape (n,). It has no derivative: the minimum does not depend on it.
    args : tuple, optional
        Further arguments: tensors, containers of them, whatever the function takes.
    method : {"trf", "dogbox", "lm"}, optional
        SciPy's method; it gets the Jacobian from agrad.
    **options
        Others of SciPy's function: ``ftol``, ``xtol``, ``gtol``, ``x_scale``, ..., and where nothing is differentiated
        ``bounds`` and ``loss``.

    Returns
    -------
    scipy.optimize.OptimizeResult
        SciPy's, with ``x`` as a tensor, raw where `x0` and all arguments are.

    Raises
    ------
    ImplicitError
        If x is to be differentiated: where no minimum was found, or it has no derivative.
    UnsupportedOp
        On lazy arrays; with ``bounds`` or ``loss``, if x is to be differentiated.
    ValueError
        What SciPy finds wrong with the arguments.

    Notes
    -----
    The derivative is that of the minimum, by all second derivatives of the sum, also those that Gauss and Newton leave out.
    Source: Blondel et al., Efficient and modular implicit differentiation, 2021.

    Examples
    --------
    >>> import agrad as ag
    >>> from agrad.scipy.optimize import least_squares
    >>> t, y = ag.asarray([0.0, 1.0, 2.0]), ag.tensor([4.0, 2.0, 1.0], requires_grad=True)
    >>> found = least_squares(lambda p, y: p[0] * ag.exp(-p[1] * t) - y, [1.0, 1.0], (y,))
    >>> found.x.detach()
    tensor([4.0000, 0.6931])
    >>> ag.grad(found.x[1], y)  # how the rate follows the measurements
    (tensor([ 0.1818, -0.2273, -0.2727]),)
    """
    limits = [name for name in ("bounds", "loss") if options.get(name, "linear") != "linear"]
    if limits and moves(args):
        raise UnsupportedOp(
            f"scipy.optimize.least_squares with {', '.join(limits)}, of what is differentiated,",
            "",
            "write the function that is least, and func.implicit(..., kind='minimum')",
        )

    def solve(*args: Any) -> Any:
        given = {"jac": _slopes(fun, args, x0), "method": method, **options}
        return scipys("optimize").least_squares(_numbers(fun, args, x0), _start(x0), **given)

    def half(x: Tensor, *args: Any) -> Tensor:
        return total(fun(x, *args) ** 2) / 2

    return _found("least_squares", solve, half, "minimum", x0, args)


def _start(x0: Any) -> Any:
    """Return where to begin in the host's memory."""
    return to_numpy(asarray(x0).detach()).astype("float64")


def _device(x0: Any, args: Any) -> Any:
    return next((t.device for t in tree.flatten((x0, args))[0] if isinstance(t, Tensor)), None)


def _numbers(fun: Callable[..., Any], args: Any, x0: Any) -> Callable[..., Any]:
    """Return a function as SciPy calls it."""
    device = _device(x0, args)

    def of(x: Any) -> Any:
        found = fun(asarray(x, device=device, copy=True), *args)
        return to_numpy(found.detach()) if isinstance(found, Tensor) else found

    return of


def _slopes(fun: Callable[..., Any], args: Any, x0: Any) -> Callable[[Any], Any]:
    """Return the Jacobian of a function as SciPy calls it."""
    return _numbers(jacrev(lambda x: fun(x, *args)), (), (x0, args))


def _found(what: str, solve: Callable[..., Any], residual: Callable[..., Any], kind: Any, x0: Any, args: Any) -> Any:
    """Return what a solver of SciPy finds, x differentiable by the arguments."""
    args = args if isinstance(args, tuple) else (args,)
    refuse_lazy(f"optimize.{what}", (x0, args))
    raw, moving = is_raw(x0, args), moves(args)

    reports: list[Any] = []

    def solved(*args: Any) -> Any:
        found = solve(*args)
        if not hasattr(found, "x"):  # of fixed_point, which raises where it finds none
            return found
        reports.append(found)
        return found.x

    if moving:
        try:
            x = implicit(solved, residual, kind=kind)(*args)
        except ImplicitError as error:
            if not reports or reports[0].success:
                raise
            raise ImplicitError(f"{error}\n  SciPy says of {what}: {reports[0].message}") from None
    else:
        x = asarray(solved(*args), device=_device(x0, args))
        x = bare(x) if raw else x
    if not reports:
        return x
    reports[0].x = x
    return reports[0]


if not TYPE_CHECKING:
    __getattr__, __dir__ = _names.of(__name__)
