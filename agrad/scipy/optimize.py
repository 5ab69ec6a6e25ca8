"""Roots, fixed points and minima by SciPy's solvers, as differentiable functions of the data in the equations.

SciPy searches, with derivatives from agrad; the result is differentiated by `agrad.func.implicit`.
Source: Blondel et al., Efficient and modular implicit differentiation, 2021.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from agrad import tree
from agrad.core import names as _names
from agrad.core.errors import called
from agrad.core.tensor import Tensor
from agrad.func.implicit import refuse_open
from agrad.func.jacobian import jacrev
from agrad.numpy.protocol import to_numpy
from agrad.ops.creation import asarray
from agrad.ops.decompositions import cholesky
from agrad.ops.docs import refer
from agrad.ops.linalg import matmul, matrix_transpose
from agrad.ops.scipy.linalg import solve_triangular
from agrad.ops.solving import inv
from agrad.ops.statistical import sum as total
from agrad.optim.minimizing import OPEN, VANISHING, differentiable, refuse_limits, search
from agrad.plugin.manager import scipys
from agrad.program.arguments import bare, is_raw, moves
from agrad.scipy.integrate import refuse_lazy

__all__ = ["brentq", "curve_fit", "fixed_point", "least_squares", "minimize", "root"]

#: Methods of `root` that take a Jacobian.
_NEWTONS = ("hybr", "lm")


def root(
    fun: Callable[..., Any], x0: Any, args: Any = (), method: str = "hybr", tol: float | None = None, **options: Any
) -> Any:
    """Find a root of a vector function; differentiable with respect to its further arguments.

    `fun` is made of agrad's functions, and receives its `args` unchanged: tensors, containers of them. "hybr" and "lm"
    get the Jacobian (`jac`) from agrad. The result is SciPy's, with ``x`` as a tensor; raw if `x0` and all arguments
    are raw. If x is differentiated, fields without a derivative are missing; ``fun`` is 0 for any arguments.

    >>> import agrad as ag
    >>> from agrad.scipy.optimize import root
    >>> a = ag.tensor(2.0, requires_grad=True)
    >>> found = root(lambda x, a: x**2 - a, [1.0], (a,))
    >>> found.success, found.x.detach(), ag.grad(found.x.sum(), a)  # 1 / (2 sqrt(2))
    (True, tensor([1.4142]), (tensor(0.3536),))
    """

    def solve(*args: Any) -> Any:
        if method in _NEWTONS:
            options["jac"] = _slopes("root", fun, args, x0)
        of = _numbers("root", fun, args, x0)
        return scipys("optimize").root(of, _start(x0), method=method, tol=tol, **options)

    return _found("root", solve, fun, "root", x0, args, vanishing=("fun",))


def fixed_point(
    func: Callable[..., Any], x0: Any, args: Any = (), xtol: float = 1e-8, maxiter: int = 500, method: str = "del2"
) -> Any:
    """Find a fixed point of a function; differentiable with respect to its further arguments.

    `func` is made of agrad's functions, and receives its `args` unchanged: tensors, containers of them. The result is a
    tensor; raw if `x0` and all arguments are raw.

    >>> import agrad as ag
    >>> from agrad.scipy.optimize import fixed_point
    >>> a = ag.tensor(1.0, requires_grad=True)
    >>> x = fixed_point(lambda x, a: ag.cos(a * x), 0.7, (a,))
    >>> x.detach(), ag.grad(x, a)
    (tensor(0.7391), (tensor(-0.2975),))
    """

    def solve(*args: Any) -> Any:
        of = _numbers("fixed_point", func, args, x0)
        found = scipys("optimize").fixed_point(of, _start(x0), (), xtol, maxiter, method)
        return _Report(x=found, success=True)  # it raises if it finds none

    return _found("fixed_point", solve, func, "fixed_point", x0, args).x


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
    """Find a root of a function of one number within an interval, by Brent's method; differentiable with respect to its further arguments.

    `f` is made of agrad's functions, and receives its `args` unchanged: tensors, containers of them. There is no
    derivative with respect to the ends `a` and `b`. The root is a tensor; raw if all arguments are raw.

    >>> import agrad as ag
    >>> from agrad.scipy.optimize import brentq
    >>> e = ag.tensor(0.3, requires_grad=True)
    >>> x = brentq(lambda x, e: x - e * ag.sin(x) - 1, 0, 2, (e,))  # Kepler's equation
    >>> x.detach(), ag.grad(x, e)
    (tensor(1.2881), (tensor(1.0480),))
    """

    def solve(*args: Any) -> Any:
        low, high = float(_start(a)), float(_start(b))
        of = _numbers("brentq", f, args, a)
        x, found = scipys("optimize").brentq(of, low, high, (), xtol, rtol, maxiter, True, disp)
        found.x, found.success, found.message = x, found.converged, found.flag
        return found

    found = _found("brentq", solve, f, "root", a, args, {"root": lambda x, *_: x})
    return (found.x, found) if full_output else found.x


def minimize(
    fun: Callable[..., Any],
    x0: Any,
    args: Any = (),
    method: str | None = None,
    tol: float | None = None,
    **options: Any,
) -> Any:
    """Minimise a function; differentiable with respect to its further arguments.

    `agrad.optim.minimize` does the same for containers of parameters.

    `fun` is made of agrad's functions, and receives its `args` unchanged: tensors, containers of them. All methods get
    the derivatives they need (`jac`, `hess`, `hessp`) from agrad; the default is "BFGS". ``bounds`` and ``constraints``
    are accepted if nothing is differentiated. The derivative is as exact as x is.

    The result is SciPy's, with ``x`` as a tensor; raw if `x0` and all arguments are raw. If x is differentiated, so is
    ``fun``, and fields without a derivative (``hess_inv``) are missing; ``jac`` is 0 for any arguments.

    >>> import agrad as ag
    >>> from agrad.scipy.optimize import minimize
    >>> data = ag.tensor([1.0, 2.0, 6.0], requires_grad=True)
    >>> found = minimize(lambda x, data: ag.sum(ag.sqrt(1 + (x - data) ** 2)), [0.0], (data,), tol=1e-10)
    >>> ag.grad(found.x.sum(), data)  # of a location that resists the last one
    (tensor([0.2144, 0.7721, 0.0135]),)

    The least value:

    >>> ag.func.grad(lambda a: minimize(lambda x, a: ag.sum(x**2 - a * x), [0.0], (a,)).fun)(3.0)  # of -a^2 / 4
    np.float64(-1.5)
    """
    refuse_limits("scipy.optimize.minimize", args, options)

    def solve(*args: Any) -> Any:
        more = options if tol is None else {"tol": tol, **options}
        found = search(fun, asarray(_start(x0), device=_device(x0, args)), args, method or "BFGS", **more)
        del found["params"]
        return found

    return _found("minimize", solve, fun, "minimum", x0, args, {"fun": fun}, VANISHING)


def least_squares(fun: Callable[..., Any], x0: Any, args: Any = (), method: str = "trf", **options: Any) -> Any:
    """Minimise a sum of squares; differentiable with respect to the function's further arguments, as a fit with respect to its data.

    `fun` is made of agrad's functions, and receives its `args` unchanged: tensors, containers of them. The Jacobian
    comes from agrad; `options` are SciPy's others, and if nothing is differentiated also ``bounds`` and ``loss``. The
    derivative is that of the minimum, from all second derivatives of the sum, including those that Gauss-Newton omits.

    The result is SciPy's, with ``x`` as a tensor; raw if `x0` and all arguments are raw. If x is differentiated, so are
    ``fun`` and ``cost``, and fields without a derivative (``jac``) are missing; ``grad`` is 0 for any arguments.

    >>> import agrad as ag
    >>> from agrad.scipy.optimize import least_squares
    >>> t, y = ag.asarray([0.0, 1.0, 2.0]), ag.tensor([4.0, 2.0, 1.0], requires_grad=True)
    >>> found = least_squares(lambda p, y: p[0] * ag.exp(-p[1] * t) - y, [1.0, 1.0], (y,))
    >>> found.x.detach()
    tensor([4.0000, 0.6931])
    >>> ag.grad(found.x[1], y)  # how the rate follows the measurements
    (tensor([ 0.1818, -0.2273, -0.2727]),)
    """
    refuse_limits("scipy.optimize.least_squares", args, options)

    def solve(*args: Any) -> Any:
        given = {"jac": _slopes("least_squares", fun, args, x0), "method": method, **options}
        return scipys("optimize").least_squares(_numbers("least_squares", fun, args, x0), _start(x0), **given)

    def half(x: Tensor, *args: Any) -> Tensor:
        return total(fun(x, *args) ** 2) / 2

    return _found("least_squares", solve, half, "minimum", x0, args, {"fun": fun, "cost": half}, ("grad", "optimality"))


def curve_fit(
    f: Callable[..., Any],
    xdata: Any,
    ydata: Any,
    p0: Any = None,
    sigma: Any = None,
    absolute_sigma: bool = False,
    method: str | None = None,
    **options: Any,
) -> tuple[Any, Any]:
    """Fit a function to data by least squares; differentiable by the data and their errors.

    `f` is made of agrad's functions; `xdata` may be a container. `options` are those of `least_squares`; ``maxfev`` is
    accepted for ``max_nfev``. The parameters and their covariance are tensors; raw if all arguments are raw. Raises
    ``LinAlgError`` if the data do not determine the parameters, where SciPy warns and returns infinities.

    >>> import agrad as ag
    >>> from agrad.scipy.optimize import curve_fit
    >>> t, y = ag.asarray([0.0, 1.0, 2.0, 3.0]), ag.tensor([4.1, 2.0, 0.9, 0.5], requires_grad=True)
    >>> popt, pcov = curve_fit(lambda t, size, rate: size * ag.exp(-rate * t), t, y)
    >>> popt.detach(), ag.sqrt(ag.linalg.diagonal(pcov)).detach()
    (tensor([4.1032, 0.7300]), tensor([0.0489, 0.0181]))
    >>> ag.grad(popt[1], y)  # how the rate follows the measurements
    (tensor([ 0.1574, -0.1850, -0.2149, -0.1641]),)
    """
    if p0 is None:
        kinds = [p.kind for p in inspect.signature(f).parameters.values()]
        if any(kind is not inspect.Parameter.POSITIONAL_OR_KEYWORD for kind in kinds):
            raise ValueError(f"Unable to determine number of fit parameters: pass p0{called()}")
        p0 = [1.0] * (len(kinds) - 1)

    def misfit(p: Tensor, xdata: Any, ydata: Any, sigma: Any) -> Tensor:
        left: Tensor = f(xdata, *(p[i] for i in range(p.shape[0]))) - ydata
        if sigma is None:
            return left
        if sigma.ndim < 2:
            return left / sigma
        return solve_triangular(cholesky(sigma), left[:, None], lower=True)[:, 0]

    data = (
        xdata,
        asarray(ydata) if isinstance(ydata, list | tuple) else ydata,
        sigma if sigma is None else asarray(sigma),
    )
    if "maxfev" in options:  # the name that it has for SciPy's "lm"
        options["max_nfev"] = options.pop("maxfev")
    found = least_squares(misfit, p0, data, method or ("trf" if options.get("bounds") is not None else "lm"), **options)
    if not found.success:
        raise RuntimeError(f"Optimal parameters not found: {found.message}{called()}")
    popt = asarray(found.x, device=_device(p0, data))
    slopes = jacrev(lambda p: misfit(p, *data))(popt)
    rows, columns = slopes.shape
    pcov = inv(matmul(matrix_transpose(slopes), slopes))
    if not absolute_sigma:
        pcov = pcov * (total(misfit(popt, *data) ** 2) / (rows - columns) if rows > columns else float("inf"))
    return (bare(popt), bare(pcov)) if is_raw(p0, xdata, ydata, sigma) else (popt, pcov)


def _start(x0: Any) -> Any:
    """Return the starting point in the host's memory."""
    return to_numpy(asarray(x0).detach()).astype("float64")


def _device(x0: Any, args: Any) -> Any:
    return next((t.device for t in tree.flatten((x0, args))[0] if isinstance(t, Tensor)), None)


def _numbers(what: str, fun: Callable[..., Any], args: Any, x0: Any) -> Callable[..., Any]:
    """Return a function as SciPy calls it."""
    device = _device(x0, args)

    def of(x: Any) -> Any:
        found = fun(asarray(x, device=device, copy=True), *args)
        if any(isinstance(t, Tensor) and t._is_followed() for t in tree.flatten(found)[0]):
            refuse_open(f"{what}: the function", fun, OPEN)
        return to_numpy(found.detach()) if isinstance(found, Tensor) else found

    return of


def _slopes(what: str, fun: Callable[..., Any], args: Any, x0: Any) -> Callable[[Any], Any]:
    """Return the Jacobian of a function in the form that SciPy calls."""
    return _numbers(what, jacrev(lambda x: fun(x, *args)), (), (x0, args))


class _Report(dict[str, Any]):
    """The report of a solver that returns none: the fields that `differentiable` reads and sets."""

    __getattr__ = dict.__getitem__
    __setattr__ = dict.__setitem__


def _found(
    what: str,
    solve: Callable[..., Any],
    residual: Callable[..., Any],
    kind: Any,
    x0: Any,
    args: Any,
    known: Mapping[str, Callable[..., Any]] = {},
    vanishing: Sequence[str] = (),
) -> Any:
    """Return the report of a SciPy solver, differentiable with respect to the arguments; for the parameters see `differentiable`."""
    args = args if isinstance(args, tuple) else (args,)
    refuse_lazy(f"optimize.{what}", (x0, args))
    if moves(args):
        return differentiable(what, solve, residual, kind, args, known, vanishing)
    found = solve(*args)
    x = asarray(found.x, device=_device(x0, args))
    found.x = bare(x) if is_raw(x0, args) else x
    return found


refer(
    globals(),
    "scipy.optimize",
    {  # all take a function first: `f`, `fun` or `func`
        "f": "Raises ImplicitError if the function depends on a tensor that is being differentiated and is not one of its arguments,\n"
        "or if a result is differentiated that is not a solution or has no derivative; UnsupportedOp on lazy arrays, and\n"
        "for ``bounds``, ``loss`` or ``constraints`` if it is differentiated."
    },
)

if not TYPE_CHECKING:
    __getattr__, __dir__ = _names.of(__name__)
