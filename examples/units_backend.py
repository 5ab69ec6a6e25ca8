"""Quantities of pint as arrays: units go through operations and their derivatives, and what does not fit raises.

A unit is nothing that a spec has to know. Derivatives are made of products, sums and moves of elements, so that the library computes
their units as it does for any other array: a gradient has the unit of the result by that of the operand. Two places are left to the
backend. Zeros that a gradient is put into have the unit of what is put there (`scatter_add`); and an array with a unit does not leave
for a library that has none (`to_host`).

Run it: ``python examples/units_backend.py`` (``pip install pint``).
"""

from __future__ import annotations

import functools

import array_api_compat.numpy as xp
import numpy as np
import pint
import pluggy

import agrad as ag

hookimpl = pluggy.HookimplMarker("agrad")

#: The units of the program. Quantities of one registry do not mix with those of another.
units = pint.get_application_registry()

#: Functions that move elements and leave the unit as it is, of which pint knows some.
MOVES = ("flip", "roll", "take", "take_along_axis", "moveaxis", "permute_dims", "repeat", "sort", "tile", "unstack")

#: Those whose result has no unit, whatever the operand has.
UNITLESS = ("ones_like", "zeros_like", "isnan", "isfinite", "isinf", "sign", "argmax", "argmin", "argsort", "signbit")


def quantity(value, unit="dimensionless"):
    """Return an array of NumPy's, or a tuple of them, as quantities."""
    if isinstance(value, tuple | list):
        made = [quantity(part, unit) for part in value]
        return type(value)(*made) if hasattr(value, "_fields") else tuple(made)
    if isinstance(value, np.ndarray | np.generic):
        return units.Quantity(np.asarray(value), unit)
    return value


def bare(value):
    """Return the elements of quantities that have no unit; those with one raise."""
    if isinstance(value, pint.Quantity):
        return np.asarray(value.m_as("dimensionless"))
    return type(value)(map(bare, value)) if type(value) in (tuple, list) else value


def numbers(value):
    """Return the elements of a quantity in its own unit."""
    return np.asarray(value.magnitude) if isinstance(value, pint.Quantity) else value


def kernel(name, function):
    """Return a function of the standard on quantities: pint's, or NumPy's on elements."""

    @functools.wraps(function)
    def call(*args, **options):
        if name in MOVES:
            first, *rest = args
            return quantity(function(numbers(first), *map(numbers, rest), **options), getattr(first, "units", ""))
        if name in UNITLESS:
            return quantity(function(*map(numbers, args), **options))
        if name == "astype":
            return units.Quantity(function(numbers(args[0]), *args[1:], **options), args[0].units)
        if not any(isinstance(a, pint.Quantity) and not a.dimensionless for a in _flat(args)):
            return quantity(function(*map(bare, args), **{key: bare(value) for key, value in options.items()}))
        return quantity(function(*args, **options))  # pint's, by NumPy's protocols: it computes the unit, or refuses

    return call


def _flat(values):
    for value in values:
        yield from _flat(value) if isinstance(value, tuple | list) else (value,)


class Namespace:
    """NumPy's functions on quantities."""

    __name__ = "units"
    __version__ = pint.__version__

    def __getattr__(self, name):
        found = getattr(xp, name)
        if name in ("linalg", "fft"):
            raise AttributeError(name)
        if name == "asarray":
            return lambda x, *, dtype=None, copy=None: quantity(xp.asarray(bare(x), dtype=dtype, copy=copy))
        plain = (
            isinstance(found, type)
            or not callable(found)
            or name in ("isdtype", "finfo", "iinfo", "result_type", "can_cast")
        )
        return found if plain or name.startswith("__") else kernel(name, found)


class UnitsBackend(ag.Backend):
    """Quantities over NumPy's arrays."""

    name = "units"
    contract = 2
    capabilities = {  # noqa: RUF012
        "linalg": "left out here",
        "fft": "left out here",
        "operators that give way": "pint takes what it does not know",
    }
    assigns = False

    @functools.cached_property
    def _namespace(self):
        return Namespace()

    def namespace(self):
        return self._namespace

    def as_array(self, value):
        return quantity(np.asarray(value)) if isinstance(value, np.ndarray | np.generic | float | int) else value

    def asarray(self, value, *, dtype=None, device=None, copy=None, like=None):
        if isinstance(value, pint.Quantity):
            dtype = None if dtype is None else self.dtype(dtype)
            return units.Quantity(np.array(value.magnitude, dtype=dtype), value.units)
        return super().asarray(value, dtype=dtype, device=device, copy=copy)

    def kernel(self, op):
        if op == "getitem":
            return lambda x, key: units.Quantity(np.asarray(x.magnitude[_key(key)]), x.units)
        return None

    def scatter_add(self, spec, key, values):
        made = np.zeros(spec.shape, values.dtype)
        np.add.at(made, _key(key), values.magnitude)
        return units.Quantity(made, values.units)

    def setitem(self, array, key, value):
        made = np.array(array.magnitude)
        made[_key(key)] = value.m_as(array.units)
        return units.Quantity(made, array.units)

    def lend(self, array):
        return self.asarray(array, copy=True)

    def to_host(self, array):
        if not array.dimensionless:
            raise ag.UnsupportedOp(
                "to_device", self.name, f"its unit, {array.units}, would be lost: divide by one first"
            )
        return bare(array)

    def from_host(self, buffer, device):
        return quantity(np.array(buffer))

    def text_of(self, array):
        return f"tensor({array})"


def _key(key):
    parts = key if isinstance(key, tuple) else (key,)
    return tuple(map(numbers, parts))


backend = UnitsBackend()


@hookimpl
def agrad_backends():
    return [backend]


@hookimpl
def agrad_backend_of(array_type):
    return (
        "units"
        if any(t.__module__.startswith("pint.") and t.__name__.endswith("Quantity") for t in array_type.__mro__)
        else None
    )


if __name__ == "__main__":
    import sys

    ag.register(sys.modules[__name__])
    x = units.Quantity(np.asarray([3.0, 4.0]), "meter")
    t = units.Quantity(np.asarray([2.0, 5.0]), "second")
    print(ag.grad(lambda x: ag.sum(x * x))(x))
    print(ag.grad(lambda x: ag.sum(x / t))(x))
    print(ag.grad(lambda t: ag.sum(ag.divide(x, t)))(t))  # pint would take a tensor on the right for a number
    print(ag.grad(lambda x: x[0] * x[1])(x))
    print(ag.grad(lambda x: ag.sqrt(ag.sum(x * x)))(x))
    print(ag.grad(lambda x: ag.sum(ag.square(ag.take(x, quantity(np.asarray([0, 0, 1]))))))(x))
    try:
        ag.exp(x)
    except pint.DimensionalityError as error:
        print(error)
    try:
        ag.asarray(x).to_device("numpy")
    except ag.UnsupportedOp as error:
        print(error)
