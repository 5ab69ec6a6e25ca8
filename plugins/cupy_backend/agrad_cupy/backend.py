"""The CuPy backend: array-api-compat's namespace, device by device, and the functions it lacks.

CuPy works on a current device and takes no ``device=``; so creation functions run in the context of the requested
device and, if there are several, every kernel and every rule in that of its operands.
"""

from __future__ import annotations

import functools
import importlib
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from types import ModuleType
from typing import Any, NamedTuple

try:
    import array_api_compat.cupy as compat
    import cupy
except Exception as failure:
    text = " ".join(str(failure).split()) or type(failure).__name__
    missing = isinstance(failure, ModuleNotFoundError) and failure.name == "cupy"
    raise ImportError(
        "CuPy is not installed; pip install cupy-cuda12x or cupy-cuda13x, as your CUDA is"
        if missing
        else f"a library of CuPy is missing ({text})"
    ) from failure

from agrad import BackendError
from agrad.plugin.backend import OPS, PRIMITIVES, WITHOUT_OP, Backend, Blank, forget_kernels, once, visits_once
from agrad_cupy import sampling
from agrad_cupy.fusion import ARRAY, PREAMBLE, Code, NotFusible, fused, kernel_code, rule_code

#: Functions that create arrays without operands.
_CREATION = tuple(
    name for name, known in WITHOUT_OP.items() if known.facts.creates in ("here", "from data") and "." not in name
)

#: CUDA's error codes for missing devices and drivers.
_INSUFFICIENT_DRIVER, _NO_DEVICE = 35, 100

#: Special functions that CuPy 14 lacks and agrad does not compose.
_MISSING = (
    *("betaincc", "betainccinv", "btdtria", "btdtrib", "chdtriv", "ellipe", "gdtria", "gdtrib", "gdtrix", "hyp1f1"),
    *("hyp2f1", "iv", "ive", "jv", "kv", "kve", "ndtri_exp", "spence", "stdtr", "stdtrit", "yv"),
)

#: Functions of `agrad.scipy` that CuPy 14 lacks and agrad does not compose.
_UNWRITTEN = ("sqrtm", "logm", "solve_sylvester", "solve_banded")

#: The largest number of kernels for one rule or composition, for different dtypes and parameters.
VARIANTS = 16


class Memory(NamedTuple):
    """Bytes of one device, and of CuPy's pool on it.

    Attributes
    ----------
    used : int
        In arrays that are alive.
    held : int
        Memory that the pool has taken from the device: `used`, and blocks that are free for reuse.
    limit : int
        The limit of the pool; 0 means no limit.
    free, total : int
        Memory of the device, as counted by the driver.
    """

    used: int
    held: int
    limit: int
    free: int
    total: int


class CupyBackend(Backend):
    """Arrays of CuPy, in the memory of NVIDIA GPUs."""

    name = "cupy"
    is_duck_array = True
    capabilities: Mapping[str, bool | str] = {"float16": True}
    lacks: Mapping[str, str] = {
        **{f"special.{name}": "CuPy has no such function" for name in _MISSING},
        **{f"scipy.{name}": "CuPy has no such function" for name in _UNWRITTEN},
    }
    _runs_loops = True

    def __init__(self) -> None:
        #: Whether to wait for each kernel, so that its error is raised where it was called.
        self.synchronous = os.environ.get("AGRAD_CUPY_SYNC", "") not in ("", "0")
        self._fused: dict[Any, Any] = {}  # by rule, dtype and parameters: a kernel, or None if there can be none
        self._variants: dict[Any, int] = {}

    @once
    def _namespace(self) -> ModuleType:
        made = ModuleType("agrad_cupy.namespace", compat.__doc__)
        made.__getattr__ = functools.partial(getattr, compat)  # type: ignore[method-assign]
        for name in _CREATION:
            setattr(made, name, _created_on(getattr(compat, name)))
        return made

    def namespace(self) -> Any:
        return self._namespace

    def availability(self) -> tuple[bool, str]:
        try:
            count = cupy.cuda.runtime.getDeviceCount()
        except Exception as error:  # noqa: BLE001 (reported as the reason)
            status = getattr(error, "status", None)
            if status == _INSUFFICIENT_DRIVER:
                return False, f"no NVIDIA driver, or one too old for this CUDA ({_text(error)})"
            return False, f"{'no device' if status == _NO_DEVICE else 'CUDA does not start'} ({_text(error)})"
        if not count:
            return False, "no device (the driver counts none)"
        for library in ("nvrtc", "cublas"):  # without it no kernel, and no product of matrices, can run
            try:
                module = importlib.import_module(f"cupy_backends.cuda.libs.{library}")
                if library == "nvrtc":
                    module.getVersion()
            except Exception as error:  # noqa: BLE001 (as above)
                return False, f"a library of CUDA is missing, {library} ({_text(error)})"
        try:
            from cuda.pathfinder import find_nvidia_header_directory  # noqa: PLC0415 (CuPy 14 brings it)
        except ImportError:
            pass
        else:
            if find_nvidia_header_directory("cudart") is None:  # CuPy 14 compiles every kernel with them
                return False, 'CUDA\'s headers are missing; pip install "cupy-cuda13x[ctk]", or set CUDA_PATH'
        return True, str(cupy.__version__)

    # -- devices -------------------------------------------------------------------------------------------------------

    @once
    def _count(self) -> int:
        return int(cupy.cuda.runtime.getDeviceCount())

    def devices(self) -> tuple[str, ...]:
        return tuple(f"cupy:{i}" for i in range(self._count))

    def default_device(self) -> str:
        """Return CuPy's current device."""
        return f"cupy:{cupy.cuda.Device().id}"

    def native_device(self, device: str) -> Any:
        index = device.partition(":")[2]
        return cupy.cuda.Device(int(index)) if index else cupy.cuda.Device()

    def device_of(self, array: Any) -> str:
        return f"cupy:{array.device.id}"

    def kernel(self, op: str) -> Callable[..., Any] | None:
        if self._count < 2 and not self.synchronous:
            return self._own(op)
        known = OPS.get(op)
        if op in (*_CREATION, *PRIMITIVES) or (known is not None and known.rule.guarded):
            return None
        found = self._own(op) or functools.reduce(
            lambda space, part: getattr(space, part, None), op.split("."), self.namespace()
        )
        if found is None and known is not None and known.kernel is not None:
            found = functools.partial(known.kernel, self.xp)
        return self._watched(found) if callable(found) and not isinstance(found, type) else None

    def _own(self, op: str) -> Callable[..., Any] | None:
        """Return the kernel of an op if it is not the namespace's function."""
        if op in _INSTEAD:
            return _INSTEAD[op]
        found, known = self._found(op), OPS.get(op)
        if found is None and known is not None and known.kernel is not None and known.rule.kind == "elementwise":
            return self._composed(known)
        return found

    def _found(self, op: str) -> Callable[..., Any] | None:
        """Return CuPy's function for an op if it differs from the namespace's."""
        found: Any = None
        if op.startswith("special."):
            from cupyx.scipy import special  # noqa: PLC0415 (CuPy loads late)

            found = getattr(special, op.removeprefix("special."), None)
        elif op in _AROUND:
            found = getattr(self.namespace().linalg, op.removeprefix("linalg."), None)
        return _AROUND[op](found) if found is not None and op in _AROUND else found

    def _watched(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Run a kernel in the context of its operands' device, and wait for it if requested."""

        @functools.wraps(function)
        def kernel(*args: Any, **kwargs: Any) -> Any:
            devices = {array.device.id for array in _arrays((*args, *kwargs.values()))}
            if len(devices) > 1:
                found = " and ".join(f"cupy:{i}" for i in sorted(devices))
                message = (
                    f"Expected all tensors to be on the same device, but found at least two devices, {found}!"
                    " Bring them together with x.to_device(...)."
                )
                raise BackendError(message)
            with self._on(f"cupy:{devices.pop()}" if devices else "cupy"):
                result = function(*args, **kwargs)
                self._wait()
                return result

        return kernel

    def _on(self, device: str) -> AbstractContextManager[Any]:
        """Make a device the current one, if there are several."""
        return self.native_device(device) if self._count > 1 else nullcontext()  # type: ignore[no-any-return]

    def _wait(self) -> None:
        """Wait for the work on the current device if errors should be raised where they arise."""
        if self.synchronous:
            cupy.cuda.runtime.deviceSynchronize()

    # -- fused kernels -------------------------------------------------------------------------------------------------

    def run_rule(self, vjp: Callable[..., Any], g: Any, saved: tuple[Any, ...], node: Any) -> Any:
        """Run a rule on the device of its node: as one kernel, if it is elementwise and has several steps."""
        with self._on(node.out_specs[0].device):
            fused = self._fused_rule(vjp, g, node)
            gs = vjp(node.spec.xp, g, saved, node) if fused is None else fused(g, *saved)
            self._wait()
            return gs

    def _run_on(self, vjp: Callable[..., Any], xp: Any, g: Any, saved: tuple[Any, ...], node: Any) -> Any:
        with self._on(node.out_specs[0].device):
            return vjp(xp, g, saved, node)

    def _fused_rule(self, vjp: Callable[..., Any], g: Any, node: Any) -> Any:
        """Return the kernel of a rule, None if it runs step by step."""
        plan = None if node.op is None else node.op.plan_of.get(vjp)
        if plan is None or not plan.same_spec or plan.nan_safe or g.dtype != node.spec.dtype:
            return None
        dtype, params = node.spec.dtype, node.params if plan.rule.params else ()
        return self._made((plan, dtype, params), lambda: rule_code(plan, dtype.name, params))

    def _composed(self, op: Any) -> Callable[..., Any]:
        """Return the kernel of an elementwise op that CuPy lacks: its composition, fused if the operands allow."""
        stepwise = functools.partial(op.kernel, self.xp)

        def kernel(*args: Any, **kwargs: Any) -> Any:
            arrays = [value for value in (*args, *kwargs.values()) if hasattr(value, "__cuda_array_interface__")]
            first = arrays[0]
            if all(array.dtype == first.dtype for array in arrays):
                values, keywords = tuple(map(_static, args)), tuple((k, _static(v)) for k, v in kwargs.items())
                fused = self._made(
                    (op, first.dtype, values, keywords),
                    lambda: kernel_code(op, first.dtype.name, values, keywords),
                )
                if fused is not None:
                    return fused(*arrays)
            return stepwise(*args, **kwargs)

        return kernel

    def _made(self, key: tuple[Any, ...], code: Callable[[], Code]) -> Any:
        """Return the kernel for a key: first the function that computes it, then everything its text depends on."""
        try:
            return self._fused[key]
        except KeyError:
            pass
        except TypeError:  # a parameter that cannot be hashed
            return None
        count = self._variants[key[0]] = self._variants.get(key[0], 0) + 1
        if count > VARIANTS:  # each is compiled, which takes longer than many steps
            return None
        try:
            written = code()
        except NotFusible:
            written = None
        made = None if written is None or written.steps < 2 else _compiled(written)
        self._fused[key] = made
        return made

    # -- recorded programs ---------------------------------------------------------------------------------------------

    def compile(
        self, program: Any, *, exact: bool = False, mode: str = "default", **options: Any
    ) -> Callable[..., Any] | None:
        """Return the function that runs a program, with each run of elementwise steps, and the sums at its end, as one kernel.

        With ``exact=True`` steps stay separate: CUDA's compiler rounds a product and a sum in one kernel together. With
        ``mode="reduce-overhead"`` the kernels of a program are launched as one CUDA graph, if one can hold them; those
        of a loop as one graph per call.
        """
        fewer, codes = (program, {}) if exact else fused(program, lambda op: self._found(op) is None)
        as_graph = mode == "reduce-overhead" and not program.bodies
        if not codes and self._count < 2 and not as_graph:
            return None
        kernels = _ProgramKernels(self.xp, {name: _compiled(code) for name, code in codes.items()})
        made: dict[str, Callable[..., Any]] = {}  # by device, which holds the constants and new arrays

        def function(device: str) -> Callable[..., Any]:
            single = fewer.function(self, device=device, kernels=kernels)
            if not as_graph:
                return single
            from agrad_cupy.graphs import Launcher  # noqa: PLC0415 (only where graphs are asked for)

            return Launcher(single, fewer, codes, exact=exact, waiting=lambda: self.synchronous)

        def run(*values: Any) -> Any:
            device = next((self.device_of(value) for value in _arrays(values)), self.default_device())
            found = made.get(device)
            with self._on(device):
                if found is None:
                    found = made.setdefault(device, function(device))
                results = found(*values)
                self._wait()
                return results

        return run

    # -- what is going on on the device --------------------------------------------------------------------------------

    @contextmanager
    def synchronising(self) -> Iterator[None]:
        """Wait for every kernel within a block."""
        before, self.synchronous = self.synchronous, True
        forget_kernels(self)
        try:
            yield
            self._wait()
        finally:
            self.synchronous = before
            forget_kernels(self)

    def memory(self, device: str = "cupy") -> Memory:
        """Return the bytes of a device and of the memory pool on it."""
        with self.native_device(device):
            pool = cupy.get_default_memory_pool()
            return Memory(pool.used_bytes(), pool.total_bytes(), pool.get_limit(), *cupy.cuda.runtime.memGetInfo())

    # -- the primitives ------------------------------------------------------------------------------------------------

    def as_array(self, value: Any) -> Any:
        return value if isinstance(value, cupy.ndarray | Blank) else cupy.asarray(value)

    def scatter_add(self, spec: Any, key: Any, values: Any) -> Any:
        with values.device:
            made = cupy.zeros(spec.shape, values.dtype)
            if visits_once(key):
                made[key] = values
            else:
                import cupyx  # noqa: PLC0415 (as above)

                pairs = [(made, values)]
                if made.dtype.kind == "c":  # CUDA adds no complex numbers atomically, but their parts, which are views
                    pairs = [(made.real, values.real), (made.imag, values.imag)]
                for target, added in pairs:
                    cupyx.scatter_add(target, key, added)
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
        with array.device:
            return cupy.add(array, other, out=out)

    def lend(self, array: Any) -> Any:
        """Copy a single element's memory, which may be a constant: CuPy has no read-only arrays."""
        if array.ndim and 0 not in array.strides:
            return array
        with array.device:
            return array.copy()

    # -- borders -------------------------------------------------------------------------------------------------------

    def may_hold_nan(self, array: Any) -> bool:
        return True  # to look would wait for the device

    def _csr(self, values: Any, pattern: Any, rows: Any, known: dict[Any, Any]) -> Any:
        """Return a matrix of ``cupyx.scipy.sparse``, on the device of its values."""
        from cupyx.scipy import sparse  # noqa: PLC0415 (CuPy loads late)

        with values.device:
            parts = known.get(values.device.id)
            if parts is None:
                parts = known[values.device.id] = cupy.asarray(pattern.indices), cupy.asarray(pattern.indptr)
            indices, indptr = (part.copy() for part in parts)
            values = values.astype(cupy.result_type(values.dtype, cupy.float32))  # of halves it has none; a copy
            return sparse.csr_matrix((values, indices, indptr), shape=pattern.shape)

    def to_host(self, array: Any) -> Any:
        return array.get()

    def from_host(self, buffer: Any, device: str) -> Any:
        with self.native_device(device):
            return cupy.asarray(buffer)

    def receive(self, source: Backend, array: Any, device: str) -> Any:
        if source is self:  # from one device to another
            return self.from_host(array, device)
        return super().receive(source, array, device)

    def item(self, array: Any) -> Any:
        return array.item()

    def tolist(self, array: Any) -> Any:
        return array.tolist()

    def random(
        self, kind: str, shape: tuple[int, ...], key: tuple[int, int], *, dtype: Any, device: str, **p: Any
    ) -> Any:
        with self.native_device(device):
            return sampling.sample(kind, shape, key, dtype, **p)


def _text(error: BaseException) -> str:
    return " ".join(str(error).split()) or type(error).__name__


def _created_on(function: Callable[..., Any]) -> Callable[..., Any]:
    """Run a creation function in the context of its ``device=``."""

    @functools.wraps(function)
    def create(*args: Any, device: Any = None, **kwargs: Any) -> Any:
        if device is None:
            return function(*args, **kwargs)
        with device:
            return function(*args, **kwargs)

    return create


def _always_complex(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function whose real results are converted to complex."""

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


def _of_batches(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return `solve` with the standard's broadcasting: CuPy's only takes stacks of one shape."""

    def kernel(x1: Any, x2: Any, /) -> Any:
        if x2.ndim == 1:
            return kernel(x1, x2[:, None])[..., 0]
        stack = cupy.broadcast_shapes(x1.shape[:-2], x2.shape[:-2])
        return function(*(cupy.broadcast_to(x, (*stack, *x.shape[-2:])) for x in (x1, x2)))

    return kernel


def _of_arrays(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return `polygamma` for orders that are not an array, which CuPy's requires, or integers, in the dtype of `x`.

    Integer orders would turn float32 into float64.
    """

    def kernel(n: Any, x: Any, /) -> Any:
        is_given = isinstance(n, cupy.ndarray) and n.dtype.kind == "f"
        return function(n if is_given else cupy.asarray(n, x.dtype), x)

    return kernel


#: Wrappers of CuPy's functions. Those of eigenvalues follow NumPy, and are real where possible.
_AROUND = {
    "linalg.eig": _always_complex,
    "linalg.eigvals": _always_complex,
    "linalg.solve": _of_batches,
    "special.polygamma": _of_arrays,
}


def _sign(x: Any, /) -> Any:
    if x.dtype.kind == "c":
        return cupy.where(x == 0, x, x / cupy.abs(x))
    return cupy.where(cupy.isnan(x), x, cupy.sign(x)) if x.dtype.kind == "f" else cupy.sign(x)


def _clip(x: Any, /, min: Any = None, max: Any = None) -> Any:
    result = x
    for bound, function in ((min, cupy.maximum), (max, cupy.minimum)):
        if bound is not None:  # the result has the dtype of `x`
            result = function(result, bound.astype(x.dtype) if isinstance(bound, cupy.ndarray) else bound)
    return x.copy() if result is x else result


def _lu(a: Any, /) -> tuple[Any, Any, Any]:
    """Factor matrices one by one: CuPy's function takes one, and checks it only on request."""
    from cupyx.scipy.linalg import lu  # noqa: PLC0415 (CuPy loads late)

    if a.ndim == 2 and a.size:
        return lu(a, check_finite=False)  # type: ignore[no-any-return] # three arrays
    (*lead, m, n), k = a.shape, min(a.shape[-2:])
    shapes = (m, m), (m, k), (k, n)
    if not a.size:
        real = a.real.dtype
        p = cupy.broadcast_to(cupy.eye(m, dtype=real), (*lead, m, m)).copy()
        return (
            p,
            cupy.broadcast_to(cupy.eye(m, k, dtype=a.dtype), (*lead, m, k)).copy(),
            cupy.zeros((*lead, k, n), a.dtype),
        )
    rows = [lu(matrix, check_finite=False) for matrix in a.reshape(-1, m, n)]
    p, l, u = (cupy.stack(part).reshape(*lead, *s) for part, s in zip(zip(*rows, strict=True), shapes, strict=True))
    return p, l, u


#: Replacements of array-api-compat's kernels, which assign by masks, so that CuPy waits for the device to count them;
#: and missing kernels.
_INSTEAD = {"clip": _clip, "scipy.lu": _lu, "sign": _sign}


def _arrays(values: tuple[Any, ...]) -> Iterator[Any]:
    """Return the arrays among the arguments of a kernel, including those in lists and keys."""
    for value in values:
        if isinstance(value, list | tuple):
            yield from _arrays(tuple(value))
        elif hasattr(value, "__cuda_array_interface__"):
            yield value


def _static(value: Any) -> Any:
    """Return everything that the text of a kernel depends on, without the arrays."""
    return ARRAY if hasattr(value, "__cuda_array_interface__") else value


def _compiled(code: Code) -> Callable[..., Any]:
    """Create a kernel from its text; CUDA compiles it at its first call."""
    if code.sum is None:
        return cupy.ElementwiseKernel(code.ins, code.outs, code.body, code.name, preamble=PREAMBLE)  # type: ignore[no-any-return]
    axis, keepdims, count = code.sum
    result = "r0 = a" if count == 1 else f"r0 = a / _type_reduce({count})"
    kernel = cupy.ReductionKernel(
        code.ins, code.outs, code.body, "a + b", result, "0", code.name, reduce_type=code.computed, preamble=PREAMBLE
    )
    return functools.partial(kernel, axis=axis, keepdims=keepdims)


class _ProgramKernels:
    """The backend's kernels, and those of one program."""

    def __init__(self, xp: Any, own: Mapping[str, Callable[..., Any]]) -> None:
        self.__dict__.update(own)
        self._xp = xp

    def __getattr__(self, name: str) -> Any:
        found = self.__dict__[name] = getattr(self._xp, name)
        return found
