"""Indexing and assignment: every kind of key, the values, and where the gradients go.

Expected values come from NumPy's own indexing of the same numbers.
"""

from __future__ import annotations

import functools
from typing import Any

import pytest

import agrad as ag
from agrad.core.errors import UnsupportedOp
from agrad.testing.calls import library
from agrad.testing.suite.base import Conformance


def integers(*values: int) -> Any:
    return library().asarray(values, dtype="int64")


def mask(*values: int) -> Any:
    return library().asarray(list(map(bool, values)))


#: Keys for an array of shape (3, 4), in the standard; arrays are made when a test runs.
KEYS: dict[str, Any] = {
    "1": lambda: (1, ...),
    "-1": lambda: (-1, ...),
    "1, 2": lambda: (1, 2),
    "1:": lambda: (slice(1, None), ...),
    "::-1": lambda: (slice(None, None, -1), ...),
    ":, 1:3": lambda: (slice(None), slice(1, 3)),
    "::2, ::-2": lambda: (slice(None, None, 2), slice(None, None, -2)),
    "..., 0": lambda: (..., 0),
    "None, 1": lambda: (None, 1, ...),
    ":, None": lambda: (slice(None), None, slice(None)),
    "2:1": lambda: (slice(2, 1), ...),
    "...": lambda: ...,
    "integers": lambda: (integers(2, 0, 2), integers(1, 3, 1)),
    "integers and an integer": lambda: (integers(2, 0, 2), 1),
}

#: What some of them need.
NEEDS = {
    "2:1": ("empty arrays",),
    "integers": ("integer indexing",),
    "integers and an integer": ("integer indexing",),
}

#: Keys with boolean arrays.
MASKS: dict[str, Any] = {
    "mask of rows": lambda: mask(1, 0, 1),
    "mask of all": lambda: library().reshape(mask(1, 0, 0, 1, 0, 1, 1, 0, 0, 0, 1, 1), (3, 4)),
}

#: Keys that the standard has for reading and not for assigning.
READ_ONLY = ("integers", "integers and an integer", "mask of rows", ":, None", "None, 1")


class TestIndexing(Conformance):
    """Keys."""

    def key(self, key: Any) -> Any:
        """Return a key with tensors in place of arrays."""
        if isinstance(key, tuple):
            return tuple(map(self.key, key))
        return self.tensor(key) if hasattr(key, "dtype") else key

    def start(self) -> Any:
        np = library()
        return np.reshape(np.arange(12, dtype=self.real), (3, 4)) + 0.5

    def check_read(self, key: Any) -> None:
        np, array = library(), self.start()
        x = self.tensor(array, requires_grad=True)
        try:
            y = x[self.key(key)]
            weights = np.reshape(np.arange(array[key].size, dtype=self.real), array[key].shape) + 1.0
            self.close(y.detach(), array[key], 0.0)
            unknown = any(n != n for n in y.shape)
            given = ag.ones_like(y.detach()) if unknown else self.tensor(weights)
            (g,) = ag.autograd.grad(y, x, given)
        except UnsupportedOp as error:
            self.lacking(error)
        expected = np.zeros_like(array)
        np.add.at(expected, key, np.ones_like(weights) if unknown else weights)
        self.check_spec(g, x._spec, "the gradient")
        self.close(g, expected, None, "the gradient")

    @pytest.mark.parametrize("name", KEYS)
    def test_read(self, name: str) -> None:
        """x[key], and its gradient: repeated positions accumulate."""
        self.require(*NEEDS.get(name, ()))
        self.check_read(KEYS[name]())

    @pytest.mark.parametrize("name", MASKS)
    def test_read_by_mask(self, name: str) -> None:
        """x[mask], and its gradient."""
        self.require("boolean indexing")
        self.check_read(MASKS[name]())

    @pytest.mark.parametrize("name", [name for name in KEYS if name not in READ_ONLY])
    def test_assign(self, name: str) -> None:
        """x[key] = v: the value, the gradients with respect to x and v; the earlier value of x is unchanged."""
        self.require(*NEEDS.get(name, ()))
        np, array, key = library(), self.start(), KEYS[name]()
        value = -1.0 - np.reshape(np.arange(array[key].size, dtype=self.real), array[key].shape)
        leaf, v = self.tensor(array, requires_grad=True), self.tensor(value, requires_grad=True)
        x = leaf * 1.0
        x[self.key(key)] = v
        expected = array.copy()
        expected[key] = value
        self.close(x.detach(), expected, 0.0)
        self.close(leaf.detach(), array, 0.0, "the tensor before")
        by_x, by_v = ag.autograd.grad((x * x).sum(), [leaf, v])
        kept = 2 * array
        kept[key] = 0.0
        self.close(by_x, kept, None, "the gradient by x")
        self.close(by_v, 2 * value, None, "the gradient by v")

    def test_assign_at_a_mask(self) -> None:
        """x[mask] = number."""
        self.require("boolean indexing")
        array, key = self.start(), MASKS["mask of all"]()
        leaf = self.tensor(array, requires_grad=True)
        x = leaf * 1.0
        x[self.tensor(key)] = -2.0
        expected = array.copy()
        expected[key] = -2.0
        self.close(x.detach(), expected, 0.0)
        (g,) = ag.autograd.grad(x.sum(), leaf)
        self.close(g, library().where(key, 0.0, 1.0), None, "the gradient")

    def test_scatter_add_repeats(self) -> None:
        """`Backend.scatter_add`: zeros with values added; a position that is named three times gets three."""
        self.require("integer indexing")
        spec = self.tensor([0.0] * 5)._spec
        values = self.tensor([1.0, 2.0, 4.0, 8.0])._raw
        made = self.backend.scatter_add(spec, self.tensor(integers(3, 1, 3, 3))._raw, values)
        self.close(made, [0.0, 2.0, 0.0, 13.0, 0.0], 0.0, "scatter_add at [3, 1, 3, 3]")
        self.close(values, [1.0, 2.0, 4.0, 8.0], 0.0, "the values")
        spec = self.tensor([[0.0] * 2] * 3)._spec
        key = (self.tensor(integers(2, 0, 2))._raw, self.tensor(integers(1, 1, 1))._raw)
        made = self.backend.scatter_add(spec, key, self.tensor([1.0, 2.0, 4.0])._raw)
        self.close(made, [[0.0, 2.0], [0.0, 0.0], [0.0, 5.0]], 0.0, "scatter_add at pairs")
        found = self.backend.spec(made)
        assert (found.shape, found.dtype) == (spec.shape, spec.dtype), (
            "scatter_add gives the shape and dtype of its spec"
        )

    def test_take(self) -> None:
        """take with repeated indices, by axis."""
        np, array = library(), self.start()
        x = self.tensor(array, requires_grad=True)
        y = ag.take(x, self.tensor(integers(3, 0, 3)), axis=1)
        self.close(y.detach(), array[:, [3, 0, 3]], 0.0)
        (g,) = ag.autograd.grad(y.sum(), x)
        self.close(g, np.broadcast_to(np.asarray([1.0, 0.0, 0.0, 2.0]), (3, 4)), None, "the gradient")

    def test_negative_places(self) -> None:
        """An array of integers with -1 in it, which the standard leaves open: it counts from the end, or is an error."""
        for read in (ag.take, functools.partial(ag.take_along_axis, axis=0)):
            try:
                made = self.host(read(self.tensor([1.0, 2.0, 3.0]), self.tensor(integers(-1, 0))))
            except Exception:  # noqa: BLE001, S112 (libraries refuse in their own ways)
                continue
            self.close(made, [3.0, 1.0], 0.0)

    @pytest.mark.filterwarnings("ignore::RuntimeWarning")  # of the library, on the infinite derivative
    def test_what_is_left_out(self) -> None:
        """An infinite derivative behind an element that `where` excludes does not reach the gradient as 0 times infinity."""
        x = self.tensor([0.0, 4.0], requires_grad=True)
        self.close(self.grad(lambda x: ag.where(x > 0, ag.sqrt(x), 0.0), x)[0], [0.0, 0.25])

    def test_out_of_bounds(self) -> None:
        """A position that does not exist is an error, and the tensor is unchanged."""
        x = self.tensor([1.0, 2.0, 3.0])
        with pytest.raises(IndexError):
            x[7]
        with pytest.raises(IndexError):
            x[0, 0]
        self.close(x, [1.0, 2.0, 3.0], 0.0)
