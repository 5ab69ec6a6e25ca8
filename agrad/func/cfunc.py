"""``cfunc``: functions of arrays, and their gradients, as functions of C."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from agrad import tree
from agrad.core.spec import Spec
from agrad.func.grad import value_and_grad
from agrad.program.arguments import name_of
from agrad.program.blanks import ShapeDtype
from agrad.program.capture import capture
from agrad.program.in_c import CFunction


def cfunc(
    function: Callable[..., Any], *specs: Any, gradient: bool = False, executor: Any = "native", **options: Any
) -> CFunction:
    """Return a function of arrays as a function of C: ``double f(int n, const double *x)``, or with ``double *grad`` behind.

    It needs no Python where it is called, nor Python's lock: for integrators, samplers and optimizers that take pointers of C.
    `docs/native.md` says what it can do.

    Parameters
    ----------
    function : callable
        Gives one number, made of agrad's functions.
    *specs
        Its arguments, or containers: a `ShapeDtype` for each array that `x` holds, and arrays or other values that are a part of
        the function, as data.
    gradient : bool, optional
        Whether the function also gives its derivatives by all of `x`, to `grad`.
    executor : str or Executor, optional
        What compiles it. Default: ``agrad-numpy[native]``.
    **options
        The executor's: with ``exact=True`` results are the bits of the operations one by one.

    Returns
    -------
    CFunction
        With `address`, `header`, and the function for `ctypes` and as a ``scipy.LowLevelCallable``.

    Raises
    ------
    CFunctionError
        If a step of the program is no machine code; the text says which, with its line.
    CaptureError
        As of `capture`.

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
