"""``cfunc``: compile functions of arrays, and their gradients, to C functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from agrad import tree
from agrad.core.spec import Spec
from agrad.func.grad import value_and_grad
from agrad.program.arguments import name_of
from agrad.program.blank_recording import ShapeDtype
from agrad.program.c_functions import CFunction
from agrad.program.capture import capture


def cfunc(
    function: Callable[..., Any], *specs: Any, gradient: bool = False, executor: Any = "native", **options: Any
) -> CFunction:
    """Compile a function of arrays to a C function: ``double f(int n, const double *x)``, or with a last argument ``double *grad``.

    The C function needs neither Python nor its lock: integrators, samplers and optimizers that take C pointers can call
    it. `docs/native.md` says which functions can be compiled.

    Parameters
    ----------
    function : callable
        Returns one number, computed by agrad's functions.
    *specs
        The arguments, or containers: a `ShapeDtype` for each array that `x` holds; arrays and other values become
        constants of the function.
    gradient : bool, optional
        Whether the function also writes its derivatives with respect to all of `x` to `grad`.
    executor : str or Executor, optional
        The compiler. Default: ``agrad-numpy[native]``.
    **options
        Options of the executor: with ``exact=True`` the results have the same bits as the operations run one by one.

    Returns
    -------
    CFunction
        With `address`, `header`, and the function for `ctypes` and as a ``scipy.LowLevelCallable``.

    Raises
    ------
    CFunctionError
        If a step of the program cannot be compiled; the text names it, with its line.
    CaptureError
        As for `capture`.

    Examples
    --------
    >>> import agrad as ag
    >>> def energy(x, weights):
    ...     return ag.sum(weights * x**2)
    >>> spec = ag.func.ShapeDtype((2,), "float64")
    >>> f = ag.func.cfunc(energy, spec, ag.tensor([1.0, 3.0]), gradient=True)  # doctest: +SKIP
    >>> f.size, f.gives  # doctest: +SKIP
    (2, 2)
    """
    leaves, treedef = tree.flatten(specs)
    places = [at for at, leaf in enumerate(leaves) if isinstance(leaf, ShapeDtype | Spec)]

    def of(*given: Any) -> Any:
        filled = list(leaves)
        for at, value in zip(places, given, strict=True):
            filled[at] = value
        return function(*tree.unflatten(treedef, filled))

    whole = value_and_grad(of, argnums=tuple(range(len(places)))) if gradient else of
    program = capture(whole)(*(leaves[at] for at in places))
    found: CFunction = program.cfunc(name=name_of(function), executor=executor, **options)
    return found
