"""Spec: the properties of an array that can be known without keeping it."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from agrad.core.backend import Backend

#: How many Python scalars a spec caches as arrays, per type.
SCALARS_KEPT = 256


class Spec:
    """Shape, dtype, device and layout of an array, with its backend.

    Backends that are not lazy intern their specs (`Backend.spec`), so that a single ``is`` compares shape, dtype and
    device; equal specs that are not identical only cost time.

    Attributes
    ----------
    backend : Backend
        The backend of the arrays.
    xp : module
        The backend's kernels, by the standard's names.
    shape : tuple of int
        The shape; nan for a length that a lazy backend does not know.
    dtype : object
        The backend's own dtype.
    device : str
        As ``"numpy"`` or ``"cupy:0"``.
    layout : object
        Chunks of a chunked array, None otherwise.
    accumulates : bool
        Whether sums of this spec are worth updating in place: not for one element (slower in NumPy) or lazy arrays.
    booleans : Spec or None
        The spec of comparisons of two arrays of this spec, once there has been one.
    run_rule : callable or None
        How the backend runs a rule, if in its own way (`Backend.run_rule`).
    inexact, is_complex, is_float : bool
        Whether the dtype is real or complex floating point; whether it is complex; whether it is real floating point.
    """

    __slots__ = (
        "__weakref__",
        "accumulates",
        "backend",
        "booleans",
        "device",
        "dtype",
        "floats",
        "inexact",
        "ints",
        "is_complex",
        "is_float",
        "layout",
        "run_rule",
        "shape",
        "xp",
    )

    def __init__(
        self, backend: Backend, shape: tuple[int, ...], dtype: Any, device: str, layout: object = None
    ) -> None:
        kind = backend.kind(dtype)
        self.backend: Backend = backend
        self.xp: Any = backend.xp
        self.run_rule: Callable[..., Any] | None = backend.run_rule
        self.shape: tuple[int, ...] = shape
        self.dtype: Any = dtype
        self.device: str = device
        self.layout: object = layout
        self.inexact: bool = kind in ("float", "complex")
        self.is_complex: bool = kind == "complex"
        self.is_float: bool = kind == "float"
        self.accumulates: bool = not backend.is_lazy and math.prod(shape) > 1
        self.booleans: Spec | None = None
        # numbers beside this spec by exact type; None where their dtype is the default one, which may change
        self.floats: Any = {} if self.inexact else None
        self.ints: Any = None if kind == "bool" else {}

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """The number of elements."""
        return math.prod(self.shape)

    def scalar(self, value: complex) -> Any:
        """Return a Python scalar as a 0-d array, by the standard's promotion with an array of this spec.

        Floats and ints of the dtype of this spec are cached, by exact type, and read-only where the library supports that: all
        programs share them. Zeros among floats are not (0.0 == -0.0), nor is NaN (it equals nothing, and would be stored again
        at every use).
        """
        array = self.backend.scalar(value, self)
        kept: Any = self.floats if type(value) is float else self.ints if type(value) is int else None
        if kept is not None and (value != 0 or kept is self.ints) and value == value:  # noqa: PLR0124 (False for NaN)
            if len(kept) >= SCALARS_KEPT:
                kept.clear()
            array = kept[value] = self.backend.lend(array)
        return array

    def number(self, value: complex) -> Any:
        """Return a Python scalar as `scalar` does, from the cache if it is there."""
        kept: Any = self.floats if type(value) is float else self.ints if type(value) is int else None
        if kept is None:
            return self.backend.scalar(value, self)
        array = kept.get(value)
        return self.scalar(value) if array is None else array

    def __repr__(self) -> str:
        layout = "" if self.layout is None else f", layout={self.layout}"
        return f"Spec(shape={self.shape}, dtype={self.dtype}, device={self.device!r}{layout})"


class Specs(tuple[Spec, ...]):
    """The specs of an op's several results, all of one backend."""

    __slots__ = ()

    @property
    def xp(self) -> Any:
        """The backend's kernels."""
        return self[0].xp

    @property
    def backend(self) -> Backend:
        """The backend."""
        return self[0].backend

    @property
    def run_rule(self) -> Callable[..., Any] | None:
        """How the backend runs a rule, if in its own way."""
        return self[0].run_rule


class SomeSpecs(Specs):
    """The specs of the results of a `Function` whose first result is not a tensor, and has None as its spec."""

    __slots__ = ()

    @property
    def _first(self) -> Spec:
        return next(spec for spec in self if spec is not None)

    @property
    def xp(self) -> Any:
        return self._first.xp

    @property
    def backend(self) -> Backend:
        return self._first.backend

    @property
    def run_rule(self) -> Callable[..., Any] | None:
        return self._first.run_rule
