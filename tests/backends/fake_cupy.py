"""A stand-in for CuPy on NumPy, for the tests of the plugin's own code where there is no GPU.

It imitates what the plugin relies on: arrays of another type that leave only by ``get()``, a current device, arrays
that remember the device they were made on, functions that refuse arrays of another device than the current one (as
CuPy does where devices cannot reach each other), and what CuPy 13.3 to 14.2 lack or refuse where NumPy does not. `WAITS`
names what CuPy waits for the device for. Streams and graphs are those of `fake_streams`. It says nothing about numbers or
speed on a GPU.
"""

from __future__ import annotations

import functools
import re
import sys
import types
from pathlib import Path

import fake_streams as streams
import numpy as np
import scipy.linalg
import scipy.sparse
import scipy.special
from fake_streams import CUDARuntimeError

COUNT = 2

#: What the program has waited for: values read on the host, and results whose shape depends on values.
WAITS = []

#: NumPy's functions that CuPy 13 lacks; 14 has some of them.
LACKING = (
    *("acos", "acosh", "asin", "asinh", "astype", "atan", "atan2", "atanh", "bitwise_count", "bitwise_invert"),
    *("bitwise_left_shift", "bitwise_right_shift", "concat", "cumulative_prod", "cumulative_sum", "isdtype"),
    *("matrix_transpose", "matvec", "permute_dims", "pow", "put_along_axis", "trapezoid", "unique_all"),
    *("unique_counts", "unique_inverse", "unique_values", "unstack", "vecdot", "vecmat"),
)
LACKING_IN_LINALG = (
    *("diagonal", "matrix_norm", "multi_dot", "outer", "svdvals", "tensordot", "trace", "vecdot", "vector_norm"),
)


class Device:
    def __init__(self, id=None):
        self.id = streams.THREAD.devices[-1] if id is None else getattr(id, "id", id)

    def __enter__(self):
        streams.THREAD.devices.append(self.id)
        return self

    def __exit__(self, *exc):
        streams.THREAD.devices.pop()

    def __eq__(self, other):
        return isinstance(other, Device) and self.id == other.id

    def __hash__(self):
        return hash(self.id)


class ndarray(np.lib.mixins.NDArrayOperatorsMixin):
    __module__ = "cupy"
    __cuda_array_interface__ = {}

    def __init__(self, values):
        self._values, self._device = values, streams.THREAD.devices[-1]

    def __array_ufunc__(self, ufunc, method, *inputs, out=None, **kwargs):
        if out is not None:
            kwargs["out"] = out
        result = function(getattr(ufunc, method))(*inputs, **kwargs)
        return out[0] if out is not None else result

    def __array__(self, *args, **kwargs):
        raise TypeError("Implicit conversion to a NumPy array is not allowed. Please use `.get()`.")

    def __getattr__(self, name):
        if name.startswith("_"):
            raise AttributeError(name)
        value = getattr(self._values, name)
        if name in {"item", "tolist", "tobytes"}:
            _waits(name)
            return value
        if name in {"shape", "dtype", "ndim", "size", "nbytes"}:
            return value
        return function(value) if callable(value) else made(value)

    @property
    def device(self):
        return Device(self._device)

    @property
    def real(self):
        return self._view(self._values.real)

    @property
    def imag(self):
        return self._view(self._values.imag)

    def _view(self, values):
        with self.device:
            return ndarray(values)

    def __getitem__(self, key):
        return _launched(plain(self).__getitem__, _key(key))

    def __setitem__(self, key, value):
        _launched(plain(self).__setitem__, _key(key), plain(value), written=[self._values])

    def __bool__(self):
        _waits("bool")
        return bool(self._values)

    def get(self):
        _waits("get")
        return self._values.copy()


def plain(value):
    """NumPy's view of what a function is given; checks the devices."""
    if isinstance(value, ndarray):
        if value.device.id != streams.THREAD.devices[-1]:
            message = f"Array device must be same as the current device: array {value.device.id}, current {streams.THREAD.devices[-1]}"
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
    if isinstance(key, ndarray) and key.dtype == bool:
        _waits("a mask")  # its elements are counted, for assignments too
    return tuple(map(_key, key)) if isinstance(key, tuple) else plain(key)


def function(f):
    name = getattr(f, "__name__", "")

    @functools.wraps(f)
    def call(*args, **kwargs):
        values, named = [plain(arg) for arg in args], {k: plain(v) for k, v in kwargs.items()}
        if name in PRODUCTS and not (values[0].ndim == values[1].ndim == 1 or values[0].dtype.kind in "biu"):
            streams.calls("cuBLAS")
        if name in ("concatenate", "stack") and len(values[0]) > 8:  # one kernel, which is sent the addresses
            streams.sends()
        out = named.get("out")
        written = [*(out if isinstance(out, tuple) else [out])] if out is not None else values[:1] * (f is np.copyto)
        return _launched(f, *values, written=written, **named)

    return call


#: What CuPy calls cuBLAS for, but for integers and products of two vectors.
PRODUCTS = frozenset({"dot", "einsum", "inner", "matmul", "tensordot", "vdot"})


def _launched(f, *args, written=(), **kwargs):
    """Run a function on NumPy's arrays, as work of the current stream."""
    call = functools.partial(f, *args, **kwargs)
    result = made(call())
    given = [getattr(f, "__self__", None), *args, *kwargs.values()]
    operands = [a for part in given for a in (part if isinstance(part, list | tuple) else [part])]
    results = result if isinstance(result, tuple) else [result]
    streams.done(
        call,
        [a for a in operands if isinstance(a, np.ndarray)],
        [r._values for r in results if isinstance(r, ndarray)],
        written=written,
    )
    return result


def _waits(what):
    streams.waits()
    WAITS.append(what)


def _of(library, f):
    """Give a function of CuPy's that calls a library of CUDA, which cannot be captured."""

    @functools.wraps(f)
    def call(*args, **kwargs):
        streams.calls(library)
        return f(*args, **kwargs)

    return call


def _lu(a, permute_l=False, overwrite_a=False, check_finite=True):
    if a.ndim != 2:
        raise np.linalg.LinAlgError(f"{a.ndim}-dimensional array given. Array must be two-dimensional")
    return scipy.linalg.lu(a, permute_l, overwrite_a, check_finite)


def _asarray(obj, dtype=None, **kwargs):
    if not isinstance(obj, ndarray):
        streams.sends()
    else:  # from any device to the current one
        obj = obj._values if obj.device.id == streams.THREAD.devices[-1] else obj.get()
    return made(np.asarray(obj, dtype=dtype))


def _sort(a, axis=-1, kind=None):
    assert kind in (None, "stable"), kind
    streams.ends_the_process()
    return np.sort(a, axis=axis, kind="stable")


def _argsort(a, axis=-1, kind=None):
    assert kind in (None, "stable"), kind
    streams.ends_the_process()
    return np.argsort(a, axis=axis, kind="stable")


class csr_matrix:
    """Of `cupyx.scipy.sparse`: arrays on the current device, of the dtypes that CuPy 13 and 14 take."""

    __module__ = "cupyx.scipy.sparse"

    def __init__(self, parts, shape):
        for part in parts:
            if not isinstance(part, ndarray) or part.ndim != 1:
                raise ValueError("Only CuPy arrays of one axis make a matrix")
            plain(part)
        self.data, self.indices, self.indptr = parts
        if self.data.dtype.char not in "?fdFD":
            raise ValueError("Only bool, float32, float64, complex64 and complex128 are supported")
        if self.indices.dtype != np.int32 or self.indptr.dtype != np.int32:
            self.indices, self.indptr = (made(plain(part).astype(np.int32)) for part in parts[1:])
        self.shape, self.dtype, self.nnz = shape, self.data.dtype, self.data.size

    def get(self):
        parts = self.data.get(), self.indices.get(), self.indptr.get()
        return scipy.sparse.csr_matrix(parts, shape=self.shape)


def _waiting(name):
    def call(*args, **kwargs):
        _waits(name)
        return getattr(np, name)(*args, **kwargs)

    return function(call)


def _scatter_add(a, key, values):
    """As CuPy: only of numbers that CUDA adds atomically (14 has int64, too)."""
    if a.dtype not in ("int32", "float16", "float32", "float64", "uint32", "uint64"):
        message = "cupy.add.at only supports int32, float16, float32, float64, uint32, uint64 as data type"
        raise TypeError(message)
    _launched(np.add.at, plain(a), _key(key), plain(values), written=[plain(a)])


def _solve(a, b):
    """As CuPy: of stacks of one shape."""
    if b.ndim != 1 and a.shape[:-1] != b.shape[:-1]:
        message = "a must have (..., M, M) shape and b must have (..., M, K) for multidimensional b"
        raise ValueError(message)
    return np.linalg.solve(a, b)


def _polygamma(n, x):
    """As CuPy: ``cupy.where(n == 0, ...)`` of a Python number fails."""
    if not isinstance(n, np.ndarray):
        raise AttributeError("'bool' object has no attribute 'astype'")  # noqa: TRY004 (CuPy's)
    return scipy.special.polygamma(n, x)


class ElementwiseKernel:
    """Runs the text that the plugin generates for a kernel: each line of it is Python too, but for its declarations."""

    #: Names of the kernels that have run.
    RAN = []

    def __new__(cls, ins, outs, body, name, *, preamble):
        """The samplers are loops of integers that overflow: NumPy draws for them."""
        if "agrad_philox" in body:
            return functools.partial(_drawn, name.removeprefix("agrad_"))
        return super().__new__(cls)

    def __init__(self, ins, outs, body, name, *, preamble):
        self.ins, self.outs = (re.findall(r"(\w+) (\w+)", text) for text in (ins, outs))
        (self.kind,) = re.findall(r"typedef (\w+) C;\n", body)
        self.lines = re.sub(r"typedef .*\n|const \w+ |;", "", body)
        self.name, self.is_loaded = name, False

    def __call__(self, *args):
        self._load()
        for (dtype, _), value in zip(self.ins, args, strict=True):
            assert value.dtype == dtype, (self.name, dtype, value.dtype)
        return _launched(self.compute, *map(plain, args))

    def _load(self):
        self.RAN.append(self.name)
        assert streams.current().capture is None or self.is_loaded, "a kernel is compiled and loaded in a capture"
        self.is_loaded = True

    def compute(self, *args):
        computed = np.dtype({"float": "float32", "double": "float64"}[self.kind]).type
        names = {
            name: value if dtype in ("bool", "int64") else value.astype(computed)
            for (dtype, name), value in zip(self.ins, args, strict=True)
        }
        shape = np.broadcast_shapes(*(value.shape for value in names.values()))
        with np.errstate(all="ignore"):
            exec(self.lines, {"C": computed, **MATHEMATICS}, names)
        results = [np.broadcast_to(names[name], shape).astype(dtype) for dtype, name in self.outs]
        return results[0] if len(results) == 1 else tuple(results)


class ReductionKernel:
    """Runs the text of a sum: what is added up is an expression whose lines are Python too."""

    def __init__(self, ins, outs, body, reduce, result, identity, name, *, reduce_type, preamble):
        assert (reduce, identity) == ("a + b", "0")
        assert result == "r0 = a" or result.startswith("r0 = a / _type_reduce("), result
        (text,) = re.findall(r"^\[&\] \{\n(.*)\n\}\(\)$", body, re.DOTALL)
        self.each = ElementwiseKernel(ins, outs, text.replace("return ", "r0 = "), name, preamble=preamble)
        self.result, self.kind = result, reduce_type
        assert reduce_type == self.each.kind

    def __call__(self, *args, axis, keepdims):
        self.each._load()
        return _launched(functools.partial(self.compute, axis, keepdims), *map(plain, args))

    def compute(self, axis, keepdims, *args):
        added = self.each.compute(*args).sum(axis=axis, keepdims=keepdims)
        names = {"a": added, "_type_reduce": np.dtype({"float": "float32", "double": "float64"}[self.kind]).type}
        exec(self.result, names)
        return np.asarray(names["r0"]).astype(added.dtype)


def _drawn(kind, *words, size):
    source = np.random.Generator(np.random.Philox(key=[int(word) for word in words[:2]]))
    if kind == "integers":
        return made(source.integers(words[2], words[2] + int(words[3]), size=size))
    if kind == "normal":
        return made(source.standard_normal(size))
    return made(source.random(size, dtype=np.float32 if kind == "uniform_single" else np.float64))


#: What the generated text calls, beside operators.
MATHEMATICS = {
    **{
        name: getattr(np, name)
        for name in ("atan2", "ceil", "copysign", "cos", "cosh", "exp", "expm1", "fabs", "floor")
    },
    **{
        name: getattr(np, name) for name in ("acos", "acosh", "asin", "asinh", "atan", "atanh", "hypot", "log", "log10")
    },
    **{
        name: getattr(np, name)
        for name in ("exp2", "isfinite", "isinf", "isnan", "log1p", "log2", "pow", "rint", "sin")
    },
    **{name: getattr(np, name) for name in ("cbrt", "sinh", "sqrt", "tan", "tanh", "trunc")},
    "agrad_logaddexp": np.logaddexp,
    "agrad_maximum": np.maximum,
    "agrad_minimum": np.minimum,
    "agrad_not": np.logical_not,
    "agrad_sign": np.sign,
    "agrad_where": np.where,
    "erf": scipy.special.erf,
    "erfc": scipy.special.erfc,
}

#: Raised by the next `deviceSynchronize`: CUDA tells a kernel's error later.
PENDING = []


def _synchronize():
    streams.current().synchronize()
    if PENDING:
        raise PENDING.pop()


def module(name, source, keep=()):
    m = types.ModuleType(name)
    for key in dir(source):
        value = getattr(source, key)
        if key.startswith("_") or isinstance(value, types.ModuleType):
            continue
        wrap = callable(value) and not isinstance(value, type) and key not in keep
        setattr(m, key, function(value) if wrap else value)
    m.__path__ = []
    m.__file__ = str(
        Path(__file__).with_name("__init__.py")
    )  # what stands beside this is the package's, not the user's
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
    for name in LACKING:
        delattr(cupy, name)
    cupy.sort, cupy.argsort = function(_sort), function(_argsort)
    for name in ("argwhere", "array_equal", "allclose", "flatnonzero", "nonzero", "unique"):
        setattr(cupy, name, _waiting(name))
    cupy.linalg = module("cupy.linalg", np.linalg)
    for name in LACKING_IN_LINALG:
        delattr(cupy.linalg, name)
    cupy.linalg.solve = function(_solve)
    for name in ("cholesky", "eigh", "eigvalsh", "inv", "qr", "slogdet", "solve", "svd"):
        setattr(cupy.linalg, name, _of("cuSOLVER", getattr(cupy.linalg, name)))
    cupy.fft = module("cupy.fft", np.fft)
    cupy.cuda = types.ModuleType("cupy.cuda")
    cupy.cuda.Device = Device
    cupy.cuda.Stream, cupy.cuda.Event, cupy.cuda.MemoryPool = streams.Stream, streams.Event, streams.MemoryPool
    cupy.cuda.get_current_stream, cupy.cuda.using_allocator = streams.current, streams.using_allocator
    cupy.cuda.runtime = types.SimpleNamespace(
        getDeviceCount=lambda: COUNT,
        CUDARuntimeError=CUDARuntimeError,
        deviceSynchronize=_synchronize,
        memGetInfo=lambda: (10 - streams.THREAD.devices[-1], 20),
    )
    cupy.ElementwiseKernel, cupy.ReductionKernel = ElementwiseKernel, ReductionKernel
    cupy.get_default_memory_pool = lambda: types.SimpleNamespace(
        used_bytes=lambda: 1, total_bytes=lambda: 2, get_limit=lambda: 0
    )
    device = types.ModuleType("cupy.cuda.device")
    device.Device = Device
    sys.modules |= {"cupy.cuda": cupy.cuda, "cupy.cuda.device": device}

    cupyx = types.ModuleType("cupyx")
    cupyx.scatter_add = _scatter_add
    sys.modules["cupyx"] = cupyx
    cupyx.scipy = sys.modules["cupyx.scipy"] = types.ModuleType("cupyx.scipy")
    special = cupyx.scipy.special = sys.modules["cupyx.scipy.special"] = types.ModuleType("cupyx.scipy.special")
    special.gammaln, special.psi = function(scipy.special.gammaln), function(scipy.special.psi)
    special.polygamma = function(_polygamma)
    sparse = cupyx.scipy.sparse = sys.modules["cupyx.scipy.sparse"] = types.ModuleType("cupyx.scipy.sparse")
    sparse.csr_matrix = csr_matrix
    linalg = cupyx.scipy.linalg = sys.modules["cupyx.scipy.linalg"] = types.ModuleType("cupyx.scipy.linalg")
    linalg.lu = function(_lu)
    for library in ("nvrtc", "cublas"):
        name = f"cupy_backends.cuda.libs.{library}"
        sys.modules[name] = types.ModuleType(name)
        sys.modules[name].getVersion = lambda: (12, 0)
    return cupy
