"""The NumPy backend: array-api-compat's namespace, faster kernels where NumPy has them, and the functions that the standard lacks."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Mapping
from typing import Any

import array_api_compat.numpy
import numpy as np

from agrad.plugin.backend import SPECS_KEPT, Backend, Blank, Spec, internal, more_than_numbers, visits_once
from agrad_numpy import allocator  # noqa: F401 (tells the allocator how large blocks are)
from agrad_numpy.kernels import HALF, KERNELS

internal(__file__)  # messages name the line that called


def _nothing(kind: str, flag: int) -> None:
    """Replaces the callback for floating-point errors: within `quiet` it does nothing."""


class NumpyBackend(Backend):
    """Arrays of NumPy, in the host's memory."""

    name = "numpy"
    is_duck_array = True
    capabilities: Mapping[str, bool | str] = {"float16": True}
    _spec_parts = ("shape", "dtype")
    _runs_loops = True

    def namespace(self) -> Any:
        return array_api_compat.numpy

    def availability(self) -> tuple[bool, str]:
        return True, np.__version__

    def kernel(self, op: str) -> Callable[..., Any] | None:
        if op.startswith(("nn.", "optim.")):
            from agrad_numpy.nn_kernels import NN_KERNELS  # noqa: PLC0415 (most programs need none of them)

            return NN_KERNELS.get(op)
        if op.startswith("extra."):
            from agrad_numpy.extra_kernels import EXTRA_KERNELS  # noqa: PLC0415 (as above)

            return EXTRA_KERNELS.get(op)
        if op.startswith("special."):
            from agrad_numpy.special_kernels import kernel  # noqa: PLC0415 (as above)

            return kernel(op)
        if op.startswith("scipy."):
            from agrad_numpy import scipy_kernels  # noqa: PLC0415 (as above)

            return scipy_kernels.kernel(op)
        if op == "func.scan":
            from agrad_numpy.loops import scan  # noqa: PLC0415 (as above)

            return scan
        if op.startswith("linalg."):
            from agrad_numpy import linalg_kernels  # noqa: PLC0415 (as above)

            return linalg_kernels.kernel(op, self.xp)
        return KERNELS.get(op)

    def module(self, name: str) -> Any:
        try:
            importlib.import_module(name.partition(".")[0])  # SciPy may be blocked after one of its modules was loaded
            return importlib.import_module(name)
        except ModuleNotFoundError as error:
            if error.name != "scipy":
                raise
            return None

    def spec(self, array: Any) -> Spec:
        key = (array.shape, array.dtype)
        try:
            return self._specs[key]
        except KeyError:
            if len(self._specs) >= SPECS_KEPT:
                self._specs.clear()
            found = self._specs[key] = Spec(self, array.shape, self._own_dtype(array.dtype), "numpy")
            return found

    def as_array(self, value: Any) -> Any:
        if type(value) is np.ndarray:
            return value
        if isinstance(value, np.ndarray) and (error := more_than_numbers(value)) is not None:
            raise error
        return value if isinstance(value, Blank) else np.asarray(value)

    taken = as_array  # without a call more

    def asarray(
        self, value: Any, *, dtype: Any = None, device: str | None = None, copy: bool | None = None, like: Any = None
    ) -> Any:
        if type(value) is float and copy is not False:  # half the cost of differentiating a function of a number
            usual = dtype is None or (type(dtype) is str and dtype == "float64")
            return np.array(value) if usual else np.asarray(value, self.dtype(dtype))
        if type(value) is np.ndarray and copy and dtype is None:
            return np.array(value)
        return super().asarray(value, dtype=dtype, device=device, copy=copy, like=like)

    _of_float = staticmethod(np.array)  # at every call of a compiled function with floats among its arguments

    def scatter_add(self, spec: Spec, key: Any, values: Any) -> Any:
        once = visits_once(key)
        made = np.zeros(spec.shape, np.float32 if values.dtype == HALF and not once else values.dtype)
        if once:
            made[key] = values
        else:
            np.add.at(made, key, values)
        return made.astype(values.dtype, copy=False)

    def setitem(self, array: Any, key: Any, value: Any) -> Any:
        made = np.array(array)  # its method `copy` leaves a scalar a scalar
        made[key] = value
        return made

    def setitem_into(self, array: Any, key: Any, value: Any) -> Any:
        if not array.flags.writeable:
            return self.setitem(array, key, value)
        array[key] = value
        return array

    def may_hold_nan(self, array: Any) -> bool:
        total = np.add.reduce(array, None)  # one pass and no temporary; opposite infinities are a false alarm
        return bool(total != total)  # noqa: PLR0124 (NaN is what differs from itself)

    def may_hold_zero(self, array: Any) -> bool:
        return not (array.all() if array.ndim else array)

    def to_host(self, array: Any) -> Any:
        return array

    def from_host(self, buffer: Any, device: str) -> Any:
        return np.asarray(buffer)

    def lend(self, array: Any) -> Any:
        # With a view of writable memory, NumPy lets any code make it writable; not with a read-only buffer
        return np.asarray(memoryview(array).toreadonly())

    def read_only(self, array: Any) -> Any:
        """Return an array nobody can write through; a single element is copied.

        That element may be a constant shared by all programs, and some libraries write through read-only arrays.
        """
        owner = array.base if isinstance(array.base, np.ndarray) else array
        if owner.size == 1 or not array.ndim:
            array = array.copy()
        try:
            return self.lend(array)
        except ValueError:  # a dtype that the buffer protocol does not know
            array = array.copy()
            array.flags.writeable = False
            return array

    def from_buffer(self, data: bytearray, dtype_name: str, shape: tuple[int, ...], device: str) -> Any:
        """Create an array from little-endian bytes, in their memory if the machine is little-endian too."""
        dtype = np.dtype(dtype_name) if dtype_name.isalnum() else None
        if dtype is None or dtype.name != dtype_name or self.kind(dtype) == "other":
            message = f"a tensor has no dtype {dtype_name[:80]!r}"
            raise TypeError(message)
        array = np.frombuffer(data, dtype.newbyteorder("<")).astype(dtype, copy=False).reshape(shape)
        if dtype == np.bool_ and np.any(array.view(np.uint8) > 1):
            message = "a bool is 0 or 1"
            raise ValueError(message)
        return array

    def item(self, array: Any) -> Any:
        return float(array) if type(array) is np.float64 else array.item()  # which takes ten times as long for scalars

    def tolist(self, array: Any) -> Any:
        return array.tolist()

    def compile(
        self, program: Any, *, exact: bool = False, threads: int | None = None, keep: bool = True, **options: Any
    ) -> Callable[..., Any] | None:
        if not keep:  # the executor's purpose: buffers
            return None
        from agrad_numpy.executor import NumpyProgram, default_threads  # noqa: PLC0415 (programs that are not recorded need none)

        return NumpyProgram(program, self, exact=exact, threads=default_threads() if threads is None else threads)

    def source(self, program: Any, *, notes: bool = True) -> tuple[str, dict[str, Any]]:
        from agrad_numpy.export import ModuleWriter  # noqa: PLC0415 (as above)

        module = ModuleWriter(program, notes=notes)
        return module.text(), module.beside

    # entered in every pass: without a frame; `call` is never called, and distinguishes this state from a user's
    quiet = staticmethod(functools.partial(np.errstate, all="ignore", call=_nothing))

    def _error_state(self) -> Any:
        return None if np.geterrcall() is _nothing else np.geterr()

    def random(
        self, kind: str, shape: tuple[int, ...], key: tuple[int, int], *, dtype: Any, device: str, **p: Any
    ) -> Any:
        seed, counter = key
        source = np.random.Generator(np.random.Philox(key=[seed & (2**64 - 1), counter & (2**64 - 1)]))
        dtype = np.dtype(dtype)
        if kind == "permutation":
            return source.permutation(p["n"]).astype(dtype)
        if kind == "integers":
            return source.integers(p["low"], p["high"], size=shape).astype(dtype)
        draw = source.random if kind == "uniform" else source.standard_normal
        if dtype in (np.float32, np.float64):
            return np.asarray(draw(shape, dtype=dtype.type))
        return np.asarray(draw(shape)).astype(dtype)
