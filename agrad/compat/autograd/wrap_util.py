"""Turn operators on functions of one argument into operators on functions of several."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from agrad.compat.autograd.primitives import name_of as get_name
from agrad.core.errors import called
from agrad.core.tensor import Tensor
from agrad.ops.creation import asarray
from agrad.ops.data_type import astype
from agrad.program.arguments import bare

__all__ = ["get_name", "unary_to_nary"]


def _floating(x: Any) -> Any:
    """Return integers and booleans in double precision: in HIPS autograd derivatives are taken at these, too."""
    if getattr(getattr(x, "dtype", None), "kind", "") not in ("b", "i", "u"):
        return x
    made = astype(asarray(x), "float64")
    return made if isinstance(x, Tensor) else bare(made)


def unary_to_nary(unary_operator: Callable[..., Any]) -> Callable[..., Any]:
    """Turn an operator on functions of one argument into one on functions of several.

    The operator takes ``argnum``: the argument to differentiate with respect to, or a tuple or list of several;
    otherwise it raises TypeError.

    >>> import agrad as ag
    >>> slope = unary_to_nary(lambda fun, x: fun(x + 1) - fun(x))
    >>> slope(lambda a, b: a * b, 1)(3.0, 5.0)
    3.0
    """

    @functools.wraps(unary_operator)
    def operator(fun: Callable[..., Any], argnum: Any = 0, *operator_args: Any, **operator_kwargs: Any) -> Any:
        several = type(argnum) in (tuple, list)
        if not several and type(argnum) is not int:
            raise TypeError(f"argnum must be an int, or a tuple or list of them, got {type(argnum)}{called()}")

        def of_all(*args: Any, **kwargs: Any) -> Any:
            def of_chosen(x: Any) -> Any:
                every = list(args)
                for place, value in zip(argnum, x, strict=True) if several else ((argnum, x),):
                    every[place] = value
                return fun(*every, **kwargs)

            of_chosen.__name__ = name
            chosen = tuple(_floating(args[place]) for place in argnum) if several else _floating(args[argnum])
            return unary_operator(of_chosen, chosen, *operator_args, **operator_kwargs)

        name, what = get_name(fun), get_name(operator)
        of_all.__name__ = f"{what}_of_{name}_wrt_argnum_{argnum}"
        of_all.__doc__ = (
            f"    {what} of function {name} with respect to argument number {argnum}. Takes the same arguments as\n"
            f"    {name} but returns the {what}.\n"
        )
        return of_all

    return operator
