"""Recording: the operations that run in a context become the steps of a program.

A `Recorder` is part of the mode, like the profiler, and is notified of every call of an op and of every rule that runs. It
knows arrays by identity: each result of a step has a number. Only kernels and rules receive `Recorded` arrays, which hold an
array and its number, and whose backend runs and records the library's kernels. So no tensor, node or list ever holds a
recorded array, neither during the recording nor after it, however it ends.
"""

from __future__ import annotations

import functools
import operator
import threading
import time
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from types import CodeType
from typing import Any, NamedTuple, NoReturn

from agrad.core import errors, mode
from agrad.core.backend import BACKENDS, Backend, backend_of
from agrad.core.cpython import collect
from agrad.core.function import FunctionNode
from agrad.core.hooks import Handle
from agrad.core.kernels import is_mask, key_parts
from agrad.core.node import AccumulateGrad, Node
from agrad.core.once import once, shared
from agrad.core.op import OPS, Op, facts_of
from agrad.core.operands import from_raw
from agrad.core.spec import Spec
from agrad.core.tensor import Tensor
from agrad.core.transfers import joined_with
from agrad.ops.methods import BINARY, COMPARISON, UNARY
from agrad.program.batching import Batched, BatchedBackend, batched_backend, rewrap
from agrad.program.program import (
    BACKWARD,
    DETACH,
    DRAW,
    HERE,
    LITERALS,
    Body,
    DType,
    Program,
    Ref,
    Shaped,
    Step,
    is_dtype,
)


class RecordedHook(NamedTuple):
    """A hook that was registered on a tensor within a recording.

    It keeps neither the hook nor the graph alive: only the function decides how long they live.

    Attributes
    ----------
    number : int or None
        The number of the tensor's value.
    node_ref : weakref
        Refers to the tensor's node.
    hooks : weakref
        Refers to the table in which the hook was registered.
    key : int
        The hook's key in that table.
    handle : weakref
        Refers to the handle that removes the hook.
    """

    number: int | None
    node_ref: weakref.ref[Node]
    hooks: Callable[[], dict[int, Callable[..., Any]] | None]
    key: int
    handle: weakref.ref[Handle]

    @property
    def node(self) -> Node | None:
        """The tensor's node, while it lives."""
        return self.node_ref()

    @property
    def hook(self) -> Callable[..., Any] | None:
        """The hook, if it has not been removed."""
        return (self.hooks() or {}).get(self.key)


class CaptureError(RuntimeError):
    """A function does something that no program can hold; the message says what, and on which line."""


def unsupported_argument(op: str, part: Any) -> CaptureError:
    """Return the error for an argument of a type that programs cannot hold."""
    return CaptureError(
        f"capture: the argument {part!r} of {op} is of type {type(part).__name__}, which no program can hold{errors.called()}"
    )


class Recorded:
    """An array of a library, and the number of its value in the program that is being recorded.

    Attributes
    ----------
    data : array
        The library's.
    ref : Ref
        Its number in the program.
    """

    __slots__ = ("__weakref__", "data", "ref")
    __array_ufunc__ = None  # arrays of libraries leave operators to this class

    backend: RecordingBackend

    def __init__(self, data: Any, number: int) -> None:
        self.data: Any = data
        self.ref: Ref = Ref(number)  # not `number`: a batched array has its level's number under that name

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape."""
        return tuple(self.data.shape)

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return int(self.data.ndim)

    @property
    def size(self) -> int:
        """The number of elements."""
        return int(self.data.size)

    @property
    def dtype(self) -> Any:
        """The dtype."""
        return self.data.dtype

    @property
    def device(self) -> Any:
        """The device, in the library's form."""
        return getattr(self.data, "device", None)

    def __getitem__(self, key: Any) -> Any:
        return self.backend.xp.getitem(self, key)

    def __bool__(self) -> NoReturn:
        raise CaptureError(f"a kernel or rule branches on a value, which no program can hold{errors.called()}")

    __float__: Callable[..., NoReturn] = __bool__
    __int__: Callable[..., NoReturn] = __bool__
    __complex__: Callable[..., NoReturn] = __bool__
    __index__: Callable[..., NoReturn] = __bool__
    __array__: Callable[..., NoReturn] = __bool__

    def __repr__(self) -> str:
        return f"Recorded({self.data!r}, number={self.ref.number})"


def _operators() -> None:
    def binary(name: str, op: str) -> None:
        run = getattr(operator, f"__{name}__")

        def method(self: Recorded, other: Any) -> Any:
            if isinstance(other, Batched):
                return NotImplemented
            return self.backend.record_call(op, run, (self, other), {})

        def reflected(self: Recorded, other: Any) -> Any:
            return self.backend.record_call(op, run, (other, self), {})

        setattr(Recorded, f"__{name}__", method)
        if name in BINARY:
            setattr(Recorded, f"__r{name}__", reflected)

    def unary(name: str, op: str) -> None:
        run = getattr(operator, f"__{name}__")
        setattr(Recorded, f"__{name}__", lambda self: self.backend.record_call(op, run, (self,), {}))

    for name, op in (BINARY | COMPARISON).items():
        binary(name, op)
    for name, op in UNARY.items():
        unary(name, op)


_operators()
Recorded.__hash__ = object.__hash__  # type: ignore[method-assign]


# -- the backend ------------------------------------------------------------------------------------------------------


class RecordingBackend(Backend):
    """The backend of one library's recorded arrays: it runs the library's kernels and records them.

    Attributes
    ----------
    inner : Backend
        The library's backend.
    kind_of_array : type
        The class of its arrays.
    """

    is_lazy = True  # functions that would check elements skip the check
    _gives_way = True

    def __init__(self, inner: Backend) -> None:
        self.inner = inner
        self._of = inner
        self.name: str = f"recording({inner.name})"
        for name in OF_THE_LIBRARY:
            setattr(self, name, getattr(inner, name))
        self.kind_of_array: type[Recorded] = type("Recorded", (Recorded,), {"__slots__": (), "backend": self})
        BACKENDS[self.kind_of_array] = self

    @once
    def functions(self) -> Any:
        return self.inner.functions

    def spec(self, array: Any) -> Spec:
        if not isinstance(array, Recorded):
            return self.inner.spec(array)
        inside = self.inner.spec(array.data)
        return Spec(self, inside.shape, inside.dtype, inside.device)

    def as_array(self, value: Any) -> Any:
        return value if isinstance(value, Recorded) else self.inner.as_array(value)

    def asarray(self, value: Any, **how: Any) -> Any:
        return value if isinstance(value, Recorded) else self.inner.asarray(value, **how)

    def lend(self, array: Any) -> Any:
        return array

    def beside(self, array: Any) -> dict[str, Any]:
        return self.inner.beside(_bare(array))

    def nbytes(self, array: Any) -> int:
        return self.inner.nbytes(array.data if isinstance(array, Recorded) else array)

    def may_hold_nan(self, array: Any) -> bool:
        return True

    def join(self, others: Iterable[Backend]) -> Backend | None:
        return self if all(other is self.inner for other in others) else None

    def broadcast_like(self, array: Any, spec: Spec) -> Any:
        return self.xp.broadcast_like(array, spec)

    def scatter_add(self, spec: Spec, key: Any, values: Any) -> Any:
        return self.xp.scatter_add(spec, key, values)

    def setitem(self, array: Any, key: Any, value: Any) -> Any:
        """Record an assignment; record one by a mask as `where`, unless the value has an element for each place chosen."""
        rest = array.ndim - key.ndim if isinstance(key, Recorded) and is_mask(key) else -1
        if value.ndim > rest or key.shape != array.shape[: key.ndim]:
            return self.record_call("setitem", self.inner.xp.setitem, (array, key, value), {})
        if value.dtype != array.dtype:
            value = self.xp.astype(value, array.dtype)
        return self.xp.where(key[(..., *(None,) * rest)] if rest else key, value, array)

    def add_into(self, array: Any, other: Any, out: Any) -> Any:
        return self.xp.add(array, other)

    def kernel(self, op: str) -> Callable[..., Any] | None:
        """Return the library's kernel, recorded when it runs; an attribute that is not a function is returned unchanged."""
        if op == "setitem":
            return self.setitem
        get = operator.attrgetter(op)
        try:
            inside = get(self.inner.xp)
        except AttributeError:
            return None
        if isinstance(inside, type) or not callable(inside):
            return inside  # type: ignore[no-any-return]
        return lambda *args, **kwargs: self.record_call(op, get(self.inner.xp), args, kwargs)

    def record_call(self, op: str, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run a kernel on the library's arrays, and record the step; return its results as recorded arrays."""
        recorder: Recorder = mode.recorder()
        recorder.check_shape(op, args)
        result = recorder.run(self.inner, op, function, args, kwargs)
        if facts_of(op).creates == "here" or any(map(_holds_recorded, (*args, *kwargs.values()))):
            return recorder.step(self, op, args, kwargs, result)
        for part in (*args, *kwargs.values()):
            if backend_of(part) is not None and is_array(part):
                recorder.number_in_use(part)
        return recorder.constants_of(self, result)


#: Members that the recording backend takes over from the library's backend: they do not involve arrays.
OF_THE_LIBRARY = (
    *(
        "cannot",
        "creation",
        "default_device",
        "default_dtype",
        "default_name",
        "device_of",
        "devices",
        "dtype",
        "dtype_name",
    ),
    *("kind", "namespace", "native_device", "quiet", "scalar", "scalar_dtype"),
)


@shared
def recording_backend(inner: Backend) -> RecordingBackend:
    """Return the backend of a library's recorded arrays."""
    return RecordingBackend(inner)


def counterpart(backend: Backend) -> Backend:
    """Return the backend that records the kernels of a library's backend, or of a batched one over it."""
    if isinstance(backend, BatchedBackend):
        return batched_backend(backend.number, counterpart(backend.inner))
    return recording_backend(backend)


def _bare(part: Any) -> Any:
    """Return an argument with the library's arrays in place of recorded ones."""
    if isinstance(part, Recorded):
        return part.data
    kind = type(part)
    if kind is tuple or kind is list:
        return kind(map(_bare, part))
    if kind is slice:
        return slice(_bare(part.start), _bare(part.stop), _bare(part.step))
    if kind is Spec and isinstance(part.backend, RecordingBackend):
        return Spec(part.backend.inner, part.shape, part.dtype, part.device)
    return part


def _holds_recorded(part: Any) -> bool:
    if isinstance(part, Recorded):
        return True
    return type(part) in (tuple, list) and any(map(_holds_recorded, part))


# -- the recorder -----------------------------------------------------------------------------------------------------


class Recorder:
    """Turns the operations in a context into a program.

    Attributes
    ----------
    steps : list of Step
        The steps recorded so far.
    shapes : dict
        By number: shape and dtype.
    constants : dict
        By number: constant arrays.
    inputs : dict
        By the ``id`` of an outer array: its number, and the array, which is kept alive.
    met : dict
        By ``id``: the outer tensors that the function has used or changed, each with its array and gradient before.
    possibly_created : set
        By ``id``: those of them whose array was an input already. The function may have created them itself.
    grads : dict
        By the ``id`` of a tensor whose `.grad` the function accessed itself: its first access, "read" or "set".
    written : list of Tensor
        The tensors to which the program writes a value or a gradient; set when the program is made.
    draws : list of (int, key)
        For each key drawn, its number and the key.
    seeds : list of (int, Generator, state)
        For each time that a generator's state is set: the number of draws before, the generator and the state.
    extra_outputs : list of int
        Outputs of the program besides the function's results and writes.
    kept_alive : list of array
        Arrays that live as long as the recorder.
    functions : list of str
        The names of the `Function`s that ran. Their derivatives are not those of their steps.
    hooked : list of RecordedHook
        The hooks that were registered on tensors.
    sources : dict
        By the ``id`` of a key drawn: its generator. Two generators may have the same state.
    device : str or None
        The device of the first array.
    region : int
        The number of the current recomputation; 0: none.
    line : str
        The user's line to record; empty: the caller's.

    Parameters
    ----------
    first : int, optional
        The first number.
    """

    def __init__(self, first: int = 0) -> None:
        self.steps: list[Step] = []
        self.shapes: dict[int, Shaped] = {}
        self.constants: dict[int, Any] = {}
        self.inputs: dict[int, tuple[int, Any]] = {}
        self.met: dict[int, tuple[Tensor, Any, Tensor | None]] = {}
        self.possibly_created: set[int] = set()
        self.grads: dict[int, str] = {}
        self.written: list[Tensor] = []
        self.draws: list[tuple[int, Any]] = []
        self.seeds: list[tuple[int, Any, Any]] = []
        self.extra_outputs: list[int] = []
        self.functions: list[str] = []
        self.hooked: list[RecordedHook] = []
        self.sources: dict[Any, Any] = {}
        self.kept_alive: list[Any] = []
        self.device: str | None = None
        self.region: int = 0
        self._regions = 0
        self.line = ""
        self._count = first
        self._shaped: dict[Spec, Shaped] = {}
        self._lines: dict[tuple[int, int], tuple[CodeType, str]] = {}  # by id of the code, which the value keeps alive
        self._known: dict[
            int, tuple[int, Any]
        ] = {}  # by id: the number, and the object that prevents the id from being reused

    # -- numbers ------------------------------------------------------------------------------------------------------

    def new(self, array: Any = None, backend: Backend | None = None) -> int:
        """Return the next number, for an array if one is given."""
        number = self._count
        self._count += 1
        if array is not None:
            backend = backend or backend_of(array)
            assert backend is not None
            spec = backend.spec(array)
            self.shapes[number] = self.shaped(spec)
            if self.device is None:
                self.device = spec.device
        return number

    def shaped(self, spec: Spec) -> Shaped:
        """Return the form in which a program holds a spec."""
        found = self._shaped.get(spec)
        if found is None:
            found = self._shaped[spec] = Shaped(spec.shape, spec.backend.dtype_name(spec.dtype))
        return found

    def line_of(self, code: CodeType | None, lasti: int) -> str:
        """Return the line of an instruction, found only once, since a loop may reach it often."""
        found = self._lines.get((id(code), lasti))
        if found is None:
            text = errors.line_of(code, lasti)
            if code is None:
                return text
            found = self._lines[id(code), lasti] = code, text
        return found[1]

    def remember(self, array: Any, number: int) -> None:
        """Remember the number of an array while it lives."""
        key = id(array)
        try:  # a callback in C: Python would swallow a Ctrl-C during one in Python
            kept: Any = weakref.ref(array, functools.partial(self._known.pop, key))
        except TypeError:  # the array does not support weak references
            kept = array
        self._known[key] = number, kept

    def forget_all(self) -> None:
        """Forget all arrays at the end: NumPy refuses to resize an array that has references, even weak ones."""
        self._known.clear()

    def forget(self, array: Any) -> None:
        """Forget an array that is about to get another value."""
        self._known.pop(id(array), None)

    def alias(self, made: Any, array: Any) -> None:
        """Remember that an array has the same value as another one, as a copy, in another layout, or on another backend."""
        self.remember(made, self.number_in_use(array))

    def number_of(self, array: Any) -> int | None:
        """Return the number of an array; None if it is unknown."""
        found = self._known.get(id(array))
        return None if found is None else found[0]

    def constant(self, array: Any) -> Any:
        """Make an array a constant of the program, unless it has a number already; return the array."""
        if self.number_of(array) is None:
            number = self.new(array)
            self.constants[number] = array
            self.remember(array, number)
        return array

    def input(self, array: Any, backend: Backend | None = None) -> int:
        """Return the number of an array; an unknown one is an outer array, and becomes an input."""
        number = self.number_of(array)
        if number is None:
            number = self.new(array, backend)
            self.inputs[id(array)] = number, array
            self.remember(array, number)
        return number

    def take(self, array: Any, value: Any) -> None:
        """Record a user's array as an input, and the array that represents it in the call."""
        backend = backend_of(value)
        found_again = backend is not None and backend.as_array(value) is value
        self.input(value if found_again else array)
        if found_again and array is not value:
            self.alias(array, value)

    def number_of_float(self, value: Any) -> int | None:
        """Return the number of a Python float that the program computes or receives; None for any other value."""
        return None

    def traced_of(self, value: Any) -> Any:
        """Return the placeholder of a Python float that the program computes or receives; None for any other value."""
        return None

    def setting(self, get: Callable[[], float]) -> float:
        """Return a number that Python holds, such as a learning rate: here it is a constant of the program."""
        return get()

    def effect(self, do: Callable[[], None], held: Sequence[dict[Any, Any]]) -> None:
        """Refuse a change of Python's state."""
        self.not_recorded("Python's state is changed (a count of steps, a learning rate)", later=False)

    def effect_of(self, value: Any, do: Callable[[float], None], held: Sequence[dict[Any, Any]]) -> None:
        """Refuse a change of Python's state by a value."""
        self.not_recorded("Python's state is changed by a value", later=False)

    def guard(self, get: Callable[[], Any], name: str) -> None:
        """Ignore a condition under which the program holds: only a recorder whose program is replayed checks conditions."""

    def not_recorded(self, reason: str, later: bool) -> None:
        """Refuse something that no program can hold."""
        raise CaptureError(f"capture: {reason}{errors.called()}")

    def meet(self, tensor: Tensor) -> None:
        """Record a tensor that may be an outer one, with its array and gradient, before they change."""
        array = tensor._raw
        known = self.number_of(array) is not None
        if id(tensor) not in self.met and not isinstance(array, Batched) and (not known or id(array) in self.inputs):
            if known:
                self.possibly_created.add(id(tensor))
            grad = grad_of(tensor)
            self.met[id(tensor)] = tensor, array, grad
            self.input(array, tensor._spec.backend)
            if grad is not None:
                self.meet(grad)

    def hook(self, tensor: Tensor, handle: Handle) -> None:
        """Record a hook on a tensor."""
        self.use(tensor)
        assert tensor._node is not None
        assert handle._hooks is not None
        number, node = self.number_of(tensor._raw), weakref.ref(tensor._node)
        self.hooked.append(RecordedHook(number, node, handle._hooks, handle._key, weakref.ref(handle)))

    def use(self, tensor: Tensor) -> None:
        """Record the use of a tensor: one whose array is unknown is an outer tensor."""
        if self.number_of(tensor._raw) is None:
            self.meet(tensor)

    # -- steps --------------------------------------------------------------------------------------------------------

    def step(
        self, backend: RecordingBackend, op: str, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any
    ) -> Any:
        """Record a step; return its results as recorded arrays."""
        inner = backend.inner
        several = isinstance(result, tuple | list)
        parts = result if several else (result,)
        made: list[Any] = []
        outs: list[int | None] = []
        for part in parts:
            array = None if part is None else inner.as_array(part)
            if array is None or backend_of(array) is not inner:  # a residual that was not needed, or a number
                made.append(part)
                outs.append(None)
                continue
            number = self.new(array, inner)
            made.append(backend.kind_of_array(array, number))
            outs.append(number)
        if outs.count(None) == len(outs):
            return result
        if facts_of(op).creates == "here":  # on the device where the program runs, which the step does not name
            (array,) = (part for part in parts if part is not None)
            where = {"device", *inner.creation(inner.device_of(inner.as_array(array)))}
            kwargs = {name: value for name, value in kwargs.items() if name not in where}
        step_args = tuple([self.step_argument(inner, op, a) for a in args])
        step_kwargs = kwargs and {
            name: HERE if name == "device" and v is not None else self.step_argument(inner, op, v)
            for name, v in kwargs.items()
        }
        line = self.line or self.line_of(*errors.caller())
        self.steps.append(Step(op, step_args, step_kwargs, tuple(outs), several, line, self.region))
        if not several:
            return made[0]
        kind = type(result)
        return kind(*made) if hasattr(kind, "_fields") else kind(made)

    def run(
        self, inner: Backend, op: str, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """Return the result of a kernel on the library's arrays."""
        if not kwargs:
            return function(*map(_bare, args))
        return function(*map(_bare, args), **{name: _bare(v) for name, v in kwargs.items()})

    def copied(self, inner: Backend, array: Any) -> Any:
        """Return a copy of an array, which can have another number."""
        return inner.asarray(array, copy=True)

    def drawn(self, backend: Backend, kind: str, shape: tuple[int, ...], key: Any, **options: Any) -> Any:
        """Return the random numbers that a key determines."""
        return backend.random(kind, shape, key, **options)

    def check_shape(self, op: str, args: tuple[Any, ...]) -> None:
        """Refuse a kernel if the shape of its result depends on values that the program computes or receives."""
        known, by_values, chosen = OPS.get(op), facts_of(op).dynamic, False
        if not by_values and (known is None or not known.has_key):
            return

        def varies(part: Any) -> bool:
            return isinstance(part, Recorded) and part.ref.number not in self.constants

        if known is not None and (known.has_key or isinstance(by_values, str)):
            named = {of.name: (of.kind, arg) for of, arg in zip(known.arguments, args, strict=False)}
            keys = (part for kind, arg in named.values() if kind == "key" for part in key_parts(arg))
            chosen = any(varies(part) and is_mask(part) for part in keys)
            by_values = isinstance(by_values, str) and by_values in named and varies(named[by_values][1])
        if chosen or by_values:
            by = " by a mask" if chosen else ""
            raise CaptureError(f"capture: the shape of the result of {op}{by} depends on values{errors.called()}")

    def step_argument(self, inner: Backend, op: str, part: Any) -> Any:
        """Return an argument of a call in the form in which a step holds it."""
        if isinstance(part, Recorded):
            return part.ref
        kind = type(part)
        if kind in LITERALS or kind is Body:
            return part
        if kind is tuple or kind is list:
            return kind(self.step_argument(inner, op, inside) for inside in part)
        if kind is slice:
            return slice(*(self.step_argument(inner, op, bound) for bound in (part.start, part.stop, part.step)))
        if kind is range:
            return list(part)
        if kind is Spec:
            return self.shaped(part)
        if backend_of(part) is not None and is_array(part):
            return Ref(self.number_in_use(part))
        if isinstance(part, int):  # of a user's class, such as an enumeration's
            return int(part)
        name = inner._name_of(part)
        if is_dtype(name):
            return DType(name)
        if part in inner.native_devices().values() or kind.__name__ == "Device":
            return HERE
        raise unsupported_argument(op, part)

    def constants_of(self, backend: RecordingBackend, result: Any) -> Any:
        """Return the results of a kernel that took no recorded array as recorded arrays: constants of the program."""
        if type(result) is tuple or type(result) is list:
            return type(result)(self.constants_of(backend, part) for part in result)
        if backend_of(result) is not backend.inner:
            return result
        return backend.kind_of_array(array := backend.inner.as_array(result), self.number_in_use(self.constant(array)))

    def number_in_use(self, array: Any) -> int:
        """Return the number of an array that a step uses.

        Raises
        ------
        CaptureError
            If it has none, so that its origin is unknown.
        """
        number = self.number_of(array)
        if number is None:
            raise CaptureError(
                f"capture: the function uses an array of shape {tuple(array.shape)} that is neither among its arguments nor a"
                f" result of its operations: the program could not find it in another call{errors.called()}"
            )
        return number

    # -- arguments and results of kernels -----------------------------------------------------------------------------

    def to_recorded(self, value: Any) -> Any:
        """Return an argument of a kernel or rule, with recorded arrays in place of libraries' arrays."""
        kind = type(value)
        if kind in LITERALS:
            return value
        if isinstance(value, Batched):
            return rewrap(self.to_recorded(value.data), value.level)
        if kind is tuple or kind is list:
            return kind(map(self.to_recorded, value))
        if isinstance(value, tuple):  # a subclass, such as `Constants`
            return value
        backend = backend_of(value)
        if backend is None or isinstance(value, Tensor) or not is_array(value):
            return value
        return recording_backend(backend).kind_of_array(value, self.number_in_use(value))

    def saved_to_recorded(self, value: Any) -> Any:
        """Return a node's saved value likewise, without its tangents."""
        if type(value) is tuple or type(value) is list:
            return type(value)(map(self.saved_to_recorded, value))
        return self.to_recorded(value._raw if isinstance(value, Tensor) else value)

    def to_raw(self, value: Any) -> Any:
        """Return a result of a kernel or rule with raw arrays in place of recorded ones, and remember their numbers."""
        if isinstance(value, Recorded):
            data = value.data
            # A kernel has returned its operand, but two numbers need two arrays
            if self.number_of(data) not in (None, value.ref.number):
                data = self.copied(value.backend.inner, data)
            self.remember(data, value.ref.number)
            return data
        if isinstance(value, Batched):
            return rewrap(self.to_raw(value.data), value.level)
        if isinstance(value, tuple | list):
            kind = type(value)
            parts = [self.to_raw(part) for part in value]
            return kind(*parts) if hasattr(kind, "_fields") else kind(parts)
        return value

    def without_history(self, value: Any) -> Any:
        """Return a result of a kernel with recorded arrays that have no history: each is a step ``detach``."""
        if isinstance(value, Recorded):
            number = self.new()
            self.shapes[number] = self.shapes[value.ref.number]
            line = self.line or self.line_of(*errors.caller())
            self.steps.append(Step(DETACH, (value.ref,), {}, (number,), False, line, self.region))
            return type(value)(value.data, number)
        if isinstance(value, Batched):
            return rewrap(self.without_history(value.data), value.level)
        if isinstance(value, tuple | list):
            kind = type(value)
            parts = [self.without_history(part) for part in value]
            return kind(*parts) if hasattr(kind, "_fields") else kind(parts)
        return value

    # -- calls, rules and draws of agrad ------------------------------------------------------------------------------

    def around(
        self, op: Op, backend: Backend, kernel: Callable[..., Any], values: tuple[Any, ...], raw: list[Any]
    ) -> Callable[..., Any]:
        """Return an op's kernel, recorded when it runs; `raw` are the call's `values` as arrays."""
        for i, _ in op.array_slots:
            several = isinstance(raw[i], tuple | list)  # a sequence of arrays, or a key of several parts
            pairs = zip(values[i], raw[i], strict=True) if several else ((values[i], raw[i]),)
            for value, array in pairs:
                self.operand(op, value, array)
        get, beside = op.kernel_of, counterpart(backend).xp
        cut = not mode.is_grad_enabled() and op.rule.kind != "none"

        def recorded(*args: Any, **kwargs: Any) -> Any:
            result = get(beside)(
                *map(self.to_recorded, args), **{name: self.to_recorded(value) for name, value in kwargs.items()}
            )
            return self.to_raw(self.without_history(result) if cut else result)

        return recorded

    def operand(self, op: Op, value: Any, array: Any) -> None:
        """Record an operand of a call, and the array that represents it."""
        if isinstance(value, Tensor):
            self.use(value)
            if array is not value._raw:  # transferred to the call's backend, on which the whole program runs
                self.alias(array, value._raw)
        elif isinstance(array, slice) or type(array) in LITERALS:
            pass
        elif (owner := backend_of(value)) is None or owner.as_array(
            value
        ) is not value:  # a number, or a list of numbers
            if backend_of(array) is None:  # any other object, such as an index with `__index__`
                raise unsupported_argument(op.name, array)
            self.constant(array)
        else:
            self.take(array, value)

    def around_vjp(self, node: Node, vjp: Callable[..., Any]) -> Callable[..., Any]:
        """Return a node's derivative, recorded when it runs on raw arrays."""

        def recorded(xp: Any, g: Any, saved: tuple[Any, ...], node: Node) -> Any:
            if isinstance(node, FunctionNode):
                return vjp(xp, g, saved, node)
            if xp is node.spec.backend.functions:  # the rule runs on tensors, so its calls are recorded
                return vjp(xp, g, as_tensors(saved), node)
            backend = node.spec.backend
            if xp is not node.spec.xp:  # of a batch, for example
                backend = joined_with(node.spec, g if isinstance(g, list) else (g,))
            if xp is not backend.xp:
                raise CaptureError(f"capture: a gradient goes from one backend to another{errors.at(node)}")
            saved = tuple(map(self.saved_to_recorded, saved)) if type(saved) is tuple else saved
            try:
                self.line = f"{self.line_of(node.code, node.lasti)}{BACKWARD}"
                return self.to_raw(vjp(counterpart(backend).xp, self.to_recorded(g), saved, node))
            finally:
                self.line = ""

        return recorded

    def kernels_of(self, backend: Any) -> Any:
        """Return the kernels of a backend, or of a spec's, recorded when they run on raw arrays."""
        backend = backend if isinstance(backend, Backend) else backend.backend
        within = getattr(backend, "base", backend)  # a running kernel or rule has recorded arrays already
        return backend.xp if isinstance(within, RecordingBackend) else _RecordedKernels(self, backend)

    def draw(self, backend: Backend, kind: str, shape: tuple[int, ...], key: Any, **options: Any) -> Any:
        """Return random numbers drawn from a key, and record the draw."""
        array = self.drawn(backend, kind, shape, key, **options)
        at = next((number for number, known in self.draws if known is key), None)  # a recomputation draws it again
        if at is None:
            at = self.new()
            self.draws.append((at, key))
        number = self.new(array, backend)
        self.remember(array, number)
        options.pop("device")
        kwargs = {name: self.step_argument(backend, DRAW, value) for name, value in options.items()}
        line = self.line_of(*errors.caller())
        self.steps.append(Step(DRAW, (kind, tuple(shape), Ref(at)), kwargs, (number,), False, line, self.region))
        return array

    def seed(self, generator: Any, state: Any) -> None:
        """Record that the function sets the state of a generator: every run of the program does the same."""
        self.seeds.append((len(self.draws), generator, state))

    def enter_region(self) -> int:
        """Start a new region, for the steps of a recomputation; return the previous region."""
        before = self.region
        self._regions += 1
        self.region = self._regions
        return before

    def detached(self, array: Any) -> Any:
        """Return an array with the same value and no history, as a cotangent has after a pass without recording."""
        return self.to_raw(self.without_history(self.to_recorded(array)))

    def detach(self, tensor: Tensor) -> Any:
        """Return a tensor's value without history, in another array, since arrays are known by identity."""
        self.use(tensor)
        return self.detached(tensor._raw)

    def item(self, tensor: Tensor) -> Any:
        """Return the only element of a tensor to Python."""
        return self.export(tensor)

    def truth(self, tensor: Tensor) -> Any:
        """Return the only element of a tensor as a bool, on which Python branches."""
        return self.export(tensor)

    def export(self, tensor: Tensor) -> Any:
        """Refuse to pass a value from the recording to Python."""
        raise CaptureError(
            "capture: a value is requested (by bool(), float(), item(), numpy(), a print, ...), and no program can hold"
            f" what Python does with it{errors.called()}"
        )

    def escaped(self, kept: Iterable[int]) -> Any:
        """Return an array that a step has created and that still lives, unless its number is in `kept`; None if there is none."""
        numbers = frozenset(kept)
        made = {number for step in self.steps for number in step.made} - numbers
        for attempt in range(3):
            alive = [(n, array) for n, ref in tuple(self._known.values()) if (array := alive_of(ref)) is not None]
            below = {id(base) for n, array in alive if n not in made for base in bases_of(array)}
            found = next((a for n, a in alive if n in made and n not in numbers and id(a) not in below), None)
            if found is None or attempt == 2:
                return found
            del alive, found
            if attempt == 0:
                collect()  # reference cycles, such as an exception's frames, may hold arrays
            elif threading.active_count() > 1:
                time.sleep(0.02)  # another thread, such as Dask's profiler, may hold a frame for a moment
        return None

    # -- the program --------------------------------------------------------------------------------------------------

    def program(self, inputs: Iterable[int], outputs: Iterable[int]) -> Program:
        """Return the recording as a program between inputs and outputs, given by number, without steps that no output needs."""
        made = Program(
            tuple(inputs),
            tuple(self.steps),
            tuple(outputs),
            self.shapes,
            self.constants,
            tuple(at for at, _ in self.draws),
            device=self.device,
        )
        return made.needed()


def as_tensors(saved: Any) -> Any:
    """Return a node's saved values, including index operands, as tensors: operations on raw arrays would not be recorded."""
    if type(saved) is tuple or type(saved) is list:
        return type(saved)(map(as_tensors, saved))
    return saved if isinstance(saved, Tensor) or backend_of(saved) is None else from_raw(saved)


def is_array(value: Any) -> bool:
    """Return whether an object that has a backend is an array, and not a device of its library, for example."""
    return hasattr(value, "shape")


def grad_of(tensor: Tensor) -> Tensor | None:
    """Return the `.grad` of a tensor without notifying a recorder, and without a warning."""
    leaf = tensor._node or tensor._leaf
    if isinstance(leaf, AccumulateGrad):
        return leaf.grad
    return None if tensor._retained is None else tensor._retained.grad


def alive_of(kept: Any) -> Any:
    """Return the object of a weak reference; None if it is gone, or `kept` is no weak reference."""
    return kept() if isinstance(kept, weakref.ref) else None


def bases_of(array: Any) -> Iterator[Any]:
    """Yield the objects whose memory an array views, from the nearest to the owner of the memory."""
    base = getattr(array, "base", None)
    while base is not None:
        yield base
        base = getattr(base, "base", None)


class _RecordedKernels:
    """Kernels on a library's raw arrays that are recorded when they run."""

    def __init__(self, recorder: Recorder, backend: Backend) -> None:
        self._recorder, self._xp = recorder, counterpart(backend).xp

    def __getattr__(self, name: str) -> Callable[..., Any]:
        kernel, recorder = getattr(self._xp, name), self._recorder
        return lambda *args, **kwargs: recorder.to_raw(
            kernel(
                *map(recorder.to_recorded, args), **{key: recorder.to_recorded(value) for key, value in kwargs.items()}
            )
        )
