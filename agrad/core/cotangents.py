"""Steps around every derivative, shared by many: shapes, dtypes, complex conjugates, dropped elements."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from agrad.core.backend import backend_of
from agrad.core.mode import recorder

if TYPE_CHECKING:
    from agrad.core.node import Node
    from agrad.core.spec import Spec


def is_complex(xp: Any, array: Any) -> bool:
    """Return whether an array (raw or Tensor) or scalar is complex."""
    dtype = getattr(array, "dtype", None)
    if dtype is None:
        return isinstance(array, complex)
    spec = getattr(array, "_spec", None)
    if spec is not None:
        return bool(spec.is_complex)
    backend = backend_of(array)
    return bool(xp.isdtype(dtype, "complex floating")) if backend is None else backend.kind(dtype) == "complex"


def times(xp: Any, g: Any, partial: Any, spec: Spec) -> Any:
    """Multiply a cotangent by the conjugate of a partial; omit the conjugate where the result, of this spec, is real."""
    if spec.is_float:
        return xp.multiply(g, partial)
    if is_complex(xp, partial):
        partial = partial.conjugate() if isinstance(partial, complex) else xp.conj(partial)
    return xp.multiply(*promote(xp, g, partial))


def promote(xp: Any, a: Any, b: Any) -> tuple[Any, Any]:
    """Make a real and a complex array both complex; not every namespace mixes the two."""
    if hasattr(a, "dtype") and hasattr(b, "dtype") and a.dtype != b.dtype and is_complex(xp, a) != is_complex(xp, b):
        dtype = a.dtype if is_complex(xp, a) else b.dtype
        return xp.astype(a, dtype, copy=False), xp.astype(b, dtype, copy=False)
    return a, b


def floating(xp: Any, x: Any, spec: Spec) -> Any:
    """Return integers or booleans in the precision of a result: a partial computed in them would overflow or round."""
    x = xp.astype(x, spec.dtype)
    return xp.real(x) if spec.is_complex else x


def beside(array: Any) -> dict[str, Any]:
    """Return the keywords with which creation functions make an array that can be combined with this one, raw or a Tensor."""
    if getattr(array, "_spec", None) is not None:
        return {"device": array.device}
    backend = backend_of(array)
    return {} if backend is None else backend.beside(array)


def fit(xp: Any, g: Any, spec: Spec) -> Any:
    """Bring a cotangent to the shape, realness and dtype of its operand.

    Sum broadcast axes, drop the imaginary part for a real operand (PyTorch's convention: the gradient of a real value is
    real), and cast the dtype.
    """
    if g is None:
        return None
    if g.shape != spec.shape:
        g = unbroadcast(xp, g, spec.shape)
    if g.dtype != spec.dtype:
        if not spec.is_complex and is_complex(xp, g):
            g = xp.real(g)
        if g.dtype != spec.dtype:
            g = xp.astype(g, spec.dtype)
    return g


def unbroadcast(xp: Any, g: Any, shape: tuple[int, ...]) -> Any:
    """Sum the axes along which `shape` was broadcast to that of `g`."""
    extra = g.ndim - len(shape)
    if extra > 0:
        g = xp.sum(g, axis=tuple(range(extra)))
    axes = tuple(i for i, n in enumerate(shape) if n == 1 and g.shape[i] != 1)
    if axes:
        g = xp.sum(g, axis=axes, keepdims=True)
    if g.shape != shape and not any(n != n for n in (*g.shape, *shape)):  # noqa: PLR0124 (nan: unknown when lazy)
        raise ShapeMismatchError(g.shape, shape)
    return g


class MaskedCotangents(tuple[Any, ...]):
    """Cotangents from an op that drops elements: a 0 means "not requested", whatever it is multiplied by."""

    __slots__ = ()


def unmasked(xp: Any, g: Any, product: Any, node: Node) -> Any:
    """Replace with 0 the product of a 0 cotangent and an infinite or undefined partial, behind an op that drops elements.

    Only NaN is changed: where the partial is finite the product stays, because its derivative with respect to `g` is that
    partial even though `g` is 0.
    """
    if product is None or product.shape != g.shape:
        return product
    raw = product._raw if xp is node.spec.backend.functions else product
    if recorder() is None and not (backend_of(raw) or node.spec.backend).may_hold_nan(raw):
        return product  # a program must be right for other values too
    lost = xp.logical_and(xp.isnan(product), g == 0)
    return xp.where(lost, xp.zeros_like(product), product)


class Transferred(tuple[Any, ...]):
    """The cotangent of a transfer between backends: it may be lazy although its operand is not."""

    __slots__ = ()


class ShapeMismatchError(ValueError):
    """A rule returned a cotangent whose shape its operand was not broadcast to. The engine names the rule."""


def lent(value: Any) -> Any:
    """Return a raw value, or a list or tuple of them, in a form safe for user code: see `Backend.lend`."""
    if isinstance(value, list | tuple):
        return type(value)(map(lent, value))
    backend = backend_of(value)
    return value if backend is None else backend.lend(value)
