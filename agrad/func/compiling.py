"""``compile``: a function that is captured at its first call and replayed from then on, and means what it meant.

A kept program is found by the specs of all tensors, the other arguments, the modes, and its guards: what functions met in
the capture read of cells, globals and attributes. What no program can hold runs as it is, with one warning.
"""

from __future__ import annotations

import functools
import sys
import types
import warnings
from collections.abc import Callable, Sequence
from typing import Any, TypeVar, overload

from agrad import dtypes, tree
from agrad.core import errors, mode
from agrad.core.backend import backend_of
from agrad.core.node import next_seq
from agrad.core.once import lock
from agrad.core.tensor import Tensor
from agrad.func.arguments import NUMBERS, bare_all, is_raw, name_of
from agrad.func.capture import MODE_LEFT, graph_of, introduced
from agrad.func.comparing import differences
from agrad.func.guards import PLAIN, at_place, is_no_state, key_of, met_code, settings_of, state_of, tellers_in
from agrad.func.keeping import Watched, kept_of
from agrad.func.kept import Kept, as_given, give_back
from agrad.func.origins import Reach
from agrad.func.program import Program, Structure
from agrad.func.recording import CaptureError
from agrad.func.watching import Live, Watcher, Whole
from agrad.plugin.manager import choice, default_backend
from agrad.random import noting

F = TypeVar("F", bound=Callable[..., Any])

#: How many programs are kept for one function, and how many of them may differ in guards alone.
KEPT, BRANCHES = 64, 8


class CompileWarning(UserWarning):
    """A compiled function runs as it is, because no program can hold what it does."""


class CompileError(RuntimeError):
    """What a compiled function replays is not what the function does, or no program holds what has to be one."""


class Compiled:
    """A function that is captured at its first call and replayed at later ones: see `compile`.

    Attributes
    ----------
    programs : list of Program
        What is kept.
    """

    _leads_to = ("function",)  # for a compiled function that calls this one

    def __init__(
        self, function: Callable[..., Any], check: Any, explain: bool, fullgraph: bool = False, **options: Any
    ) -> None:
        functools.update_wrapper(self, function)
        self.function = function
        self._check = check
        self._explain = explain
        self._fullgraph = fullgraph
        self._options = options
        self._begin()

    def _begin(self) -> None:
        """Begin without programs."""
        self._kept: dict[Any, list[Kept]] = {}
        self._refused: dict[Any, int] = {}
        self._failures: dict[Any, str] = {}
        self._quick: dict[Any, list[tuple[Kept, Any]]] = {}
        self._lock = lock()

    def __reduce_ex__(self, protocol: Any) -> Any:
        """Return how it is copied and pickled: by its name, as a function is, where a module has it under that."""
        name = getattr(self, "__qualname__", None)
        found: Any = sys.modules.get(self.__module__)
        for part in name.split(".") if name else ():
            found = getattr(found, part, None)
        return name if name and found is self else super().__reduce_ex__(protocol)

    def __getstate__(self) -> dict[str, Any]:
        """Return what a copy is made of: programs are captured anew, and what is the function's comes with that."""
        own = ("_kept", "_refused", "_failures", "_quick", "_lock")
        given = getattr(self.function, "__dict__", {})
        return {name: v for name, v in vars(self).items() if name not in own and given.get(name, own) is not v}

    def __setstate__(self, state: dict[str, Any]) -> None:
        functools.update_wrapper(self, state["function"])
        vars(self).update(state)
        self._begin()

    @property
    def programs(self) -> list[Program]:
        """The programs that are kept."""
        return [kept.program for entry in list(self._kept.values()) for kept in entry]

    def clear(self) -> None:
        """Forget all programs, and give back what they hold."""
        with self._lock:
            self._kept.clear()
            self._quick.clear()
            self._refused.clear()
            self._failures.clear()

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else types.MethodType(self, instance)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if not kwargs and mode.get_mode() is None and not mode.batch_levels.get():
            parts: list[Any] = []
            for argument in args:
                if type(argument) is not Tensor:
                    break
                parts += (argument._spec, argument._node is None)
            else:  # tensors alone, and nothing unusual is on
                for kept, defaults in self._quick.get(tuple(parts), ()):
                    if defaults == (dtypes.get_default_dtype(), choice()):
                        values = kept.enter(args)
                        if type(values) is list:
                            outcome = self._run(kept, values, args, None, whole=False)
                            if outcome is not MISSED:
                                return outcome
        if mode.recorder() is not None:  # part of another program
            return self.function(*args, **kwargs)
        now = mode.current()
        leaves, treedef = tree.flatten((args, kwargs))
        key = self._key(leaves, treedef, now)
        if key is None or mode.batch_levels.get() or (now is not None and (now.levels or now.saved or now.profiler)):
            return self._eager(leaves, treedef)
        differing = None
        for kept in self._kept.get(key, ()):
            difference = kept.enter(leaves)
            if isinstance(difference, list):
                outcome = self._run(kept, difference, leaves, treedef, whole=is_raw(leaves))
                if outcome is not MISSED:
                    return outcome
                lines = ", ".join(dict.fromkeys(c.line for c in kept.conditions))
                difference = f"a value that decides ({lines})" if lines else "whether an operation raises"
            differing = differing or difference
        if self._refused.get(key, 0) >= REFUSALS:
            return self._eager(leaves, treedef)
        with self._lock:
            return self._capture(key, leaves, treedef, differing)

    def _key(self, leaves: list[Any], treedef: tree.TreeDef, now: Any) -> Any:
        """Return what programs are found by; None where none can be kept."""
        parts: list[Any] = []
        for leaf in leaves:
            if isinstance(leaf, Tensor):
                if hasattr(leaf._spec.backend, "numbers"):
                    return None
                parts += (key_of(leaf._spec), leaf._node is not None)
            elif type(leaf) is float:
                parts.append(float)
            elif isinstance(leaf, float | complex):  # NumPy's are: repr tells -0.0 apart
                parts.append((type(leaf), repr(leaf)))
            elif type(leaf) in PLAIN:
                parts.append((type(leaf), leaf))
            else:
                owner = None if isinstance(leaf, NUMBERS) else backend_of(leaf)
                parts.append(Same(leaf) if owner is None else (key_of(owner.spec(leaf)), "raw"))
        ids = [id(leaf._raw if isinstance(leaf, Tensor) else leaf) for leaf in leaves if type(leaf) not in PLAIN]
        if len(set(ids)) < len(ids):  # one array in several places
            parts.append(tuple(ids.index(i) for i in ids))
        grad = now is None or now.grad
        inference = now is not None and now.inference
        return treedef, tuple(parts), grad, inference, dtypes.get_default_dtype(), default_backend().name

    def _eager(self, leaves: Sequence[Any], treedef: tree.TreeDef | None) -> Any:
        """Call the function as it is; without a structure, the leaves are its arguments."""
        if treedef is None:
            return self.function(*leaves)
        args, kwargs = tree.unflatten(treedef, [as_given(leaf) for leaf in leaves])
        returned = self.function(*args, **kwargs)
        return bare_all(returned) if is_raw(leaves) else returned

    # -- capture ------------------------------------------------------------------------------------------------------

    def find(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Kept | None:
        """Return the kept program for such a call, for those who run it themselves; None where there is none yet.

        Raises
        ------
        CaptureError
            If it is known that there can be none.
        """
        leaves, treedef = tree.flatten((args, kwargs))
        key = self._key(leaves, treedef, mode.current())
        for kept in self._kept.get(key, ()):
            if isinstance(kept.enter(leaves), list) and kept.is_decided(leaves):
                return kept
        if key in self._failures:
            raise CaptureError(self._failures[key])
        return None

    def record(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Kept:
        """Call the function for nothing but its program, which is kept for `find`.

        Raises
        ------
        CaptureError
            If no program can hold the call, or none that gives results of its inputs and does nothing else; or if it fails.
        """
        leaves, treedef = tree.flatten((args, kwargs))
        key = self._key(leaves, treedef, mode.current())
        with self._lock:
            try:
                _, kept, watcher = self._recorded(leaves, treedef)
            except Exception as error:  # noqa: BLE001 (it is told by who asks for the program)
                kept, reason = None, f"capture: the call raises {type(error).__name__}: {error}"
            else:
                reason = str(watcher.failure) if kept is None else kept.beside()
            if kept is None or reason:
                while len(self._failures) > KEPT:
                    self._failures.pop(next(iter(self._failures)))
                self._failures[key] = reason
                raise CaptureError(reason)
            self._kept[key] = [kept, *self._kept.get(key, ())][:BRANCHES]
            while len(self._kept) > KEPT:
                self._forget(next(iter(self._kept)))
        return kept

    def compare(self, kept: Kept, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Call the function, and check that a kept program gives the same.

        Raises
        ------
        CompileError
            If it does not.
        """
        leaves, treedef = tree.flatten((args, kwargs))
        self._compare(kept, kept.gather(leaves), leaves, treedef)

    def _recorded(self, leaves: list[Any], treedef: tree.TreeDef) -> tuple[Any, Kept | None, Watcher]:
        """Call the function; return what it returned, the program of what it did, if one can hold that, and the recorder."""
        watcher = Watcher()
        given, values = introduced(watcher, leaves)
        args, kwargs = tree.unflatten(treedef, values)
        roots = [self.function, *(leaf for leaf in leaves if not isinstance(leaf, Tensor))]
        reach = Reach(roots, is_no_state)
        state = state_of(reach)
        watcher.tellers = tellers_in(reach)
        settings = settings_of(watcher.tellers)
        first = watcher.first = next_seq()
        before = left = mode.get_mode()
        try:
            try:
                with met_code() as met:
                    mode.push(recorder=watcher)
                    watcher.frame = sys._getframe()
                    returned = self.function(*args, **kwargs)
            finally:
                left = mode.get_mode()
                mode.set_mode(before)
                watcher.is_open, watcher.frame, watcher.operands = False, None, {}
        finally:
            if mode.keep_left(left, before, watcher):
                watcher.give_up(CaptureError(MODE_LEFT))
        if not met.is_whole:
            watcher.give_up(
                CaptureError(
                    "capture: a profiler and a debugger (or coverage) are at work together, or the function starts one of them:"
                    " Python does not tell which functions run, so what they read is not known"
                )
            )
        kept = None
        if watcher.failure is None:
            arguments = Structure(treedef, tuple(given))
            call = Watched(watcher, arguments, values, returned, reach, state, settings, met, first)
            try:
                kept = kept_of(call, self._options)
            except CaptureError as error:
                watcher.give_up(error)
        returned = tree.map(as_python, returned)
        return returned, kept, watcher

    def _capture(self, key: Any, leaves: list[Any], treedef: tree.TreeDef, differing: str | None) -> Any:
        """Call the function, and keep the program of what it does."""
        returned, kept, watcher = self._recorded(leaves, treedef)
        if kept is not None:
            entry = self._kept.setdefault(key, [])
            if self._explain and entry:
                warnings.warn(f"captured again: {differing} differs", CompileWarning, stacklevel=3)
            if len(entry) >= BRANCHES:
                self._refused[key] = REFUSALS
                self._warn(
                    f"{name_of(self.function)} has {BRANCHES} programs that differ in {differing}: from now on it runs"
                    " as it is where none of them holds"
                )
            else:
                entry.insert(0, kept)
                if not treedef.children[1].children and all(type(leaf) is Tensor for leaf in leaves) and key[2]:
                    parts = tuple(part for t in leaves for part in (t._spec, t._node is None))
                    defaults = dtypes.get_default_dtype(), choice()
                    flat = all(child.kind is None for child in treedef.children[0].children)
                    if flat and kept.has_arrays_alone:
                        self._quick.setdefault(parts, []).insert(0, (kept, defaults))
                while len(self._kept) > KEPT:
                    self._forget(next(iter(self._kept)))
        elif watcher.failure is not None and not watcher.later:
            if self._fullgraph:
                reason = str(watcher.failure).removeprefix("capture: ")
                raise CompileError(f"{name_of(self.function)} is not one program: {reason}")
            while len(self._refused) > KEPT:
                self._refused.pop(next(iter(self._refused)))
            self._refused[key] = self._refused.get(key, 0) + 1
            reason = str(watcher.failure).removeprefix("capture: ")
            if self._refused[key] == 1:
                self._warn(f"{name_of(self.function)} runs as it is: {reason}")
        return bare_all(returned) if is_raw(leaves) else returned

    def _forget(self, key: Any) -> None:
        """Let go of the programs of one kind of call."""
        gone = {id(kept) for kept in self._kept.pop(key)}
        for parts, entries in list(self._quick.items()):
            left = [(kept, defaults) for kept, defaults in entries if id(kept) not in gone]
            if left:
                self._quick[parts] = left
            else:
                del self._quick[parts]

    def _warn(self, text: str) -> None:
        warnings.warn(text, CompileWarning, stacklevel=4)

    # -- replay -------------------------------------------------------------------------------------------------------

    def _run(self, kept: Kept, values: list[Any], leaves: Sequence[Any], treedef: Any, *, whole: bool) -> Any:
        """Replay a kept program on inputs; give `MISSED` where a value decides otherwise than in the capture."""
        kept.calls = calls = kept.calls + 1
        if self._check and (calls == 1 if self._check == "first" else calls & (calls + 1) == 0):
            return self._compare(kept, values, leaves, treedef)
        if kept.only_computes:
            try:
                outs = self._outputs(kept, values)
            except Exception:
                if kept.goes_on:
                    return MISSED
                raise
            return kept.returned(outs, values, leaves, whole=whole)
        before = [held.copy() for held in kept.held]
        targets = kept.writing(leaves)
        try:
            if kept.prologue:
                settings = iter(kept.settings)
                for item in kept.prologue:
                    if item[0] == "effect":
                        item[1]()
                    else:
                        at, get = next(settings)
                        values[at] = kept.setting(at, get())
            for at, number in kept.keys:
                seed, counter = kept.program.source_of(number).get_state()
                values[at] = seed, counter + 1  # what is to be given back if what follows is interrupted
                values[at] = kept.program.draw(number)
            try:
                found: Sequence[Any] | None = self._outputs(kept, values)
            except Exception:
                if not kept.goes_on:
                    raise
                found = None
            if found is None or (kept.asked and not kept.as_captured(found)):
                any(map(dict.update, kept.held, before))  # each gives None
                give_back(kept, values)
                return MISSED
            outs = found
            made: dict[int, Tensor] = {}
            returned = kept.returned(outs, values, leaves, whole=whole, made_of=made)
            for at, do in kept.afterwards:
                do(kept.backend.item(outs[at]))
            if kept.puts:  # last, in one go: a call has all of its effects, or none
                kept.write(outs, targets, made)
        except BaseException:
            if not any(target.is_written for target in targets):
                any(map(dict.update, kept.held, before))  # each gives None
                give_back(kept, values)
            raise
        return returned

    def _outputs(self, kept: Kept, values: list[Any]) -> Sequence[Any]:
        """Run the program on raw values."""
        if not kept.silent:
            return kept.run(values)
        with kept.backend.quiet():  # as a backward pass is
            return kept.run(values)

    def _compare(self, kept: Kept, values: list[Any], leaves: Sequence[Any], treedef: Any) -> Any:
        """Call the function as it is, and check that a replay gives the same."""
        targets = [at_place(link, leaves) for _, link, _ in kept.puts]
        keys: list[Any] = []
        settings: list[Any] = []
        first = next_seq()
        returned = mode.within(mode.SETTINGS, settings, noting, keys, self._eager, leaves, treedef)
        if len(keys) != len(kept.keys) or len(settings) != len(kept.settings):
            raise self._differs("how many random numbers it draws, or settings it reads")
        for (at, _), key in zip(kept.keys, keys, strict=True):
            values[at] = key
        for (at, _), value in zip(kept.settings, settings, strict=True):
            values[at] = kept.number(value)
        try:
            outs = self._outputs(kept, values)
        except Exception as error:
            if kept.goes_on:
                return returned
            raise self._differs(f"an error, {type(error).__name__}: {error}") from error
        if not kept.as_captured(outs):
            return returned  # another program's call
        if kept.hooks:
            from agrad.func.hooks import are_alike, hooks_on  # noqa: PLC0415 (only where hooks are compared)

            if not are_alike(hooks_on(graph_of(returned, first)), kept.reads):
                raise self._differs("which hooks it registers, or what they read")
        what = next(differences(kept, outs, returned, targets, exact=self._options["exact"]), None)
        if what is not None:
            raise self._differs(what)
        return returned

    def _differs(self, what: str) -> CompileError:
        return CompileError(
            f"compile: a replay of {name_of(self.function)} differs from the function in {what}. The call itself is done: its"
            " writes and draws are as without compiling.\n  The function depends on something that no program sees: Python"
            " state that changes between calls in a container or an object (a counter, a list), a number read by math.* of"
            " an argument or item(), the clock, a file. Give it as an argument, keep it in a tensor, or do not compile it"
            f"{errors.called()}"
        )


#: What a replay gives where another program is to run.
MISSED = object()

#: After so many refused captures of one kind of call, it runs as it is.
REFUSALS = 2

#: What PyTorch calls the ways of compiling. They are one here, but for "reduce-overhead" on a backend that knows it.
MODES = (None, "default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs")


class Same:
    """An argument that is no array and no plain value: found by identity, and kept alive."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def __hash__(self) -> int:
        return id(self.value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Same) and other.value is self.value


def as_python(leaf: Any) -> Any:
    """Return a number of the program's as Python has it."""
    return float(leaf) if isinstance(leaf, Live) else int(leaf) if isinstance(leaf, Whole) else leaf


@overload
def compile(
    function: F,
    *,
    check: Any = "doubling",
    explain: bool = False,
    exact: bool = False,
    threads: int | None = None,
    mode: str | None = None,
    fullgraph: bool = False,
    dynamic: bool | None = None,
    backend: str = "inductor",
    options: dict[str, Any] | None = None,
    disable: bool = False,
) -> F: ...
@overload
def compile(
    function: None = None,
    *,
    check: Any = "doubling",
    explain: bool = False,
    exact: bool = False,
    threads: int | None = None,
    mode: str | None = None,
    fullgraph: bool = False,
    dynamic: bool | None = None,
    backend: str = "inductor",
    options: dict[str, Any] | None = None,
    disable: bool = False,
) -> Callable[[F], F]: ...
def compile(
    function: Any = None,
    *,
    check: Any = "doubling",
    explain: bool = False,
    exact: bool = False,
    threads: int | None = None,
    mode: str | None = None,
    fullgraph: bool = False,
    dynamic: bool | None = None,  # noqa: ARG001 (changes nothing)
    backend: str = "inductor",
    options: dict[str, Any] | None = None,
    disable: bool = False,
) -> Any:
    """Return a function that does what `function` does, from its second call on as a captured program.

    The first call with tensors of given shapes and dtypes runs the function and notes what it does (see
    `agrad.func.capture`); later calls replay that. Gradients of the results run a captured backward pass. It means what the
    function means: random draws go on with their sequence, tensors from outside are found again at every call, writes
    (updates of parameters, `.grad`, running statistics) happen at every call, and a branch by a value is followed: each way
    is captured when it is first taken. What no program can hold (shapes that depend on values, Python code that sees
    values) runs as it is, with one `CompileWarning` that says what and where.

    Parameters
    ----------
    function : callable, optional
        Takes tensors, arrays, numbers and containers of them; without it, a decorator.
    check : {"doubling", "first", False}, optional
        Which calls are compared with the function itself: the 2nd, 4th, 8th, 16th... of each program, the 2nd, or none.
        Such a call runs the function, whose results and effects count; a replay on the same inputs that gives anything
        else is a `CompileError`.
    explain : bool, optional
        Warn whenever something is captured again, and say why.
    exact : bool, optional
        Keep the order of sums, so that a replay gives the bits of the function, and compare for that; else the last bits of
        sums over many elements may differ.
    threads : int, optional
        How many threads may work on large arrays; default: what the environment allows.
    mode : {"default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs"}, optional
        As in PyTorch: ``"reduce-overhead"`` launches the kernels of a program as one CUDA graph where it runs on CuPy and a
        graph can hold them, else with one `CompileWarning`; it keeps the memory that they work on. Elsewhere it changes
        nothing, and the others do nowhere.
    fullgraph : bool, optional
        Raise a `CompileError`, after the call, where the function would run as it is with a warning.
    dynamic, backend, options : optional
        Taken for PyTorch's sake: each kind of call has a program of its own, there is one backend, "inductor", and what
        its options set is not there.
    disable : bool, optional
        Give the function as it is.

    Returns
    -------
    callable
        The compiled function; `programs` lists what it keeps, `clear()` forgets it.

    Raises
    ------
    CompileError
        From a compared call, where a replay gives something else; with `fullgraph`, where no program can hold the call.
    ValueError
        If `check`, `mode` or `backend` is not known.
    RuntimeError
        If there are both a mode and options.

    Examples
    --------
    >>> import agrad as ag
    >>> @ag.compile
    ... def energy(x):
    ...     return ag.sum(ag.sin(x) ** 2)
    >>> x = ag.tensor([0.5, 1.0], requires_grad=True)
    >>> for _ in range(3):
    ...     x.grad = None
    ...     energy(x).backward()
    >>> x.grad
    tensor([0.8415, 0.9093])
    >>> len(energy.programs)
    1
    """
    if function is None:
        return functools.partial(
            compile,
            check=check,
            explain=explain,
            exact=exact,
            threads=threads,
            mode=mode,
            fullgraph=fullgraph,
            backend=backend,
            options=options,
            disable=disable,
        )
    if check not in ("doubling", "first", False):
        raise ValueError(f"check must be 'doubling', 'first' or False, not {check!r}")
    if mode not in MODES:
        raise ValueError(f"mode must be {', '.join(map(repr, MODES[1:-1]))} or {MODES[-1]!r}, not {mode!r}")
    if backend != "inductor":
        raise ValueError(
            f"compile has no backend {backend!r}: leave the argument out; agrad.func.capture gives the program of a"
            f" call{errors.called()}"
        )
    if mode is not None and options is not None:
        raise RuntimeError(
            f"Either mode or options can be specified, but both can't be specified at the same time.{errors.called()}"
        )
    if not callable(function):
        raise TypeError(f"compile takes a function, not {type(function).__name__}{errors.called()}")
    if disable:
        return function
    more = {"mode": mode} if mode == "reduce-overhead" else {}
    return Compiled(function, check, explain, fullgraph, exact=exact, threads=threads, **more)
