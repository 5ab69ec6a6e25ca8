"""Compressed arrays of blosc2: what a backward pass keeps is compressed, and so are gradients.

Each operation decompresses its operands, computes with NumPy, and compresses its result: only the arrays of one operation at a time are
whole. The library's own operators return expressions, which a derivative would compute again at each use.

Run it: ``python examples/blosc2_backend.py`` (``pip install blosc2``).
"""

from __future__ import annotations

import functools
import random

import array_api_compat.numpy as xp
import blosc2
import numpy as np
import pluggy

import agrad as ag

hookimpl = pluggy.HookimplMarker("agrad")


class Array(np.lib.mixins.NDArrayOperatorsMixin, blosc2.NDArray):
    """An array of the library whose operators compute, and whose parts, but `x[()]`, are compressed."""

    def __getitem__(self, key):
        elements = super().__getitem__(())
        return elements if isinstance(key, tuple) and not key else packed(elements[unpacked(key)])

    def __array_ufunc__(self, ufunc, method, *operands, **options):
        known = all(isinstance(x, blosc2.NDArray | np.ndarray | np.generic | float | complex | int) for x in operands)
        return of_packed(getattr(ufunc, method))(*operands, **options) if known else NotImplemented


def packed(value):
    """Return NumPy's arrays, also in a tuple, compressed."""
    if isinstance(value, tuple | list):
        made = map(packed, value)
        return type(value)(*made) if hasattr(value, "_fields") else tuple(made)
    if isinstance(value, np.ndarray | np.generic):
        value = blosc2.asarray(np.array(value, order="C"))
        value.__class__ = Array  # it is nobody else's
    return value


def unpacked(value):
    """Return compressed arrays, also in a tuple or a list, as NumPy's."""
    if type(value) in (tuple, list):
        return type(value)(map(unpacked, value))
    return np.asarray(value[()]) if isinstance(value, blosc2.NDArray) else value


def of_packed(function):
    return lambda *args, **options: packed(function(*map(unpacked, args), **options))


class Namespace:
    """NumPy's functions on compressed arrays."""

    __name__ = "compressed"
    __version__ = blosc2.__version__

    def __init__(self, library):
        self.library = library

    def __getattr__(self, name):
        found = getattr(self.library, name)
        if name in ("linalg", "fft") and self.library is xp:
            return Namespace(found)
        plain = isinstance(found, type) or name in ("can_cast", "finfo", "iinfo", "isdtype", "result_type")
        return found if plain or name.startswith("__") or not callable(found) else of_packed(found)


class CompressedBackend(ag.Backend):
    """Compressed arrays of NumPy's dtypes."""

    name = "blosc2"
    contract = 2
    assigns = False

    @functools.cached_property
    def _namespace(self):
        return Namespace(xp)

    def namespace(self):
        return self._namespace

    def as_array(self, value):
        return packed(value)

    def taken(self, value):
        if not isinstance(value, Array):
            value = value.copy()
            value.__class__ = Array
        return value

    def kernel(self, op):
        return of_packed(lambda x, key, /: x[key]) if op == "getitem" else None

    def scatter_add(self, spec, key, values):
        made = np.zeros(spec.shape, values.dtype)
        np.add.at(made, unpacked(key), unpacked(values))
        return packed(made)

    def setitem(self, array, key, value):
        made = unpacked(array)
        made[unpacked(key)] = unpacked(value)
        return packed(made)

    def random(self, kind, shape, key, *, dtype, device, **p):
        source = np.random.default_rng(random.Random(f"{key[0]}:{key[1]}").getrandbits(63))
        if kind == "permutation":
            return packed(source.permutation(p["n"]).astype(dtype))
        if kind == "integers":
            return packed(source.integers(p["low"], p["high"], shape, dtype=dtype))
        draw = source.random if kind == "uniform" else source.standard_normal
        return packed(np.asarray(draw(shape, dtype=dtype)))

    def quiet(self):
        return np.errstate(all="ignore")

    def to_host(self, array):
        return unpacked(array)

    def from_host(self, buffer, device):
        return packed(np.asarray(buffer))


backend = CompressedBackend()


@hookimpl
def agrad_backends():
    return [backend]


@hookimpl
def agrad_backend_of(array_type):
    kinds = ((t.__module__, t.__name__) for t in array_type.__mro__)
    return "blosc2" if ("blosc2.ndarray", "NDArray") in kinds else None


if __name__ == "__main__":
    import sys

    ag.register(sys.modules[__name__])
    x = blosc2.asarray(np.linspace(0.0, 1.0, 1_000_000))
    gradient = ag.grad(lambda x: ag.sum(ag.where(x > 0.5, x * x, 0.0)))(x)
    print("by the first and the last element:", *np.asarray(gradient)[[0, -1]])
    print("the gradient takes less than a fifth of its elements' memory:", gradient.cbytes < gradient.nbytes / 5)
