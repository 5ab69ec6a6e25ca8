"""Random numbers: a key decides, whatever was drawn before; and they are distributed as they should be."""

from __future__ import annotations

import threading
from typing import Any

import pytest

import agrad as ag
from agrad.testing.calls import library
from agrad.testing.suite.base import Conformance

#: The number of draws for examining a distribution; the bounds below are more than five standard errors wide.
MANY = 20_000

KINDS: dict[str, dict[str, Any]] = {
    "uniform": {},
    "normal": {},
    "integers": {"low": -3, "high": 5},
    "permutation": {"n": 50},
}

of_kinds: pytest.MarkDecorator = pytest.mark.parametrize("kind", KINDS)


class TestRandom(Conformance):
    """`Backend.random`, and the functions on it."""

    def draw(self, kind: str, key: tuple[int, int], shape: tuple[int, ...] = (50,)) -> Any:
        dtype = self.backend.dtype("float32" if kind in ("uniform", "normal") else "int32")
        return self.backend.random(kind, shape, key, dtype=dtype, device=self.device, **KINDS[kind])

    @of_kinds
    def test_same_key_same_numbers(self, kind: str) -> None:
        """One key gives the same numbers each time, whatever was drawn in between."""
        first = self.host(self.draw(kind, (7, 1))).tolist()
        self.draw(kind, (8, 1))
        self.draw("normal", (7, 2))
        assert self.host(self.draw(kind, (7, 1))).tolist() == first

    @of_kinds
    def test_another_key_other_numbers(self, kind: str) -> None:
        """Another seed, or another counter, gives other numbers."""
        first = self.host(self.draw(kind, (7, 1))).tolist()
        for key in ((7, 2), (8, 1), (2**40 + 7, 1), (1, 7)):
            assert self.host(self.draw(kind, key)).tolist() != first, f"the key {key} gives the numbers of (7, 1)"

    @of_kinds
    def test_shape_and_dtype(self, kind: str) -> None:
        """The requested shape, dtype and device, also 0-d and without elements."""
        shapes = [(50,)] if kind == "permutation" else [(), *self.empty((0, 3)), (2, 3)]
        for shape in shapes:
            spec = self.backend.spec(self.draw(kind, (1, 1), shape))
            assert spec.shape == shape
            assert self.backend.dtype_name(spec.dtype) == ("float32" if kind in ("uniform", "normal") else "int32")
            assert spec.device == self.device

    def test_seed_and_order(self) -> None:
        """manual_seed restarts; a separate generator is not affected by other draws."""
        ag.manual_seed(3)
        first = [self.host(ag.rand(4, dtype="float32", device=self.device)).tolist() for _ in range(2)]
        ag.manual_seed(3)
        mine = ag.random.Generator(11)
        one = self.host(ag.randn(4, dtype="float32", device=self.device, generator=mine)).tolist()
        second = [self.host(ag.rand(4, dtype="float32", device=self.device)).tolist() for _ in range(2)]
        assert first == second
        assert first[0] != first[1]
        again = ag.random.Generator(11)
        assert self.host(ag.randn(4, dtype="float32", device=self.device, generator=again)).tolist() == one

    def test_threads_do_not_matter(self) -> None:
        """A key gives its numbers on any thread."""
        self.require("threads")
        expected = self.host(self.draw("normal", (5, 9))).tolist()
        found: list[Any] = []
        threads = [threading.Thread(target=lambda: found.append(self.draw("normal", (5, 9)))) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert [self.host(a).tolist() for a in found] == [expected] * 4

    def test_uniform(self) -> None:
        """Uniform on [0, 1): bounds, mean, variance, and independent neighbours."""
        np, x = library(), self.host(self.draw("uniform", (1, 2), (MANY,))).astype("float64")
        assert x.min() >= 0
        assert x.max() < 1
        assert abs(x.mean() - 1 / 2) < 0.012
        assert abs(x.var() - 1 / 12) < 0.004
        assert abs(float(np.mean((x[1:] - 0.5) * (x[:-1] - 0.5)))) < 0.004
        assert len(set(x.tolist())) > MANY * 0.99

    def test_normal(self) -> None:
        """The standard normal distribution by its first four moments."""
        x = self.host(self.draw("normal", (1, 3), (MANY,))).astype("float64")
        for power, expected, width in ((1, 0, 0.04), (2, 1, 0.06), (3, 0, 0.15), (4, 3, 0.4)):
            found = float((x**power).mean())
            assert abs(found - expected) < width, f"moment {power} is {found}, expected {expected}"

    def test_integers(self) -> None:
        """Integers from low to before high, all about as often."""
        x = self.host(self.draw("integers", (1, 4), (MANY,))).tolist()
        assert set(x) == set(range(-3, 5))
        for value in range(-3, 5):
            assert abs(x.count(value) / MANY - 1 / 8) < 0.014

    def test_permutation(self) -> None:
        """Each of 0 to n - 1 once."""
        assert sorted(self.host(self.draw("permutation", (1, 5))).tolist()) == list(range(50))

    def test_functions(self) -> None:
        """rand, randn, randint, randperm and ``*_like`` create tensors on the device."""
        x = ag.rand(2, 3, dtype="float32", device=self.device, requires_grad=True)
        assert x.is_leaf
        for made, shape in (
            (x, (2, 3)),
            (ag.randn((2,), dtype="float32", device=self.device), (2,)),
            (ag.randint(0, 5, (4,), dtype="int32", device=self.device), (4,)),
            (ag.randperm(3, dtype="int32", device=self.device), (3,)),
            (ag.rand_like(x.detach()), (2, 3)),
            (ag.randn_like(x.detach()), (2, 3)),
        ):
            assert (made.shape, made.device) == (shape, self.device)
            assert made._spec.backend is self.backend
