"""The CuPy backend: array-api-compat's namespace, device by device, and what the standard lacks.

CuPy is imported when the first of its functions is needed, so that this plugin may be installed where CuPy is not. CuPy
works on a current device and takes no ``device=``; so creation functions run in the context of the device asked for,
and, where there are several, every kernel in that of its operands.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable
from types import ModuleType
from typing import Any

from agrad.plugin.backend import Backend

#: Functions that make arrays from no operand.
_CREATION = ("arange", "asarray", "empty", "eye", "from_dlpack", "full", "linspace", "ones", "zeros")

#: CUDA's error codes that say what is missing.
_INSUFFICIENT_DRIVER, _NO_DEVICE = 35, 100


class CupyBackend(Backend):
    """Arrays of CuPy, in the memory of NVIDIA GPUs."""

    name = "cupy"

    @functools.cached_property
    def _namespace(self) -> ModuleType:
        import array_api_compat.cupy as compat  # noqa: PLC0415 (CuPy loads late)

        made = ModuleType("agrad_cupy.namespace", compat.__doc__)
        made.__getattr__ = functools.partial(getattr, compat)  # type: ignore[method-assign]
        for name in _CREATION:
            setattr(made, name, _created_on(getattr(compat, name)))
        return made

    def namespace(self) -> Any:
        return self._namespace

    def availability(self) -> tuple[bool, str]:
        try:
            import cupy  # noqa: PLC0415 (CuPy loads late)
        except ModuleNotFoundError as error:
            if error.name != "cupy":
                return False, f"a library of CuPy is missing ({_text(error)})"
            return False, 'CuPy is not installed; pip install "agrad[cuda12]" or "agrad[cuda13]", as your CUDA is'
        except Exception as error:  # noqa: BLE001 (reported as the reason)
            return False, f"a library of CuPy is missing ({_text(error)})"
        try:
            count = cupy.cuda.runtime.getDeviceCount()
        except Exception as error:  # noqa: BLE001 (as above)
            status = getattr(error, "status", None)
            if status == _INSUFFICIENT_DRIVER:
                return False, f"no NVIDIA driver, or one too old for this CUDA ({_text(error)})"
            return False, f"{'no device' if status == _NO_DEVICE else 'CUDA does not start'} ({_text(error)})"
        if not count:
            return False, "no device (the driver counts none)"
        for library in ("nvrtc", "cublas"):  # without which nothing at all, and no product of matrices, can run
            try:
                module = importlib.import_module(f"cupy_backends.cuda.libs.{library}")
                if library == "nvrtc":
                    module.getVersion()
            except Exception as error:  # noqa: BLE001 (as above)
                return False, f"a library of CUDA is missing, {library} ({_text(error)})"
        return True, str(cupy.__version__)

    # -- devices -------------------------------------------------------------------------------------------------------

    @functools.cached_property
    def _count(self) -> int:
        import cupy  # noqa: PLC0415 (as above)

        return int(cupy.cuda.runtime.getDeviceCount())

    def devices(self) -> tuple[str, ...]:
        return tuple(f"cupy:{i}" for i in range(self._count))

    def default_device(self) -> str:
        """Give CuPy's current device."""
        import cupy  # noqa: PLC0415 (as above)

        return f"cupy:{cupy.cuda.Device().id}"

    def native_device(self, device: str) -> Any:
        import cupy  # noqa: PLC0415 (as above)

        index = device.partition(":")[2]
        return cupy.cuda.Device(int(index)) if index else cupy.cuda.Device()

    def device_of(self, array: Any) -> str:
        return f"cupy:{array.device.id}"

    def kernel(self, op: str) -> Callable[..., Any] | None:
        found: Any
        if op.startswith("special."):
            from cupyx.scipy import special  # noqa: PLC0415 (as above)

            found = getattr(special, op.removeprefix("special."), None)
        elif self._count < 2 and op not in _COMPLEX:
            return None
        else:
            found = self.namespace()
            for part in op.split("."):
                found = getattr(found, part, None)
        if op in _COMPLEX and found is not None:
            found = _always_complex(found)
        if self._count < 2:
            return found
        if not callable(found) or isinstance(found, type) or op in _CREATION:
            return None
        return _where_operands_are(found)

    # -- the primitives ------------------------------------------------------------------------------------------------

    def as_array(self, value: Any) -> Any:
        import cupy  # noqa: PLC0415 (as above)

        return value if isinstance(value, cupy.ndarray) else cupy.asarray(value)

    def scatter_add(self, spec: Any, key: Any, values: Any) -> Any:
        import cupy  # noqa: PLC0415 (as above)

        with values.device:
            made = cupy.zeros(spec.shape, values.dtype)
            if _visits_once(key):
                made[key] = values
            else:
                import cupyx  # noqa: PLC0415 (as above)

                cupyx.scatter_add(made, key, values)
            return made

    def setitem(self, array: Any, key: Any, value: Any) -> Any:
        with array.device:
            made = array.copy()
            made[key] = value
            return made

    def setitem_into(self, array: Any, key: Any, value: Any) -> Any:
        with array.device:
            array[key] = value
            return array

    def add_into(self, array: Any, other: Any, out: Any) -> Any:
        import cupy  # noqa: PLC0415 (as above)

        with array.device:
            return cupy.add(array, other, out=out)

    # -- borders -------------------------------------------------------------------------------------------------------

    def may_hold_nan(self, array: Any) -> bool:
        return True  # to look would wait for the device

    def to_host(self, array: Any) -> Any:
        return array.get()

    def from_host(self, buffer: Any, device: str) -> Any:
        import cupy  # noqa: PLC0415 (as above)

        with self.native_device(device):
            return cupy.asarray(buffer)

    def receive(self, source: Backend, array: Any, device: str) -> Any:
        if source is self:  # from one device to another
            return self.from_host(array, device)
        if source.name == "dask":  # its chunks may be CuPy's
            return self.from_host(source.computed(array), device)  # type: ignore[attr-defined]
        return super().receive(source, array, device)

    def item(self, array: Any) -> Any:
        return array.item()

    def tolist(self, array: Any) -> Any:
        return array.tolist()

    def random(
        self, kind: str, shape: tuple[int, ...], key: tuple[int, int], *, dtype: Any, device: str, **p: Any
    ) -> Any:
        import cupy  # noqa: PLC0415 (as above)
        import numpy as np  # noqa: PLC0415 (as above)

        seed = np.random.SeedSequence([part & (2**64 - 1) for part in key]).generate_state(1, np.uint64)[0]
        dtype = np.dtype(dtype)
        with self.native_device(device):
            source = cupy.random.Generator(cupy.random.Philox4x3210(int(seed)))
            if kind == "permutation":
                return cupy.argsort(source.random(p["n"])).astype(dtype)
            if kind == "integers":
                return source.integers(p["low"], p["high"] - 1, size=shape, endpoint=True).astype(dtype)
            draw = source.random if kind == "uniform" else source.standard_normal
            if dtype in (np.float32, np.float64):
                return self.as_array(draw(shape, dtype=dtype))
            return self.as_array(draw(shape)).astype(dtype)


def _text(error: BaseException) -> str:
    return " ".join(str(error).split()) or type(error).__name__


def _visits_once(key: Any) -> bool:
    """Tell whether no place is visited twice: a key without integer arrays."""
    parts = key if isinstance(key, tuple) else (key,)
    return not any(hasattr(part, "dtype") and part.dtype.kind != "b" for part in parts)


def _created_on(function: Callable[..., Any]) -> Callable[..., Any]:
    """Run a creation function in the context of its ``device=``."""

    @functools.wraps(function)
    def create(*args: Any, device: Any = None, **kwargs: Any) -> Any:
        if device is None:
            return function(*args, **kwargs)
        with device:
            return function(*args, **kwargs)

    return create


#: Functions whose results the standard wants complex; NumPy's, which CuPy follows, are real where they can be.
_COMPLEX = ("linalg.eig", "linalg.eigvals")


def _always_complex(function: Callable[..., Any]) -> Callable[..., Any]:
    """Give a function whose real results are made complex."""

    def cast(array: Any) -> Any:
        return (
            array
            if array.dtype.kind == "c"
            else array.astype("complex64" if array.dtype == "float32" else "complex128")
        )

    def kernel(x: Any, /) -> Any:
        result = function(x)
        return tuple(map(cast, result)) if isinstance(result, tuple) else cast(result)

    return kernel


def _where_operands_are(function: Callable[..., Any]) -> Callable[..., Any]:
    """Run a kernel in the context of the device of its first array."""

    @functools.wraps(function)
    def kernel(*args: Any, **kwargs: Any) -> Any:
        for value in (*args, *kwargs.values()):
            for array in value if isinstance(value, list | tuple) else (value,):
                if hasattr(array, "__cuda_array_interface__"):
                    with array.device:
                        return function(*args, **kwargs)
        return function(*args, **kwargs)

    return kernel
