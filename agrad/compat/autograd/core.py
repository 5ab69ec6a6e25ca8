"""Products with Jacobians and vector spaces of values: the basis of HIPS autograd's operators, on top of agrad's own.

Values are numbers, arrays, tensors, or containers of them. Raw in, raw out, as everywhere in agrad: arrays give arrays,
or tensors if an outer transform runs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any, ClassVar

from agrad import func, random, tree
from agrad.compat.autograd.boxes import SPACES, Box, Objects, unboxed
from agrad.compat.autograd.convention import turned
from agrad.compat.autograd.primitives import (
    def_linear,
    defjvp,
    defjvp_argnum,
    defjvp_argnums,
    defvjp,
    defvjp_argnum,
    defvjp_argnums,
    primitive,
    primitive_jvps,
    primitive_vjps,
)
from agrad.core.backend import backend_of
from agrad.core.cpython import getframe
from agrad.core.errors import called, user_frame, warn_at
from agrad.core.tensor import Tensor
from agrad.func.grad import Tape
from agrad.ops.creation import asarray
from agrad.ops.elementwise import conj, real
from agrad.ops.linalg import vecdot
from agrad.ops.manipulation import reshape
from agrad.program.arguments import NUMBERS, argument_of, bare_all, is_raw, tensors_of

__all__ = [
    "VSpace",
    "def_linear",
    "defjvp",
    "defjvp_argnum",
    "defjvp_argnums",
    "defvjp",
    "defvjp_argnum",
    "defvjp_argnums",
    "make_jvp",
    "make_vjp",
    "primitive",
    "primitive_jvps",
    "primitive_vjps",
    "vspace",
]

# -- products with Jacobians --------------------------------------------------------------------------------------------


def make_vjp(fun: Callable[..., Any], x: Any) -> tuple[Callable[..., Any], Any]:
    """Run a function of one argument; return its vector-Jacobian product there, and its value.

    Complex cotangents follow `agrad.compat.autograd.complex_convention`. A value that does not depend on `x` is warned of.

    >>> import agrad as ag
    >>> vjp, value = make_vjp(ag.sin, 0.0)
    >>> vjp(2.0), value
    (np.float64(2.0), np.float64(0.0))
    """
    if type(x) in Box.type_mappings:
        objects = Objects(fun, x)
        return lambda g: turned(objects.back(turned(g))), objects.result(raw=True)
    raw = is_raw(x)
    tape = run(fun, x, "make_vjp(f)(x)")

    def vjp(g: Any) -> Any:
        given, structure = tensors_of(turned(g), "make_vjp(f)(x)")
        if structure != tape.result_structure:
            raise TypeError(f"the cotangent is {structure}, but the value is {tape.result_structure}{called()}")
        gives = tape.gives if tape.gives and is_raw(g) else ()
        (found,) = tree.unflatten(tape.structure, tape.back(given, keep=True, gives=gives))
        return turned(found)

    return vjp, tape.result(raw=raw)


def run(fun: Callable[..., Any], x: Any, what: str, *, has_aux: bool = False) -> Tape:
    """Run a function of one value, recorded; numbers and arrays that it returns are constants."""

    def recorded(value: Any) -> Any:
        if not has_aux:
            return with_constants(fun(value))
        first, aux = fun(value)
        return with_constants(first), aux

    tape = Tape(recorded, (x,), what, has_aux=has_aux)
    if not any(t._node is not None for t in tape.outputs):
        warn("Output seems independent of input.")
    return tape


def with_constants(returned: Any) -> Any:
    """Return a function's result with tensors for numbers and arrays."""
    if isinstance(returned, Tensor):
        return returned
    return tree.map(lambda leaf: asarray(leaf) if _is_array(leaf) else leaf, returned)


def _is_array(leaf: Any) -> bool:
    return not isinstance(leaf, Tensor) and (isinstance(leaf, NUMBERS) or backend_of(leaf) is not None)


def warn(message: str) -> None:
    """Warn at the user's line."""
    warn_at(user_frame(getframe(1)), message, UserWarning)


def make_jvp(fun: Callable[..., Any], x: Any) -> Callable[..., Any]:
    """Return the Jacobian-vector product of a function of one argument, in forward mode: the pair of value and tangent.

    >>> import agrad as ag
    >>> make_jvp(ag.sin, 0.0)(2.0)
    (np.float64(0.0), np.float64(2.0))
    """

    def jvp(v: Any) -> Any:
        value, tangent = func.jvp(lambda value: with_constants(fun(value)), (x,), (v,))
        return value, tangent

    return jvp


# -- vector spaces ------------------------------------------------------------------------------------------------------


class VSpace:
    """The real vector space of a value: a number, an array, a tensor, or a container of them.

    A class that inherits from it and is registered (``Space.register(Kind)``) is the space of the objects of another
    class. It defines ``__init__(value)``, `zeros`, ``_add(x, y)``, and the others as needed: `ones`, `standard_basis`,
    `randn`, ``_scalar_mul(x, a)``, ``_inner_prod(x, y)``, ``_covector(x)``.

    Parameters
    ----------
    value
        An element.

    Attributes
    ----------
    shape, dtype
        Those of the value, if it is not a container.
    size : int
        The dimension: the number of real numbers in an element.
    iscomplex : bool
        Whether one of them is complex.

    Raises
    ------
    TypeError
        If a part of the value is not an array of numbers; for single numbers, if it has no derivative.
    """

    def __init__(self, value: Any) -> None:
        leaves, self._structure = tree.flatten(value)
        self._raw = is_raw(value)
        self._like = [_element(leaf) for leaf in leaves]
        self.iscomplex: bool = any(t._spec.is_complex for t in self._like)
        self.size: int = sum(math.prod(t.shape) * (2 if t._spec.is_complex else 1) for t in self._like)
        if self._structure.kind is None:
            (only,) = self._like
            self.shape: tuple[int, ...] = only.shape
            self.dtype: Any = only.dtype
            self.ndim: int = only.ndim

    def _made(self, parts: Any) -> Any:
        found = tree.unflatten(self._structure, parts)
        return bare_all(found) if self._raw else found

    def zeros(self) -> Any:
        """Return the zero of the space."""
        return self._made(_filled(t, 0) for t in self._like)

    def ones(self) -> Any:
        """Return the sum of the standard basis: ``1 + 1j`` where the space is complex."""
        return self._made(_filled(t, 1 + 1j if t._spec.is_complex else 1) for t in self._like)

    def standard_basis(self) -> Iterator[Any]:
        """Return the elements with one real number equal to 1, and 0 elsewhere."""
        for number, t in enumerate(self._like):
            for i in range(math.prod(t.shape)):
                for one in (1, 1j) if t._spec.is_complex else (1,):
                    part = reshape(_filled(t, 0), (-1,))
                    part[i] = one
                    yield self._made(
                        reshape(part, t.shape) if k == number else _filled(other, 0)
                        for k, other in enumerate(self._like)
                    )

    def randn(self) -> Any:
        """Return an element of normal random numbers, of agrad's generator."""
        return self._made(_normal(t) for t in self._like)

    def add(self, x: Any, y: Any) -> Any:
        """Return the sum of two elements."""
        return _add(self, x, y) if _any_box(x, y) else self._add(x, y)

    def mut_add(self, x: Any, y: Any) -> Any:
        """Return the sum of two elements; `x` is not changed."""
        return self.add(x, y)

    def scalar_mul(self, x: Any, a: Any) -> Any:
        """Return an element times a real number."""
        return _scalar_mul(self, x, a) if _any_box(x, a) else self._scalar_mul(x, a)

    def inner_prod(self, x: Any, y: Any) -> Any:
        """Return the real inner product of two elements."""
        return _inner_prod(self, x, y) if _any_box(x, y) else self._inner_prod(x, y)

    def covector(self, x: Any) -> Any:
        """Return the element as a cotangent, or a cotangent as an element: the conjugate."""
        return self._covector(x)

    @classmethod
    def register(cls, value_type: type, vspace_maker: Callable[[Any], Any] | None = None) -> None:
        """Make this class, or the result of a function, the space of the objects of a class."""
        SPACES[value_type] = vspace_maker or cls

    def _add(self, x: Any, y: Any) -> Any:
        return tree.map(lambda a, b: a + b, x, y)

    def _scalar_mul(self, x: Any, a: Any) -> Any:
        return tree.map(lambda part: part * a, x)

    def _inner_prod(self, x: Any, y: Any) -> Any:
        pairs = zip(tree.flatten(x)[0], tree.flatten(y)[0], strict=True)
        found = sum((_product(a, b) for a, b in pairs), start=asarray(0.0))
        return bare_all(found) if is_raw(x, y) else found

    def _covector(self, x: Any) -> Any:
        if type(x) in SPACES:
            return x
        found = tree.map(lambda part: conj(part) if _element(part)._spec.is_complex else part, x)
        return bare_all(found) if is_raw(x) else found

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, VSpace):
            return NotImplemented
        if type(self) is not VSpace or type(other) is not VSpace:  # of a user class
            return type(self) is type(other) and vars(self) == vars(other)
        return self._structure == other._structure and self._specs() == other._specs()

    __hash__: ClassVar[None] = None  # type: ignore[assignment] # as HIPS autograd's

    def _specs(self) -> list[tuple[Any, str]]:
        return [(t.shape, t._spec.backend.dtype_name(t.dtype)) for t in self._like]

    def __repr__(self) -> str:
        if type(self) is not VSpace:
            return f"{type(self).__name__}_{vars(self)}"
        return f"VSpace({tree.unflatten(self._structure, self._specs())})"


def vspace(value: Any) -> VSpace:
    """Return the vector space of a value; raise TypeError if a part has none.

    >>> vspace([1.0, 2.0]).zeros()
    [np.float64(0.0), np.float64(0.0)]
    """
    value = unboxed(value)
    return SPACES.get(type(value), VSpace)(value)  # type: ignore[no-any-return]


# Operations of a space on boxes, for vector-Jacobian products; `_add` and the others only know objects.


def _any_box(*values: Any) -> bool:
    return any(type(value) in Box.types for value in values)


_add = primitive(lambda space, x, y: space._add(x, y))
_scalar_mul = primitive(lambda space, x, a: space._scalar_mul(x, a))
_inner_prod = primitive(lambda space, x, y: space._inner_prod(x, y))
defvjp(_add, None, lambda *_: lambda g: g, lambda *_: lambda g: g)
defvjp(
    _scalar_mul,
    None,
    lambda _, space, x, a: lambda g: space.covector(space.scalar_mul(space.covector(g), a)),
    lambda _, space, x, a: lambda g: space.inner_prod(g, space.covector(x)),
)
defvjp(
    _inner_prod,
    None,
    lambda _, space, x, y: lambda g: space.covector(space.scalar_mul(y, g)),
    lambda _, space, x, y: lambda g: space.covector(space.scalar_mul(x, g)),
)


def _element(leaf: Any) -> Tensor:
    """Return a part of a value as a tensor without history."""
    if not isinstance(leaf, Tensor) and not _is_array(leaf):
        raise TypeError(f"Can't find vector space for value {leaf} of type {type(leaf)}.{called()}")
    t = argument_of(leaf, "vspace").detach()
    if not t.shape and not t._spec.inexact:
        raise TypeError(f"Can't find vector space for value {leaf} of dtype {t.dtype}: it has no derivative.{called()}")
    return t


def _filled(like: Tensor, value: complex) -> Tensor:
    made: Tensor = like._spec.backend.functions.full(like.shape, value, dtype=like.dtype, device=like.device)
    return made


def _normal(like: Tensor) -> Tensor:
    functions = like._spec.backend.functions
    part = random.randn(*like.shape, device=like.device)
    if like._spec.is_complex:
        part = part + 1j * random.randn(*like.shape, device=like.device)
    made: Tensor = functions.astype(part, like.dtype)
    return made


def _product(a: Any, b: Any) -> Any:
    product = vecdot(reshape(asarray(a), (-1,)), reshape(asarray(b), (-1,)))  # which conjugates the first
    return real(product) if product._spec.is_complex else product
