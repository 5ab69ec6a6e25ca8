"""A stand-in for CuPy on NumPy, for the tests of the plugin's own code where there is no GPU.

It imitates what the plugin relies on: arrays of another type that leave only by ``get()``, a current device, arrays
that remember the device they were made on, and functions that refuse arrays of another device than the current one (as
CuPy does where devices cannot reach each other). It says nothing about numbers, streams or speed on a GPU.
"""

from __future__ import annotations

import functools
import sys
import types

import numpy as np
import scipy.special

COUNT = 2
_current = [0]


class Device:
    def __init__(self, id=None):
        self.id = _current[-1] if id is None else getattr(id, "id", id)

    def __enter__(self):
        _current.append(self.id)
        return self

    def __exit__(self, *exc):
        _current.pop()

    def __eq__(self, other):
        return isinstance(other, Device) and self.id == other.id

    def __hash__(self):
        return hash(self.id)


class ndarray(np.lib.mixins.NDArrayOperatorsMixin):
    __module__ = "cupy"
    __cuda_array_interface__ = {}

    def __init__(self, values):
        self._values, self._device = values, _current[-1]

    def __array_ufunc__(self, ufunc, method, *inputs, out=None, **kwargs):
        if out is not None:
            kwargs["out"] = plain(out)
        result = getattr(ufunc, method)(*map(plain, inputs), **{k: plain(v) for k, v in kwargs.items()})
        return out[0] if out is not None else made(result)

    def __array__(self, *args, **kwargs):
        raise TypeError("Implicit conversion to a NumPy array is not allowed. Please use `.get()`.")

    def __getattr__(self, name):
        if name.startswith("_"):
            raise AttributeError(name)
        value = getattr(self._values, name)
        if name in {"shape", "dtype", "ndim", "size", "nbytes", "item", "tolist"}:
            return value
        return function(value) if callable(value) else made(value)

    @property
    def device(self):
        return Device(self._device)

    def __getitem__(self, key):
        return made(plain(self)[_key(key)])

    def __setitem__(self, key, value):
        plain(self)[_key(key)] = plain(value)

    def get(self):
        return self._values.copy()


def plain(value):
    """NumPy's view of what a function is given; checks the devices."""
    if isinstance(value, ndarray):
        if value.device.id != _current[-1]:
            message = (
                f"Array device must be same as the current device: array {value.device.id}, current {_current[-1]}"
            )
            raise ValueError(message)
        return value._values
    if isinstance(value, np.ndarray):
        raise TypeError("Unsupported type <class 'numpy.ndarray'>")
    if isinstance(value, list | tuple):
        return type(value)(map(plain, value))
    return value


def made(value):
    """A result as arrays of the current device, 0-d ones included."""
    if isinstance(value, tuple | list) and any(isinstance(v, np.ndarray | np.generic) for v in value):
        return tuple(map(made, value))
    return ndarray(np.asarray(value)) if isinstance(value, np.ndarray | np.generic) else value


def _key(key):
    return tuple(map(_key, key)) if isinstance(key, tuple) else plain(key)


def function(f):
    @functools.wraps(f)
    def call(*args, **kwargs):
        return made(f(*map(plain, args), **{k: plain(v) for k, v in kwargs.items()}))

    return call


def _asarray(obj, dtype=None, **kwargs):
    if isinstance(obj, ndarray):  # from any device to the current one
        obj = obj._values if obj.device.id == _current[-1] else obj.get()
    return made(np.asarray(obj, dtype=dtype))


class CUDARuntimeError(RuntimeError):
    def __init__(self, status, text):
        super().__init__(text)
        self.status = status


def module(name, source, keep=()):
    m = types.ModuleType(name)
    for key in dir(source):
        value = getattr(source, key)
        if key.startswith("_") or isinstance(value, types.ModuleType):
            continue
        wrap = callable(value) and not isinstance(value, type) and key not in keep
        setattr(m, key, function(value) if wrap else value)
    m.__path__ = []
    sys.modules[name] = m
    return m


def install():
    """Put the stand-in in CuPy's place."""
    cupy = module("cupy", np, keep={"result_type", "can_cast", "isdtype", "finfo", "iinfo", "broadcast_shapes"})
    cupy.__version__ = "0.0.fake"
    cupy.ndarray = ndarray
    cupy.asarray = _asarray
    cupy.array = lambda obj, dtype=None, copy=True, **kwargs: (
        _asarray(obj, dtype).copy() if copy else _asarray(obj, dtype)
    )
    cupy.linalg = module("cupy.linalg", np.linalg)
    cupy.fft = module("cupy.fft", np.fft)
    cupy.cuda = types.ModuleType("cupy.cuda")
    cupy.cuda.Device = Device
    cupy.cuda.runtime = types.SimpleNamespace(getDeviceCount=lambda: COUNT, CUDARuntimeError=CUDARuntimeError)
    device = types.ModuleType("cupy.cuda.device")
    device.Device = Device
    sys.modules |= {"cupy.cuda": cupy.cuda, "cupy.cuda.device": device}

    cupy.random = types.ModuleType("cupy.random")
    cupy.random.Philox4x3210 = lambda seed: np.random.Philox(seed)

    class Generator(np.random.Generator):
        def __getattribute__(self, name):
            value = super().__getattribute__(name)
            return function(value) if callable(value) and not name.startswith("_") else value

    cupy.random.Generator = Generator

    cupyx = types.ModuleType("cupyx")
    cupyx.scatter_add = lambda a, key, values: np.add.at(plain(a), _key(key), plain(values))
    sys.modules["cupyx"] = cupyx
    cupyx.scipy = sys.modules["cupyx.scipy"] = types.ModuleType("cupyx.scipy")
    special = cupyx.scipy.special = sys.modules["cupyx.scipy.special"] = types.ModuleType("cupyx.scipy.special")
    special.gammaln, special.psi = function(scipy.special.gammaln), function(scipy.special.psi)
    for library in ("nvrtc", "cublas"):
        name = f"cupy_backends.cuda.libs.{library}"
        sys.modules[name] = types.ModuleType(name)
        sys.modules[name].getVersion = lambda: (12, 0)
    return cupy
