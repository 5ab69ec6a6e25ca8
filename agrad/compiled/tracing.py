"""Tracing: record a call without changing its behaviour, and its backward pass as a program.

`Tracer` is the recorder that `agrad.compiled.compiling` uses. It gives plain floats to the user's functions, and knows
them by identity; agrad's own functions get `TracedFloat` numbers, whose sums and products become steps, while any other use
becomes a condition. If no program can hold the call, the call continues without one.
"""

from __future__ import annotations

import functools
import marshal
import struct
from collections.abc import Callable, Container, Sequence
from typing import Any, NamedTuple, Self

from agrad.compiled.backward import CapturedBackward, NodeSteps, RecordingPass, uses_of
from agrad.compiled.guards import Link, changed_between, result_of, settings_of
from agrad.core import errors, mode
from agrad.core.backend import Backend, backend_of
from agrad.core.blank import Blank
from agrad.core.hooks import Handle
from agrad.core.node import Node, ancestors
from agrad.core.op import Op
from agrad.core.saved import Packed
from agrad.core.tensor import Tensor, wrap
from agrad.ops.methods import BINARY
from agrad.plugin.manager import default_backend
from agrad.program.blank_recording import BlankRecorder
from agrad.program.closures import Found
from agrad.program.program import Program
from agrad.program.recording import CaptureError, RecordedHook, Recorder


class TracedFloat(float):
    """A float that a program takes or computes at every call (argument, setting, `item()`), for agrad's own code.

    Its sums, differences, products and quotients become steps; any other use by Python makes its value a condition for the
    program. C code would read it unobserved, so the user's functions get the plain float of `Tracer.plain_for_user`.
    """

    tracer: Tracer
    array: Any
    used: bool  # its uses are observed
    is_condition: bool  # its value is one: numbers computed only from conditions are constant
    is_divisor: bool  # that it is not zero is a condition

    def __new__(cls, value: float, tracer: Tracer, array: Any) -> Self:
        made = super().__new__(cls, value)
        made.tracer, made.array, made.used, made.is_condition, made.is_divisor = tracer, array, False, False, False
        return made

    def __reduce__(self) -> Any:
        return float, (float(self),)


TracedFloat.__name__ = TracedFloat.__qualname__ = "float"  # for messages


def _traced_operator(name: str, op: str, *, reflected: bool = False) -> Callable[[TracedFloat, Any], Any]:
    plain = getattr(float, name)

    def method(self: TracedFloat, other: Any) -> Any:
        result = plain(self, other)
        tracer = self.tracer
        if result is NotImplemented or not tracer.is_open:
            return result
        traced = tracer.traced_of(other)
        self.used = True
        if traced is not None:
            traced.used = True
        if self.is_condition and (traced is None or traced.is_condition):
            return result
        part = float(other) if traced is None else traced.array
        array = tracer.of_numbers(op, *((part, self.array) if reflected else (self.array, part)), of=self.array)
        return TracedFloat(result, tracer, array)

    return method


def _condition_operator(name: str, kind: type = float) -> Callable[..., Any]:
    plain = getattr(kind, name)

    def method(self: TracedFloat | TracedInt, *args: Any) -> Any:
        self.tracer.condition(self)
        return plain(self, *args)

    return method


for _name in ("add", "sub", "mul", "truediv"):
    setattr(TracedFloat, f"__{_name}__", _traced_operator(f"__{_name}__", BINARY[_name]))
    setattr(TracedFloat, f"__r{_name}__", _traced_operator(f"__r{_name}__", BINARY[_name], reflected=True))
for _name in (
    *("lt", "le", "gt", "ge", "eq", "ne", "bool", "hash", "float", "int", "repr", "format", "round", "trunc", "floor"),
    *("ceil", "pow", "rpow", "mod", "rmod", "floordiv", "rfloordiv", "divmod", "rdivmod", "abs", "neg", "pos"),
):
    setattr(TracedFloat, f"__{_name}__", _condition_operator(f"__{_name}__"))
TracedFloat.__str__ = TracedFloat.__repr__  # type: ignore[method-assign]


class TracedInt(int):
    """An integer that a program computes at every call, for agrad's own code: any use makes its value a condition."""

    tracer: Tracer
    array: Any
    used: bool

    def __new__(cls, value: int, tracer: Tracer, array: Any) -> Self:
        made = super().__new__(cls, value)
        made.tracer, made.array, made.used = tracer, array, False
        return made

    def __reduce__(self) -> Any:
        return int, (int.__pos__(self),)


for _name in (
    *("lt", "le", "gt", "ge", "eq", "ne", "bool", "hash", "float", "int", "index", "repr", "format", "round", "trunc"),
    *("floor", "ceil", "abs", "neg", "pos", "invert", "pow", "rpow", "divmod", "rdivmod"),
    *(f"{r}{name}" for r in ("", "r") for name in ("add", "sub", "mul", "truediv", "floordiv", "mod")),
    *(f"{r}{name}" for r in ("", "r") for name in ("and", "or", "xor", "lshift", "rshift")),
):
    setattr(TracedInt, f"__{_name}__", _condition_operator(f"__{_name}__", int))
TracedInt.__name__ = TracedInt.__qualname__ = "int"
TracedInt.__str__ = TracedInt.__repr__  # type: ignore[method-assign]


def own_integer(value: int) -> int:
    """Return a separate object for an integer, even for a small one, of which Python keeps a single object.

    A version of Python may prevent that, and return that single object.
    """
    digits, left = [], abs(value)
    while left:
        left, digit = divmod(left, 1 << 15)
        digits.append(digit)
    text = struct.pack(f"<i{len(digits)}H", len(digits) if value >= 0 else -len(digits), *digits)
    made: int = marshal.loads(b"l" + text)  # noqa: S302 (the bytes come from here)
    return made


def as_plain(number: TracedFloat | TracedInt) -> Any:
    """Return a number as a plain Python number."""
    return float.__pos__(number) if isinstance(number, TracedFloat) else int.__pos__(number)


class Condition(NamedTuple):
    """A value that Python has read in the capture: a call in which the program computes another one needs another program.

    Attributes
    ----------
    number : int
        The number of the value in the program.
    value : bool, int, float or complex
        The value in the capture.
    line : str
        The user's line that read it.
    """

    number: int
    value: Any
    line: str


class Tracer(Recorder):
    """A recorder that leaves the behaviour of a call as it is: if no program can hold the call, it continues without one.

    Attributes
    ----------
    failure : CaptureError or None
        Why there will be no program.
    may_retry : bool
        Whether the next call may be captured, because the reason occurs only once.
    conditions : list of Condition
        Values that Python has read.
    prologue : list
        Actions before a replay, in order: ``("effect", do)`` and ``("setting", number, get)``.
    epilogue : list of (int, callable)
        Actions after a replay, with the number of the value that each uses.
    guards : list of Link
        Conditions that agrad's own code has reported, besides those on values that the function leads to.
    held_by_python : list of dict
        The dicts whose entries prologue and epilogue change.
    is_open : bool
        Whether the function is running.
    backend : Backend or None
        The backend of the call's operations.
    traced_numbers : list of TracedFloat or TracedInt
        The numbers that the call has passed to Python.
    numbers : dict of int to (number, TracedFloat or TracedInt)
        By ``id``: the plain floats and integers that the user's functions got for them, which are kept alive.
    setting_owners : list
        The optimisers and schedules that the function has reached.
    settings : dict
        Their settings when it reached them.
    reported_settings : set
        The settings that an effect has changed.
    first_node : int
        The creation number of the call's first node.
    histories : dict
        By ``id``: the outer tensors, with their `history_of` when the call met them.

    Parameters
    ----------
    observes_numbers : bool, optional
        Whether the tracker observes how the user's functions use plain numbers. Otherwise each number that they request
        is a condition.
    effects : {"first"}, optional
        Allow output: only captures write it.
    """

    def __init__(self, *, observes_numbers: bool = True, effects: str | None = None) -> None:
        super().__init__()
        self.observes_numbers: bool = observes_numbers
        self.effects: str | None = effects
        self.failure: CaptureError | None = None
        self.may_retry: bool = False
        self.is_open = True
        self.backend: Backend | None = None
        self.conditions: list[Condition] = []
        self.traced_numbers: list[TracedFloat | TracedInt] = []
        self.numbers: dict[int, tuple[Any, TracedFloat | TracedInt]] = {}
        self.setting_owners: list[Any] = []
        self.settings: dict[Any, Found] = {}
        self.reported_settings: set[Any] = set()
        self.prologue: list[tuple[Any, ...]] = []
        self.epilogue: list[tuple[int, Callable[[float], None]]] = []
        self.guards: list[Link] = []
        self.first_node = 0
        self.histories: dict[int, tuple[Tensor, Any]] = {}
        self._default = default_backend()
        self._errors = self._default._error_state()
        self.held_by_python: list[dict[Any, Any]] = []

    def decline(self, error: CaptureError, *, later: bool = False) -> None:
        """Record why there will be no program."""
        if self.failure is None:
            self.failure = error
            self.may_retry = later

    def _try(self, recorded: Callable[[], Any], plain: Callable[[], Any]) -> Any:
        """Perform an action recorded, or plainly if no program can hold it."""
        if self.failure is not None:
            return plain()
        try:
            return recorded()
        except CaptureError as error:
            self.decline(error)
            return plain()
        except Exception as error:  # noqa: BLE001 (the warning states it)
            try:
                result = plain()
            except Exception as own:  # if the function catches it, a program would still raise it
                self.decline(
                    CaptureError(f"capture: the function goes on after an error, {type(own).__name__}{errors.called()}")
                )
                raise
            self.decline(CaptureError(f"capture: recording an operation raises {type(error).__name__}: {error}"))
            return result

    def around(
        self, op: Op, backend: Backend, kernel: Callable[..., Any], values: tuple[Any, ...], raw: list[Any]
    ) -> Callable[..., Any]:
        if self.backend is not backend and not backend.is_batched:
            if self.backend is not None:
                self.decline(CaptureError(f"capture: two backends take part{errors.called()}"))
            self.backend = backend
        if self.failure is None and backend is self._default and self._errors is not None:
            state = backend._error_state()
            if state is not None and state != self._errors:
                self.not_recorded("the function sets what happens at floating-point errors (np.errstate)", later=False)
        recorded = self._try(lambda: super(Tracer, self).around(op, backend, kernel, values, raw), lambda: kernel)
        return lambda *args, **kwargs: self._try(lambda: recorded(*args, **kwargs), lambda: kernel(*args, **kwargs))

    def operand(self, op: Op, value: Any, array: Any) -> None:
        traced, owner = self.traced_of(value), backend_of(array)
        if traced is not None and owner is None:  # it stays a Python number
            self.condition(traced)
            return
        if traced is not None:
            traced.used = True
            made = self.kernels_of(owner).astype(traced.array, array.dtype)
            number = self.number_of(made)
            assert number is not None
            self.remember(array, number)
            self.kept_alive.append(array)
            return
        super().operand(op, value, array)

    def step_argument(self, inner: Backend, op: str, part: Any) -> Any:
        """Return an argument as a step holds it; a traced number that is a parameter of an operation becomes a condition."""
        kind = type(part)
        if (kind is TracedFloat or kind is TracedInt) and self.is_open:
            self.condition(part)
            return as_plain(part)
        return super().step_argument(inner, op, part)

    def meet(self, tensor: Tensor) -> None:
        super().meet(tensor)
        made = tensor._node is not None and 0 < self.first_node <= tensor._node.seq  # by a transform, on an outer array
        if id(tensor) in self.met and not made:
            self.remember_history(tensor)

    def remember_history(self, tensor: Tensor) -> None:
        """Remember the history that an outer tensor has now."""
        if id(tensor) not in self.histories:
            self.histories[id(tensor)] = tensor, history_of(tensor)

    def hook(self, tensor: Tensor, handle: Handle) -> None:
        self._try(lambda: super(Tracer, self).hook(tensor, handle), lambda: None)

    def around_vjp(self, node: Node, vjp: Callable[..., Any]) -> Callable[..., Any]:
        if node.seq < self.first_node:  # another call may have another history there
            self.not_recorded("a backward pass goes through what was computed before the call", later=False)
        recorded = super().around_vjp(node, vjp)
        return lambda *args: self._try(lambda: recorded(*args), lambda: vjp(*args))

    def kernels_of(self, backend: Any) -> Any:
        return _TracedKernels(self, super().kernels_of(backend), backend.xp)

    def alias(self, made: Any, array: Any) -> None:
        self._try(lambda: super(Tracer, self).alias(made, array), lambda: None)

    def draw(self, backend: Backend, kind: str, shape: tuple[int, ...], key: Any, **options: Any) -> Any:
        return self._try(
            lambda: super(Tracer, self).draw(backend, kind, shape, key, **options),
            lambda: backend.random(kind, shape, key, **options),
        )

    def seed(self, generator: Any, state: Any) -> None:
        """Refuse a generator whose state is set: replays continue its draws."""
        self.not_recorded("the function seeds a random generator, or sets its state", later=False)

    def detached(self, array: Any) -> Any:
        return self._try(lambda: super(Tracer, self).detached(array), lambda: array)

    def detach(self, tensor: Tensor) -> Any:
        return self._try(lambda: super(Tracer, self).detach(tensor), lambda: tensor._raw)

    def export(self, tensor: Tensor) -> Any:
        if self.failure is None:
            try:
                super().export(tensor)
            except CaptureError as error:
                self.decline(error)

    def item(self, tensor: Tensor) -> Any:
        backend = tensor._spec.backend
        if self.failure is not None or backend.is_batched:
            return backend.item(tensor._raw)
        value = backend.item(tensor._computed() if backend.is_lazy else tensor._raw)
        self.meet(tensor)
        if type(value) is float and self.observes_numbers:
            return self._try(lambda: self.traced_float(value, tensor._raw), lambda: value)
        if type(value) is int and self.observes_numbers and self.failure is None:
            return self._try(lambda: self.traced_int(value, tensor._raw), lambda: value)
        self.require_value(self.number_of(tensor._raw), value)
        return value

    def introduce(self, array: Any) -> int:
        """Return the number of a new input, which is kept alive with the recording."""
        device = self.device
        number = self.new(array)
        self.device = device  # only the call's tensors tell where the program computes
        self.remember(array, number)
        self.kept_alive.append(array)
        return number

    def float_argument(self, value: float) -> float:
        """Make a Python float an input; return the float that the function gets for it."""
        backend = default_backend()
        array = backend.asarray(value, dtype="float64")
        self.introduce(array)
        made = TracedFloat(value, self, array)
        self.traced_numbers.append(made)
        given: float = self.plain_for_user(made)
        return given

    def plain_for_user(self, number: TracedFloat | TracedInt) -> Any:
        """Return the plain number that a user's function gets for a traced one: a new object, known by its identity."""
        number.used = True  # its uses are observed
        value: Any
        if isinstance(number, TracedFloat):
            value = float.__pos__(number)  # of a subclass: this creates a float
        else:
            value = own_integer(int.__pos__(number))
            if value is own_integer(value):
                self.condition(number)
                return value
        self.numbers[id(value)] = value, number
        return value

    def traced_of(self, value: Any) -> TracedFloat | None:
        """Return the traced number that a plain float stands for, by identity; None for any other value.

        The integer of a traced one becomes a condition, because here it is used, and not only returned.
        """
        if isinstance(value, TracedFloat):
            return value if value.tracer is self else None
        known = self.numbers.get(id(value))
        number = None if known is None else known[1]
        if isinstance(number, TracedInt):
            self.condition(number)
            return None
        return number

    def number_of_float(self, value: Any) -> int | None:
        known = self.numbers.get(id(value))
        number = value if isinstance(value, TracedFloat | TracedInt) else None if known is None else known[1]
        return None if number is None else self.number_of(number.array)

    def traced_float(self, value: float, array: Any) -> TracedFloat:
        """Return the traced number of an array of one element."""
        xp = self.kernels_of(backend_of(array))
        backend = backend_of(array)
        assert backend is not None
        made = TracedFloat(value, self, xp.astype(xp.reshape(array, ()), backend.dtype("float64"), copy=True))
        self.traced_numbers.append(made)
        return made

    def of_numbers(self, op: str, *parts: Any, of: Any) -> Any:
        """Return the result of an operation on numbers, some of them as arrays: a step of the call, not of a loop in it."""
        before = mode.get_mode()
        try:
            mode.push(recorder=self)
            return getattr(self.kernels_of(backend_of(of)), op)(*parts)
        finally:
            mode.set_mode(before)

    def traced_int(self, value: int, array: Any) -> TracedInt:
        """Return the traced integer of an array of one element."""
        made = TracedInt(value, self, self.kernels_of(backend_of(array)).reshape(array, ()))
        self.traced_numbers.append(made)
        return made

    def truth(self, tensor: Tensor) -> Any:
        backend = tensor._spec.backend
        value = backend.truth(tensor._raw)
        if self.failure is None and not backend.is_batched:
            self.meet(tensor)
            self.require_value(self.number_of(tensor._raw), value)
        return value

    def condition(self, number: TracedFloat | TracedInt) -> None:
        """Make the value of a traced number a condition for the program."""
        if self.is_open and self.failure is None:
            number.used = True
            if isinstance(number, TracedFloat):
                if number.is_condition:
                    return
                number.is_condition = True
            self.require_value(self.number_of(number.array), as_plain(number))

    def require_nonzero(self, number: TracedFloat) -> None:
        """Make it a condition whether a number is zero: Python raises an error for such a divisor, where arrays give infinity."""
        if as_plain(number) == 0.0:
            self.condition(number)
        elif self.is_open and self.failure is None and not (number.is_condition or number.is_divisor):
            number.is_divisor = True
            self.require_value(self.number_of(self.of_numbers("not_equal", number.array, 0.0, of=number.array)), True)

    def require_value(self, number: int | None, value: Any) -> None:
        """Make it a condition that the program computes a value that Python has read."""
        if number is None:
            self.decline(
                CaptureError(f"capture: Python reads a value that the program does not compute{errors.called()}")
            )
        else:
            self.conditions.append(Condition(number, value, errors.line_of(*errors.caller())))
            self.extra_outputs.append(number)

    def setting(self, get: Callable[[], float]) -> float:
        value = get()
        if self.failure is not None:
            return value
        backend = default_backend()
        array = backend.asarray(value, dtype="float64")
        number = self.introduce(array)
        self._refuse_after_epilogue()
        self.prologue.append(("setting", number, get))
        return TracedFloat(value, self, array)

    def watch_settings(self, owner: Any) -> None:
        """Record an optimiser or a schedule that the function has reached, which reports its reads and changes."""
        if not any(one is owner for one in self.setting_owners):
            self.setting_owners.append(owner)
            self.settings = settings_of([owner]) | self.settings

    def effect(self, do: Callable[[], None], held: Sequence[dict[Any, Any]]) -> None:
        self._apply_effect(do, held)
        self._refuse_after_epilogue()
        self.held_by_python += held
        self.prologue.append(("effect", do))

    def _refuse_after_epilogue(self) -> None:
        """Refuse an action of the prologue if the function performed one of the epilogue before it."""
        if self.epilogue:
            self.not_recorded(
                "the function reads or changes settings after a computed value has changed some", later=False
            )

    def _apply_effect(self, do: Callable[[], None], held: Sequence[dict[Any, Any]]) -> None:
        """Change entries of the dicts `held`, and note the settings of optimisers and schedules that changed."""
        owners = {id(vars(owner)): owner for owner in self.setting_owners}
        holders = [owners.get(id(one), one) for one in held]
        before = settings_of(holders)
        do()
        self.reported_settings |= changed_between(before, settings_of(holders)).keys()

    def effect_of(self, value: Any, do: Callable[[float], None], held: Sequence[dict[Any, Any]]) -> None:
        value = self.item(value) if isinstance(value, Tensor) else value
        traced = self.traced_of(value)
        number = float(value) if traced is None else float.__pos__(traced)
        self._apply_effect(functools.partial(do, number), held)
        if traced is not None and self.failure is None:
            traced.used = True
            known = self.number_of(traced.array)
            assert known is not None
            self.extra_outputs.append(known)
            self.held_by_python += held
            self.epilogue.append((known, do))
        elif self.failure is None:
            self.not_recorded("a number that the program does not compute changes Python's state", later=False)

    def guard(self, get: Callable[[], Any], name: str) -> None:
        self.guards.append(Link(result_of, get, get(), name))

    def not_recorded(self, reason: str, later: bool) -> None:
        self.decline(CaptureError(f"capture: {reason}{errors.called()}"), later=later)


class BlankTracer(Tracer, BlankRecorder):
    """A tracer of a call on arrays without elements. It cannot continue without a program, so declining raises."""

    def _try(self, recorded: Callable[[], Any], plain: Callable[[], Any]) -> Any:
        """Perform an action recorded: without values, it cannot be performed plainly."""
        if self.failure is not None:
            raise self.failure
        try:
            return recorded()
        except CaptureError as error:
            self.decline(error)
            raise
        except Exception as error:
            self.decline(
                CaptureError(f"capture: the function goes on after an error, {type(error).__name__}{errors.called()}")
            )
            raise

    def around(
        self, op: Op, backend: Backend, kernel: Callable[..., Any], values: tuple[Any, ...], raw: list[Any]
    ) -> Callable[..., Any]:
        if backend.is_lazy and not backend.is_batched:
            text = f"the function uses an array of the {backend.name} backend that is not among its arguments: pass it"
            self.decline(CaptureError(f"capture: {text}{errors.called()}"))
        return super().around(op, backend, kernel, values, raw)

    def item(self, tensor: Tensor) -> Any:
        return self.export(tensor) if isinstance(tensor._raw, Blank) else super().item(tensor)

    def truth(self, tensor: Tensor) -> Any:
        if not isinstance(tensor._raw, Blank):
            return super().truth(tensor)
        self.decline(CaptureError(f"capture: the function branches on a value ({errors.line_of(*errors.caller())})"))
        return self.export(tensor)

    def export(self, tensor: Tensor) -> Any:
        return self._try(lambda: BlankRecorder.export(self, tensor), lambda: None)


class _TracedKernels:
    """Kernels that are recorded until the call is declined, and run plainly afterwards."""

    def __init__(self, tracer: Tracer, recorded: Any, plain: Any) -> None:
        self._tracer, self._recorded, self._plain = tracer, recorded, plain

    def __getattr__(self, name: str) -> Callable[..., Any]:
        def kernel(*args: Any, **kwargs: Any) -> Any:
            return self._tracer._try(
                lambda: getattr(self._recorded, name)(*args, **kwargs),
                lambda: getattr(self._plain, name)(*args, **kwargs),
            )

        return kernel


# -- the backward pass --------------------------------------------------------------------------------------------------


def backward_of(
    tracer: Tracer, results: list[Tensor], first: int, hooks: Sequence[RecordedHook]
) -> tuple[CapturedBackward | None, tuple[int, ...], tuple[int, ...]]:
    """Run the backward pass of a call's results once, and return it as programs.

    Parameters
    ----------
    tracer : Tracer
        The call's recorder.
    results : list of Tensor
        The results that may be differentiated.
    first : int
        The creation number of the call's first node.
    hooks : list of RecordedHook
        The hooks that the pass runs. Each only computes, or raises a `CaptureError` before doing more.

    Returns
    -------
    backward : CapturedBackward or None
        From the values that the forward pass must keep, and cotangents of results, to gradients.
    targets : tuple of int
        The inputs that the gradients belong to.
    saved : tuple of int
        The values that the forward pass must keep.
    """
    if not results:
        return None, (), ()
    nodes: list[Any] = [t._node for t in results]
    graph = ancestors(nodes)
    known = {id(hooked.hook) for hooked in hooks}
    if any(not is_recorded(node, known) for node in graph if node.seq >= first):
        raise CaptureError(
            "capture: the function registers hooks that every backward pass runs: on nodes, or on tensors that keep their"
            " gradients (retain_grad)"
        )
    below = ancestors([node for root in nodes for node in root.inputs])
    if any(root.hooks is not None and root.hooks.tensor and root not in below for root in nodes):
        raise CaptureError("capture: a hook is registered on what the function returns: register it outside")
    targets: dict[Any, int] = {}
    for tensor, array, _ in tracer.met.values():
        if tensor._node in graph and id(tensor) in tracer.histories:
            number = tracer.number_of(array)
            if number is not None:
                targets.setdefault(tensor._node, number)
    for node in targets:
        if node.hooks is not None and any(tensor() is not None for tensor in node.hooks.retained):
            raise CaptureError("capture: the gradient of an argument is kept by retain_grad()")
        if not ancestors(node.inputs).isdisjoint(targets):
            raise CaptureError("capture: one argument was computed from another, and both are differentiated")
    backend = results[0]._spec.backend
    ones = [backend.xp.ones(t.shape, dtype=t.dtype, **backend.creation(t._spec.device)) for t in results]
    cotangents = [tracer.introduce(array) for array in ones]
    start, regions = len(tracer.steps), tracer._regions
    before = mode.get_mode()
    try:
        tracer.is_open, tracer.observes_numbers = True, False  # checkpoints run their functions again, unobserved
        mode.push(recorder=tracer, grad=False)
        roots = [(node, wrap(one, t._spec)) for node, one, t in zip(nodes, ones, results, strict=True)]
        found: dict[Node, Any] = {}
        parts: list[NodeSteps] = []
        masked: set[Node] = set()
        if targets:  # otherwise the function has created all leaves
            task = RecordingPass(roots, True, False, set(targets), False, (), False)
            found, parts, masked = task.run(), task.parts, task.dropped
    except Exception as error:
        if isinstance(error, CaptureError):
            raise
        raise CaptureError(f"capture: {type(error).__name__} in the backward pass of its results: {error}") from error
    finally:
        mode.set_mode(before)
        tracer.is_open = False
    if tracer.failure is not None:
        raise tracer.failure
    if tracer._regions > regions:  # functions of checkpoints have run, and used numbers unobserved
        for value, traced in tracer.numbers.values():
            tracer.require_value(tracer.number_of(traced.array), value)
    reached = {node: number for node, number in targets.items() if found.get(node) is not None}
    numbers = [tracer.number_in_use(found[node]) for node in reached]
    steps, tracer.steps = tracer.steps[start:], tracer.steps[:start]
    whole = Program(
        (),
        tuple(steps),
        tuple(numbers),
        tracer.shapes,
        tracer.constants,
        device=tracer.device,
    )
    needed = whole.needed()
    made = {number for step in needed.steps for number in step.made} | {*needed.constants, *cotangents}
    used = [n for step in needed.steps for n in step.refs] + list(needed.outputs)
    saved = tuple(number for number in dict.fromkeys(used) if number not in made)
    keys = tuple(number for number, _ in tracer.draws if number in saved)
    uses, reach = uses_of(nodes, list(reached), first)
    dropped = [at for at, node in enumerate(reached) if node in masked]
    backward = CapturedBackward(whole.replaced(keys=keys), saved, tuple(cotangents), parts, uses, reach, dropped)
    return backward, tuple(reached.values()), saved


def history_of(tensor: Tensor) -> Any:
    """Return a tensor's node, or for a leaf whether it requires a gradient; and whether it retains its gradient."""
    return tensor.requires_grad if tensor.is_leaf else tensor._node, tensor.retains_grad


def is_recorded(node: Node, known: Container[int]) -> bool:
    """Return whether each hook of a node is in `known`, by id, or belongs to a checkpoint that recomputes saved values."""
    hooks = node.hooks
    if hooks is None:
        return True
    if hooks.pre or hooks.post or hooks.accumulated or any(tensor() is not None for tensor in hooks.retained):
        return False
    if any(id(hook) not in known for hook in hooks.tensor.values()):
        return False
    if not hooks.packed:
        return True
    kept = [value for value in node.saved if isinstance(value, Packed)] if type(node.saved) is tuple else []
    owners = [getattr(pair.unpack, "__self__", None) for value in kept for pair in value.pairs]
    return bool(kept) and all(getattr(type(owner), "_recomputes", False) is True for owner in owners)
