"""The transforms under their names in `agrad`; `agrad.grad` takes a function or tensors."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Concatenate, Literal, overload

from agrad.autograd.backward import grad as of_tensors
from agrad.autograd.gradcheck import gradcheck
from agrad.autograd.graph import GradientEdge
from agrad.compiled.compiling import compile
from agrad.core.backend import backend_of
from agrad.core.errors import called
from agrad.core.tensor import Tensor
from agrad.func.grad import T, deriv, elementwise_grad, jvp, value_and_grad, vjp
from agrad.func.grad import grad as of_function
from agrad.func.jacobian import hessian, jacfwd, jacobian, jacrev
from agrad.func.vmap import vmap
from agrad.program.arguments import Argnums

__all__ = [
    "compile",
    "deriv",
    "elementwise_grad",
    "grad",
    "gradcheck",
    "hessian",
    "jacfwd",
    "jacobian",
    "jacrev",
    "jvp",
    "value_and_grad",
    "vjp",
    "vmap",
]


@overload
def grad(
    func: Callable[Concatenate[T, ...], Any],
    argnums: Literal[0] = 0,
    has_aux: Literal[False] = False,
    *,
    holomorphic: bool = False,
) -> Callable[..., T]: ...


@overload
def grad(
    func: Callable[..., Any], argnums: Argnums = 0, has_aux: bool = False, *, holomorphic: bool = False
) -> Callable[..., Any]: ...


@overload
def grad(
    outputs: Tensor | GradientEdge | Iterable[Any] | Mapping[Any, Any],
    inputs: Any,
    grad_outputs: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    only_inputs: bool = True,
    allow_unused: bool | None = None,
    is_grads_batched: bool = False,
    materialize_grads: bool = False,
) -> Any: ...


def grad(*args: Any, **kwargs: Any) -> Any:
    """Return the gradient function of a function, or the gradients of tensors.

    Parameters
    ----------
    *args, **kwargs
        For a function, or any other callable: those of `agrad.func.grad`, ``grad(func, argnums=0)``. For
        tensors: those of `agrad.autograd.grad`, ``grad(outputs, inputs)``.

    Returns
    -------
    callable, tuple, dict or other container
        For a function, the function that computes its gradient. For tensors, a Tensor (or None) per input.

    Raises
    ------
    TypeError
        If the first argument is neither a function nor tensors, or a function is mixed with tensors.
    RuntimeError
        As `agrad.func.grad` and `agrad.autograd.grad`.

    Examples
    --------
    >>> import agrad as ag
    >>> ag.grad(lambda x: x**3)(ag.tensor(2.0))
    tensor(12.)
    >>> x = ag.tensor(2.0, requires_grad=True)
    >>> ag.grad(x**3, x)
    (tensor(12.),)
    """
    if "outputs" in kwargs:
        return of_tensors(*args, **kwargs)
    if not args and "func" not in kwargs:
        raise TypeError(f"grad() lacks its first argument, a function or tensors{called()}")
    first = args[0] if args else kwargs["func"]
    if isinstance(first, Tensor | GradientEdge):
        return of_tensors(*args, **kwargs)
    if callable(first):
        beside = [*args[1:2], *(kwargs[name] for name in ("argnums", "inputs") if name in kwargs)]
        if "inputs" in kwargs or any(isinstance(value, Tensor) for value in beside):
            name = getattr(first, "__name__", type(first).__name__)
            raise TypeError(
                f"grad() got the function {name} together with tensors. For a function it takes argnums, and returns a function:"
                f" agrad.grad({name})(x). For tensors it takes the function's result: agrad.grad({name}(x), x).{called()}"
            )
        return of_function(*args, **kwargs)
    is_container = isinstance(first, Iterable) or hasattr(type(first), "__dataclass_fields__")
    if is_container and backend_of(first) is None:
        return of_tensors(*args, **kwargs)
    raise TypeError(
        "grad() takes a function, and returns its gradient function; or tensors with a history, and returns their gradients;"
        f" got {type(first).__name__}{called()}"
    )
