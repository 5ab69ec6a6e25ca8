"""Watching: a call that is written down while it means what it means, and its backward pass as a program.

`Watcher` is the recorder of `agrad.func.compiling`. The numbers that it gives to Python are `Live`: sums and products of them
are steps, any other use makes them conditions. Where no program can hold what the call does, it goes on without one.
"""

from __future__ import annotations

import functools
import sys
import types
from collections.abc import Callable, Container, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Self

from agrad.core import errors, mode
from agrad.core.backend import Backend, backend_of
from agrad.core.hooks import Handle
from agrad.core.node import Node, ancestors
from agrad.core.op import Op
from agrad.core.saved import Packed
from agrad.core.tensor import Tensor, wrap
from agrad.func.guards import Link, called, changed_between, settings_of
from agrad.func.program import Program
from agrad.func.recording import CaptureError, Hooked, Recorder
from agrad.func.reverse import Backward, Part, UpTo, uses_of
from agrad.plugin.manager import default_backend

if TYPE_CHECKING:
    from agrad.func.asked import Place


class Live(float):
    """A Python number that a program computes anew at every call: an argument, a setting, or a value's `item()`.

    Sums, differences, products and quotients with it are steps; whatever else Python does with it makes the number itself
    a condition for the program.
    """

    watcher: Watcher
    array: Any
    used: bool

    def __new__(cls, value: float, watcher: Watcher, array: Any) -> Self:
        made = super().__new__(cls, value)
        made.watcher, made.array, made.used = watcher, array, False
        return made

    def __reduce__(self) -> Any:
        return float, (float(self),)


def _live(name: str, op: str, *, reflected: bool = False) -> Callable[[Live, Any], Any]:
    plain = getattr(float, name)

    def method(self: Live, other: Any) -> Any:
        result = plain(self, other)
        watcher = self.watcher
        if result is NotImplemented or not watcher.is_open:
            return result
        other = watcher.known_float(other)
        self.used = True
        part = other.array if isinstance(other, Live) else float(other)
        if isinstance(other, Live):
            other.used = True
        kernel = getattr(watcher.kernels_of(backend_of(self.array)), op)
        array = kernel(part, self.array) if reflected else kernel(self.array, part)
        return Live(result, watcher, array)

    return method


def _bound(name: str) -> Callable[..., Any]:
    plain = getattr(float, name)

    def method(self: Live, *args: Any) -> Any:
        self.watcher.condition(self)
        return plain(self, *args)

    return method


def _float(self: Live) -> float:
    value = float.__pos__(self)
    watcher = self.watcher
    use = watcher.use_of_number()
    if use == "returned":
        watcher.returned.append((value, self.array))
    elif use is not None:  # of its own: each is to be met again, or is a condition
        self.used = True
        frame = errors.user_frame(sys._getframe())
        watcher.operands[id(value)] = Operand(value, watcher.live(value, self.array), frame, use)
    else:
        watcher.condition(self)
    return value


Live.__float__ = _float  # type: ignore[assignment, method-assign]
for _name, _op in (("add", "add"), ("sub", "subtract"), ("mul", "multiply"), ("truediv", "divide")):
    setattr(Live, f"__{_name}__", _live(f"__{_name}__", _op))
    setattr(Live, f"__r{_name}__", _live(f"__r{_name}__", _op, reflected=True))
for _name in (
    *("lt", "le", "gt", "ge", "eq", "ne", "bool", "hash", "int", "repr", "format", "round", "trunc", "floor"),
    *("ceil", "pow", "rpow", "mod", "rmod", "floordiv", "rfloordiv", "divmod", "rdivmod", "abs", "neg", "pos"),
):
    setattr(Live, f"__{_name}__", _bound(f"__{_name}__"))
Live.__str__ = Live.__repr__  # type: ignore[method-assign]


class Whole(int):
    """An integer that the function only returns, as an object of its own: it is told from others by identity."""


class Condition(NamedTuple):
    """A value that a program must compute as it was in the capture, else another one is to run.

    Attributes
    ----------
    number : int
        Of the value.
    value : bool, int, float or complex
        As Python saw it.
    line : str
        Where.
    """

    number: int
    value: Any
    line: str


class Operand(NamedTuple):
    """A plain float that is one side of a sum or a product.

    The other side may be of a class that does anything with it; what takes place elsewhere does not tell of it.

    Attributes
    ----------
    value : float
        The number.
    live : Live
        What stands for it.
    frame, place : frame and tuple
        Of the sum or product.
    """

    value: float
    live: Live
    frame: types.FrameType
    place: Place


class Watcher(Recorder):
    """A recorder of a call that means what it means: where no program can hold what it does, it goes on without one.

    Attributes
    ----------
    failure : CaptureError or None
        Why there will be no program.
    later : bool
        The next call may be captured: what failed is done once.
    conditions : list of Condition
        Values that Python chose its way by.
    prologue : list
        What is done, in this order, before a replay: ``("effect", do)`` and ``("setting", number, get)``.
    epilogue : list of (int, callable)
        What is done after a replay, with the number of the value it is done with.
    guards : list of Link
        What must be as it is, beside what the function leads to.
    held_by_python : list of dict
        Whose entries prologue and epilogue change.
    is_open : bool
        The function is running.
    backend : Backend or None
        Where it computes.
    lives : list of Live
        The numbers it gave to Python.
    returned : list of (number, array)
        Plain floats and integers that the function only returns, and the arrays that they are of.
    operands : dict
        By ``id`` plain floats that are asked for as one side of a sum or a product.
    frame : frame or None
        Where the function is called.
    tellers : list
        The optimisers and schedules that the function leads to.
    told : set
        Which of their settings were changed by an effect.
    """

    def __init__(self) -> None:
        super().__init__()
        self.failure: CaptureError | None = None
        self.later = False
        self.is_open = True
        self.backend: Backend | None = None
        self.conditions: list[Condition] = []
        self.lives: list[Live] = []
        self.returned: list[tuple[Any, Any]] = []
        self.operands: dict[int, Operand] = {}
        self.frame: types.FrameType | None = None
        self.tellers: list[Any] = []
        self.told: set[Any] = set()
        self.prologue: list[tuple[Any, ...]] = []
        self.epilogue: list[tuple[int, Callable[[float], None]]] = []
        self.guards: list[Link] = []
        self.first = 0
        self._default = default_backend()
        self._errors = self._default._error_state()
        self.held_by_python: list[dict[Any, Any]] = []

    def give_up(self, error: CaptureError, *, later: bool = False) -> None:
        """Note why there will be no program."""
        if self.failure is None:
            self.failure, self.later = error, later

    def _try(self, recorded: Callable[[], Any], plain: Callable[[], Any]) -> Any:
        """Do something in a way that is written down, or else as it is."""
        if self.failure is not None:
            return plain()
        try:
            return recorded()
        except CaptureError as error:
            self.give_up(error)
            return plain()
        except Exception as error:  # noqa: BLE001 (it is told in the warning)
            try:
                result = plain()
            except (
                Exception
            ) as own:  # the call's own, if it ends here; else a program would raise it where the function goes on
                self.give_up(
                    CaptureError(f"capture: the function goes on after an error, {type(own).__name__}{errors.called()}")
                )
                raise
            self.give_up(CaptureError(f"capture: {type(error).__name__} where it was written down: {error}"))
            return result

    def around(
        self, op: Op, backend: Backend, kernel: Callable[..., Any], values: tuple[Any, ...], raw: list[Any]
    ) -> Callable[..., Any]:
        if self.backend is not backend and not hasattr(backend, "numbers"):
            if self.backend is not None:
                self.give_up(CaptureError(f"capture: two backends take part{errors.called()}"))
            self.backend = backend
        if self.failure is None and backend is self._default and self._errors is not None:
            state = backend._error_state()
            if state is not None and state != self._errors:
                self.not_recorded("the function sets what happens at floating-point errors (np.errstate)", later=False)
        recorded = self._try(lambda: super(Watcher, self).around(op, backend, kernel, values, raw), lambda: kernel)
        return lambda *args, **kwargs: self._try(lambda: recorded(*args, **kwargs), lambda: kernel(*args, **kwargs))

    def operand(self, op: Op, value: Any, array: Any) -> None:
        if isinstance(value, Live) and value.watcher is self:
            value.used = True
            made = self.kernels_of(backend_of(array)).astype(value.array, array.dtype)
            number = self.number_of(made)
            assert number is not None
            self.know(array, number)
            self.held.append(array)
            return
        super().operand(op, value, array)

    def hook(self, tensor: Tensor, handle: Handle) -> None:
        self._try(lambda: super(Watcher, self).hook(tensor, handle), lambda: None)

    def around_vjp(self, node: Node, vjp: Callable[..., Any]) -> Callable[..., Any]:
        if node.seq < self.first:  # another call may bring another history
            self.not_recorded("a backward pass goes through what was computed before the call", later=False)
        recorded = super().around_vjp(node, vjp)
        return lambda *args: self._try(lambda: recorded(*args), lambda: vjp(*args))

    def kernels_of(self, backend: Any) -> Any:
        return _WatchedKernels(self, super().kernels_of(backend), backend.xp)

    def alias(self, made: Any, array: Any) -> None:
        self._try(lambda: super(Watcher, self).alias(made, array), lambda: None)

    def draw(self, backend: Backend, kind: str, shape: tuple[int, ...], key: Any, **options: Any) -> Any:
        return self._try(
            lambda: super(Watcher, self).draw(backend, kind, shape, key, **options),
            lambda: backend.random(kind, shape, key, **options),
        )

    def detached(self, array: Any) -> Any:
        return self._try(lambda: super(Watcher, self).detached(array), lambda: array)

    def detach(self, tensor: Tensor) -> Any:
        return self._try(lambda: super(Watcher, self).detach(tensor), lambda: tensor._raw)

    def leaves(self, tensor: Tensor) -> Any:
        if self.failure is None:
            try:
                super().leaves(tensor)
            except CaptureError as error:
                self.give_up(error)

    def item(self, tensor: Tensor) -> Any:
        backend = tensor._spec.backend
        if self.failure is not None or hasattr(backend, "numbers"):
            return backend.item(tensor._raw)
        value = backend.item(tensor._computed() if backend.is_lazy else tensor._raw)
        self.meet(tensor)
        if type(value) is float and self.failure is None:
            return self._try(lambda: self.live(value, tensor._raw), lambda: value)
        if type(value) is int and self.use_of_number() == "returned":
            made = Whole(value)
            self.returned.append((made, self.kernels_of(backend).reshape(tensor._raw, ())))
            return made
        self.demand(self.number_of(tensor._raw), value)
        return value

    def introduce(self, array: Any) -> int:
        """Return the number of a new input, which stays alive with the recording."""
        number = self.new(array)
        self.know(array, number)
        self.held.append(array)
        return number

    def float_argument(self, value: float) -> float:
        backend = default_backend()
        array = backend.asarray(value, dtype="float64")
        self.introduce(array)
        made = Live(value, self, array)
        self.lives.append(made)
        return made

    def number_of_float(self, value: Any) -> int | None:
        if isinstance(value, Live) and value.watcher is self:
            return self.number_of(value.array)
        array = next((array for number, array in self.returned if number is value), None)
        return None if array is None else self.number_of(array)

    def use_of_number(self) -> Literal["returned"] | Place | None:
        """Return what becomes of a number that Python asks for now, as `use_of`; returned by the function itself."""
        if not self.is_open or self.failure is not None:
            return None
        from agrad.func.asked import use_of  # noqa: PLC0415 (only where a number is asked for)

        frame = errors.user_frame(sys._getframe())
        use = use_of(frame.f_code, frame.f_lasti)
        return use if use != "returned" or frame.f_back is self.frame else None

    def known_float(self, value: Any) -> Any:
        """Return the `Live` of a plain float that was asked for as an operand here; anything else as it is."""
        known = self.operands.get(id(value))
        if known is None:
            return value
        from agrad.func.asked import place_in  # noqa: PLC0415 (as above)

        frame = errors.user_frame(sys._getframe())
        is_here = frame is known.frame and place_in(frame.f_code, frame.f_lasti) == known.place
        return known.live if is_here else value

    def given(self, values: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple(map(self.known_float, values)) if self.operands else values

    def live(self, value: float, array: Any) -> Live:
        """Return a number that is computed anew at every call, from a 0-d array."""
        xp = self.kernels_of(backend_of(array))
        backend = backend_of(array)
        assert backend is not None
        made = Live(value, self, xp.astype(xp.reshape(array, ()), backend.dtype("float64"), copy=True))
        self.lives.append(made)
        return made

    def truth(self, tensor: Tensor) -> Any:
        backend = tensor._spec.backend
        value = backend.truth(tensor._raw)
        if self.failure is None and not hasattr(backend, "numbers"):
            self.meet(tensor)
            self.demand(self.number_of(tensor._raw), value)
        return value

    def condition(self, live: Live) -> None:
        """Make the value of a number a condition for the program."""
        if self.is_open and self.failure is None:
            live.used = True
            self.demand(self.number_of(live.array), float.__pos__(live))

    def demand(self, number: int | None, value: Any) -> None:
        """Note a value that Python chose its way by."""
        if number is None:
            self.give_up(CaptureError(f"capture: a value that is not the program's own decides{errors.called()}"))
        else:
            self.conditions.append(Condition(number, value, errors.line_of(*errors.caller())))
            self.also.append(number)

    def setting(self, get: Callable[[], float]) -> float:
        value = get()
        if self.failure is not None:
            return value
        backend = default_backend()
        array = backend.asarray(value, dtype="float64")
        number = self.introduce(array)
        self._before_the_run()
        self.prologue.append(("setting", number, get))
        return Live(value, self, array)

    def effect(self, do: Callable[[], None], held: Sequence[dict[Any, Any]]) -> None:
        self._told(do, held)
        self._before_the_run()
        self.held_by_python += held
        self.prologue.append(("effect", do))

    def _before_the_run(self) -> None:
        """Refuse what must be done before a replay, though in the function it came after what is done when that is over."""
        if self.epilogue:
            self.not_recorded("settings are read or changed after a value has changed some", later=False)

    def _told(self, do: Callable[[], None], held: Sequence[dict[Any, Any]]) -> None:
        """Change Python's state, entries of the dicts `held`, and note which settings of optimisers and schedules these are."""
        owners = {id(vars(teller)): teller for teller in self.tellers}
        holders = [owners.get(id(one), one) for one in held]
        before = settings_of(holders)
        do()
        self.told |= changed_between(before, settings_of(holders)).keys()

    def effect_of(self, value: Any, do: Callable[[float], None], held: Sequence[dict[Any, Any]]) -> None:
        live = self.item(value) if isinstance(value, Tensor) else value
        number = float.__pos__(live) if isinstance(live, Live) else float(live)
        self._told(functools.partial(do, number), held)
        if isinstance(live, Live) and self.failure is None:
            live.used = True
            known = self.number_of(live.array)
            assert known is not None
            self.also.append(known)
            self.held_by_python += held
            self.epilogue.append((known, do))
        elif self.failure is None:
            self.not_recorded("a number that is not the program's own changes Python's state", later=False)

    def guard(self, get: Callable[[], Any], name: str) -> None:
        self.guards.append(Link(called, get, get(), name))

    def not_recorded(self, reason: str, later: bool) -> None:
        self.give_up(CaptureError(f"capture: {reason}{errors.called()}"), later=later)


class _WatchedKernels:
    """Kernels that are written down, or run as they are once there will be no program."""

    def __init__(self, watcher: Watcher, recorded: Any, plain: Any) -> None:
        self._watcher, self._recorded, self._plain = watcher, recorded, plain

    def __getattr__(self, name: str) -> Callable[..., Any]:
        def kernel(*args: Any, **kwargs: Any) -> Any:
            return self._watcher._try(
                lambda: getattr(self._recorded, name)(*args, **kwargs),
                lambda: getattr(self._plain, name)(*args, **kwargs),
            )

        return kernel


# -- its backward pass --------------------------------------------------------------------------------------------------


def backward_of(
    watcher: Watcher, results: list[Tensor], first: int, hooks: Sequence[Hooked]
) -> tuple[Backward | None, tuple[int, ...], tuple[int, ...]]:
    """Run the backward pass of a call's results once, and return it as programs.

    Parameters
    ----------
    watcher : Watcher
        Of the call.
    results : list of Tensor
        What may be differentiated.
    first : int
        The creation number of the call's first node.
    hooks : list of Hooked
        Those on its way that only compute.

    Returns
    -------
    backward : Backward or None
        From what the forward pass has to keep, and cotangents of results, to gradients.
    targets : tuple of int
        The inputs that the gradients are of.
    saved : tuple of int
        What the forward pass has to keep.
    """
    if not results:
        return None, (), ()
    nodes: list[Any] = [t._node for t in results]
    graph = ancestors(nodes)
    known = {id(hooked.hook) for hooked in hooks}
    if any(not is_recorded(node, known) for node in graph if node.seq >= first):
        raise CaptureError(
            "capture: hooks are registered on what the function computes, which run anew at every backward: on nodes, or on"
            " tensors whose gradients are kept"
        )
    below = ancestors([node for root in nodes for node in root.inputs])
    if any(root.hooks is not None and root.hooks.tensor and root not in below for root in nodes):
        raise CaptureError("capture: a hook is registered on what the function returns: register it outside")
    targets: dict[Any, int] = {}
    for tensor, array, _ in watcher.met.values():
        if tensor._node in graph:
            number = watcher.number_of(array)
            if number is not None:
                targets.setdefault(tensor._node, number)
    for node in targets:
        if node.hooks is not None and any(tensor() is not None for tensor in node.hooks.retained):
            raise CaptureError("capture: the gradient of an argument is kept by retain_grad()")
        if not ancestors(node.inputs).isdisjoint(targets):
            raise CaptureError("capture: one argument was computed from another, and both are differentiated")
    backend = results[0]._spec.backend
    ones = [backend.xp.ones(t.shape, dtype=t.dtype, **backend.creation(t._spec.device)) for t in results]
    cotangents = [watcher.introduce(array) for array in ones]
    start, asked, numbers_given = len(watcher.steps), len(watcher.conditions), len(watcher.lives)
    before = mode.get_mode()
    try:
        watcher.is_open = True  # checkpoints run their functions again
        mode.push(recorder=watcher, grad=False)
        roots = [(node, wrap(one, t._spec)) for node, one, t in zip(nodes, ones, results, strict=True)]
        found: dict[Node, Any] = {}
        parts: list[Part] = []
        masked: set[Node] = set()
        if targets:  # else all leaves were made by the function
            task = UpTo(roots, True, False, set(targets), False, (), False)
            found, parts, masked = task.run(), task.parts, task.dropped
    except Exception as error:
        if hooks:
            raise CaptureError(f"capture: {type(error).__name__} in a backward pass with hooks: {error}") from error
        raise
    finally:
        mode.set_mode(before)
        watcher.is_open = False
    if watcher.failure is not None:
        raise watcher.failure
    if hooks and (watcher.conditions[asked:] or not all(live.used for live in watcher.lives[numbers_given:])):
        raise CaptureError("capture: a hook on what the function computes chooses its way by a value")
    reached = {node: number for node, number in targets.items() if found.get(node) is not None}
    numbers = [watcher.known(found[node]) for node in reached]
    steps, watcher.steps = watcher.steps[start:], watcher.steps[:start]
    whole = Program(
        (),
        tuple(steps),
        tuple(numbers),
        watcher.shapes,
        watcher.constants,
        device=watcher.device,
    )
    needed = whole.needed()
    made = {number for step in needed.steps for number in step.made} | {*needed.constants, *cotangents}
    used = [n for step in needed.steps for n in step.refs] + list(needed.outputs)
    saved = tuple(number for number in dict.fromkeys(used) if number not in made)
    keys = tuple(number for number, _ in watcher.draws if number in saved)
    uses, reach = uses_of(nodes, list(reached), first)
    dropped = [at for at, node in enumerate(reached) if node in masked]
    backward = Backward(whole.replaced(keys=keys), saved, tuple(cotangents), parts, uses, reach, dropped)
    return backward, tuple(reached.values()), saved


def is_recorded(node: Node, known: Container[int]) -> bool:
    """Return whether all hooks of a node are known, by id, or those of checkpoints, which compute what it saved again."""
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
