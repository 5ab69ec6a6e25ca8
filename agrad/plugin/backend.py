"""Backend: what an array library must give to be used by agrad. Nearly all of it has a default in the standard's words.

A whole backend is a name, `namespace`, and the claim on its array type through the plugin's hook. The rest is
overridden where the library has something better, or the standard nothing at all.
"""

from __future__ import annotations

import functools
import math
import random
import sys
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from types import ModuleType
from typing import Any

from agrad.core import errors
from agrad.core.errors import BackendError, RuleError, UnsupportedOp
from agrad.core.once import once
from agrad.core.op import OPS, Op
from agrad.core.rule import lent
from agrad.core.spec import Spec

#: The version of this contract. Raised when a backend written for the old one would no longer be right.
CONTRACT = 1

#: How many specs a backend keeps interned.
SPECS_KEPT = 4096

#: Sub-namespaces that are agrad's own.
OWN = ("extra", "nn", "special")

#: Sub-namespaces of the standard and of agrad; names below them are reached as attributes.
SUBNAMESPACES = ("fft", "linalg", *OWN)

#: The dtypes of double precision, which some devices lack.
DOUBLE = ("float64", "complex128")


class Device(str):
    """Where a tensor lives: ``"<backend>[:<device>]"``, as ``"numpy"`` or ``"cupy:0"``.

    A string with its parts by name; compares and prints as the string.

    Examples
    --------
    >>> from agrad.plugin.backend import Device
    >>> Device("cupy:0").backend, Device("cupy:0").ordinal
    ('cupy', '0')
    """

    __slots__ = ()

    @property
    def backend(self) -> str:
        """The backend's name."""
        return self.partition(":")[0]

    @property
    def ordinal(self) -> str:
        """The device within the backend, empty for its only or default one."""
        return self.partition(":")[2]

    @property
    def type(self) -> str:
        """The backend's name, as PyTorch spells it."""
        return self.backend


class Backend:
    """The contract between agrad and an array library.

    Attributes
    ----------
    name : str
        As ``"numpy"``: the first part of a device.
    contract : int
        The version of this contract the backend was written for.
    capabilities : mapping
        What the backend can, by the names ``@requires`` uses.
    lacks : mapping of str to str
        Operations it cannot run, with the reason: raised as `UnsupportedOp`, listed in the docs, expected by the kit.
    absorbs : frozenset of str
        Other backends whose arrays may be operands beside its own; the crossing is recorded like ``to_device``.
    is_lazy : bool
        Values are computed on demand; specs are not interned.
    """

    name: str = ""
    contract: int = CONTRACT
    capabilities: Mapping[str, bool] = {
        "boolean indexing": True,
        "data-dependent shapes": True,
        "float64": True,
        "complex": True,
    }
    lacks: Mapping[str, str] = {}
    absorbs: frozenset[str] = frozenset()
    is_lazy: bool = False
    #: ``run_rule(vjp, g, saved, node)`` runs a rule of the backward pass on raw arrays of this backend: to do so on a
    #: device, or by one kernel. None: the rule is called with the kernels, ``vjp(xp, g, saved, node)``.
    run_rule: Callable[..., Any] | None = None

    # -- what a backend must give -------------------------------------------------------------------------------------

    def namespace(self) -> Any:
        """Return the array library as a namespace of the standard, usually array-api-compat's."""
        raise NotImplementedError

    def availability(self) -> tuple[bool, str]:
        """Return whether the library works here; the second part is its version, or why it does not."""
        try:
            module = self.namespace()
        except ImportError as error:
            return False, f"not installed ({error})"
        name = getattr(module, "__name__", "").removeprefix("array_api_compat.")
        library = sys.modules.get(name.partition(".")[0])
        return True, str(getattr(module, "__version__", None) or getattr(library, "__version__", ""))

    # -- what follows, unless the library knows better -----------------------------------------------------------------

    def native_devices(self) -> Mapping[str, Any]:
        """Return the library's own device objects by name, as ``{"mine:0": ...}``; empty if there is but one."""
        return {}

    def devices(self) -> tuple[str, ...]:
        """Return the names of the devices that can be used, each with the backend's name in front."""
        return tuple(self._native_devices) or (self.name,)

    def default_device(self) -> str:
        """Return the device new arrays are made on: the first of `devices`."""
        return self.devices()[0]

    def native_device(self, device: str) -> Any:
        """Return what the library's own ``device=`` takes for one of `devices`; None for its default."""
        return self._native_devices[device] if self._native_devices else None

    def device_of(self, array: Any) -> str:
        """Return the device of an array."""
        if not self._native_devices:
            return self.name
        try:
            return self._device_names[array.device]
        except KeyError:
            known = ", ".join(self.devices())
            message = f"the array is on {array.device}, which is none of the {self.name} backend's devices: {known}"
            raise BackendError(message) from None

    @once
    def _native_devices(self) -> Mapping[str, Any]:
        return self.native_devices()

    @once
    def _device_names(self) -> dict[Any, str]:
        return {native: name for name, native in self._native_devices.items()}

    @once
    def xp(self) -> Any:
        """The kernels by name."""
        return kernels(self)

    @once
    def functions(self) -> Any:
        """The namespace of agrad's functions bound to this backend: what rules run on when they are recorded."""
        from agrad.plugin import manager  # noqa: PLC0415 (the manager imports this file)

        return manager.namespace(self.name)

    def kernel(self, op: str) -> Callable[..., Any] | None:
        """Return the backend's own kernel of an operation, None to take the namespace's function of that name."""
        return None

    def spec(self, array: Any) -> Spec:
        """Return the spec of an array: one object per shape, dtype and device while it is interned."""
        shape = tuple(array.shape)  # libraries have types of their own for it
        if self.is_lazy:
            return Spec(self, shape, array.dtype, self.device_of(array), self.layout(array))
        key = (shape, array.dtype, self.device_of(array))
        found = self._specs.get(key)
        if found is None:
            if len(self._specs) >= SPECS_KEPT:
                self._specs.clear()
            found = self._specs[key] = Spec(self, *key)
        return found

    @once
    def _specs(self) -> dict[Any, Spec]:
        return {}

    def layout(self, array: Any) -> object:
        """Return the chunks of a chunked array, None otherwise."""
        return None

    def as_array(self, value: Any) -> Any:
        """Return a kernel's result as an array (libraries return scalar objects for 0-d results)."""
        return value

    def kind(self, dtype: Any) -> str:
        """Return bool, int, float or complex for a dtype."""
        found = self._kinds.get(dtype)
        if found is None:
            isdtype = self.namespace().isdtype
            kinds = {"float": "real floating", "int": "integral", "bool": "bool", "complex": "complex floating"}
            try:
                found = next((kind for kind, names in kinds.items() if isdtype(dtype, names)), "other")
            except TypeError:  # NumPy's own says so of a recarray's
                found = "other"
            self._kinds[dtype] = found
        return found

    @once
    def _kinds(self) -> dict[Any, str]:
        return {}

    def dtype(self, dtype: Any) -> Any:
        """Return the backend's own dtype for one of agrad's, another backend's, or a name."""
        name = self.dtype_name(dtype)
        found = self._dtypes.get(name)
        if found is None:
            xp = self.namespace()
            native = getattr(xp, name, None)
            # As arrays have it: NumPy's namespace has scalar types, which are equal but hash otherwise.
            found = None if native is None else xp.empty((0,), dtype=native).dtype
            if found is None or self.dtype_name(found) != name:  # some give another one instead
                single = "; ag.set_default_dtype(ag.float32) makes single precision the default"
                message = f"the {self.name} backend has no dtype {name}{single if name in DOUBLE else ''}"
                raise TypeError(message)
            self._dtypes[name] = found
        return found

    @once
    def _dtypes(self) -> dict[str, Any]:
        return {}

    def dtype_name(self, dtype: Any) -> str:
        """Return the standard's name of a dtype."""
        if isinstance(dtype, str):
            return dtype
        python = {bool: "bool", int: "int64", float: "float64", complex: "complex128"}
        if isinstance(dtype, type) and dtype in python:
            return python[dtype]
        name = getattr(dtype, "name", None) or getattr(dtype, "__name__", None) or str(dtype)
        return str(name).rpartition(".")[2]

    def asarray(self, value: Any, *, dtype: Any = None, device: str | None = None, copy: bool | None = None) -> Any:
        """Make an array of Python numbers, nested sequences or an array of the library."""
        native = {} if device is None or self.native_device(device) is None else {"device": self.native_device(device)}
        dtype = None if dtype is None else self.dtype(dtype)
        return self.namespace().asarray(value, dtype=dtype, copy=copy, **native)

    def from_dlpack(self, x: Any, *, copy: bool | None = None) -> Any:
        """Make an array of memory that another library exports by DLPack."""
        return self.namespace().from_dlpack(x, copy=copy)

    def scalar(self, value: complex, spec: Spec) -> Any:
        """Return a Python scalar as a 0-d array, with the dtype the standard's promotion gives it beside `spec`."""
        return self.asarray(value, dtype=self.scalar_dtype(value, spec), device=spec.device)

    def scalar_dtype(self, value: complex, spec: Spec) -> Any:
        """Return the dtype the standard's promotion gives a Python scalar beside an array of `spec`."""
        from agrad.plugin import manager  # noqa: PLC0415 (the manager imports this file)

        kind = self.kind(spec.dtype)
        if (
            type(value) is bool
            or (type(value) is int and kind != "bool")
            or (isinstance(value, float) and spec.inexact)
        ):
            return spec.dtype
        if isinstance(value, complex):
            single = self.dtype_name(spec.dtype) in ("float32", "complex64", "float16")
            return self.dtype("complex64" if single else "complex128")
        return self.dtype("int64" if isinstance(value, int) else manager.get_default_dtype().name)

    def broadcast_like(self, array: Any, spec: Spec) -> Any:
        """Broadcast to a spec's shape (and chunks)."""
        return self.xp.broadcast_to(array, spec.shape)

    def scatter_add(self, spec: Spec, key: Any, values: Any) -> Any:
        """Return zeros of a spec with `values` added at `key`, repeated places accumulating: the adjoint of getitem."""
        xp, device = self.namespace(), self.native_device(spec.device)
        zeros = xp.zeros(spec.shape, dtype=values.dtype, device=device)
        places, sums = xp.reshape(self._places(spec.shape, key, device), (-1,)), xp.reshape(values, (-1,))
        # sort by place; within each run of one place add by doubling strides, so that no place touches another
        order = xp.argsort(places)
        places, sums = xp.take(places, order), xp.take(sums, order)
        stride = 1
        while stride < sums.shape[0]:
            same = places[stride:] == places[:-stride]
            added = xp.where(same, sums[stride:] + sums[:-stride], sums[stride:])
            sums = xp.concat([sums[:stride], added])
            stride *= 2
        return _put(xp, zeros, places, sums)

    def setitem(self, array: Any, key: Any, value: Any) -> Any:
        """Return a copy of an array with ``array[key] = value`` done."""
        xp = self.namespace()
        if self.assigns:
            made = xp.asarray(array, copy=True)
            made[key] = value
            return made
        places = self._places(array.shape, key, array.device)
        lead = max(value.ndim - places.ndim, 0)  # a value may have leading axes of length 1 that its place lacks
        value = xp.reshape(value, value.shape[lead:]) if set(value.shape[:lead]) <= {1} else value
        value = xp.astype(xp.broadcast_to(value, places.shape), array.dtype)
        places, values = xp.reshape(places, (-1,)), xp.reshape(value, (-1,))
        order = xp.argsort(places, stable=True)  # of several values for one place the last stays last
        return _put(xp, array, xp.take(places, order), xp.take(values, order))

    @once
    def assigns(self) -> bool:
        """Whether ``array[key] = value`` works as the standard has it; where not, `setitem` is composed of the rest."""
        made = self.namespace().zeros((1,))
        try:
            made[0] = 1
        except Exception:  # noqa: BLE001 (libraries refuse in their own ways)
            return False
        return True

    def _places(self, shape: tuple[int, ...], key: Any, device: Any) -> Any:
        """Return the numbers, in row-major order, of the places that a key takes."""
        xp = self.namespace()
        return self.xp.getitem(xp.reshape(xp.arange(math.prod(shape), device=device), shape), key)

    def setitem_into(self, array: Any, key: Any, value: Any) -> Any:
        """As `setitem`, where the array may be changed: nothing else holds it."""
        return self.setitem(array, key, value)

    def add_into(self, array: Any, other: Any, out: Any) -> Any:
        """Return the sum of arrays of one shape and dtype; `out` is the first, and nothing else holds it."""
        return self.xp.add(array, other)

    def may_hold_nan(self, array: Any) -> bool:
        """Return whether an array has NaN in it; True also where to look would cost more than it saves."""
        return self.is_lazy or self.holds_nan(array)

    def holds_nan(self, array: Any) -> bool:
        """Return whether an array has NaN in it; a lazy one is computed."""
        return bool(self.xp.any(self.xp.isnan(array)))

    def in_layout(self, array: Any, spec: Spec) -> Any:
        """Return a cotangent in the layout of a spec, its operand's: the chunks of a chunked array."""
        return array

    def nbytes(self, array: Any) -> int:
        """Return the bytes of an array's values."""
        found = getattr(array, "nbytes", None)
        if found is None:
            bits = "".join(filter(str.isdigit, self.dtype_name(array.dtype))) or "8"  # a boolean takes a byte
            found = math.prod(array.shape) * int(bits) // 8
        return int(found)

    def lend(self, array: Any) -> Any:
        """Return an array as code of the user's may have it: one it cannot write to, where the library has such.

        Elsewhere a 0-d array is copied: it may be a constant that all programs share.
        """
        return array if array.shape or self.is_lazy else self.namespace().asarray(array, copy=True)

    def to_host(self, array: Any) -> Any:
        """Return an array as an object with the buffer protocol or ``__array__`` in host memory."""
        if hasattr(array, "__array__") or hasattr(array, "__buffer__"):
            return array
        if hasattr(array, "__dlpack__"):
            from agrad.plugin import manager  # noqa: PLC0415 (the manager imports this file)

            return manager.get("numpy").from_dlpack(array)
        raise UnsupportedOp("to_device", self.name, "it has no way to the host's memory (Backend.to_host)")

    def from_host(self, buffer: Any, device: str) -> Any:
        """Make an array of an object with the buffer protocol or ``__array__``."""
        return self.asarray(buffer, device=device)

    def specimen(self, buffer: Any, device: str) -> Any:
        """Make an array as `from_host`, for the conformance kit: in the form that is hardest, as in several chunks."""
        return self.from_host(buffer, device)

    def receive(self, source: Backend, array: Any, device: str) -> Any:
        """Take an array of another backend, or move one of its own to another of its devices."""
        if source is self and self._native_devices:
            import array_api_compat  # noqa: PLC0415 (as pluggy: only when a backend is first needed)

            return array_api_compat.to_device(array, self.native_device(device))
        return self.from_host(source.to_host(array), device)

    def send(self, array: Any, target: Backend, device: str) -> Any:
        """Hand an array of this backend to another: every crossing goes through here, and to the other's `receive`."""
        return target.receive(self, array, device)

    def adopt(self, tensor: Any) -> Any:
        """Return a Tensor of another backend as an operand of a call on this one; the crossing is recorded."""
        return tensor.to_device(self.name)

    def item(self, array: Any) -> Any:
        """Return the one element as a Python number."""
        convert = {"bool": bool, "int": int, "float": float, "complex": complex}[self.kind(array.dtype)]
        return convert(self.xp.reshape(array, ()))

    def tolist(self, array: Any) -> Any:
        """Return the value as nested lists of Python numbers."""
        if not array.shape:
            return self.item(array)
        return [self.tolist(array[i, ...]) for i in range(array.shape[0])]

    def quiet(self) -> AbstractContextManager[Any]:
        """Silence floating-point warnings of the library."""
        return nullcontext()

    def computing_nothing(self) -> AbstractContextManager[Any]:
        """Return a context in which computing a value raises AssertionError: for the kit's tests of lazy backends."""
        return nullcontext()

    def realize(
        self, *arrays: Any, keep: str = "host", max_memory: int | str | None = None, progress: bool | None = None
    ) -> tuple[Any, ...]:
        """Compute lazy arrays of this backend in one pass; give arrays of this backend that hold their values.

        Parameters
        ----------
        *arrays : array
            What to compute. They are not changed.
        keep : {"host", "backend"}, optional
            Where the values stay: in the memory of this process, or where the backend computes (a cluster's).
        max_memory : int or str, optional
            How much the computation may hold at a time, in bytes or as ``"2GiB"``; None for the backend's own choice.
        progress : bool, optional
            Whether to show how far it has come; None for the backend's own choice.
        """
        return arrays

    def watch(self, array: Any) -> None:
        """Take note that gradients are asked by an array; a lazy backend can tell by it what is computed in vain."""

    def random(
        self, kind: str, shape: tuple[int, ...], key: tuple[int, int], *, dtype: Any, device: str, **p: Any
    ) -> Any:
        """Sample from a key: the same key gives the same numbers.

        Parameters
        ----------
        kind : str
            uniform (on [0, 1)), normal, integers (parameters low, high) or permutation (parameter n).
        key : tuple of int
            Seed and counter.
        """
        source = random.Random(f"{key[0]}:{key[1]}")  # noqa: S311 (sampling, not secrets)
        if kind == "permutation":
            values: list[Any] = list(range(p["n"]))
            source.shuffle(values)
        else:
            draw: Callable[[], Any] = {
                "uniform": source.random,
                "normal": lambda: source.gauss(0.0, 1.0),
                "integers": lambda: source.randrange(p["low"], p["high"]),
            }[kind]
            size = functools.reduce(lambda a, b: a * b, shape, 1)
            values = [draw() for _ in range(size)]
        array = self.asarray(values, dtype=dtype, device=device)
        return self.xp.reshape(array, shape)

    def __repr__(self) -> str:
        return f"<agrad backend {self.name}>"


def key_parts(key: Any) -> tuple[Any, ...]:
    """Return the parts of an indexing key, always as a tuple."""
    return key if isinstance(key, tuple) else (key,)


def at(xp: Any, array: Any, key: Any) -> Any:
    """Return ``array[key]``, also for one integer array among slices, which the standard lacks."""
    parts = key_parts(key)
    check_bounds(array.shape, parts)
    arrays = [i for i, part in enumerate(parts) if hasattr(part, "dtype")]
    if len(arrays) != 1 or not all(isinstance(part, slice) for i, part in enumerate(parts) if i != arrays[0]):
        return array[key]
    axis = arrays[0]
    if parts[axis].ndim != 1 or not xp.isdtype(parts[axis].dtype, "integral"):
        return array[key]
    return xp.take(array[(*parts[:axis], slice(None), *parts[axis + 1 :], ...)], parts[axis], axis=axis)


def check_bounds(shape: tuple[int, ...], key: Any) -> None:
    """Check the integers of a key: the standard leaves open what happens out of bounds, and some libraries clamp.

    Arrays of integers are the library's to check, as that takes their values.

    Raises
    ------
    IndexError
        If one is out of bounds.
    """
    parts = key_parts(key)
    taken = [0 if p is None or p is ... else p.ndim if _is_mask(p) else 1 for p in parts]
    axis = 0
    for part, count in zip(parts, taken, strict=True):
        if type(part) is int and axis < len(shape) and not -shape[axis] <= part < shape[axis]:
            message = f"index {part} is out of bounds for axis {axis} with size {shape[axis]}"
            raise IndexError(message)
        axis += len(shape) - sum(taken) if part is ... else count


def _is_mask(part: Any) -> bool:
    return hasattr(part, "dtype") and str(part.dtype).rpartition(".")[2].startswith("bool")


def _put(xp: Any, array: Any, places: Any, values: Any) -> Any:
    """Return an array with values put at places, which are sorted; of several values for one place the last counts."""
    if not places.shape[0]:
        return array
    every = xp.arange(math.prod(array.shape), device=array.device)
    last = xp.searchsorted(places, every, side="right") - 1
    last = xp.where(last < 0, xp.zeros_like(last), last)
    met = xp.take(places, last) == every
    return xp.reshape(xp.where(met, xp.take(values, last), xp.reshape(array, (-1,))), array.shape)


def kernels(backend: Backend, prefix: str = "") -> ModuleType:
    """Make the kernels of a backend by the standard's names: what rules get as ``xp`` when nothing is recorded.

    A name is resolved at its first use (a plugin's replacement, what the backend lacks, its own kernel, its namespace,
    the op's default in the standard's functions) and is an ordinary attribute from then on. It is a module because the
    interpreter reads a module's attributes fastest, also where missing ones are resolved by ``__getattr__``.
    """
    found = ModuleType(f"agrad.kernels.{backend.name}", f"Kernels of the {backend.name} backend.")

    def resolve(name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        below = any(op.startswith(f"{prefix}{name}.") for op in tuple(OPS))  # others may declare ops meanwhile
        chapter = below or (name in SUBNAMESPACES and not prefix)  # xp.fft.fft is a function
        value = kernels(backend, f"{prefix}{name}.") if chapter else _resolve(backend, prefix + name)
        setattr(found, name, value)
        return value

    found.__getattr__ = resolve  # type: ignore[method-assign]
    return found


def forget_kernels(backend: Backend) -> None:
    """Have the kernels of a backend resolved anew, as after a plugin was registered that may replace some."""
    found = backend.__dict__.get("xp")
    modules = [] if found is None else [found]
    for module in modules:  # grows: kernels below a name stand in a module of their own
        for name, value in list(vars(module).items()):
            if isinstance(value, ModuleType):
                modules.append(value)
            elif not name.startswith("__"):
                delattr(module, name)


def _resolve(backend: Backend, name: str) -> Any:
    """Return a kernel, with the checks on its operands that libraries leave out."""
    kernel = _found(backend, name)
    if name in LEAST_AXES:
        return _of_axes(kernel, name)
    return _of_kinds(kernel, backend) if name == "setitem" else kernel


def _of_axes(kernel: Callable[..., Any], name: str) -> Callable[..., Any]:
    """Return a kernel that refuses operands of too few axes."""
    least = LEAST_AXES[name]

    @functools.wraps(kernel)
    def of_axes(x: Any, /, *args: Any, **parameters: Any) -> Any:
        if len(x.shape) < least:
            message = f"{name}: input tensor must have at least {least} dimension{'s' * (least > 1)}"
            raise ValueError(message)
        return kernel(x, *args, **parameters)

    return of_axes


def _of_kinds(kernel: Callable[..., Any], backend: Backend) -> Callable[..., Any]:
    """Return an assignment that refuses to drop a fraction or an imaginary part."""

    @functools.wraps(kernel)
    def of_kinds(x: Any, key: Any, value: Any) -> Any:
        if value.dtype != x.dtype and KINDS.index(backend.kind(value.dtype)) > KINDS.index(backend.kind(x.dtype)):
            raise errors.not_castable(value.dtype, x.dtype)
        return kernel(x, key, value)

    return of_kinds


def _found(backend: Backend, name: str) -> Any:
    from agrad.plugin import manager  # noqa: PLC0415 (the manager imports this file)

    replacement = manager.kernel_hook(name, backend)
    if replacement is not None:
        return replacement
    if name in backend.lacks:
        return _lacking(name, backend.name, backend.lacks[name])
    kernel = backend.kernel(name)
    if kernel is not None:
        return functools.partial(_transform, kernel, name) if name in TRANSFORMS else kernel
    if name in PRIMITIVES:
        return getattr(backend, name)
    op = OPS.get(name)
    if op is not None and op.kernel is not None and op.rule.guarded:
        return _users_kernel(op, backend)  # before the library's function of that name, which may be another one
    found: Any = None
    if name.partition(".")[0] not in OWN:  # what a library has under these names is something else
        found = backend.namespace()
        for part in name.split("."):
            found = getattr(found, part, None)
    if found is None and op is not None and op.kernel is not None:
        return functools.partial(op.kernel, backend.xp)
    if found is None:
        return _lacking(name, backend.name, "its namespace has no function of that name")
    return functools.partial(_transform, found, name) if name in TRANSFORMS else found


def _transform(function: Callable[..., Any], name: str, x: Any, /, *, s: Any = None, **parameters: Any) -> Any:
    """Run a transform over several axes: -1 in `s` is the length without padding, which libraries read in many ways."""
    if s is not None and -1 in s:
        axes = parameters["axes"] = parameters.get("axes") or range(len(x.shape) - len(s), len(x.shape))
        whole = [x.shape[axis] for axis in axes]
        if name == "fft.irfftn":
            whole[-1] = 2 * (whole[-1] - 1)
        s = tuple(n if size == -1 else size for size, n in zip(s, whole, strict=True))
    return function(x, s=s, **parameters)


def _users_kernel(op: Op, backend: Backend) -> Callable[..., Any]:
    """Return the kernel of an op that a user declared; results that its declaration does not announce are an error."""
    rule, kernel, xp = op.rule, op.kernel, backend.xp
    assert kernel is not None
    several = rule.outputs is not None or bool(rule.residuals)
    count = rule.outputs or (1 + len(rule.residuals) if rule.residuals else 0)  # 0: any number

    def checked(*arguments: Any, **parameters: Any) -> Any:
        result = kernel(xp, *map(lent, arguments), **{name: lent(value) for name, value in parameters.items()})
        if several != isinstance(result, tuple | list) or (several and count not in (0, len(result))):
            given = f"{len(result)} results" if isinstance(result, tuple | list) else "one result"
            announced = f"{count or 'a tuple of'} results" if several else "one result"
            message = (
                f"{op.name}: its kernel gave {given}, its declaration announces {announced}; outputs= says how many"
                " there are, residuals= names what a fused kernel gives beside its result"
            )
            raise RuleError(message)
        return result

    return checked


#: How many axes the standard asks of the first operand, where libraries take fewer, each in a way of its own.
LEAST_AXES = {
    **dict.fromkeys(("cumulative_sum", "cumulative_prod", "sort", "argsort", "take", "unstack"), 1),
    **dict.fromkeys(("extra.cumulative_max", "extra.cumulative_min", "extra.logcumsumexp"), 1),
    **dict.fromkeys(("fft.fft", "fft.ifft", "fft.rfft", "fft.irfft", "fft.hfft", "fft.ihfft"), 1),
    **dict.fromkeys(("tril", "triu"), 2),
}

#: The kinds of dtypes, each of which can be cast to those after it.
KINDS = ("bool", "int", "float", "complex")

#: Transforms over several axes.
TRANSFORMS = ("fft.fftn", "fft.ifftn", "fft.irfftn", "fft.rfftn")

#: What a backend gives beyond the standard, reached as kernels too.
PRIMITIVES = ("broadcast_like", "scatter_add", "setitem", "add_into", "nbytes")


def _lacking(op: str, backend: str, reason: str) -> Callable[..., Any]:
    def lacking(*args: Any, **kwargs: Any) -> Any:  # noqa: ARG001 (whatever the op takes)
        raise UnsupportedOp(op, backend, reason)

    return lacking
