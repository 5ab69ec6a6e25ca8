"""HIPS autograd's operators on functions, over products with Jacobians.

Most take ``argnum``: the argument to differentiate with respect to, or a tuple or list of several. They are written for
one argument and extended to all by `unary_to_nary`.
"""

from __future__ import annotations

import functools
import inspect
import math
import pickle
from collections.abc import Callable
from typing import Any

from agrad import tree
from agrad.compat.autograd import core
from agrad.compat.autograd.boxes import Box, Objects
from agrad.compat.autograd.convention import turned
from agrad.compat.autograd.core import run, vspace, with_constants
from agrad.compat.autograd.wrap_util import unary_to_nary
from agrad.core.errors import called
from agrad.core.tree import LEAF
from agrad.func.grad import linearize, ones_of
from agrad.func.jacobian import rows_of
from agrad.ops.creation import asarray
from agrad.ops.elementwise import real
from agrad.ops.linalg import tensordot
from agrad.ops.manipulation import reshape
from agrad.ops.statistical import sum as sum_of
from agrad.plugin import manager
from agrad.program.arguments import ONE, is_raw
from agrad.utils import checkpoint as checkpoints

__all__ = [
    "checkpoint",
    "deriv",
    "elementwise_grad",
    "grad",
    "grad_and_aux",
    "grad_named",
    "hessian",
    "hessian_tensor_product",
    "hessian_vector_product",
    "holomorphic_grad",
    "jacobian",
    "make_ggnvp",
    "make_hvp",
    "make_jvp",
    "make_jvp_reversemode",
    "make_vjp",
    "multigrad_dict",
    "tensor_jacobian_product",
    "value_and_grad",
    "vector_jacobian_product",
]

make_vjp: Callable[..., Any] = unary_to_nary(core.make_vjp)
make_jvp: Callable[..., Any] = unary_to_nary(core.make_jvp)


def _of_scalar(fun: Callable[..., Any], x: Any, what: str, *, has_aux: bool = False) -> tuple[Any, Any]:
    """Return the run of a function that returns one real number, in any shape, and its gradient."""
    if type(x) in Box.type_mappings:
        return _of_object(fun, x, what, has_aux=has_aux)
    tape = run(fun, x, f"{what}(f)(x)", has_aux=has_aux)
    output = tape.outputs[0] if tape.result_structure is LEAF else None
    if output is not None and not output._spec.inexact:
        vspace(output)  # which raises that it has no derivative
    if output is None or not output._spec.is_float or math.prod(output._spec.shape) != 1:
        raise TypeError(
            f"{what} only applies to real scalar-output functions. Try jacobian, elementwise_grad or"
            f" holomorphic_grad.{called()}"
        )
    found = tape.back([ones_of(output) if output._spec.shape else None], keep=False, gives=tape.gives)
    gradient = found[0] if tape.structure is ONE else tree.unflatten(tape.structure, found)[0]
    return tape, turned(gradient) if any(t._spec.is_complex for t in tape.inputs) else gradient


def _of_object(fun: Callable[..., Any], x: Any, what: str, *, has_aux: bool) -> tuple[Objects, Any]:
    """Return the run of a function of an object, and its gradient."""
    if has_aux:
        raise NotImplementedError(f"{what} takes no object of class {type(x).__name__}: use value_and_grad{called()}")
    objects = Objects(fun, x)
    value = asarray(objects.value)
    if not value._spec.is_float or math.prod(value._spec.shape) != 1:
        raise TypeError(f"{what} only applies to real scalar-output functions.{called()}")
    return objects, objects.back(ones_of(value))


@unary_to_nary
def grad(fun: Callable[..., Any], x: Any) -> Any:
    """Return the function that computes the gradient of a function with a scalar result.

    The result may have any shape that holds one real number. The gradients with respect to several arguments are a
    tuple.

    >>> grad(lambda x, y: x * y**2, argnum=1)(2.0, 3.0)
    np.float64(12.0)
    """
    return _of_scalar(fun, x, "grad")[1]


@unary_to_nary
def value_and_grad(fun: Callable[..., Any], x: Any) -> Any:
    """Return the function that computes value and gradient together.

    >>> value_and_grad(lambda x: x**2)(3.0)
    (np.float64(9.0), np.float64(6.0))
    """
    tape, gradient = _of_scalar(fun, x, "value_and_grad")
    return tape.result(raw=is_raw(x) or isinstance(tape, Objects)), gradient


@unary_to_nary
def elementwise_grad(fun: Callable[..., Any], x: Any) -> Any:
    """Return the function that computes the sums of the Jacobian's columns: for an elementwise function, its diagonal.

    >>> import numpy as np
    >>> elementwise_grad(np.square)(np.array([1.0, 2.0]))
    array([2., 4.])
    """
    vjp, ans = core.make_vjp(fun, x)
    space = vspace(ans)
    if space.iscomplex:
        raise TypeError(f"Elementwise_grad only applies to real-output functions.{called()}")
    return vjp(space.ones())


@unary_to_nary
def deriv(fun: Callable[..., Any], x: Any) -> Any:
    """Return the function that computes the derivative along ones, in forward mode.

    >>> deriv(lambda x: x**3)(2.0)
    np.float64(12.0)
    """
    return core.make_jvp(fun, x)(vspace(x).ones())[1]


@unary_to_nary
def jacobian(fun: Callable[..., Any], x: Any) -> Any:
    """Return the function that computes the Jacobian, all rows in one pass.

    Its shape is ``result.shape + argument.shape``. Raises TypeError when called, if argument or result are
    containers, or the result is complex.

    >>> import numpy as np
    >>> jacobian(np.square)(np.array([1.0, 2.0]))
    array([[2., 0.],
           [0., 4.]])
    """
    tape = run(fun, x, "jacobian(f)(x)")
    if len(tape.inputs) != 1 or len(tape.outputs) != 1 or tape.outputs[0]._spec.is_complex:
        raise TypeError(f"jacobian applies to functions from an array to an array of real numbers{called()}")
    (rows,) = rows_of(tape)
    found = turned(reshape(rows, (*tape.outputs[0].shape, *tape.inputs[0].shape)))
    return tape.gives[0](found, True) if tape.gives else found


@unary_to_nary
def holomorphic_grad(fun: Callable[..., Any], x: Any) -> Any:
    """Return the function that computes the complex derivative of a holomorphic function of a number.

    It follows the convention of `complex_convention`. A real argument is warned of.

    >>> holomorphic_grad(lambda z: z**2)(1 + 2j)
    np.complex128(2+4j)
    """
    if not vspace(x).iscomplex:
        core.warn("Input to holomorphic_grad is not complex")
    return grad(lambda x: real(asarray(fun(x))))(x)


def grad_named(fun: Callable[..., Any], argname: str) -> Callable[..., Any]:
    """Return the function that computes the gradient with respect to a named argument, `argname`, which may be passed by position.

    >>> grad_named(lambda x, rate: x * rate**2, "rate")(2.0, 3.0)
    np.float64(12.0)
    """
    return grad(fun, inspect.getfullargspec(fun).args.index(argname))  # type: ignore[no-any-return]


@unary_to_nary
def hessian(fun: Callable[..., Any], x: Any) -> Any:
    """Return the function that computes the matrix of second derivatives.

    Its shape is ``result.shape + argument.shape + argument.shape``.

    >>> hessian(lambda x: x**3)(2.0)
    np.float64(12.0)
    """
    return jacobian(jacobian(fun))(x)


@unary_to_nary
def make_hvp(fun: Callable[..., Any], x: Any) -> Any:
    """Return the function that returns, at a point, the function that computes Hessian-vector products, and the gradient.

    >>> product, gradient = make_hvp(lambda x: x**3)(2.0)
    >>> product(10.0), gradient
    (np.float64(120.0), np.float64(12.0))
    """
    return core.make_vjp(grad(fun), x)


def hessian_tensor_product(fun: Callable[..., Any], argnum: int = 0) -> Callable[..., Any]:
    """Return the function that computes the product of the Hessian and its last argument, a vector or a tensor.

    >>> hessian_vector_product(lambda x: x**3)(2.0, 10.0)
    np.float64(120.0)
    """
    gradient = grad(fun, argnum)

    def along(*args: Any, **kwargs: Any) -> Any:
        vector = asarray(args[-1])
        return tensordot(asarray(gradient(*args[:-1], **kwargs)), vector, axes=vector.ndim)

    return grad(along, argnum)  # type: ignore[no-any-return]


hessian_vector_product = hessian_tensor_product


def tensor_jacobian_product(fun: Callable[..., Any], argnum: int = 0) -> Callable[..., Any]:
    """Return the function that computes the product of its last argument, a vector or a tensor, and the Jacobian.

    >>> import numpy as np
    >>> vector_jacobian_product(np.square)(np.array([1.0, 2.0]), np.array([10.0, 1.0]))
    array([20.,  4.])
    """

    def along(*args: Any, **kwargs: Any) -> Any:
        vector = asarray(args[-1])
        return tensordot(vector, asarray(fun(*args[:-1], **kwargs)), axes=vector.ndim)

    return jacobian(along, argnum)  # type: ignore[no-any-return]


vector_jacobian_product = tensor_jacobian_product


@unary_to_nary
def make_jvp_reversemode(fun: Callable[..., Any], x: Any) -> Any:
    """Return the function that returns, at a point, the function that computes Jacobian-vector products using reverse mode only.

    >>> make_jvp_reversemode(lambda x: x**3)(2.0)(10.0)
    np.float64(120.0)
    """
    return linearize(lambda x: with_constants(fun(x)), x)[1]


def _half_square(x: Any) -> Any:
    x = asarray(x)
    return sum_of(x * x, axis=-1) / 2


def make_ggnvp(f: Callable[..., Any], g: Callable[..., Any] = _half_square, f_argnum: int = 0) -> Callable[..., Any]:
    """Return the function that returns, at a point, the function that computes generalised Gauss-Newton products: of ``J.T @ H @ J`` and a vector.

    J is the Jacobian of `f` with respect to the argument `f_argnum`, H the Hessian of `g`; by default, `g` is half the
    sum of squares.

    >>> import numpy as np
    >>> make_ggnvp(np.square)(np.array([1.0, 2.0]))(np.ones(2))
    array([ 4., 16.])
    """

    @unary_to_nary
    def made(f: Callable[..., Any], x: Any) -> Any:
        pull, value = core.make_vjp(f, x)
        bend, _ = core.make_vjp(grad(g), value)
        push = make_jvp_reversemode(f)(x)
        return lambda v: pull(bend(push(v)))

    return made(f, f_argnum)  # type: ignore[no-any-return]


@unary_to_nary
def grad_and_aux(fun: Callable[..., Any], x: Any) -> Any:
    """Return the function that computes the gradient of the first of two results, and returns the second unchanged.

    >>> grad_and_aux(lambda x: (x**2, x + 1))(3.0)
    (np.float64(6.0), np.float64(4.0))
    """
    tape, gradient = _of_scalar(fun, x, "grad_and_aux", has_aux=True)
    return gradient, tape.auxiliary(raw=is_raw(x))


def multigrad_dict(fun: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function that computes the gradients by all arguments, by their names.

    Those that were left out have gradients, too.

    >>> multigrad_dict(lambda x, scale=3.0: scale * x**2)(2.0)
    {'x': np.float64(12.0), 'scale': np.float64(4.0)}
    """
    signature = inspect.signature(fun)

    def gradients(*args: Any, **kwargs: Any) -> dict[str, Any]:
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()

        def of_named(values: dict[str, Any]) -> Any:
            again = inspect.BoundArguments(signature, values)  # in the order of the signature
            return fun(*again.args, **again.kwargs)

        found: dict[str, Any] = grad(of_named)(dict(bound.arguments))
        return found

    return gradients


def checkpoint(fun: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that is computed again in the backward pass, instead of saving values for it.

    When called, it raises RuntimeError if it draws from NumPy's global generator, whose numbers would differ when it is
    run
    again: draw them outside, and pass them.

    >>> import agrad as ag
    >>> grad(checkpoint(lambda x: ag.exp(ag.sin(x))))(0.0)
    np.float64(1.0)
    """

    @functools.wraps(fun)
    def checkpointed(*args: Any, **kwargs: Any) -> Any:
        random = manager.usable("numpy").namespace().random
        before = pickle.dumps(random.get_state(legacy=False))
        found = checkpoints.checkpoint(fun, *args, **kwargs)
        if pickle.dumps(random.get_state(legacy=False)) != before:
            raise RuntimeError(
                "checkpoint: the function draws from numpy.random, and would draw other numbers when it is run again."
                f"\n  Draw them outside, and pass them to it.{called()}"
            )
        return found

    return checkpointed
