"""SciPy's minimisers for functions of containers of parameters, with derivatives from agrad."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn

from agrad import tree
from agrad.compiled.adaptive import AdaptiveFunction
from agrad.core.errors import UnsupportedOp, called
from agrad.core.tensor import Tensor
from agrad.func.grad import hvp, value_and_grad
from agrad.func.implicit import ImplicitError, implicit, refuse_open
from agrad.func.jacobian import hessian
from agrad.lazy import compute
from agrad.numpy.protocol import to_numpy
from agrad.ops.creation import asarray
from agrad.ops.manipulation import broadcast_to
from agrad.plugin.manager import scipys
from agrad.program.arguments import bare, moves

__all__ = ["minimize"]

#: SciPy's methods that need only values, products with the Hessian, or the Hessian. All others take the gradient.
VALUES = ("nelder-mead", "powell", "cobyla", "cobyqa")
PRODUCTS = ("newton-cg", "trust-ncg", "trust-krylov", "trust-constr")
MATRICES = ("dogleg", "trust-exact")
#: The fix for a tensor that a solver's function uses without taking it as an argument.
OPEN = "Make {} an argument of the function, and give args=({},); or detach it, where no derivative by it is wanted"
#: Entries of SciPy's report that are 0 at a minimum whatever the arguments: as constants they have the right derivative.
VANISHING = ("jac", "grad", "lagrangian_grad", "optimality")


def minimize(
    f: Callable[..., Any],
    params: Any,
    *,
    args: tuple[Any, ...] = (),
    method: str = "L-BFGS-B",
    bounds: tuple[Any, Any] | None = None,
    progress: bool | Callable[[int, float, Any], Any] = False,
    **options: Any,
) -> Any:
    """Minimise a function of parameters by one of SciPy's methods; differentiable by the function's further arguments.

    Parameters
    ----------
    f : callable
        ``f(params, *args)`` returns one real number. It is differentiated as the method requires: gradient, products of
        the Hessian with vectors, or the Hessian.
    params : Tensor, array, number or container of them
        The starting point, which does not change. Real numbers, on any backend.
    args : tuple, optional
        Further arguments of the function: tensors, containers of them, or any other objects.
    method : str, optional
        Any method of ``scipy.optimize.minimize``.
    bounds : tuple, optional
        Lower and upper limits, for methods that support them: each a number for all, or a container like `params` whose parts
        may be numbers; ``-inf`` and ``inf`` for no limit.
    progress : bool or callable, optional
        True: print value and iteration to the terminal. A function: called after every iteration with the iteration's
        number, the value, and the parameters; it may raise StopIteration to end.
    **options
        Further arguments of SciPy's function: ``tol``, ``options``, ``constraints`` (functions of one vector, see
        `agrad.tree.ravel`).

    Returns
    -------
    scipy.optimize.OptimizeResult
        SciPy's, with ``x`` and similar entries as vectors, and ``params``: the parameters found, with the structure of the
        given ones. If `args` are being differentiated, ``params``, ``x`` and ``fun`` are tensors that depend on them, and
        entries without a derivative are missing.

    Raises
    ------
    BackendError
        If SciPy is not installed.
    ImplicitError
        If the function depends on a tensor that is being differentiated and is not among its arguments; if the parameters are
        to be differentiated but no minimum was found, or it has no derivative.
    TypeError
        If the parameters contain no real floating-point numbers, or an argument that agrad supplies is given: ``jac``,
        ``hess``, ``hessp``, ``callback``.
    UnsupportedOp
        With limits, if the parameters are to be differentiated.
    ValueError
        If `bounds` do not match the parameters, or SciPy does not know the method.

    Notes
    -----
    SciPy computes in float64 on the CPU; parameters of another precision, or on another device, are converted there and
    back in every evaluation. Value and gradient of lazy parameters are computed in one pass.

    The derivatives by `args` are those of `agrad.func.implicit`: of the minimum, not of the path to it. They are as exact as
    the minimum, and do not depend on the starting point.
    Source: Blondel et al., Efficient and modular implicit differentiation, 2021.

    Examples
    --------
    >>> import agrad as ag
    >>> def loss(p):
    ...     return (p["slope"] - 2.0) ** 2 + ag.sum((p["offsets"] - 1.0) ** 4)
    >>> found = ag.optim.minimize(loss, {"slope": 0.0, "offsets": ag.zeros(3)}, method="BFGS")
    >>> found.params["slope"].round(4), ag.round(found.params["offsets"])
    (np.float64(2.0), tensor([1., 1., 1.]))

    The minimiser, differentiated by an argument:

    >>> def best(a):
    ...     return ag.optim.minimize(lambda x, a: (x - a) ** 2 + a**2, 0.0, args=(a,)).params
    >>> ag.func.grad(best)(2.0)
    np.float64(1.0)
    """
    made_here = [name for name in ("jac", "hess", "hessp", "callback") if name in options]
    if made_here:
        raise TypeError(
            f"minimize() makes {', '.join(made_here)} itself; use progress= for what runs every iteration{called()}"
        )
    refuse_limits("agrad.optim.minimize", args, {"bounds": bounds, **options})
    if bounds is not None:
        options["bounds"] = list(zip(*(_vector_of(side, params) for side in bounds), strict=True))
    if not moves(args):
        return search(f, params, args, method, progress, **options)

    def solve(*args: Any) -> Any:
        found = search(f, params, args, method, progress, **options)
        found.x = found.params
        return found

    known = {"fun": f, "params": lambda x, *_: x}
    found = differentiable("minimize", solve, f, "minimum", args, known, VANISHING)
    found.x = tree.ravel(found.params)[0]
    return found


def refuse_limits(what: str, args: Any, options: Mapping[str, Any]) -> None:
    """Refuse to differentiate a minimum within limits, where the gradient may not vanish, or with another loss than the sum of squares."""
    limits = ["bounds"] if options.get("bounds") is not None else []
    limits += ["constraints"] if options.get("constraints", ()) not in ((), []) else []
    limits += ["loss"] if options.get("loss", "linear") != "linear" else []
    if limits and moves((args, [getattr(options[name], "__dict__", options[name]) for name in limits])):
        raise UnsupportedOp(
            f"{what} with {', '.join(limits)}, of what is differentiated,",
            "",
            f"drop {', '.join(limits)}, or write the conditions of the minimum as the residual of func.implicit{called()}",
        )


def search(
    f: Callable[..., Any],
    params: Any,
    args: tuple[Any, ...],
    method: str,
    progress: bool | Callable[[int, float, Any], Any] = False,
    **options: Any,
) -> Any:
    """Return SciPy's report, without derivatives; `minimize` describes the parameters, and the options are SciPy's."""
    solve = scipys("optimize", "agrad.optim.minimize").minimize
    problem = _VectorProblem(f, params, args)
    kind = method.lower()
    if kind not in VALUES:
        options["jac"] = True
    if kind in PRODUCTS:
        options["hessp"] = problem.product
    if kind in MATRICES:
        options["hess"] = problem.matrix
    if progress:
        options["callback"] = _Progress(problem, _written if progress is True else progress)
    found = solve(
        problem.value if kind in VALUES else problem.value_and_gradient, problem.start, method=method, **options
    )
    found["params"] = problem.given_back(found.x)
    if progress is True:
        sys.stderr.write("\n")
    return found


def differentiable(
    what: str,
    solve: Callable[..., Any],
    residual: Callable[..., Any],
    kind: Any,
    args: tuple[Any, ...],
    known: Mapping[str, Callable[..., Any]],
    vanishing: Sequence[str] = (),
) -> Any:
    """Return the report of a SciPy solver, with those entries that can be differentiated by the arguments.

    Parameters
    ----------
    what : str
        The solver, for messages.
    solve : callable
        ``solve(*args)`` returns SciPy's report, with ``x``.
    residual, kind
        As for `implicit`.
    args : tuple
        The arguments.
    known : mapping of callables
        Functions ``(x, *args)`` that compute other entries of the report.
    vanishing : sequence of str
        Entries that are 0 whatever the arguments.
    """
    reports: list[Any] = []

    def solved(*args: Any) -> Any:
        reports.append(solve(*args))
        return reports[0].x

    try:
        x = implicit(solved, residual, kind=kind)(*args)
    except ImplicitError as error:
        if not reports or reports[0].success:
            raise
        raise ImplicitError(f"{error}\n  SciPy says of {what}: {reports[0].message}") from None
    made = {"x": x, **{name: of(x, *args) for name, of in known.items()}}
    kept = {name: value for name, value in reports[0].items() if name in vanishing or _is_discrete(value)}
    theirs: Any = type(reports[0])
    ours = _differentiable(theirs, what, tuple(reports[0]), tuple(made))
    report = ours.__new__(ours)
    report.update(kept | made)
    return report


def _is_discrete(value: Any) -> bool:
    """Return whether a report's value has no derivative because it is a count, a flag or a string."""
    return isinstance(value, int | str) or getattr(getattr(value, "dtype", None), "kind", "f") in "iub"


@functools.cache
def _differentiable(kind: Any, what: str, reported: tuple[str, ...], made: tuple[str, ...]) -> Any:
    """Return SciPy's report class, with a message that says why an entry was left out."""

    def missing(_: Any, name: str) -> NoReturn:
        if name not in reported:
            raise KeyError(name)
        raise AttributeError(
            f"{what}: {name!r} is a number of the search that has no derivative, and is left out where the result is"
            f" differentiated. Differentiable are {', '.join(made)}: make it of these by agrad's functions, or search with"
            f" detached arguments.{called()}"
        )

    return type(kind.__name__, (kind,), {"__missing__": missing})


class _VectorProblem:
    """A function of a container in the form that SciPy needs: of a vector in host memory, returning host values.

    Attributes
    ----------
    start : array
        The vector of the initial parameters.
    last : tuple of bytes and float
        The vector and the value of the last evaluation.
    """

    def __init__(self, f: Callable[..., Any], params: Any, args: tuple[Any, ...]) -> None:
        self.params, self.args, self.f = params, args, f
        vector, self.back = tree.ravel(params)
        if not vector._spec.is_float or not vector.shape[0]:
            raise TypeError(
                f"minimize() takes real floating-point parameters, got {vector.shape[0]} numbers of {vector.dtype}{called()}"
            )
        self.device = vector.device
        self.start = self._host(vector.detach())
        self.adaptive = AdaptiveFunction(self.of_vector)
        self.both: Callable[..., Any] = AdaptiveFunction(value_and_grad(self.of_vector))
        self.bent = AdaptiveFunction(hessian(self.of_vector))
        self.bent_along = AdaptiveFunction(lambda x, v: hvp(self.of_vector, (x,), (v,)))
        self.last: tuple[bytes, float] = (b"", 0.0)

    def of_vector(self, vector: Tensor) -> Any:
        return self.f(self.back(vector), *self.args)

    def _tensor(self, x: Any) -> Tensor:
        return asarray(x, device=self.device, copy=True)  # SciPy writes to its vectors

    @staticmethod
    def _host(t: Tensor) -> Any:
        return to_numpy(t).astype("float64")

    def _noted(self, x: Any, value: Any) -> float:
        if isinstance(value, Tensor):
            if value._is_followed():
                refuse_open("minimize: the function", self.f, OPEN)
            value = value.detach()
        self.last = x.tobytes(), float(value)
        return self.last[1]

    def value(self, x: Any) -> float:
        """Return the value at a vector."""
        return self._noted(x, self.adaptive(self._tensor(x)))

    def value_and_gradient(self, x: Any) -> tuple[float, Any]:
        """Return value and gradient, computed in one pass."""
        value, gradient = compute(*self.both(self._tensor(x)))
        return self._noted(x, value), self._host(gradient.detach())

    def product(self, x: Any, v: Any) -> Any:
        """Return the product of the Hessian at a vector and another one."""
        return self._host(self.bent_along(self._tensor(x), self._tensor(v)).detach())

    def matrix(self, x: Any) -> Any:
        """Return the Hessian at a vector."""
        return self._host(self.bent(self._tensor(x)).detach())

    def given_back(self, x: Any) -> Any:
        """Return the parameters for a vector, with the structure of the initial ones."""
        found = self.back(self._tensor(x))
        return tree.map(lambda given, t: t if isinstance(given, Tensor) else bare(t), self.params, found)


def _vector_of(side: Any, params: Any) -> list[float]:
    """Return limits, a number for all or a container of them, as a vector."""
    leaves, structure = tree.flatten(params)
    sides = list(structure._flatten_up_to(side, "")) if not isinstance(side, int | float) else [side] * len(leaves)
    numbers: list[float] = []
    for part, leaf in zip(sides, leaves, strict=True):
        limits = asarray(part)
        numbers += map(float, to_numpy(broadcast_to(limits, asarray(leaf).shape)).astype("float64").ravel())
    return numbers


class _Progress:
    """The callback that SciPy calls after every iteration."""

    def __init__(self, problem: _VectorProblem, traced: Callable[[int, float, Any], Any]) -> None:
        self.problem, self.told, self.count = problem, traced, 0

    def __call__(self, x: Any, *state: Any) -> None:
        self.count += 1
        seen, value = self.problem.last
        if seen != x.tobytes():
            value = self.problem.value(x)
        self.told(self.count, value, self.problem.given_back(x))


def _written(iteration: int, value: float, _: Any) -> None:
    sys.stderr.write(f"\r{iteration:6d}  {value:.10g}".ljust(40))
    sys.stderr.flush()
