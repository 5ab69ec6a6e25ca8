"""SciPy's minimisers for functions of containers of parameters, with derivatives from agrad."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

from agrad import tree
from agrad.core.errors import BackendError, called
from agrad.core.tensor import Tensor
from agrad.func.arguments import bare
from agrad.func.grad import hvp, value_and_grad
from agrad.func.jacobian import hessian
from agrad.lazy import compute
from agrad.ops.creation import asarray
from agrad.ops.manipulation import broadcast_to
from agrad.ops.ufunc import to_numpy
from agrad.plugin import manager

__all__ = ["minimize"]

#: What SciPy's methods ask for: nothing but values, products with the Hessian, the Hessian. All others take the gradient.
VALUES = ("nelder-mead", "powell", "cobyla", "cobyqa")
PRODUCTS = ("newton-cg", "trust-ncg", "trust-krylov", "trust-constr")
MATRICES = ("dogleg", "trust-exact")


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
    """Find parameters where a function is least, by one of SciPy's methods.

    Parameters
    ----------
    f : callable
        ``f(params, *args)`` gives one real number. It is differentiated as often as the method wants: gradient, products of
        the Hessian with vectors, or the Hessian.
    params : Tensor, array, number or container of them
        Where to start; it does not change. Real numbers, on any backend.
    args : tuple, optional
        What else the function takes.
    method : str, optional
        Any of ``scipy.optimize.minimize``.
    bounds : tuple, optional
        Lower and upper limits, for methods that take such: each a number for all, or a container like `params` whose parts
        may be numbers; ``-inf`` and ``inf`` where there is none.
    progress : bool or callable, optional
        True: write value and iteration to the terminal. A function: call it after every iteration with the iteration's
        number, the value, and the parameters; it may raise StopIteration to end.
    **options
        Others of SciPy's function: ``tol``, ``options``, ``constraints`` (functions of one vector, see `agrad.tree.ravel`).

    Returns
    -------
    scipy.optimize.OptimizeResult
        SciPy's, with ``x`` and its kin as vectors, and ``params``: the parameters found, in the form of those given.

    Raises
    ------
    BackendError
        If SciPy is not installed.
    TypeError
        If there are no real floating-point numbers among the parameters, or it is given what is made here: ``jac``, ``hess``,
        ``hessp``, ``callback``.
    ValueError
        If `bounds` do not fit the parameters, or SciPy does not know the method.

    Notes
    -----
    SciPy computes in float64 on the CPU; parameters in another precision, or on another device, are converted there and
    back in every evaluation. Value and gradient of lazy parameters are computed in one pass.

    Examples
    --------
    >>> import agrad as ag
    >>> def loss(p):
    ...     return (p["slope"] - 2.0) ** 2 + ag.sum((p["offsets"] - 1.0) ** 4)
    >>> found = ag.optim.minimize(loss, {"slope": 0.0, "offsets": ag.zeros(3)}, method="BFGS")
    >>> found.params["slope"].round(4), ag.round(found.params["offsets"])
    (np.float64(2.0), tensor([1., 1., 1.]))
    """
    made_here = [name for name in ("jac", "hess", "hessp", "callback") if name in options]
    if made_here:
        raise TypeError(
            f"minimize() makes {', '.join(made_here)} itself; use progress= for what runs every iteration{called()}"
        )
    solve = manager.get("numpy").kernel("optim.minimize")
    if solve is None:
        raise BackendError(f"agrad.optim.minimize runs SciPy's, which is not installed: pip install scipy{called()}")
    problem = _Problem(f, params, args)
    kind = method.lower()
    if kind not in VALUES:
        options["jac"] = True
    if kind in PRODUCTS:
        options["hessp"] = problem.product
    if kind in MATRICES:
        options["hess"] = problem.matrix
    if bounds is not None:
        low, high = (problem.vector_of(side) for side in bounds)
        options["bounds"] = list(zip(low, high, strict=True))
    if progress:
        options["callback"] = _Progress(problem, _written if progress is True else progress)
    found = solve(
        problem.value if kind in VALUES else problem.value_and_gradient, problem.start, method=method, **options
    )
    found["params"] = problem.given_back(found.x)
    if progress is True:
        sys.stderr.write("\n")
    return found


class _Problem:
    """A function of a container, as SciPy wants it: of a vector in the host's memory, and giving such.

    Attributes
    ----------
    start : array
        The vector of the parameters that were given.
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
        self.both: Callable[..., Any] = value_and_grad(self.of_vector)
        self.bent = hessian(self.of_vector)
        self.last: tuple[bytes, float] = (b"", 0.0)

    def of_vector(self, vector: Tensor) -> Any:
        return self.f(self.back(vector), *self.args)

    def _tensor(self, x: Any) -> Tensor:
        return asarray(x, device=self.device, copy=True)  # SciPy writes to its vectors

    @staticmethod
    def _host(t: Tensor) -> Any:
        return to_numpy(t).astype("float64")

    def _noted(self, x: Any, value: Any) -> float:
        self.last = x.tobytes(), float(value)
        return self.last[1]

    def value(self, x: Any) -> float:
        """Return the value at a vector."""
        found = self.of_vector(self._tensor(x))
        return self._noted(x, found.detach() if isinstance(found, Tensor) else found)

    def value_and_gradient(self, x: Any) -> tuple[float, Any]:
        """Return value and gradient, computed in one pass."""
        value, gradient = compute(*self.both(self._tensor(x)))
        return self._noted(x, value.detach()), self._host(gradient.detach())

    def product(self, x: Any, v: Any) -> Any:
        """Return the product of the Hessian at a vector and another one."""
        return self._host(hvp(self.of_vector, (self._tensor(x),), (self._tensor(v),)).detach())

    def matrix(self, x: Any) -> Any:
        """Return the Hessian at a vector."""
        return self._host(self.bent(self._tensor(x)).detach())

    def vector_of(self, side: Any) -> Sequence[float]:
        """Return limits, a number for all or a container of them, as a vector."""
        leaves, structure = tree.flatten(self.params)
        sides = list(structure._flatten_up_to(side, "")) if not isinstance(side, int | float) else [side] * len(leaves)
        numbers: list[float] = []
        for part, leaf in zip(sides, leaves, strict=True):
            limits = asarray(part)
            numbers += map(float, self._host(broadcast_to(limits, asarray(leaf).shape)).ravel())
        return numbers

    def given_back(self, x: Any) -> Any:
        """Return the parameters of a vector in the form of those that were given."""
        found = self.back(self._tensor(x))
        return tree.map(lambda given, t: t if isinstance(given, Tensor) else bare(t), self.params, found)


class _Progress:
    """What SciPy calls after every iteration."""

    def __init__(self, problem: _Problem, told: Callable[[int, float, Any], Any]) -> None:
        self.problem, self.told, self.count = problem, told, 0

    def __call__(self, x: Any, *state: Any) -> None:
        self.count += 1
        seen, value = self.problem.last
        if seen != x.tobytes():
            value = self.problem.value(x)
        self.told(self.count, value, self.problem.given_back(x))


def _written(iteration: int, value: float, _: Any) -> None:
    sys.stderr.write(f"\r{iteration:6d}  {value:.10g}".ljust(40))
    sys.stderr.flush()
