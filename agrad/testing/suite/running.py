"""The samples of an operation, run on the backend under test: shared by the tests of rules and of programs."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

import agrad as ag
from agrad.core.backend import Backend
from agrad.core.errors import UnsupportedOp
from agrad.core.forward import with_tangent
from agrad.core.kernels import forget_kernels
from agrad.testing.calls import SINGLE, SampleCall, Slopes, inner, library, slopes_of
from agrad.testing.needs import of_dtype, of_sample
from agrad.testing.samples import SAMPLES, Data, Sample
from agrad.testing.suite.base import FEW, Conformance

#: The tolerances of derivatives: those of first order, those of second.
FIRST = {"float64": 2e-7, "complex128": 2e-7, "float32": 2e-5, "complex64": 2e-5}
SECOND = {"float64": 1e-6, "complex128": 1e-6, "float32": 1e-3, "complex64": 1e-3}
#: How exact values are; two modes are adjoint as exactly.
VALUE = {"float64": 1e-12, "complex128": 1e-12, "float32": 1e-5, "complex64": 1e-5}

DOUBLE = {single: double for double, single in SINGLE.items()}

#: The differences between the examples of a batch.
FACTORS = (1.0, 0.97)

#: Results whose columns (axis -1) or rows (-2) have signs that each library chooses; the first one determines which.
SIGNS = {"linalg.eigh": {1: -1}, "linalg.qr": {0: -1, 1: -2}, "linalg.svd": {0: -1, 2: -2}}


def any_data(value: Any, test: Callable[[Data], bool]) -> bool:
    """Return whether a condition holds for any array in an argument of a sample."""
    if isinstance(value, tuple | list):
        return any(any_data(part, test) for part in value)
    return isinstance(value, Data) and test(value)


def is_complex(sample: Sample) -> bool:
    """Return whether a sample has complex operands."""
    return any_data([*sample.args, *sample.kwargs.values()], lambda data: data.dtype.startswith("complex"))


def is_mask(data: Data) -> bool:
    """Return whether an array is boolean."""
    return data.dtype == "bool"


def of_kind(op: str, dtype: str) -> list[Sample]:
    """Return the samples of an operation that are complex, or not, like the dtype."""
    return [sample for sample in SAMPLES[op] if is_complex(sample) == dtype.startswith("complex")]


def cases() -> list[Any]:
    """Return operations with the dtypes that their samples have."""
    found: list[Any] = []
    for op, samples in SAMPLES.items():
        kinds = set(map(is_complex, samples))
        dtypes = [
            *(["float64", "float32"] if False in kinds else []),
            *(["complex128", "complex64"] if True in kinds else []),
        ]
        found += [pytest.param(op, dtype, id=f"{op}-{dtype}") for dtype in dtypes]
    return found


@contextlib.contextmanager
def changed(backend: Backend, **attributes: Any) -> Iterator[None]:
    """Have a backend with other attributes for a while, and its kernels resolved by them."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in attributes.items():
            patch.setitem(vars(backend), name, value)
        forget_kernels(backend)
        try:
            yield
        finally:
            patch.undo()
            forget_kernels(backend)


of_rules: pytest.MarkDecorator = pytest.mark.parametrize(("op", "dtype"), cases())


class OfSamples(Conformance):
    """Tests that run all samples of an operation.

    Attributes
    ----------
    counts : Counter
        ``"samples"``: the samples for the test; ``"ran"``: those of them that passed; ``"refused"``: those that no
        program can hold. They are reported.
    """

    counts: Counter[str]

    #: The call whose check failed, and the precision, for the program in the report.
    failing: tuple[SampleCall, str] | None = None

    def run(self, check: Callable[..., None], op: str, dtype: str, *, once: bool = False, few: bool = False) -> None:
        """Check all samples of an operation; errors name the sample.

        ``once`` is for longer tests (with ``--agrad-quick``, for more of them): a lazy backend, where every call costs,
        runs them only in its best precision. Of the others it runs one sample of each operation in single precision;
        and `FEW` in the longer tests of what acts element by element, whose samples differ by values and broadcasting.
        ``few``: that many of such operations on any backend, and of every operation on a lazy one. ``--agrad-every``
        runs all of them in each test.
        """
        self.counts = Counter(samples=len(of_kind(op, dtype)))
        once, few = once and not self.every, few and not self.every
        if once and self.costly(dtype):
            pytest.skip("is checked in double precision")
        self.require(*of_dtype(dtype))
        samples = self.samples(op, dtype)
        alike = ag.rules[op].kind == "elementwise"
        if (few and alike) or (self.backend.is_lazy and (few or (once and alike))):
            samples = samples[:FEW]
        if op not in self.backend.lacks:
            try:
                self.run_samples(check, samples, dtype)
            except UnsupportedOp as error:
                self.lacking(error)
            return
        for sample in samples:
            run = SampleRun(self, sample, dtype)
            with pytest.raises(UnsupportedOp):
                run.call.tensors(run.leaves(()), run.tensor)
        reason = self.backend.lacks[op]
        if self.would_work(op, lambda: self.call_and_check(check, samples, dtype)):
            pytest.fail(f"{op} is declared to be lacking ({reason}), but works", pytrace=False)
        self.counts["ran"] = 0
        pytest.xfail(f"{op}: {reason}")

    def call_and_check(self, check: Callable[..., None], samples: Sequence[Sample], dtype: str) -> None:
        """Call each sample, as some tests end before they do, and then check them."""
        for sample in samples:
            run = SampleRun(self, sample, dtype)
            self.hosts(run.results(run.leaves(())))
        self.run_samples(check, samples, dtype)

    def costly(self, dtype: str) -> bool:
        """Return whether to test a precision briefly: that of a lazy backend which has a better one."""
        return self.backend.is_lazy and dtype in DOUBLE and not self.missing(DOUBLE[dtype])

    def would_work(self, op: str, run: Callable[[], None]) -> bool:
        """Return whether a test passes if an operation that is declared to be lacking is not refused."""
        lacks = {name: why for name, why in self.backend.lacks.items() if name != op}
        try:
            with changed(self.backend, lacks=lacks):
                run()
        except (Exception, pytest.skip.Exception, pytest.fail.Exception):  # noqa: BLE001 (whatever is the reason)
            return False
        return True

    def samples(self, op: str, dtype: str) -> list[Sample]:
        """Return the samples of an operation that have this dtype and that the backend supports; skip if there are none."""
        found = self.asked(op, dtype)
        if not found:
            pytest.skip(next((self.missing(*of_sample(sample)) for sample in of_kind(op, dtype)), "no sample"))
        return found[:1] if self.quick or (self.costly(dtype) and not self.every) else found

    def asked(self, op: str, dtype: str) -> list[Sample]:
        """Return the samples of an operation that have this dtype and need nothing that the backend lacks."""
        if self.missing(*of_dtype(dtype)):
            return []
        return [sample for sample in of_kind(op, dtype) if not self.missing(*of_sample(sample))]

    def run_samples(self, check: Callable[..., None], samples: Sequence[Sample], dtype: str) -> None:
        left_out = []
        for sample in samples:
            run = SampleRun(self, sample, dtype)
            if sample.beyond and not run.possible():
                left_out.append(f"beyond the standard: {sample.beyond}")
                continue
            if sample.beyond and not run.slopes.known:
                left_out.append(f"requires SciPy: it gives the expected values of {sample.op}")
                continue
            try:
                check(run)
                self.counts[run.outcome] += 1
            except (Exception, pytest.fail.Exception) as error:  # the latter is not an Exception
                error.add_note(f"The sample is {sample}.")
                self.failing = run.call, dtype
                raise
        if len(left_out) == len(samples):
            pytest.skip(left_out[0])


class SampleRun:
    """One sample on the backend under test, in one precision.

    Attributes
    ----------
    outcome : str
        How it counts when its check has ended: ``"ran"``, ``"refused"`` or ``"left out"``.
    """

    outcome = "ran"

    def __init__(self, kit: Conformance, sample: Sample, dtype: str, factor: float = 1.0) -> None:
        self.kit: Conformance = kit
        self.dtype: str = dtype
        self.slopes: Slopes = slopes_of(sample, factor)
        self.call: SampleCall = self.slopes.call
        self.arrays: list[Any] = [self.rounded(a) for a in self.call.arrays]
        self.every: range = range(len(self.arrays))

    def rounded(self, array: Any) -> Any:
        """Return an inexact reference array in the precision of the test."""
        name = str(array.dtype)
        return library().astype(array, SINGLE[name]) if self.dtype in DOUBLE and name in SINGLE else array

    def tensor(self, array: Any, *, requires_grad: bool = False) -> Any:
        return self.kit.tensor(self.rounded(array), requires_grad=requires_grad)

    def leaves(self, needed: Sequence[int]) -> list[Any]:
        """Return the operands as tensors, some of which require a gradient."""
        return [self.tensor(a, requires_grad=k in needed) for k, a in enumerate(self.arrays)]

    def results(self, operands: Sequence[Any]) -> list[Any]:
        """Run the call; if the library chooses signs, its results get those of the reference."""
        results = self.call.tensors(operands, self.tensor)
        free = SIGNS.get(self.call.op.name)
        if free is None or self.dtype.startswith("complex"):
            return results
        np, first = library(), min(free)
        signs = np.sign(np.sum(self.kit.host(results[first]) * self.slopes.results[first], axis=-2, keepdims=True))
        if not np.all(signs == 1):
            for i, axis in free.items():
                own = signs[..., : results[i].shape[axis]]
                results[i] = results[i] * self.tensor(own if axis == -1 else np.matrix_transpose(own))
        return results

    def residuals(self) -> list[Any]:
        """Return the extra results of a fused kernel: arrays, or None where the rule can do without."""
        op = self.call.op
        if not op.rule.residuals:
            return []
        arrays = [t._raw for t in self.leaves(())]
        (made,) = self.call.tensors(arrays, lambda a: self.tensor(a)._raw, op.kernel_of(self.kit.backend.xp))
        return [None if part is None else self.kit.host(part) for part in made[1:]]

    def directions(self) -> list[Any]:
        return [self.tensor(t) for t in self.call.tangents]

    def duals(self, at: int, leaves: Sequence[Any], subset: Sequence[int] | None = None) -> list[Any]:
        """Return tensors with the tangents of some operands, or of all."""
        return [
            with_tangent(leaf, self.tensor(self.call.tangents[k]), at) if subset is None or k in subset else leaf
            for k, leaf in enumerate(leaves)
        ]

    def cotangents(self, results: Sequence[Any], *, requires_grad: bool = False) -> tuple[list[Any], list[Any]]:
        """Return cotangents of the results, as tensors and as reference arrays."""
        np = library()
        given, arrays = [], []
        for result, value in zip(results, self.call.drawn("cotangents", self.slopes.results), strict=True):
            if any(n != n for n in result.shape):  # of unknown shape: created from the result itself
                made, array = ag.ones_like(result.detach()), np.ones_like(value)
                made.requires_grad_(requires_grad)
            else:
                array = np.astype(value, self.kit.backend.dtype_name(result.dtype))
                made = self.kit.tensor(array, requires_grad=requires_grad)
            given.append(made)
            arrays.append(array)
        return given, arrays

    def possible(self) -> bool:
        """Return whether the backend can run a sample that needs more than the standard."""
        try:
            self.kit.hosts(self.call.tensors(self.leaves(self.every), self.tensor))
        except Exception:  # noqa: BLE001 (libraries refuse in their own ways)
            return False
        return True

    def size(self, first: Sequence[Any], second: Sequence[Any]) -> float:
        np = library()
        return inner([np.abs(a) for a in first], [np.abs(b) for b in second])

    def dot(self, found: Sequence[Any], directions: Sequence[Any]) -> float:
        """Return Re<found, directions>, None standing for zero."""
        pairs = [(f, d) for f, d in zip(found, directions, strict=False) if f is not None]
        return inner([f for f, _ in pairs], [d for _, d in pairs])

    def along(self, k: int, gradient: Any, cotangents: Sequence[Any], what: str) -> None:
        """Check a gradient along its operand's direction."""
        pushed = self.slopes.pushed[k]
        wanted, found = inner(cotangents, pushed), inner([gradient], [self.call.tangents[k]])
        scale = max(1.0, self.size(cotangents, pushed), self.size([gradient], [self.call.tangents[k]]))
        if not abs(found - wanted) <= FIRST[self.dtype] * scale:
            pytest.fail(f"{what} is wrong: along a direction it is {found}, by finite differences {wanted}")
