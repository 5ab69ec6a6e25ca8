"""The base of all tests of the kit: the backend under test, creating and reading operands, requirements."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Self

import pytest

import agrad as ag
from agrad.core.backend import Backend
from agrad.core.errors import UnsupportedOp
from agrad.core.kernels import beyond
from agrad.core.requirements import REQUIREMENTS
from agrad.core.spec import Spec
from agrad.core.tensor import Tensor
from agrad.plugin import manager
from agrad.testing.calls import library
from agrad.testing.harness import Harness, harness_of

__all__ = ["FEW", "Conformance", "requires"]

#: How many samples of an elementwise operation the longer tests of a lazy backend run.
FEW = 2


def requires(*requirements: str) -> pytest.MarkDecorator:
    """Mark a test as one for backends that have these things.

    Parameters
    ----------
    *requirements : str
        Names of `agrad.core.requirements`, as ``"float64"``. If the backend lacks one (`Backend.cannot`), the test is
        skipped, with a reason that begins with ``requires float64:``.

    Examples
    --------
    >>> from agrad.testing.suite import Conformance, requires
    >>> class TestMine(Conformance):
    ...     @requires("float64", "complex")
    ...     def test_phases(self): ...
    """
    unknown = [name for name in requirements if name not in REQUIREMENTS]
    if unknown:
        raise ValueError(f"no requirement is called {', '.join(unknown)}; there are: {', '.join(REQUIREMENTS)}")
    return pytest.mark.agrad_requires(*requirements)


class Conformance:
    """The base of every test class of the kit.

    Attributes
    ----------
    agrad_backend : str
        The backend (or device) to test. Empty: the option ``--agrad-backend``, or ``agrad_backend`` of the ini file.
    xfails : mapping of str to str
        Tests of the class that are expected to fail, by name (as ``test_reverse[sort-float64]``, or ``test_reverse``
        for all of them), with the reason. One that passes counts as a failure.
    backend, device, xp
        The `Backend` under test, the device, and agrad's namespace bound to the backend.
    harness : Harness
        How its arrays are created, and how to detect that nothing computes.
    """

    agrad_backend: ClassVar[str] = ""
    xfails: ClassVar[Mapping[str, str]] = {}
    is_agrad_conformance: bool = True

    #: The kit reads one value after the other.
    pytestmark: Any = pytest.mark.filterwarnings("ignore::agrad.core.errors.RecomputeWarning")

    #: False for tests that also apply to a backend that cannot be used here.
    needs_backend: ClassVar[bool] = True

    #: Whether to run one sample per operation.
    quick: bool = False

    #: Whether the longer tests run every sample, too.
    every: bool = False

    #: The executor that runs programs; None: the backend itself.
    executor: Any = None

    name: str
    backend: Backend
    harness: Harness
    device: str
    xp: Any

    @pytest.fixture(autouse=True)
    def _backend_under_test(self, request: pytest.FixtureRequest) -> None:
        device = (
            self.agrad_backend
            or request.config.getoption("agrad_backend", default=None)
            or request.config.getini("agrad_backend")
        )
        if not device:
            pytest.fail("which backend? pytest --pyargs agrad.testing.suite --agrad-backend=NAME", pytrace=False)
        for test in (request.node.name, request.node.originalname):
            if test in self.xfails:
                request.applymarker(pytest.mark.xfail(reason=self.xfails[test], strict=True))
        self.quick = request.config.getoption("agrad_quick", default=False)
        self.every = request.config.getoption("agrad_every", default=False)
        self.executor = request.config.getoption("agrad_executor", default=None)
        self.use(device)
        for mark in request.node.iter_markers("agrad_requires"):
            self.require(*mark.args)

    @classmethod
    def on(cls, device: str, *, quick: bool = False) -> Self:
        """Return the tests of the class for a backend (or device), to call without pytest."""
        tests = cls()
        tests.quick = quick
        tests.use(device)
        return tests

    def use(self, device: str) -> None:
        """Test this backend (or device): skip if it is not available, unless the tests are about that."""
        self.name, self.device = device.partition(":")[0], device
        row = manager.backend_info(self.name)
        if row is None:
            rows = ", ".join(map(str, manager.backends()))
            pytest.fail(f"no backend {self.name!r} is registered; there are: {rows}", pytrace=False)
        if not row.available:
            if self.needs_backend:
                pytest.skip(f"{self.name} is not available: {row.reason}")
            return
        self.backend = manager.usable(device)
        self.device = device if ":" in device else self.backend.default_device()
        self.xp = ag.namespace(self.name)
        self.harness = harness_of(self.name)

    def require(self, *requirements: str) -> None:
        """Skip the rest of a test unless the backend meets these requirements."""
        missing = self.missing(*requirements)
        if missing:
            pytest.skip(missing)

    def missing(self, *requirements: str) -> str:
        """Return the first that the backend has not, with the reason, as ``requires fft: ...``; an empty text if none."""
        reasons = ((name, self.backend.cannot(name, self.device)) for name in requirements)
        return next((f"requires {name}: {reason}" for name, reason in reasons if reason), "")

    def empty(self, *cases: Any) -> tuple[Any, ...]:
        """Return cases without elements; none if the backend has no such arrays."""
        return () if self.missing("empty arrays") else cases

    def lacking(self, error: UnsupportedOp) -> None:
        """End the test as an expected failure if the backend declares that it lacks the operation; otherwise raise.

        Functions newer than the version of the standard that the namespace follows are omitted.
        """
        reason = self.backend.lacks.get(error.op)
        if reason is None and beyond(self.backend, error.op):
            pytest.skip(f"beyond the standard of its namespace: {error}")
        if reason is None:
            raise error
        pytest.xfail(f"{error.op}: {reason}")

    # -- making and reading -------------------------------------------------------------------------------------------

    @property
    def real(self) -> str:
        """The real dtype for tests where any will do."""
        return "float32" if self.missing("float64") else "float64"

    @property
    def tolerance(self) -> float:
        """The tolerance of a few operations in that dtype."""
        return 1e-12 if self.real == "float64" else 2e-5

    def tensor(self, data: Any, dtype: str | None = None, *, requires_grad: bool = False) -> Tensor:
        """Create a tensor on the backend from Python numbers or a reference array, in the harness's form."""
        np = library()
        if dtype is None and not hasattr(data, "dtype"):
            host = np.asarray(data)
            dtype = self.real if np.isdtype(host.dtype, "real floating") else None
        host = np.asarray(data, dtype=dtype)
        raw = self.harness.specimen(self.backend, host, self.device)
        made: Tensor = ag.asarray(raw, device=self.device, requires_grad=requires_grad)
        return made

    def hosts(self, tensors: Sequence[Any]) -> list[Any]:
        """Read tensors (or raw arrays) as reference arrays, in one pass."""
        np = library()
        raws = [t._raw if isinstance(t, Tensor) else t for t in tensors]
        if self.backend.is_lazy and raws:
            raws = list(self.backend.realize(*raws))
        return [np.asarray(self.backend.to_host(raw)) for raw in raws]

    def host(self, tensor: Any) -> Any:
        """Read one tensor (or raw array) as a reference array."""
        return self.hosts([tensor])[0]

    def grad(self, f: Any, *operands: Tensor) -> list[Any]:
        """Return the gradients of ``sum(f(*operands))`` as reference arrays."""
        result = f(*operands)
        return self.hosts(ag.autograd.grad(ag.sum(result), list(operands)))

    # -- comparing ----------------------------------------------------------------------------------------------------

    def check_spec(self, tensor: Any, spec: Spec, what: str) -> None:
        """Check that a tensor belongs to the backend, with the shape, dtype and device of a spec, also by its raw array."""
        assert isinstance(tensor, Tensor), f"{what} is a {type(tensor).__name__}, not a Tensor"
        found = tensor._spec
        assert found.backend is self.backend, f"{what} is on {found.backend.name}, expected {self.name}"
        assert found.device == spec.device, f"{what} is on {found.device}, expected {spec.device}"
        assert same_shape(found.shape, spec.shape), f"{what} has shape {found.shape}, expected {spec.shape}"
        assert found.dtype == spec.dtype, f"{what} has dtype {found.dtype}, expected {spec.dtype}"
        own = self.backend.spec(tensor._raw)
        assert same_shape(own.shape, found.shape), f"the array of {what} has shape {own.shape}, its spec {found.shape}"
        assert own.dtype == found.dtype, f"the array of {what} has dtype {own.dtype}, its spec {found.dtype}"

    def close(self, found: Any, expected: Any, tolerance: float | None = None, what: str = "the value") -> None:
        """Compare a tensor or array with expected numbers: shape, and values with an error relative to the largest."""
        np = library()
        found = (
            found
            if type(found).__module__ == np.__name__ or hasattr(found, "__array_interface__")
            else self.host(found)
        )
        found, expected = np.asarray(found), np.asarray(expected)
        assert found.shape == expected.shape, f"{what} has shape {found.shape}, expected {expected.shape}"
        if not found.size:
            return
        allowed = self.tolerance if tolerance is None else tolerance
        finite = np.isfinite(expected)
        scale = max(1.0, float(np.max(np.abs(np.where(finite, expected, 0)))))
        same = np.where(finite, np.abs(np.where(finite, found - expected, 0)) <= allowed * scale, found == expected)
        same = same | (np.isnan(expected) & np.isnan(found))
        if not np.all(same):
            place = tuple(int(i) for i in np.argwhere(~same)[0])
            wrong = f" at {place}" if place else ""
            message = (
                f"{what} is wrong: {found[place]!r}{wrong}, expected {expected[place]!r}"
                f" (to {allowed:.0e} of {scale:.3g}); {int(np.sum(~same))} of {found.size} are"
            )
            pytest.fail(message)


def named(kind: type, wanted: type | None = None) -> str:
    """Return the name of a class with that of its module, and how it differs from another one of the same name."""
    text = f"{kind.__module__}.{kind.__qualname__}"
    if wanted is None or kind is wanted or text != f"{wanted.__module__}.{wanted.__qualname__}":
        return text
    return (
        f"{text}, another class of that name ({id(kind):#x}, not {id(wanted):#x}): namespace() has to give one object"
    )


def same_shape(first: tuple[Any, ...], second: tuple[Any, ...]) -> bool:
    """Compare shapes; nan (unknown) is like anything."""
    return len(first) == len(second) and all(a == b or a != a or b != b for a, b in zip(first, second, strict=True))
