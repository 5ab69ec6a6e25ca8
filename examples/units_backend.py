"""Quantities of pint as arrays: units propagate through operations and their derivatives, and incompatible units raise.

A spec does not contain the unit. Derivatives consist of products, sums and moves of elements, so that the units of
their
results follow from those of the operands: a gradient has the unit of the result divided by that of the operand. Three
things are left to the backend. The unit of a function's result if pint does not define it (the tables below). That 0 is
compatible with any unit, because derivatives use it as a filler. And that a unit is not lost: if an array is
transferred to a library without units (`to_host`), or a function reads its elements (`Array.__array__`), it raises.

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

#: The units of the program. Quantities of different registries cannot be mixed.
units = pint.get_application_registry()

#: Functions whose result has the unit of their first operand.
KEEPS = (
    *("astype", "cumulative_sum", "flip", "moveaxis", "permute_dims", "repeat", "roll", "sort", "take"),
    *("take_along_axis", "tile", "tril", "triu", "unstack", "linalg.diagonal", "linalg.trace", "linalg.vector_norm"),
)

#: Functions whose result has the unit of the product of two operands.
PRODUCTS = ("matmul", "tensordot", "vecdot", "linalg.cross", "linalg.outer")

#: Functions whose operands have one unit, which is also that of the result.
ALIKE = ("add", "clip", "fmod", "hypot", "maximum", "minimum", "remainder", "subtract")

#: Functions whose operands have one unit, but not the result.
COMPARED = ("atan2", "equal", "greater", "greater_equal", "less", "less_equal", "not_equal")

#: Functions whose result has no unit, whatever the operand's.
UNITLESS = (
    *("argmax", "argmin", "argsort", "full_like", "isfinite", "isinf", "isnan", "ones_like", "sign", "signbit"),
    "zeros_like",
)


class Array(units.Quantity):
    """A quantity whose comparisons return arrays, and to which 0 may be added, as if it had the same unit."""

    def __array__(self, dtype=None, copy=None):
        return np.array(bare(self), dtype)  # for functions that would drop a unit

    def __reduce__(self):
        return Array, (self.magnitude, self.units)

    def __invert__(self):
        return quantity(~self.magnitude)

    __hash__ = units.Quantity.__hash__


def operator(name, unit=True):
    """Return an operator on two operands converted to one unit."""

    def call(self, other):
        *both, common = in_one_unit(self, other)
        return Array(getattr(both[0], name)(both[1]), common if unit else "")

    return call


for _name in ("add", "radd", "sub", "rsub"):
    setattr(Array, f"__{_name}__", operator(f"__{_name}__"))
for _name in ("eq", "ne", "lt", "le", "gt", "ge", "and", "or", "xor", "rand", "ror", "rxor"):
    setattr(Array, f"__{_name}__", operator(f"__{_name}__", unit=False))


def in_one_unit(*values):
    """Return the elements of operands in the unit of one of them, and the unit."""
    unit = next((v.units for v in values if isinstance(v, pint.Quantity) and not v.unitless), units.dimensionless)
    return *(numbers(v) if fits(v, unit) else units.Quantity(v).m_as(unit) for v in values), unit


def fits(value, unit):
    """Return whether a value without a unit can be combined with one that has a unit: 0, NaN, and arrays created like such a value."""
    if value is None or getattr(value, "beside", None) == unit:
        return True
    m = numbers(value)
    return bool(getattr(value, "unitless", True) and np.all((m == 0) | (m != m)))  # noqa: PLR0124 (NaN)


def quantity(value, unit="dimensionless"):
    """Return an array of NumPy's, a quantity, or a tuple of them, as an `Array`."""
    if isinstance(value, tuple | list):
        made = [quantity(part, unit) for part in value]
        return type(value)(*made) if hasattr(value, "_fields") else tuple(made)
    if isinstance(value, Array) and isinstance(value.magnitude, np.ndarray):
        return value
    if isinstance(value, pint.Quantity):
        return Array(np.asarray(value.magnitude), value.units)
    return Array(np.asarray(value), unit) if isinstance(value, np.ndarray | np.generic) else value


def bare(value):
    """Return the elements of quantities without a unit; raise for those with one."""
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
        if name in UNITLESS:
            made = quantity(function(*map(numbers, args), **options))
            if name.endswith("_like") and not args[0].unitless:
                made.beside = args[0].units  # rules put it where a value with that unit would be a divisor of 0
            return made
        if not any(isinstance(a, pint.Quantity) and not a.dimensionless for a in flat(args)):
            return quantity(function(*map(bare, args), **{key: bare(value) for key, value in options.items()}))
        if name in KEEPS and options.get("ord") != 0:  # a norm that counts has no unit
            return quantity(function(*map(numbers, args), **options), args[0].units)
        if name in PRODUCTS:
            return quantity(function(*map(numbers, args), **options), args[0].units * args[1].units)
        if name in ALIKE or name in COMPARED:
            *values, unit = in_one_unit(*args)
            return quantity(function(*values, **options), unit if name in ALIKE else "")
        if name in ("concat", "stack"):
            *values, unit = in_one_unit(*args[0])
            return quantity(function(values, **options), unit)
        if name == "where":
            *values, unit = in_one_unit(*args[1:])
            return quantity(function(numbers(args[0]), *values), unit)
        try:
            return quantity(function(*args, **options))  # pint's: it computes the unit, or refuses
        except pint.DimensionalityError:
            raise
        except TypeError as error:
            raise ag.UnsupportedOp(name, "units", f"pint says of no unit what it becomes ({error})") from error

    return call


def flat(values):
    for value in values:
        yield from flat(value) if isinstance(value, tuple | list) else (value,)


class Namespace:
    """NumPy's functions on quantities."""

    __name__ = "units"
    __version__ = pint.__version__

    def __init__(self, library, prefix=""):
        self._library, self._prefix = library, prefix

    def __getattr__(self, name):
        found = getattr(self._library, name)
        if name in ("linalg", "fft") and not self._prefix:
            return Namespace(found, f"{name}.")
        if name == "asarray":
            return lambda x, *, dtype=None, copy=None: quantity(xp.asarray(bare(x), dtype=dtype, copy=copy))
        plain = (
            isinstance(found, type)
            or not callable(found)
            or name in ("isdtype", "finfo", "iinfo", "result_type", "can_cast")
        )
        return found if plain or name.startswith("__") else kernel(self._prefix + name, found)


class UnitsBackend(ag.Backend):
    """Quantities over NumPy's arrays."""

    name = "units"
    contract = 2
    capabilities = {"operators that give way": "pint takes what it does not know"}  # noqa: RUF012
    assigns = False

    @functools.cached_property
    def _namespace(self):
        return Namespace(xp)

    def namespace(self):
        return self._namespace

    def as_array(self, value):
        return quantity(np.asarray(value)) if isinstance(value, float | int) else quantity(value)

    def taken(self, value):
        if units.Quantity(0.0, value.units).to_root_units().magnitude:
            raise ag.UnsupportedOp("asarray", self.name, f"0 {value.units} is not nothing: convert to one, as kelvin")
        return quantity(value)

    def asarray(self, value, *, dtype=None, device=None, copy=None, like=None):
        if isinstance(value, pint.Quantity):
            dtype = None if dtype is None else self.dtype(dtype)
            return Array(np.array(value.magnitude, dtype=dtype), value.units)
        return super().asarray(value, dtype=dtype, device=device, copy=copy)

    def kernel(self, op):
        if op == "getitem":
            return lambda x, key: Array(np.asarray(x.magnitude[_key(key)]), x.units)
        return None

    def scatter_add(self, spec, key, values):
        made = np.zeros(spec.shape, values.dtype)
        np.add.at(made, _key(key), values.magnitude)
        return Array(made, values.units)

    def setitem(self, array, key, value):
        old, new, unit = in_one_unit(array, value)  # zeros get the unit of what is written to them
        made = np.array(old)
        made[_key(key)] = new
        return Array(made, unit)

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
