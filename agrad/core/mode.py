"""Grad modes: what is currently recorded. Context-local; every new thread starts with recording on.

The hot path tests only ``get_mode() is None``: nothing unusual is on. Anything else is an immutable `Mode`.
"""

from __future__ import annotations

import _thread
import functools
import inspect
import weakref
from collections.abc import Callable, Generator, Sequence
from contextvars import ContextVar, copy_context
from threading import get_ident
from types import EllipsisType
from typing import Any, TypeVar, overload

__all__ = [
    "enable_grad", "inference_mode", "is_grad_enabled", "is_inference_mode_enabled", "no_grad", "set_grad_enabled",
]  # fmt: skip

F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")
R = TypeVar("R")

_new, _partial, _ref = object.__new__, functools.partial, weakref.ref  # looked up once


class Mode:
    """The settings of the present context.

    Attributes
    ----------
    grad : bool
        Whether operations are recorded for reverse mode.
    levels : tuple of Level
        Active levels of forward mode (`core.forward.Level`), outermost first.
    inference : bool
        Whether it is `inference_mode`.
    saved : tuple
        Saved-tensor hooks, outermost first (see ``core.saved``).
    anomaly : bool or None
        Whether anomaly detection is on: True with the search for NaN, False without, None where it is off.
    profiler : object or None
        The object that is notified of every call and every node that runs (see ``view.profile``).
    recorder : object or None
        The object that records a program of them (see ``program.recording``).
    thread : int
        The thread that entered the mode; the mode does not apply in others, even where threads inherit the context.
    simple_in : int or None
        The same thread if only `grad` departs from the usual, so that an entry point need not check further.
    previous : Mode or None
        The mode to return to on leaving.
    owner : object
        The object that entered the mode and will leave it; None for agrad itself.
    watch : weakref or None
        Reference to the ``__exit__`` of the ``with`` statement that entered the mode; see `ModeExit`.
    """

    __slots__ = (
        "anomaly",
        "grad",
        "inference",
        "levels",
        "owner",
        "previous",
        "profiler",
        "recorder",
        "saved",
        "simple_in",
        "thread",
        "watch",
    )

    def __init__(
        self,
        grad: bool,
        levels: tuple[Any, ...],
        inference: bool,
        saved: tuple[Any, ...],
        anomaly: bool | None,
        profiler: Any,
        recorder: Any,
        previous: Mode | None,
        owner: object,
    ) -> None:
        self.grad: bool = grad
        self.levels: tuple[Any, ...] = levels
        self.inference: bool = inference
        self.saved: tuple[Any, ...] = saved
        self.anomaly: bool | None = anomaly
        self.profiler: Any = profiler
        self.recorder: Any = recorder
        self.previous: Mode | None = previous
        self.owner: object = owner
        self.watch: Any = None
        self.thread: int = get_ident()
        usual = not levels and not saved and profiler is None and recorder is None
        self.simple_in: int | None = self.thread if usual else None

    def moved(self, previous: Mode | None) -> Mode:
        """Return this mode at another place in the chain."""
        known = self.grad, self.levels, self.inference, self.saved, self.anomaly, self.profiler, self.recorder
        made = Mode(*known, previous, self.owner)
        made.watch = self.watch
        return made


#: The mode where none has been entered.
USUAL = Mode(True, (), False, (), None, None, None, None, None)

#: The mode that `push_unrecorded` entered last.
_unrecorded = [Mode(False, (), False, (), None, None, None, None, None)]


_MODE: ContextVar[Mode | None] = ContextVar("agrad_mode", default=None)
get_mode: Callable[[], Mode | None] = _MODE.get

#: Restores a value of `get_mode`: a C call, which no signal handler interrupts before it is done.
set_mode: Callable[[Mode | None], object] = _MODE.set


#: A function is running under a transform of ``agrad.func`` and must not call backward(). The value is consulted before a
#: tensor is assigned a value of the transform in place, and refuses tensors from outside the function.
transforming: ContextVar[Callable[[Any, str, bool], None] | None] = ContextVar("agrad_transforming", default=None)

#: Where requested settings are noted (see `setting`).
SETTINGS: ContextVar[list[float] | None] = ContextVar("agrad_settings", default=None)

#: Open levels of vmap, outermost first.
batch_levels: ContextVar[tuple[Any, ...]] = ContextVar("agrad_batch_levels", default=())


def current() -> Mode | None:
    """Return the mode of this thread, None for the usual one."""
    mode = get_mode()
    return mode if mode is not None and mode.thread == get_ident() else None


def recorder() -> Any:
    """Return the recorder of the running recording, None outside of recordings."""
    now = current()
    return None if now is None else now.recorder


def may_look(backend: Any) -> bool:
    """Return whether checks may read values: they are available, and no program has to be right for later values too."""
    return not backend.is_lazy and recorder() is None


def is_fixed(array: Any) -> bool:
    """Return whether an array has the same value at every run of the current recording: a number or list within it."""
    now = recorder()
    return now is None or now.number_of(array) in now.constants


def setting(get: Callable[[], float]) -> float:
    """Return a number that Python holds and may change between calls, such as a learning rate; a recording rereads it."""
    now = recorder()
    value: float = get() if now is None else now.setting(get)
    notes = SETTINGS.get()
    if notes is not None:
        notes.append(value)
    return value


def wants_settings() -> bool:
    """Return whether a caller wants to be notified of each `setting`."""
    return recorder() is not None or SETTINGS.get() is not None


def effect(do: Callable[[], None], held: Sequence[dict[Any, Any]]) -> None:
    """Change Python state, entries of the dicts `held`; a recorded program repeats this before it runs."""
    now = recorder()
    if now is None:
        do()
    else:
        now.effect(do, held)


def effect_of(value: Any, do: Callable[[float], None], held: Sequence[dict[Any, Any]]) -> None:
    """Change dict entries by a number or a one-element tensor; a recorded program repeats this after it has run."""
    now = recorder()
    if now is None:
        do(float(value))
    else:
        now.effect_of(value, do, held)


def guard(get: Callable[[], Any], name: str) -> None:
    """Make the current recording valid only where ``get()`` returns the plain value that it returns now."""
    now = recorder()
    if now is not None:
        now.guard(get, name)


def not_recorded(reason: str, *, later: bool = False) -> None:
    """Tell an active recording that it cannot hold what is done; `later`: the next one may."""
    now = recorder()
    if now is not None:
        now.not_recorded(reason, later)


def note_write(tensor: Any) -> None:
    """Tell a recording that a tensor is about to get a new value or gradient."""
    now = recorder()
    if now is not None:
        now.meet(tensor)


def note_hook(tensor: Any, handle: Any) -> None:
    """Tell a recording that a hook was registered on a tensor."""
    now = recorder()
    if now is not None:
        now.hook(tensor, handle)


def note_grad(tensor: Any, what: str) -> None:
    """Tell a recording that a tensor's gradient is "read", or about to be "set"."""
    now = recorder()
    if now is not None:
        now.meet(tensor)
        now.grads.setdefault(id(tensor), what)


def kernels_of(backend: Any) -> Any:
    """Return the kernels of a backend; within a recording, kernels that are recorded too."""
    now = recorder()
    return backend.xp if now is None else now.kernels_of(backend)


def push(
    *,
    grad: bool | None = None,
    levels: tuple[Any, ...] | None = None,
    inference: bool | None = None,
    saved: tuple[Any, ...] | None = None,
    anomaly: bool | EllipsisType | None = ...,
    profiler: Any = None,
    recorder: Any = ...,
    owner: object = None,
) -> None:
    """Enter a mode that differs from the present one in the given settings.

    A signal handler, as for Ctrl-C, may raise wherever Python code runs, also in this function. Internal code therefore reads
    the mode first, enters within ``try`` and restores it in ``finally``, by one C call::

        before = get_mode()
        try:
            push(...)
            ...
        finally:
            set_mode(before)
    """
    now = current()
    base = USUAL if now is None else now
    made = Mode(
        base.grad if grad is None else grad,
        base.levels if levels is None else levels,
        base.inference if inference is None else inference,
        base.saved if saved is None else saved,
        base.anomaly if anomaly is ... else anomaly,
        base.profiler if profiler is None else profiler,
        base.recorder if recorder is ... else recorder,
        now,
        owner,
    )
    if owner is not None and isinstance(owner, ModeContext):
        made.watch, owner.watch = owner.watch, None
    set_mode(made)


def push_unrecorded() -> None:
    """Enter the usual mode without recording, from the usual mode: what most backward passes run in.

    A mode does not change, so one object serves until another thread needs it; making one takes as long as the rest of
    entering.
    """
    made = _unrecorded[0]
    if made.thread != get_ident():
        made = _unrecorded[0] = Mode(False, (), False, (), None, None, None, None, None)
    set_mode(made)


def restore_left_modes(left: Mode | None, before: Mode | None, recorder: Any) -> bool:
    """Set again the modes that a recorded call left on, as `set_grad_enabled` does; return whether there are any.

    Parameters
    ----------
    left : Mode or None
        The mode at the end of the call.
    before : Mode or None
        The mode at its beginning, which is the present one.
    recorder : object
        The recorder of the call, in a mode on top of `before`.
    """
    inside: list[Mode] = []
    at = left
    while at is not before and at is not None:
        inside.append(at)
        at = at.previous
    if at is not before or not inside:  # it has left a mode that was on before
        if not any(found.recorder is recorder for found in inside):
            set_mode(left)
        return True
    base, bottom = before or USUAL, inside.pop()
    changed = (bottom.grad, bottom.anomaly) != (base.grad, base.anomaly)
    if changed:
        replace(grad=bottom.grad, anomaly=bottom.anomaly)
    for found in reversed(inside):
        known = found.grad, found.levels, found.inference, found.saved, found.anomaly, found.profiler, base.recorder
        made = Mode(*known, get_mode(), found.owner)
        made.watch = found.watch
        set_mode(made)
    return changed or bool(inside)


def pop(owner: object = None) -> None:
    """Leave the innermost mode that `owner` has entered, with everything entered inside it.

    Leftover inner modes come from generators suspended within a ``with`` block of their own. When such a generator resumes
    and leaves its block, there is nothing left to leave.
    """
    found = current()
    while found is not None and found.owner is not owner:
        found = found.previous
    if found is not None:
        set_mode(found.previous)


def _abandoned(watch: Any) -> None:
    """Leave a mode whose ``with`` statement ended without leaving it."""
    found = get_mode()
    while found is not None and found.watch is not watch:
        found = found.previous
    if found is not None:
        set_mode(found.previous)


class ModeExit:
    """The ``__exit__`` of a `ModeContext`, which no signal handler can prevent.

    A handler may raise before the first instruction of a Python function as well as inside it. So ``with`` gets a partial
    object that nothing else refers to, under a weak reference: if the object dies while the mode is still on, the mode is
    left then.
    """

    def __get__(self, block: ModeContext | None, kind: type[ModeContext]) -> Callable[..., None]:
        if block is None:
            return kind.leave  # for `contextlib.ExitStack`
        leave = _partial(kind.leave, block)
        block.watch = _ref(leave, _abandoned)
        return leave


class ModeContext:
    """Base class of context managers that push a mode."""

    #: Of the statement that is about to enter the block.
    watch: Any = None

    def leave(self, *exc: object) -> None:
        """Leave the innermost mode that this block has entered."""
        pop(self)

    __exit__: ModeExit = ModeExit()


def within(var: ContextVar[Any], value: Any, function: Callable[..., R], /, *args: Any, **kwargs: Any) -> R:
    """Call a function with another value of a context variable, which no interrupt leaves behind (see `push`)."""
    before = var.get()
    try:
        var.set(value)
        return function(*args, **kwargs)
    finally:
        var.set(before)


class _SettingExit:
    """The `ModeExit` of a `Setting`."""

    def __get__(self, block: Setting | None, kind: type[Setting]) -> Callable[..., None]:
        if block is None:
            return kind.leave
        leave, var, before = functools.partial(kind.leave, block), block.var, block.var.get()
        block.watch = weakref.ref(leave, lambda _: var.set(before))
        return leave


class Setting:
    """Base class of context managers and decorators that set a context variable."""

    var: ContextVar[Any]
    watch: Any = None

    def __init__(self, value: Any) -> None:
        self._value = value
        self._before: list[Any] = []  # a block may be entered again

    def __enter__(self) -> Any:
        self._before.append(self.var.get())
        self.var.set(self._value)

    def leave(self, *exc: object) -> None:
        """Restore the previous value of the variable."""
        self.var.set(self._before.pop())
        self.watch = None

    __exit__: _SettingExit = _SettingExit()

    def __call__(self, function: F) -> F:
        """Decorate a function."""

        @functools.wraps(function)
        def within(*args: Any, **kwargs: Any) -> Any:
            with type(self)(self._value):
                return function(*args, **kwargs)

        return within  # type: ignore[return-value]


def adopt(mode: Mode | None) -> None:
    """Make a mode of the thread that started this one apply here too."""
    set_mode(None if mode is None else mode.moved(mode.previous))


def unguarded(target: Any, what: str, mapped: bool) -> None:
    """Refuse no write, where a transform does not run a user function."""


def check_write(target: Any, what: str, *, mapped: bool = False) -> None:
    """Let the running transform refuse to write to a tensor from outside it; `mapped`: a batched value."""
    guard = transforming.get()
    if guard is not None:
        guard(target, what, mapped)


def recorded(function: Callable[[], T], guard: Callable[[Any, str, bool], None] = unguarded) -> T:
    """Call a function with recording on, whatever the outer mode; backward() is refused inside."""
    before, outside = get_mode(), transforming.get()
    try:
        push(grad=True)
        transforming.set(guard)
        return function()
    finally:
        try:
            transforming.set(outside)
        finally:
            set_mode(before)


def in_a_thread(work: Callable[[], None]) -> None:
    """Run a function in a new thread, in the present context and mode, and wait for it."""
    now = current()
    failures: list[BaseException] = []
    begun = done = given_up = False
    ended = _thread.allocate_lock()
    ended.acquire()

    def do() -> None:
        nonlocal begun, done
        try:
            begun = True
            adopt(now)
            if not given_up:
                work()
        except BaseException as error:  # noqa: BLE001 (re-raised)
            failures.append(error)
        finally:
            done = True
            ended.release()

    try:
        # not a threading.Thread: a signal handler that raises can leave it with a lock it does not hold
        _thread.start_new_thread(copy_context().run, (do,))
        ended.acquire()
    except BaseException:  # from such a handler: wait for the started work first
        given_up = True
        if begun and not done:
            ended.acquire()
        raise
    if failures:
        raise failures.pop()


def inside(owner: object) -> list[Mode]:
    """Return the modes inside an owner's innermost one, outermost first."""
    modes: list[Mode] = []
    found = current()
    while found is not None and found.owner is not owner:
        modes.insert(0, found)
        found = found.previous
    return modes


def is_grad_enabled() -> bool:
    """Return whether operations are being recorded.

    Returns
    -------
    bool
        Whether they are.

    Examples
    --------
    >>> import agrad as ag
    >>> with ag.no_grad():
    ...     ag.is_grad_enabled()
    False
    """
    now = current()
    return now.grad if now else True


def is_inference_mode_enabled() -> bool:
    """Return whether `inference_mode` is on.

    Returns
    -------
    bool
        Whether it is on.
    """
    now = current()
    return now.inference if now else False


class GradMode(ModeContext):
    """A grad mode, as context manager and as decorator of functions, generators and coroutines.

    ``with no_grad():``, ``with no_grad:``, ``@no_grad`` and ``@no_grad()`` all work. The object itself has no state: the
    modes entered form a chain in the context, so an object may be entered again while it is active. Each call
    without a function returns a new object, which leaves only what it has entered.

    Examples
    --------
    >>> import agrad as ag
    >>> x = ag.tensor(2.0, requires_grad=True)
    >>> with ag.no_grad():
    ...     y = x * x
    >>> y.requires_grad
    False
    """

    def __init__(self, name: str, *, grad: bool | None, inference: bool | None = None) -> None:
        self._name = name
        self._grad = grad
        self._inference = inference

    def __repr__(self) -> str:
        return f"agrad.{self._name}"

    @overload
    def __call__(self, function: None = None) -> GradMode: ...
    @overload
    def __call__(self, function: F) -> F: ...
    def __call__(self, function: Any = None) -> Any:
        if function is None:
            return GradMode(self._name, grad=self._grad, inference=self._inference)
        return decorate(self, function)

    def __enter__(self) -> None:
        """Push the mode as `push` does, but faster: many programs do little else in a loop."""
        thread, now = get_ident(), get_mode()
        if now is not None and now.thread != thread:
            now = None
        base = USUAL if now is None else now
        made: Mode = _new(Mode)
        made.grad = base.grad if self._grad is None else self._grad
        made.levels = base.levels
        made.inference = base.inference if self._inference is None else self._inference
        made.saved = base.saved
        made.anomaly = base.anomaly
        made.profiler = base.profiler
        made.recorder = base.recorder
        made.previous = now
        made.owner = self
        made.watch = self.watch
        self.watch: Any = None
        made.thread = thread
        made.simple_in = base.simple_in and thread
        set_mode(made)

    def leave(self, *exc: object) -> None:
        found = get_mode()
        if found is not None and found.owner is self and found.thread == get_ident():
            set_mode(found.previous)
        else:
            pop(self)


def decorate(mode: GradMode, function: F) -> F:
    """Run a function under a mode; a generator or coroutine is under it while it runs, not while it waits."""
    if inspect.isclass(function):
        raise TypeError(
            f"{mode!r} decorates functions, not classes; decorate the methods of {function.__name__} instead"
        )
    if inspect.isasyncgenfunction(function):

        @functools.wraps(function)
        async def asyncgen(*args: Any, **kwargs: Any) -> Any:
            source = function(*args, **kwargs)
            step = source.asend(None)
            try:
                while True:
                    try:
                        produced = await _ModalAwaitable(mode, step)
                    except StopAsyncIteration:
                        return
                    try:
                        step = source.asend((yield produced))
                    except GeneratorExit:
                        raise
                    except BaseException as error:  # noqa: BLE001 (re-raised)
                        step = source.athrow(error)
            finally:
                await _ModalAwaitable(mode, source.aclose())

        return asyncgen  # type: ignore[return-value]
    if inspect.iscoroutinefunction(function):

        @functools.wraps(function)
        async def coroutine(*args: Any, **kwargs: Any) -> Any:
            return await _ModalAwaitable(mode, function(*args, **kwargs))

        return coroutine  # type: ignore[return-value]
    if inspect.isgeneratorfunction(function):

        @functools.wraps(function)
        def generator(*args: Any, **kwargs: Any) -> Any:
            return (yield from _steps(mode, function(*args, **kwargs)))

        return generator  # type: ignore[return-value]

    @functools.wraps(function)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        before = get_mode()
        try:
            push(grad=mode._grad, inference=mode._inference)
            return function(*args, **kwargs)
        finally:
            set_mode(before)

    return wrapped  # type: ignore[return-value]


def _steps(mode: GradMode, source: Generator[Any, Any, Any]) -> Generator[Any, Any, Any]:
    """Drive a generator so that the mode is on only while it runs."""
    send: Callable[[Any], Any] = source.send
    value: Any = None
    entered: list[Mode] = []  # by the generator itself, which is suspended within them
    step = object()

    def run(function: Callable[..., Any], *args: Any) -> Any:
        before = get_mode()
        try:
            push(grad=mode._grad, inference=mode._inference, owner=step)
            for own in entered:
                set_mode(own.moved(current()))
            try:
                return function(*args)
            finally:
                entered[:] = inside(step)
        finally:
            set_mode(before)

    while True:
        try:
            produced = run(send, value)
        except StopIteration as stop:
            return stop.value
        try:
            value = yield produced
            send = source.send
        except GeneratorExit:
            run(source.close)
            raise
        except BaseException as error:  # noqa: BLE001 (re-raised)
            send, value = source.throw, error


class _ModalAwaitable:
    """Await an object so that the mode is on only while it runs."""

    def __init__(self, mode: GradMode, awaitable: Any) -> None:
        self._mode = mode
        self._awaitable = awaitable

    def __await__(self) -> Generator[Any, Any, Any]:
        return _steps(self._mode, self._awaitable.__await__())


class set_grad_enabled(GradMode):  # noqa: N801 (PyTorch's name)
    """Turn recording on or off: at once when called as a function, and as a context manager or decorator.

    Parameters
    ----------
    mode : bool
        True to record.

    Examples
    --------
    >>> import agrad as ag
    >>> with ag.set_grad_enabled(False):
    ...     ag.is_grad_enabled()
    False
    >>> ag.is_grad_enabled()
    True
    """

    def __init__(self, mode: bool) -> None:
        if not isinstance(mode, bool):
            raise TypeError(f"set_grad_enabled() takes a bool, not {type(mode).__name__}")
        super().__init__(f"set_grad_enabled({mode})", grad=mode)
        self._before = current()
        replace(grad=mode)

    def __call__(self, function: Any = None) -> Any:
        if function is None:
            return self
        set_mode(self._before)  # the immediate effect was meant for a block, not for a decorated function
        return decorate(GradMode(self._name, grad=self._grad), function)

    def __enter__(self) -> None:
        """Keep what the call has set, or set it again; leaving undoes it."""
        replace(grad=self._grad)

    def __exit__(self, *exc: object) -> None:
        set_mode(self._before)


def replace(*, grad: bool | None = None, anomaly: bool | EllipsisType | None = ...) -> None:
    """Replace the present mode instead of stacking on it: called in a loop, this must not grow a chain."""
    now = current()
    base = USUAL if now is None else now
    made = Mode(
        base.grad if grad is None else grad,
        base.levels,
        base.inference,
        base.saved,
        base.anomaly if anomaly is ... else anomaly,
        base.profiler,
        base.recorder,
        base.previous,
        replace if now is None else base.owner,
    )
    alone = made.previous is None and made.owner is replace
    usual = made.grad and made.simple_in is not None and not made.inference and made.anomaly is None
    set_mode(None if alone and usual else made)


no_grad: GradMode = GradMode("no_grad", grad=False)
enable_grad: GradMode = GradMode("enable_grad", grad=True)
_inference_on = GradMode("inference_mode", grad=False, inference=True)
_inference_off = GradMode("inference_mode(False)", grad=None, inference=False)


@overload
def inference_mode(mode: bool = True) -> GradMode: ...
@overload
def inference_mode(mode: F) -> F: ...
def inference_mode(mode: Any = True) -> Any:
    """Record nothing, as `no_grad` does; values never alias, so it saves no further bookkeeping.

    Parameters
    ----------
    mode : bool or callable, optional
        False does nothing; a function is decorated.

    Returns
    -------
    GradMode or callable
        A context manager that is also a decorator; the decorated function, if one was given.
    """
    if callable(mode):
        return decorate(_inference_on, mode)
    return _inference_on() if mode else _inference_off()
