"""Backend: what agrad asks of an array library. Nearly all of it has a default in terms of the array API standard.

A minimal backend has a name, a `namespace`, and a plugin hook that claims its array type. Override the rest where the
library does better than the standard, or where the standard has nothing.
"""

from __future__ import annotations

import functools
import math
import operator
import random
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from typing import Any, Final, Protocol

from agrad import dtypes
from agrad.core import errors
from agrad.core.errors import BackendError, UnsupportedOp
from agrad.core.once import once
from agrad.core.port import Port
from agrad.core.requirements import REQUIREMENTS
from agrad.core.spec import Spec

#: The version of this contract, which is frozen: raised when backends written for it would break. docs/plugin.md lists
#: the changes.
CONTRACT = 2

#: How many specs a backend keeps interned.
SPECS_KEPT = 4096

#: The dtypes of double precision, which some devices lack, and their replacements.
SINGLE = {"float64": "float32", "complex128": "complex64"}

#: The dtypes that make a complex number beside them single precision.
SHORT = ("bfloat16", "complex64", "float16", "float32")


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


class Place(Device):
    """A device and the context that arrays there must share to be used together: a cluster, a stream, a memory limit.

    `Backend.device_of` returns one where arrays carry such a context; agrad creates the arrays that it needs beside an operand
    at the operand's place. It prints and compares as the device's name; two places are equal if their contexts are equal too.

    Attributes
    ----------
    context : object
        The library's object for it.

    Examples
    --------
    >>> from agrad.plugin.backend import Place
    >>> Place("mine", "a cluster") == "mine", Place("mine", "a cluster") == Place("mine", "another")
    (True, False)
    """

    context: Any

    def __new__(cls, device: str, context: Any) -> Place:  # noqa: PYI034 (a str is made by its own)
        made = super().__new__(cls, device)
        made.context = context
        return made

    def __eq__(self, other: object) -> bool:
        elsewhere = isinstance(other, Place) and self.context != other.context
        return False if elsewhere else str.__eq__(self, other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__: Final = str.__hash__

    def __reduce__(self) -> tuple[Any, ...]:
        return Device, (str(self),)  # a context is valid in this process only


class Outlook:
    """What computing lazy values will read and hold in memory; prints as text.

    Attributes
    ----------
    passes : int
        How many times the data are read; 0 where nothing has to be computed.
    tasks : int
        How many tasks the scheduler gets, over all passes; one task processes some chunks.
    threads : int
        How many run at once.
    chunks, read : int
        How many chunks are read from storage, over all passes, and their bytes.
    peak : int
        The most bytes by which the process grows.
    stored : int
        The same if results of several chunks are written to a store instead of kept.
    largest : int
        The bytes of the values of the largest task.
    task : str
        The name of that task.
    result : int
        The bytes of the results.
    kept : int
        The bytes of in-memory arrays that graphs keep for the backward pass, on top of `peak`.
    keeper : str
        What keeps most of those bytes.
    """

    passes: int = 0
    tasks: int = 0
    threads: int = 1
    chunks: int = 0
    read: int = 0
    peak: int = 0
    stored: int = 0
    largest: int = 0
    task: str = ""
    result: int = 0
    kept: int = 0
    keeper: str = ""

    def __init__(self, **known: Any) -> None:
        vars(self).update(known)

    def followed_by(self, later: Outlook) -> Outlook:
        """Return the outlook of this computation and of another after it, whose results are those that are wanted."""
        most = max(self, later, key=operator.attrgetter("largest"))
        return Outlook(
            passes=self.passes + later.passes,
            tasks=self.tasks + later.tasks,
            threads=max(self.threads, later.threads),
            chunks=self.chunks + later.chunks,
            read=self.read + later.read,
            peak=max(self.peak, later.peak + self.result),
            stored=max(self.peak, later.stored + self.result),
            largest=most.largest,
            task=most.task,
            result=later.result,
        )

    def __repr__(self) -> str:
        kept = ""
        if self.kept >= 2**20:
            kept = f"\nthe graph keeps {_bytes(self.kept)} in memory beside that, most of it for {self.keeper}"
        if not self.passes:
            return f"nothing is to be computed: everything is in memory{kept}"
        passes = "1 pass" if self.passes == 1 else f"{self.passes} passes"
        stored = f"; written to a store by ag.to_zarr, at most {_bytes(self.stored)}" if self.stored < self.peak else ""
        return (
            f"{passes} over the data: {self.tasks} tasks, {self.threads} at a time"
            f"\nreads {_bytes(self.read)} in {self.chunks} chunks"
            f"\nholds at most {_bytes(self.peak)}; the largest task {_bytes(self.largest)}: {self.task}"
            f"\ngives {_bytes(self.result)}{stored}{kept}"
        )

    def _repr_html_(self) -> str:
        from agrad.view import notebook  # noqa: PLC0415 (for notebooks only)

        return notebook.text(repr(self))


def _bytes(count: int) -> str:
    """Format a number of bytes."""
    power = max(0, min(int(math.log(max(count, 1), 1024)), 4))
    return f"{count} B" if power == 0 else f"{count / 1024**power:.1f} {('KiB', 'MiB', 'GiB', 'TiB')[power - 1]}"


class _Other:
    """A type that no library knows and that supports multiplication."""

    __array_ufunc__ = None

    def __rmul__(self, other: object) -> _Other:
        return self


class Backend:
    """The contract between agrad and an array library.

    Only `namespace` has no default. The methods come in groups, and a backend may override each group by itself: what the
    library lacks; devices; functions and kernels; specs and dtypes; new arrays; what the standard has no function for, such
    as assignment by key; how values leave agrad; conversion to other backends; floating-point errors; lazy and chunked arrays,
    which other backends ignore; and compiled programs. Names with a leading underscore are reserved for agrad's own backends.

    Attributes
    ----------
    name : str
        As ``"numpy"``: the first part of a device.
    contract : int
        The version of this contract the backend was written for.
    capabilities : mapping of str to bool or str
        Whether the backend supports what `agrad.core.requirements` lists, by name: True, False, or the reason why not.
        Requirements not listed here keep their usual value.
    device_capabilities : mapping of str to mapping
        The same per device, by device name, for devices that differ from the rest.
    lacks : mapping of str to str
        Operations it cannot run, with the reason: raised as `UnsupportedOp`, listed in the docs, expected by the conformance kit.
    computes : mapping of str to str
        For a lazy backend, operations that have to compute something when called, with the reason.
    missing : bool
        Its arrays may have missing elements. Then `to_host` refuses arrays with missing elements, `ones_like` of the namespace
        returns an array with the same elements missing, and the kernel ``extra.filled`` returns one with none missing.
    is_duck_array : bool
        Its arrays are in memory and work with NumPy's functions (``__array_function__``), so they can be chunks of another
        library's array.
    is_lazy : bool
        Values are computed on demand; specs are not interned.
    is_chunked : bool
        Arrays are held in chunks: they have ``chunks``, creation functions take ``chunks=``, and `rechunk` changes them.
    is_batched : bool
        An array holds the members of a batch, as in `vmap`: no single value is available.
    """

    name: str = ""
    contract: int = CONTRACT
    capabilities: Mapping[str, bool | str] = {}
    device_capabilities: Mapping[str, Mapping[str, bool | str]] = {}
    lacks: Mapping[str, str] = {}
    computes: Mapping[str, str] = {}
    missing: bool = False
    is_duck_array: bool = False
    is_lazy: bool = False
    is_chunked: bool = False
    is_batched: bool = False
    #: ``run_rule(vjp, g, saved, node)`` runs a backward rule on raw arrays of this backend, for example on a device or as one
    #: kernel. None: agrad calls the rule with the kernels, ``vjp(xp, g, saved, node)``.
    run_rule: Callable[..., Any] | None = None
    #: The same for a node of another backend whose cotangent is of this one; None: ``vjp(xp, g, saved, node)``.
    _run_crossed: Callable[..., Any] | None = None
    #: The array attributes that distinguish its spec, where reading them as a tuple is faster than calling `spec`.
    _spec_parts: tuple[str, ...] = ()
    #: Whether its `compile` takes programs with loops (steps whose kernel ``func.scan`` runs a body); otherwise they are unrolled.
    _runs_loops: bool = False
    #: The underlying backend, for backends that agrad builds on another one: batches, recorded arrays.
    _of: Backend | None = None
    #: ``run_function(function, args, kwargs)`` runs a `Function` with a tensor of this backend among its arguments, as the
    #: backend of batched arrays does. None: agrad runs the function's own methods.
    run_function: Callable[..., Any] | None = None
    #: ``_csr(values, pattern, rows, known)`` makes a sparse matrix of the library's own: of values in the order of a pattern, whose
    #: rows are the elements of arrays; what it keeps for the next call of the same pattern goes into a dictionary. A lazy library
    #: takes `proof` besides: a tangent, the vector along it, and what to raise where the product is another one. None: SciPy's.
    _csr: Callable[..., Any] | None = None

    # -- the library ---------------------------------------------------------------------------------------------------

    def namespace(self) -> Any:
        """Return the array library as a namespace of the standard, usually array-api-compat's."""
        raise NotImplementedError

    def availability(self) -> tuple[bool, str]:
        """Return whether the library works here; the second item is its version, or the reason why it does not."""
        try:
            module = self.namespace()
        except ImportError as error:
            return False, f"not installed ({error})"
        folder = (
            None if getattr(module, "__file__", None) else next(iter(getattr(module, "__path__", None) or ()), None)
        )
        if folder is not None:
            return False, f"not installed ({folder} is a folder of that name, without a module)"
        name = getattr(module, "__name__", "").removeprefix("array_api_compat.")
        library = sys.modules.get(name.partition(".")[0])
        return True, str(getattr(module, "__version__", None) or getattr(library, "__version__", ""))

    # -- what it supports and what it lacks ----------------------------------------------------------------------------

    def cannot(self, requirement: str, device: str | None = None) -> str:
        """Return why the backend, or one of its devices, lacks a feature; an empty string if it has it.

        Parameters
        ----------
        requirement : str
            A name in `agrad.core.requirements.REQUIREMENTS`.
        device : str, optional
            One of `devices`. Default: what holds on all of them.

        Examples
        --------
        >>> import agrad as ag
        >>> class Small(ag.Backend):
        ...     capabilities = {"float64": "the chip has no such numbers", "fft": False}
        >>> Small().cannot("float64")
        'the chip has no such numbers'
        >>> Small().cannot("complex128")  # which needs float64
        'the chip has no such numbers'
        >>> Small().cannot("fft"), Small().cannot("linalg")
        ('it has no Fourier transforms', '')
        """
        known = REQUIREMENTS[requirement]
        said = self.capabilities.get(requirement, known.usual)
        if device is not None:
            said = self.device_capabilities.get(device, {}).get(requirement, said)
        if said is not True:
            return said or f"it has no {known.meaning}"
        return next(filter(None, (self.cannot(need, device) for need in known.needs)), "")

    def _run_on(self, vjp: Callable[..., Any], xp: Any, g: Any, saved: tuple[Any, ...], node: Any) -> Any:
        """Run a rule with kernels other than those of `run_rule`: on tensors, on batches, or for a node moved to this backend."""
        return vjp(xp, g, saved, node)

    def _on(self, device: str) -> AbstractContextManager[Any]:
        """Make a device the one on which operators of arrays run, for a library where they do not run on that of their operands."""
        return nullcontext()

    @once
    def _gives_way(self) -> bool:
        """Whether operators of its arrays defer to an operand of another class, such as a tensor or a batch."""
        try:
            # rules and compositions do not use "@" for matrix products
            return isinstance(self.asarray([1.0]) * _Other(), _Other)
        except Exception:  # noqa: BLE001 (libraries raise their own errors)
            return False

    @once
    def pickles(self) -> bool:
        """Whether the library's arrays can be pickled; otherwise a tensor pickles as a NumPy array and the device's name."""
        import pickle  # noqa: PLC0415 (only here)

        array = self.asarray([1.0])
        try:
            made = pickle.loads(pickle.dumps(array))  # noqa: S301 (our own)
        except Exception:  # noqa: BLE001 (libraries raise their own errors)
            return False
        return type(made) is type(array)

    @once
    def assigns(self) -> bool:
        """Whether ``array[key] = value`` works as in the standard; otherwise `setitem` is composed of other functions."""
        made = self.namespace().zeros((1,))
        try:
            made[0] = 1
        except Exception:  # noqa: BLE001 (libraries raise their own errors)
            return False
        return True

    # -- devices -------------------------------------------------------------------------------------------------------

    def native_devices(self) -> Mapping[str, Any]:
        """Return the library's own device objects by name, as ``{"mine:0": ...}``; empty if there is only one."""
        return {}

    def devices(self) -> tuple[str, ...]:
        """Return the names of the usable devices, each prefixed with the backend's name."""
        return tuple(self._native_devices) or (self.name,)

    def default_device(self) -> str:
        """Return the device on which new arrays are created: the first of `devices`."""
        return self.devices()[0]

    def native_device(self, device: str) -> Any:
        """Return the library's own ``device=`` argument for one of `devices`; None for its default."""
        return self._native_devices[device] if self._native_devices else None

    def device_of(self, array: Any) -> str:
        """Return the device of an array; a `Place` where arrays carry a context that operands must share."""
        if not self._native_devices:
            return self.name
        try:
            return self._device_names[array.device]
        except KeyError:
            known = ", ".join(self.devices())
            raise BackendError(
                f"the array is on {array.device}, which is none of the {self.name} backend's devices: {known}"
            ) from None

    def creation(self, device: str) -> dict[str, Any]:
        """Return the keywords with which the namespace's creation functions make an array on a device, or at a `Place`."""
        native = self.native_device(device)
        return {} if native is None else {"device": native}

    def beside(self, array: Any) -> dict[str, Any]:
        """Return the keywords with which they make an array that can be combined with the given one."""
        return self.creation(self.device_of(array))

    @once
    def _native_devices(self) -> Mapping[str, Any]:
        return self.native_devices()

    @once
    def _device_names(self) -> dict[Any, str]:
        return {native: name for name, native in self._native_devices.items()}

    # -- its functions -------------------------------------------------------------------------------------------------

    @once
    def xp(self) -> Any:
        """The kernels by name."""
        return kernels_of(self)

    @once
    def functions(self) -> Any:
        """The namespace of agrad's functions bound to this backend: rules run on it when they are recorded."""
        return functions_of(self)

    def kernel(self, op: str) -> Callable[..., Any] | None:
        """Return the backend's own kernel of an operation, None to use the namespace's function of that name."""
        return None

    def module(self, name: str) -> Any:
        """Return a module that agrad runs or quotes but does not import itself; None where it is not installed.

        agrad asks only the NumPy backend: for NumPy, and for modules of SciPy, whose solvers run on NumPy arrays.

        Parameters
        ----------
        name : str
            The full name, as ``"scipy.optimize"``.
        """
        return None

    # -- specs and dtypes of arrays ------------------------------------------------------------------------------------

    def spec(self, array: Any) -> Spec:
        """Return the spec of an array: one object per shape, dtype and device while it is interned."""
        shape = tuple(array.shape)  # libraries have their own shape types
        if self.is_lazy:
            return Spec(self, shape, array.dtype, self.device_of(array), self.layout(array))
        key = (shape, array.dtype, self.device_of(array))
        found = self._specs.get(key)
        if found is None:
            if len(self._specs) >= SPECS_KEPT:
                self._specs.clear()
            found = self._specs[key] = Spec(self, shape, self._own_dtype(array.dtype), key[2])
        return found

    def layout(self, array: Any) -> object:
        """Return the chunks of a chunked array, None for other arrays."""
        return None

    def kind(self, dtype: Any) -> str:
        """Return bool, int, float or complex for a dtype."""
        found = self._kinds.get(dtype)
        if found is None:
            isdtype = self.namespace().isdtype
            kinds = {"float": "real floating", "int": "integral", "bool": "bool", "complex": "complex floating"}
            try:
                found = next((kind for kind, names in kinds.items() if isdtype(dtype, names)), "other")
            except TypeError:  # NumPy raises it for the dtype of a recarray
                found = "other"
            self._kinds[dtype] = found
        return found

    def dtype(self, dtype: Any) -> Any:
        """Return the backend's own dtype for one of agrad's, another backend's, or a name."""
        name = self._name_of(dtype)
        found = self._dtypes.get(name)
        if found is None:
            xp = self.namespace()
            native = getattr(xp, name, None)
            # The dtype as arrays have it: NumPy's namespace has scalar types, which compare equal but hash differently.
            found = None if native is None else xp.empty((1,), dtype=native).dtype
            if found is None or self.dtype_name(found) != name:  # some libraries return a different one
                why = f": {reason}" if name in REQUIREMENTS and (reason := self.cannot(name)) else ""
                if not why and name in SINGLE:
                    why = "; ag.set_default_dtype(ag.float32) makes single precision the default"
                raise TypeError(f"the {self.name} backend has no dtype {name}{why}")
            self._dtypes[name] = found
        return found

    def _own_dtype(self, dtype: Any) -> Any:
        """Return the namespace's dtype in place of an equal one that prints differently (NumPy's "<f4") or has metadata.

        Arrays of equal dtypes share a spec, whichever of them comes first.
        """
        found = self._own_dtypes.get(dtype)
        if found is None:
            found = dtype
            if self.kind(dtype) != "other":
                with suppress(TypeError):  # the namespace has no name for it
                    own = self.dtype(self.dtype_name(dtype))
                    found = own if own == dtype else dtype  # another byte order
            self._own_dtypes[dtype] = found
        return found

    def dtype_name(self, dtype: Any) -> str:
        """Return the standard's name of one of the library's own dtypes; agrad passes no others."""
        return dtypes.name_of(dtype)

    def _name_of(self, dtype: Any) -> str:
        """Return the standard's name of any dtype: `dtype_name` gets only the library's own."""
        if type(self).dtype_name is not Backend.dtype_name and not isinstance(dtype, str | dtypes.DType):
            xp = self.namespace()
            named = (getattr(xp, name, None) for name in dtypes.KNOWN)
            own = (*self._dtypes.values(), *(one for one in named if one is not None))
            if dtype not in dtypes.PYTHON and any(dtype is one or dtype == one for one in own):
                return self.dtype_name(dtype)
        return dtypes.name_of(dtype)

    def default_dtype(self, kind: str = "float", device: str | None = None) -> Any:
        """Return the backend's own dtype for Python numbers that come without one.

        Floats get the dtype of `set_default_dtype`, complex numbers the complex dtype of that precision; single precision where
        the device has no double (`capabilities`). Integers get int64.

        Parameters
        ----------
        kind : {"bool", "int", "float", "complex"}, optional
            The kind of numbers.
        device : str, optional
            One of `devices`. Default: what holds on all of them.

        Raises
        ------
        TypeError
            If the library has no such numbers.
        """
        key = kind, device, dtypes.get_default_dtype().name
        found = self._defaults.get(key)
        if found is None:
            found = self._defaults[key] = self.dtype(self.default_name(kind, device))
        return found

    def default_name(self, kind: str = "float", device: str | None = None) -> str:
        """Return the standard's name of `default_dtype`."""
        key = kind, device, dtypes.get_default_dtype().name
        found = self._default_names.get(key)
        if found is None:
            name = {"bool": "bool", "int": "int64", "float": "float64", "complex": "complex128"}[kind]
            single = name in SINGLE and (key[2] == "float32" or self.cannot(name, device))
            found = self._default_names[key] = SINGLE[name] if single else name
        return found

    @once
    def _specs(self) -> dict[Any, Spec]:
        return {}

    @once
    def _kinds(self) -> dict[Any, str]:
        return {}

    @once
    def _dtypes(self) -> dict[str, Any]:
        return {}

    @once
    def _own_dtypes(self) -> dict[Any, Any]:
        return {}

    @once
    def _defaults(self) -> dict[tuple[str, str | None, str], Any]:
        return {}

    @once
    def _default_names(self) -> dict[tuple[str, str | None, str], str]:
        return {}

    # -- new arrays: from numbers and users' data ----------------------------------------------------------------------

    def asarray(
        self, value: Any, *, dtype: Any = None, device: str | None = None, copy: bool | None = None, like: Any = None
    ) -> Any:
        """Make an array from Python numbers, nested sequences or an array of the library.

        `like` is an array that the result will be combined with: without `device`, its device is used. If neither is given, an
        array of the library stays where it is.
        """
        device = self.device_of(like) if device is None and like is not None else device
        where = {} if device is None else self.creation(device)
        dtype = None if dtype is None else self.dtype(dtype)
        return self.namespace().asarray(value, dtype=dtype, copy=copy, **where)

    def as_array(self, value: Any) -> Any:
        """Return a kernel's result as an array (libraries return scalar objects for 0-d results); return a `Blank` unchanged."""
        return value

    def taken(self, value: Any) -> Any:
        """Return a user's array in the backend's form; snapshot one whose recipe a later write would change.

        Unless the backend declares `missing`, refuse arrays with missing elements here, because derivatives count every element.
        agrad itself refuses arrays whose attribute `mask` is not a method.
        """
        return self.as_array(value)

    def misses(self, array: Any) -> bool:
        """Return whether an array has missing elements, on a backend that allows them."""
        ones = self.xp.ones_like(array)
        return self.missing and not self.truth(self.xp.all(self.kernel("extra.filled")(ones, 0) != 0))  # type: ignore[misc]

    def scalar(self, value: complex, spec: Spec) -> Any:
        """Return a Python scalar as a 0-d array, in the dtype that the standard promotes it to beside `spec`."""
        return self.asarray(value, dtype=self.scalar_dtype(value, spec), device=spec.device)

    def scalar_dtype(self, value: complex, spec: Spec) -> Any:
        """Return the dtype that the standard promotes a Python scalar to beside an array of `spec`."""
        kind = self.kind(spec.dtype)
        if (
            type(value) is bool
            or (type(value) is int and kind != "bool")
            or (isinstance(value, float) and spec.inexact)
        ):
            return spec.dtype
        if isinstance(value, complex):
            single = self.dtype_name(spec.dtype) in SHORT or self.cannot("complex128", spec.device)
            return self.dtype("complex64" if single else "complex128")
        return self.default_dtype("int" if isinstance(value, int) else "float", spec.device)

    def _of_float(self, value: float) -> Any:
        """Return a Python float, of exactly that class, as a 0-d float64 array."""
        return self.asarray(value, dtype="float64")

    def from_dlpack(self, x: Any, *, copy: bool | None = None) -> Any:
        """Make an array from memory that another library exports through DLPack."""
        return self.namespace().from_dlpack(x, copy=copy)

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

    # -- what the standard has no function for -------------------------------------------------------------------------

    def broadcast_like(self, array: Any, spec: Spec) -> Any:
        """Broadcast to a spec's shape (and chunks)."""
        return self.xp.broadcast_to(array, spec.shape)

    def scatter_add(self, spec: Spec, key: Any, values: Any) -> Any:
        """Return zeros of a spec with `values` added at `key`, repeated places accumulating: the adjoint of getitem."""
        xp, where = self.xp, self.beside(values)  # kernels, whose errors say what the library lacks
        zeros = xp.zeros(spec.shape, dtype=values.dtype, **where)
        places, sums = xp.reshape(self._places(spec.shape, key, where), (-1,)), xp.reshape(values, (-1,))
        # sort by place; within each run of one place add by doubling strides, so that no place is written twice at once
        order = xp.argsort(places)
        places, sums = xp.take(places, order), xp.take(sums, order)
        stride = 1
        while stride < sums.shape[0]:
            same = places[stride:] == places[:-stride]
            added = xp.where(same, sums[stride:] + sums[:-stride], sums[stride:])
            sums = xp.concat([sums[:stride], added])
            stride *= 2
        return self._put(zeros, places, sums)

    def setitem(self, array: Any, key: Any, value: Any) -> Any:
        """Return a copy of an array after ``array[key] = value``."""
        xp = self.xp
        if self.assigns:
            made = xp.asarray(array, copy=True)
            try:
                made[key] = value
            except IndexError:
                if not any(hasattr(part, "dtype") for part in (key if isinstance(key, tuple) else (key,))):
                    raise  # except arrays of integers, which the standard does not allow in assignments
            else:
                return made
        places = self._places(array.shape, key, self.beside(array))
        lead = max(value.ndim - places.ndim, 0)  # a value may have leading axes of length 1 that its place lacks
        value = xp.reshape(value, value.shape[lead:]) if set(value.shape[:lead]) <= {1} else value
        value = xp.astype(xp.broadcast_to(value, places.shape), array.dtype)
        places, values = xp.reshape(places, (-1,)), xp.reshape(value, (-1,))
        order = xp.argsort(places, stable=True)  # stable: of several values for one place the last stays last
        return self._put(array, xp.take(places, order), xp.take(values, order))

    def _places(self, shape: tuple[int, ...], key: Any, where: dict[str, Any]) -> Any:
        """Return the positions that a key selects, numbered in row-major order."""
        xp = self.xp
        return xp.getitem(xp.reshape(xp.arange(math.prod(shape), **where), shape), key)

    def _put(self, array: Any, places: Any, values: Any) -> Any:
        """Return an array with values written at sorted positions; of several values for one position the last wins."""
        xp = self.xp
        if not places.shape[0]:
            return xp.asarray(array, copy=True)
        every = xp.arange(math.prod(array.shape), **self.beside(array))
        last = xp.searchsorted(places, every, side="right") - 1
        last = xp.where(last < 0, xp.zeros_like(last), last)
        met = xp.take(places, last) == every
        return xp.reshape(xp.where(met, xp.take(values, last), xp.reshape(array, (-1,))), array.shape)

    def setitem_into(self, array: Any, key: Any, value: Any) -> Any:
        """As `setitem`, but free to change the array: nothing else holds it."""
        return self.setitem(array, key, value)

    def add_into(self, array: Any, other: Any, out: Any) -> Any:
        """Return the sum of arrays of the same shape and dtype; `out` is the first of them, and nothing else holds it."""
        return self.xp.add(array, other)

    def may_hold_nan(self, array: Any) -> bool:
        """Return whether an array contains NaN; also True where checking would cost more than it saves."""
        return self.is_lazy or self.holds_nan(array)

    def holds_nan(self, array: Any) -> bool:
        """Return whether an array contains NaN; computes a lazy one."""
        return self.truth(self.xp.any(self.xp.isnan(array)))

    def may_hold_zero(self, array: Any) -> bool:
        """Return whether an array contains 0; also True where checking costs more than it saves, or is impossible."""
        return True

    # -- values that leave agrad: numbers, text, memory ----------------------------------------------------------------

    def item(self, array: Any) -> Any:
        """Return the only element as a Python number."""
        convert = {"bool": bool, "int": int, "float": float, "complex": complex}[self.kind(array.dtype)]
        element = self.xp.reshape(array, ())
        if not hasattr(element, f"__{convert.__name__}__"):  # bool() of such an object would be True
            return self._host_list("item", element)
        return convert(element)

    def truth(self, array: Any) -> bool:
        """Return the truth value of the only element: it may decide a branch of the program."""
        return bool(self.item(array))

    def tolist(self, array: Any) -> Any:
        """Return the value as nested lists of Python numbers."""
        if not array.shape:
            return self.item(array)
        if not hasattr(array, "__getitem__"):
            return self._host_list("tolist", array)
        return [self.tolist(self.xp.getitem(array, (i, ...))) for i in range(array.shape[0])]

    def _host_list(self, method: str, array: Any) -> Any:
        """Return the value as nested lists of Python numbers, as the host has it; `method` is the one that needs them."""
        try:
            host = plugins().get("numpy")
        except BackendError as error:
            read = f"{type(array).__name__} has no methods to read elements by, and NumPy cannot read them instead: {error}"
            raise UnsupportedOp(
                method, self.name, f"{read}\n  The backend's author may define Backend.{method}."
            ) from error
        return host.receive(self, array, "numpy").tolist()

    def text_of(self, array: Any) -> str | None:
        """Return the text that shows a tensor of this array; None: the text of its elements, as returned by `tolist`."""
        return None

    def shows(self, array: Any) -> bool:
        """Return whether the text of a tensor shows this array's elements; otherwise it shows shape and chunks, uncomputed."""
        return True

    def nbytes(self, array: Any) -> int:
        """Return the number of bytes of an array's values."""
        found = getattr(array, "nbytes", None)
        if found is None:
            bits = "".join(filter(str.isdigit, self.dtype_name(array.dtype))) or "8"  # a boolean takes one byte
            found = math.prod(array.shape) * int(bits) // 8
        return int(found)

    def lend(self, array: Any) -> Any:
        """Return an array to pass to user code: read-only, where the library supports that.

        Elsewhere copy 0-d arrays: they may be constants that all programs share.
        """
        return array if array.shape or self.is_lazy else self.namespace().asarray(array, copy=True)

    def read_only(self, array: Any) -> Any:
        """Return an array that may leave agrad: as `lend`, and without memory that other libraries could write to."""
        return self.lend(array)

    # -- conversion to other backends, and to the host -----------------------------------------------------------------

    def join(self, others: Sequence[Backend]) -> Backend | None:
        """Return the backend of a call with operands of this and other backends; None if this one does not know the others.

        agrad asks each backend among the operands until one answers, so only one of them has to know the others: by
        properties of the contract, such as `is_duck_array`, never by name. `adopt` converts the operands of the others. The
        answer is cached.
        """
        return None if others else self

    def mixed(self, op: str, others: Sequence[Backend]) -> Callable[..., Any] | None:
        """Return a kernel that takes operands of this and other backends unconverted; None: `join` decides on a common backend.

        agrad asks this before `join`, for calls whose arrays are all differentiable operands. The kernel may return an array of any
        backend, and the result belongs to that one: the product of a sparse and a dense matrix is dense.

        Parameters
        ----------
        op : str
            As ``"matmul"``.
        others : sequence of Backend
            The backends of the other operands. Decide by properties of the contract, as for `join`; a backend that
            `is_batched` holds arrays of `vmap`.
        """
        return None

    def adopt(self, tensor: Any) -> Any:
        """Return a tensor of another backend as an operand of a call on this one; the conversion is recorded."""
        return tensor.to_device(self.name)

    def send(self, array: Any, target: Backend, device: str) -> Any:
        """Hand an array of this backend to another: every conversion goes through here, then through the other's `receive`."""
        return target.receive(self, array, device)

    def receive(self, source: Backend, array: Any, device: str) -> Any:
        """Convert an array of another backend, or move one of its own to another of its devices."""
        if source is self and self._native_devices:
            import array_api_compat  # noqa: PLC0415 (as pluggy: only when a backend is first needed)

            return array_api_compat.to_device(array, self.native_device(device))
        return self.from_host(source.to_host(array), device)

    def to_host(self, array: Any) -> Any:
        """Return an array as an object with the buffer protocol or ``__array__`` in host memory."""
        if hasattr(array, "__array__") or hasattr(array, "__buffer__"):
            return array
        if hasattr(array, "__dlpack__"):
            return plugins().get("numpy").from_dlpack(array)
        raise UnsupportedOp("to_device", self.name, "it has no way to the host's memory (Backend.to_host)")

    def from_host(self, buffer: Any, device: str) -> Any:
        """Make an array from an object with the buffer protocol or ``__array__``."""
        return self.asarray(buffer, device=device)

    def from_buffer(self, data: bytearray, dtype_name: str, shape: tuple[int, ...], device: str) -> Any:
        """Make an array from little-endian bytes in row-major order; it may share their memory.

        Raises
        ------
        TypeError
            If tensors have no dtype of that name.
        """
        host = plugins().get("numpy")
        return self.from_host(host.from_buffer(data, dtype_name, shape, host.default_device()), device)

    # -- floating-point errors -----------------------------------------------------------------------------------------

    def quiet(self) -> AbstractContextManager[Any]:
        """Silence the library's floating-point warnings."""
        return nullcontext()

    def _error_state(self) -> Any:
        """Return how the library handles floating-point errors, as the user has set it; None within `quiet`, or if unknown."""
        return None

    # -- lazy and chunked arrays ---------------------------------------------------------------------------------------

    def in_layout(self, array: Any, spec: Spec) -> Any:
        """Return a cotangent in the layout of its operand's spec: the chunks of a chunked array."""
        return array

    def rechunk(self, array: Any, chunks: Any) -> Any:
        """Return an array with other chunks, on a backend that `is_chunked`."""
        return array

    def realize(
        self, *arrays: Any, keep: str = "host", max_memory: int | str | None = None, progress: bool | None = None
    ) -> tuple[Any, ...]:
        """Compute lazy arrays of this backend in one pass; return arrays of this backend that hold their values.

        Parameters
        ----------
        *arrays : array
            The arrays to compute. They are not changed.
        keep : {"host", "backend"}, optional
            Where the values stay: in the memory of this process, or where the backend computes (such as a cluster).
        max_memory : int or str, optional
            How much memory the computation may hold at once, in bytes or as ``"2GiB"``; None for the backend's own choice.
        progress : bool, optional
            Whether to show progress; None for the backend's own choice.
        """
        return arrays

    def outlook(self, *arrays: Any, max_memory: int | str | None = None) -> Outlook:
        """Return what `realize` would read and hold for these arrays, without computing anything."""
        return Outlook()

    def watch(self, array: Any) -> None:
        """Note that gradients are requested for an array; a lazy backend can then tell what is computed in vain."""

    def _came_from(self, gradient: Any, losses: Sequence[Any]) -> None:
        """Note the losses of a lazy gradient: computing them after it means reading the data again."""

    def _is_held(self, array: Any) -> bool:
        """Return whether the value of an array is in memory: nothing is left to be computed."""
        return not self.is_lazy

    def _handed_over(self, array: Any) -> Any:
        """Return a lazy array in the form the library gets to compute itself, so that this computation is counted."""
        return array

    def _writing(self, array: Any, target: Any) -> Any:
        """Return a lazy array that, when computed, writes another's parts to a target; None: it has been written already."""
        target[...] = self.to_host(array)

    # -- recorded programs ---------------------------------------------------------------------------------------------

    def compile(self, program: Any, **options: Any) -> Callable[..., Any] | None:
        """Return a function that runs a recorded program as a whole; None: agrad runs it operation by operation.

        Parameters
        ----------
        program : agrad.func.Program
            Contains no steps for histories. The function takes arrays of this backend for the inputs, in their order and with
            the stated shapes and dtypes, and pairs of integers for keys of draws; it returns a tuple of the outputs, in their
            order, which no later call overwrites. Several threads may call it at once. A step ``stop_unless`` has no result: if
            its value, read by ``item``, differs from the number beside it (for a bool: in truth), the function raises
            `agrad.plugin.programs.Stopped` before running any later step.
        **options
            ``exact`` (bool, default False): compute sums and matrix products as operation by operation, so that results are
            bitwise equal. ``threads`` (int or None): how many may work on large arrays; None leaves the choice to the backend.
            ``mode`` (str): ``"reduce-overhead"`` to minimise host time per call at the cost of memory. ``keep`` (bool, default
            True): memory may be kept between calls. Ignore any others.
        """
        return None

    def source(self, program: Any, *, notes: bool = True) -> tuple[str, Mapping[str, Any]]:
        """Return a recorded program as the text of a module that needs only this backend's library: `Program.source`.

        Parameters
        ----------
        program : agrad.func.Program
            Contains no steps for histories.
        notes : bool, optional
            Whether each line ends with shape, dtype and the user's line.

        Returns
        -------
        text : str
            It defines ``program``, which takes the arguments that held arrays under their own names.
        parameters : mapping of str to object
            Its further arguments, by name: for a tensor from outside its value of ``program.outside``, for a constant the
            array.

        Raises
        ------
        UnsupportedOp
            By default.
        """
        raise UnsupportedOp("source", self.name, "it writes no modules (Backend.source)")

    def infer(self, op: str, arguments: Sequence[Any], parameters: Mapping[str, Any]) -> Sequence[Spec] | None:
        """Return the specs of an operation's results where this library departs from the standard; otherwise None.

        `agrad.plugin.programs.infer`, the function for users and plugins, asks here first.

        Parameters
        ----------
        op : str
            The operation's name.
        arguments : sequence
            The positional arguments of the call, with a `Spec` for each array.
        parameters : mapping
            The keyword arguments, by name.
        """
        return None

    def __repr__(self) -> str:
        return f"<agrad backend {self.name}>"


# -- functions defined in higher files --------------------------------------------------------------------------------


class Plugins(Protocol):
    """What the core asks of plugins."""

    def ask(self, hook: str, **arguments: Any) -> Any:
        """Return the first answer of the plugins to a hook."""

    def default_backend(self) -> Backend:
        """Return the backend that creation functions use without a device."""

    def own_rules(self, op: str) -> Mapping[str, Mapping[str, Any]]:
        """Return the derivatives of an op that plugins provide for single backends, by backend name."""

    def find_backend(self, array_type: type) -> Backend | None:
        """Return the backend of an array type, None if no plugin claims it."""

    def get(self, name: str) -> Backend:
        """Return a backend by name."""


@Port
def plugins() -> Plugins:  # type: ignore[empty-body]
    """Return the plugin manager, which makes backends. The core reaches it only through this function."""


@Port
def kernels_of(backend: Backend, /) -> Any:
    """Make a backend's kernels, by name: from its library, and from the ops, whose calls know backends."""


@Port
def functions_of(backend: Backend, /) -> Any:
    """Return the namespace of agrad's functions bound to a backend."""


# -- which backend ----------------------------------------------------------------------------------------------------

#: Array types met so far. Filled by `backend_of`; plugins are asked once per type.
BACKENDS: dict[type, Backend] = {}

#: Types that plugins are not asked about: non-array arguments of calls.
PYTHONS_OWN = frozenset([bool, int, float, complex, type(None), slice, type(Ellipsis), list, tuple, range, str])


def backend_of(array: Any) -> Backend | None:
    """Return the backend an array belongs to, None if no plugin claims its type."""
    kind = type(array)
    backend = BACKENDS.get(kind)
    if backend is None and kind not in PYTHONS_OWN:
        backend = plugins().find_backend(kind)
        if backend is not None:
            BACKENDS[kind] = backend
    return backend


def item_of(array: Any) -> Any:
    """Return the only element as a Python number, as the array's backend reads it: its class need have no ``__bool__``."""
    backend = backend_of(array)
    return array if backend is None else backend.item(array)


#: Array types known to have no mask.
_WHOLE: set[type] = set()


def check_whole(raw: Any) -> None:
    """Refuse an array of a type with missing elements, whatever its backend: derivatives count every element."""
    if type(raw) not in _WHOLE:
        if errors.has_mask(raw):
            backend = backend_of(raw)
            if backend is not None and backend.missing:
                return
            raise errors.masked(raw)
        _WHOLE.add(type(raw))


def numbers_of(backend: Backend, value: Any) -> Any:
    """Return a user's array in the backend's form; raise if it holds no numbers, or a mask that would be lost."""
    raw = backend.taken(value)
    if type(raw) not in _WHOLE:
        check_whole(raw)
    if backend.kind(raw.dtype) == "other":
        raise errors.not_numbers(raw.dtype)
    return raw


def spec_of(array: Any) -> Spec:
    """Return the spec of a raw array."""
    backend = backend_of(array)
    if backend is None:
        raise BackendError(f"{type(array).__name__} is not an array of any known backend")
    return backend.spec(array)


def joined(backends: Iterable[Backend]) -> Backend | None:
    """Return the backend of a call on operands of these, from the first that knows (`Backend.join`), or None."""
    return _joined(tuple(backends))


@functools.cache
def _joined(backends: tuple[Backend, ...]) -> Backend | None:
    answers = (one.join([other for other in dict.fromkeys(backends) if other is not one]) for one in backends)
    return next((found for found in answers if found is not None), None)
