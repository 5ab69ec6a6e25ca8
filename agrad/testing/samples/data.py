"""The parts of samples: arrays as plain numbers, calls, and ways to draw numbers away from kinks."""

from __future__ import annotations

import contextvars
import functools
import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from agrad.core.spec import Spec
from agrad.func.loops import traced
from agrad.program.blank_recording import ShapeDtype
from agrad.program.program import Body, spec_of_value


@dataclass(frozen=True)
class Data:
    """An array as plain numbers.

    Attributes
    ----------
    shape : tuple of int
        Its shape.
    values : tuple of numbers
        Its elements in row-major order.
    dtype : str
        The standard's name of its dtype.
    """

    shape: tuple[int, ...]
    values: tuple[Any, ...]
    dtype: str

    @property
    def inexact(self) -> bool:
        """Whether the dtype is real or complex floating point."""
        return self.dtype.startswith(("float", "complex"))


@dataclass(frozen=True)
class Like:
    """Represents the spec of an array with this shape and dtype."""

    shape: tuple[int, ...]
    dtype: str = "float64"


@dataclass(frozen=True, eq=False)
class SampleLoop:
    """Represents the body of a loop on arrays of these shapes, in any precision.

    Attributes
    ----------
    step : callable
        The work of one call: takes lists of tensors (carried values, rows and constants); returns two, carried values
        and results.
    operands : list of Data
        The loop's operands: carried values, then arrays of rows, then constants.
    carried, rows : int
        How many of these are carried, and how many have rows.
    length : int
        The number of calls.
    reverse : bool
        Whether the last row is the first.
    kept : tuple of int
        The values returned as they were carried into each call.
    """

    step: Callable[..., tuple[list[Any], list[Any]]]
    operands: list[Data]
    carried: int
    rows: int
    length: int
    reverse: bool = False
    kept: tuple[int, ...] = ()

    def __str__(self) -> str:
        return f"{self.step.__name__} {self.length} times{' from the end' if self.reverse else ''}"

    def body(self, dtypes: tuple[str, ...]) -> Body:
        """Return the body, for operands of these dtypes."""
        return _body(self, dtypes)


@functools.cache
def _body(loop: SampleLoop, dtypes: tuple[str, ...]) -> Body:
    specs = [ShapeDtype(data.shape, dtype) for data, dtype in zip(loop.operands, dtypes, strict=True)]
    first = loop.carried + loop.rows
    rows = [ShapeDtype(spec.shape[1:], spec.dtype) for spec in specs[loop.carried : first]]
    made = contextvars.Context().run(
        functools.partial(traced, length=loop.length, reverse=loop.reverse),
        loop.step,
        specs[: loop.carried],
        rows,
        specs[first:],
    )
    return made.body.keeping(loop.kept)


def _dtype(value: Any) -> str:
    spec = value if isinstance(value, Spec) else spec_of_value(value)
    return spec.backend.dtype_name(spec.dtype)


@dataclass(frozen=True)
class Sample:
    """One call of an op.

    Attributes
    ----------
    op : str
        The op's name.
    args, kwargs
        As the user would pass them, with `Data` for arrays, `Like` for specs and `SampleLoop` for bodies of loops, also
        within tuples, lists and slices.
    beyond : str
        Why only some backends can run it: the feature it needs beyond the standard. Empty if every backend can.
    draws : bool
        Whether kernels of libraries draw random numbers for it, so that the last bits differ from call to call.
    """

    op: str
    args: tuple[Any, ...]
    kwargs: dict[str, Any] = field(default_factory=dict)
    beyond: str = ""
    draws: bool = False

    def __str__(self) -> str:
        parts = [*map(_text, self.args), *(f"{k}={_text(v)}" for k, v in self.kwargs.items())]
        return f"{self.op}({', '.join(parts)})"


def _text(value: Any) -> str:
    if isinstance(value, Data):
        sizes = ",".join(map(str, value.shape))
        return f"{ {'float64': 'f', 'complex128': 'c'}.get(value.dtype, value.dtype) }[{sizes}]".replace(" ", "")
    if isinstance(value, tuple | list):
        return "(" + ",".join(map(_text, value)) + ")"
    if isinstance(value, slice):
        return ":".join("" if v is None else str(v) for v in (value.start, value.stop, value.step))
    return "..." if value is Ellipsis else str(value)


def resolve(value: Any, make: Callable[[Data], Any], spec: Callable[[Like], Any]) -> Any:
    """Return an argument of a sample with arrays, specs and bodies in place of `Data`, `Like` and `SampleLoop`.

    Parameters
    ----------
    value : object
        The argument.
    make : callable
        Creates an array (or Tensor) from a `Data`.
    spec : callable
        Creates a spec from a `Like`.
    """
    if isinstance(value, Data):
        return make(value)
    if isinstance(value, Like):
        return spec(value)
    if isinstance(value, SampleLoop):
        return value.body(tuple(_dtype(make(data)) for data in value.operands))
    if isinstance(value, tuple | list):
        return type(value)(resolve(v, make, spec) for v in value)
    return value


#: The samples by op.
SAMPLES: dict[str, list[Sample]] = {}


def add(op: str, *args: Any, beyond: str = "", draws: bool = False, **kwargs: Any) -> None:
    """Add a sample of an op."""
    SAMPLES.setdefault(op, []).append(Sample(op, args, kwargs, beyond, draws))


# -- numbers ------------------------------------------------------------------------------------------------------------

_random = random.Random(2718)  # noqa: S311 (sampling, not secrets)
Draw = Callable[..., Data]


def _drawn(draw: Callable[[], float], shape: tuple[int, ...]) -> Data:
    return Data(shape, tuple(draw() for _ in range(math.prod(shape))), "float64")


def real(*shape: int) -> Data:
    """Real numbers of either sign with magnitudes from 0.2 to 2."""
    return _drawn(lambda: _random.choice((-1, 1)) * _random.uniform(0.2, 2.0), shape)


def positive(*shape: int) -> Data:
    """Real numbers from 0.3 to 2.5."""
    return _drawn(lambda: _random.uniform(0.3, 2.5), shape)


def above_one(*shape: int) -> Data:
    """Real numbers from 1.3 to 3.5."""
    return _drawn(lambda: _random.uniform(1.3, 3.5), shape)


def inside(*shape: int) -> Data:
    """Real numbers from -0.8 to 0.8."""
    return _drawn(lambda: _random.uniform(-0.8, 0.8), shape)


def between(*shape: int) -> Data:
    """Real numbers well away from integers and halves."""
    return _drawn(lambda: _random.randint(-3, 3) + _random.choice((0.1, 0.3, 0.6, 0.9)), shape)


def spaced(*shape: int) -> Data:
    """Real numbers that lie apart from one another, in no order."""
    values = [0.35 * i - 1.1 for i in range(math.prod(shape))]
    _random.shuffle(values)
    return Data(shape, tuple(values), "float64")


def complex_of(draw: Draw) -> Draw:
    """Return a function that draws complex numbers with real and imaginary parts drawn by another one."""

    def drawn(*shape: int) -> Data:
        parts = zip(draw(*shape).values, draw(*shape).values, strict=True)
        return Data(shape, tuple(complex(a, b) for a, b in parts), "complex128")

    return drawn


cplx: Draw = complex_of(real)


def integers(*values: int, shape: Sequence[int] | None = None) -> Data:
    """Indices."""
    return Data((len(values),) if shape is None else tuple(shape), values, "int64")


def mask(*values: int, shape: Sequence[int] | None = None) -> Data:
    """A boolean array."""
    return Data((len(values),) if shape is None else tuple(shape), tuple(map(bool, values)), "bool")
