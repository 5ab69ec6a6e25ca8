"""Samples as calls: their results, and the expected derivatives, by finite differences.

The reference is the NumPy backend: its kernels know no derivatives, and this file computes in its namespace (agrad
itself imports no array library). A complex array counts as its real and imaginary parts, so that gradients (dL/dRe + i
dL/dIm) are real gradients.
"""

from __future__ import annotations

import math
import random
import warnings
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from agrad.core.backend import spec_of
from agrad.core.errors import UnsupportedOp
from agrad.core.once import once
from agrad.core.op import OPS
from agrad.core.tensor import Tensor
from agrad.plugin import manager
from agrad.testing.samples.data import Data, Like, Sample, resolve

__all__ = ["SINGLE", "SampleCall", "Slopes", "inner", "library", "reference_array", "slopes_of"]

#: The dtype of half the precision.
SINGLE = {"float64": "float32", "complex128": "complex64"}

#: Steps of the first and the second differences.
STEP, LONG_STEP = 1e-6, 1e-3


def library() -> Any:
    """Return the namespace that reference values are computed with: the NumPy backend's."""
    return manager.usable("numpy").namespace()


def reference_array(data: Data) -> Any:
    """Create a reference array from a `Data`."""
    np = library()
    return np.reshape(np.asarray(data.values, dtype=data.dtype), data.shape)


def inner(first: Iterable[Any], second: Iterable[Any]) -> float:
    """Return Re<a, b> of two lists of reference arrays."""
    np = library()
    return sum(float(np.sum(np.real(np.conj(a) * b))) for a, b in zip(first, second, strict=True))


class SampleCall:
    """A sample's call, as a function of its differentiable arrays.

    Attributes
    ----------
    sample : Sample
        The sample.
    factor : float
        The factor of its differentiable arrays: a factor near 1 makes another call of the same kind, because symmetry,
        order and the distance from kinks are preserved.
    op : Op
        Its operation.
    operands : list of Data
        The differentiable arrays, in the order of the signature.
    names : list of str
        The argument that each of them is (part of).
    arrays, tangents : list
        Their values, and a direction for each, as reference arrays.
    """

    def __init__(self, sample: Sample, factor: float = 1.0) -> None:
        self.sample = sample
        self.factor = factor
        self.op: Any = OPS[sample.op]
        bound = self.op.signature.bind(*sample.args, **sample.kwargs)
        bound.apply_defaults()
        self._values = [bound.arguments[a.name] for a in self.op.arguments]
        self.operands: list[Data] = []
        self.names: list[str] = []
        for i, argument in self.op.operand_slots:
            members = self._values[i] if argument.kind == "sequence" else [self._values[i]]
            for member in members:
                if isinstance(member, Data) and member.inexact:
                    self.operands.append(member)
                    self.names.append(argument.name)
        self.places: dict[int, int] = {id(data): i for i, data in enumerate(self.operands)}
        self.arrays: list[Any] = [reference_array(data) * factor for data in self.operands]
        self.tangents: list[Any] = self.drawn("tangents", self.arrays)

    @property
    def complex(self) -> bool:
        """Whether any operand is complex."""
        return any(data.dtype.startswith("complex") for data in self.operands)

    def drawn(self, purpose: str, arrays: Sequence[Any]) -> list[Any]:
        """Draw numbers away from zero, with the shapes and dtypes of arrays.

        They depend on the sample and the purpose alone, not on what was drawn before: a test has the same numbers in
        every order of the tests.
        """
        np, draw = library(), random.Random(zlib.crc32(f"{self.sample} {purpose}".encode()))  # noqa: S311 (no secrets)
        found = []
        for array in arrays:
            values: list[Any] = [draw.choice((-1, 1)) * draw.uniform(0.5, 1.5) for _ in range(math.prod(array.shape))]
            if np.isdtype(array.dtype, "complex floating"):
                values = [complex(v, draw.uniform(-1.5, 1.5)) for v in values]
            found.append(np.reshape(np.asarray(values, dtype=array.dtype), array.shape))
        return found

    def raw(self, arrays: Sequence[Any], make: Callable[[Any], Any] = lambda array: array) -> list[Any]:
        """Run the reference kernel on these arrays in place of the operands; return the list of its results.

        ``make``, as for `tensors`, receives every other array.
        """
        np, backend = library(), manager.get("numpy")

        def array(data: Data) -> Any:
            return arrays[self.places[id(data)]] if id(data) in self.places else make(reference_array(data))

        def spec(like: Like) -> Any:
            return backend.spec(np.zeros(like.shape, dtype=like.dtype))

        values = [resolve(v, array, spec) for v in self._values]
        for i, argument in self.op.operand_slots:  # kernels receive arrays, as from agrad
            if argument.kind == "operand" and isinstance(values[i], int | float | complex) and arrays:
                values[i] = np.asarray(values[i], dtype=np.result_type(arrays[0], values[i]))
        if self.op.dtype_slot is not None and values[self.op.dtype_slot] is not None:
            values[self.op.dtype_slot] = np.dtype(values[self.op.dtype_slot])
        with backend.quiet(), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of the library on Python numbers next to arrays; agrad passes arrays
            result = self.op.invoke(self.op.kernel_of(backend.xp), values)
        if self.op.rule.residuals:  # values that a fused kernel leaves for its derivative
            result = result[0]
        return [np.asarray(r) for r in (result if self.op.rule.outputs is not None else [result])]

    def tensors(
        self, operands: Sequence[Any], make: Callable[[Any], Any], function: Callable[..., Any] | None = None
    ) -> list[Any]:
        """Call the public function with these tensors in place of the operands; return the list of its results.

        Parameters
        ----------
        operands : sequence of Tensor
            One per entry of `operands`.
        make : callable
            Converts the other arguments (indices, masks, arrays whose specs are needed) from a reference array to a
            tensor or a raw array.
        function : callable, optional
            The function to call instead, with all arguments.
        """
        np = library()

        def array(data: Data) -> Any:
            return operands[self.places[id(data)]] if id(data) in self.places else make(reference_array(data))

        def spec(like: Like) -> Any:
            made = make(np.zeros(like.shape, dtype=like.dtype))
            return made._spec if isinstance(made, Tensor) else spec_of(made)

        if function is None:
            args = [resolve(v, array, spec) for v in self.sample.args]
            kwargs = {k: resolve(v, array, spec) for k, v in self.sample.kwargs.items()}
            result = self.op.entry(*args, **kwargs)
        else:
            result = self.op.invoke(function, [resolve(v, array, spec) for v in self._values])
        return list(result) if self.op.rule.outputs is not None else [result]


class Slopes:
    """The expected derivatives of a call, along its tangents; computed at first use.

    Attributes
    ----------
    results : list
        The results, as reference arrays.
    known : bool
        Whether there are any: NumPy's backend takes functions that the standard lacks from SciPy, which may not be
        installed.
    pushed : list of list
        Per operand: the tangents of the results for the tangent of this operand only.
    """

    def __init__(self, call: SampleCall) -> None:
        self.call = call

    @once
    def results(self) -> list[Any]:
        return self.call.raw(self.call.arrays)

    @once
    def known(self) -> bool:
        try:
            self.results  # noqa: B018 (made here, and kept)
        except (ImportError, UnsupportedOp):
            return False
        return True

    @once
    def pushed(self) -> list[list[Any]]:
        return [self._first(k) for k in range(len(self.call.arrays))]

    def _at(self, steps: Mapping[int, float]) -> list[Any]:
        """Return the results after some operands have moved a step along their tangents."""
        call = self.call
        return call.raw([a + steps[k] * call.tangents[k] if k in steps else a for k, a in enumerate(call.arrays)])

    def _first(self, k: int) -> list[Any]:
        above, below = self._at({k: STEP}), self._at({k: -STEP})
        return [(a - b) / (2 * STEP) for a, b in zip(above, below, strict=True)]

    def along(self, operands: Iterable[int]) -> list[Any]:
        """Return the tangents of the results for the tangents of these operands."""
        np = library()
        return [
            sum((self.pushed[k][i] for k in operands), np.zeros_like(result)) for i, result in enumerate(self.results)
        ]

    @once
    def curvature(self) -> list[Any]:
        """The second derivatives of the results along all tangents: differences of fourth order."""
        weights = {-2: -1, -1: 16, 0: -30, 1: 16, 2: -1}
        every = range(len(self.call.arrays))
        total: list[Any] = [0.0] * len(self.results)
        for step, weight in weights.items():
            at = self._at(dict.fromkeys(every, step * LONG_STEP)) if step else self.results
            total = [t + weight * a for t, a in zip(total, at, strict=True)]
        return [t / (12 * LONG_STEP**2) for t in total]


_made: dict[tuple[int, float], tuple[Sample, Slopes]] = {}


def slopes_of(sample: Sample, factor: float = 1.0) -> Slopes:
    """Return the expected derivatives of a sample, its arrays times a factor; computed once."""
    key = id(sample), factor
    if key not in _made:
        _made[key] = sample, Slopes(SampleCall(sample, factor))  # the sample is kept alive, because ids are reused
    return _made[key][1]
