"""``numpy.fft``: Fourier transforms."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from agrad.core import errors
from agrad.core.names import MissingName
from agrad.core.operands import as_operand
from agrad.core.tensor import Tensor
from agrad.numpy.common import dtype_of, floating, into, static
from agrad.numpy.table import CREATION, names_in, public
from agrad.ops import fft as ops
from agrad.ops.data_type import astype


def _operand(name: str, a: Any) -> Tensor:
    """Return an operand in the form that a transform takes: real for real transforms, complex for complex ones."""
    x = floating(a)
    if name in ("rfft", "rfftn", "ihfft"):
        if x._spec.is_complex:
            raise TypeError(
                f"ufunc '{name}' did not contain a loop with signature of a complex operand{errors.called()}"
            )
        return x
    return (
        x if x._spec.is_complex else astype(x, "complex64" if dtype_of(x) in ("float16", "float32") else "complex128")
    )


def _one(name: str, a: Any, n: Any, axis: int, norm: Any, out: Any) -> Tensor:
    x = _operand(name, a)
    return into(out, getattr(ops, name)(x, n=static(n), axis=axis, norm=norm or "backward"))


def _many(name: str, a: Any, s: Any, axes: Any, norm: Any, out: Any) -> Tensor:
    x = _operand(name, a)
    s, axes = (None if v is None else tuple(static(v)) for v in (s, axes))
    if axes is None and s is not None:
        axes = tuple(range(-len(s), 0))
    return into(out, getattr(ops, name)(x, s=s, axes=axes, norm=norm or "backward"))


@public()
def fft(a: Any, n: Any = None, axis: int = -1, norm: Any = None, out: Any = None) -> Tensor:
    return _one("fft", a, n, axis, norm, out)


@public()
def ifft(a: Any, n: Any = None, axis: int = -1, norm: Any = None, out: Any = None) -> Tensor:
    return _one("ifft", a, n, axis, norm, out)


@public()
def rfft(a: Any, n: Any = None, axis: int = -1, norm: Any = None, out: Any = None) -> Tensor:
    return _one("rfft", a, n, axis, norm, out)


@public()
def irfft(a: Any, n: Any = None, axis: int = -1, norm: Any = None, out: Any = None) -> Tensor:
    return _one("irfft", a, n, axis, norm, out)


@public()
def hfft(a: Any, n: Any = None, axis: int = -1, norm: Any = None, out: Any = None) -> Tensor:
    return _one("hfft", a, n, axis, norm, out)


@public()
def ihfft(a: Any, n: Any = None, axis: int = -1, norm: Any = None, out: Any = None) -> Tensor:
    return _one("ihfft", a, n, axis, norm, out)


@public()
def fftn(a: Any, s: Any = None, axes: Any = None, norm: Any = None, out: Any = None) -> Tensor:
    return _many("fftn", a, s, axes, norm, out)


@public()
def ifftn(a: Any, s: Any = None, axes: Any = None, norm: Any = None, out: Any = None) -> Tensor:
    return _many("ifftn", a, s, axes, norm, out)


@public()
def rfftn(a: Any, s: Any = None, axes: Any = None, norm: Any = None, out: Any = None) -> Tensor:
    return _many("rfftn", a, s, axes, norm, out)


@public()
def irfftn(a: Any, s: Any = None, axes: Any = None, norm: Any = None, out: Any = None) -> Tensor:
    return _many("irfftn", a, s, axes, norm, out)


@public()
def fft2(a: Any, s: Any = None, axes: Any = (-2, -1), norm: Any = None, out: Any = None) -> Tensor:
    return _many("fftn", a, s, axes, norm, out)


@public()
def ifft2(a: Any, s: Any = None, axes: Any = (-2, -1), norm: Any = None, out: Any = None) -> Tensor:
    return _many("ifftn", a, s, axes, norm, out)


@public()
def rfft2(a: Any, s: Any = None, axes: Any = (-2, -1), norm: Any = None, out: Any = None) -> Tensor:
    return _many("rfftn", a, s, axes, norm, out)


@public()
def irfft2(a: Any, s: Any = None, axes: Any = (-2, -1), norm: Any = None, out: Any = None) -> Tensor:
    return _many("irfftn", a, s, axes, norm, out)


@public()
def fftshift(x: Any, axes: Any = None) -> Tensor:
    return ops.fftshift(as_operand(x), axes=static(axes))


@public()
def ifftshift(x: Any, axes: Any = None) -> Tensor:
    return ops.ifftshift(as_operand(x), axes=static(axes))


@public(status=CREATION)
def fftfreq(n: int, d: Any = 1.0, device: Any = None) -> Tensor:
    return ops.fftfreq(n, d=d, device=None if device == "cpu" else device)


@public(status=CREATION)
def rfftfreq(n: int, d: Any = 1.0, device: Any = None) -> Tensor:
    return ops.rfftfreq(n, d=d, device=None if device == "cpu" else device)


if not TYPE_CHECKING:  # type checkers should report missing names

    def __getattr__(name: str) -> Any:
        if name == "__all__":
            return __dir__()
        raise MissingName(__name__, name)

    def __dir__() -> list[str]:
        return names_in("fft")
