"""``compile``: a function that is captured at its first call and replayed afterwards, with unchanged semantics.

A cached program is found by the specs of all tensors, the other arguments, the modes, and its guards: the parts of
Python's state that the captured call read. A call that no program can hold runs uncompiled, with one warning.
"""

from __future__ import annotations

import functools
import operator
import sys
import types
import warnings
from collections import deque
from collections.abc import Callable, Container, Iterator, Sequence
from itertools import chain, repeat
from typing import Any, TypeVar, overload

from agrad import dtypes, tree
from agrad.compiled.building import TracedCall, build_program
from agrad.compiled.cached import CachedProgram, as_passed, rewind_generators
from agrad.compiled.capturing import CaptureResult, captured
from agrad.compiled.comparing import ReplayResults, differences, other_program
from agrad.compiled.guards import PLAIN, at_place, key_of
from agrad.compiled.lookup import ProgramLookup, following
from agrad.compiled.tracing import BlankTracer, Tracer
from agrad.core import errors, mode
from agrad.core.blank import Blank
from agrad.core.node import next_seq
from agrad.core.once import lock
from agrad.core.tensor import Tensor
from agrad.core.tree import children_of
from agrad.plugin.manager import default_backend, executor_named
from agrad.program.arguments import NUMBERS, bare_all, is_raw, name_of, owner_of
from agrad.program.capture import MODE_LEFT, graph_of, introduced
from agrad.program.closures import Reach
from agrad.program.program import Program, Stopped, Structure
from agrad.program.recording import CaptureError
from agrad.random import noting

F = TypeVar("F", bound=Callable[..., Any])

#: How many programs are kept for one function, and how many of them may differ in guards only.
MAX_PROGRAMS, MAX_BRANCHES = 64, 8


class CompileWarning(RuntimeWarning):
    """A compiled function runs uncompiled, because no program can hold what it does."""


class CompileError(RuntimeError):
    """A replay of a compiled function differs from the function, or no program can hold a call that must be one."""


class CompiledFunction:
    """A function that is captured at its first call and replayed at later ones: see `compile`.

    Attributes
    ----------
    programs : list of Program
        What is kept.
    """

    _leads_to = ("function",)  # for a compiled function that calls this one
    _transparent = "function"

    def __init__(
        self,
        function: Callable[..., Any],
        check: Any,
        explain: bool,
        fullgraph: bool = False,
        *,
        pure: bool = False,
        effects: str | None = None,
        **options: Any,
    ) -> None:
        functools.update_wrapper(self, function)
        self.function = function
        self._check = check
        self._explain = explain
        self._fullgraph = fullgraph
        self._pure = pure
        self._effects = effects
        self._options = options
        self._begin()

    def _begin(self) -> None:
        """Begin without programs."""
        self._is_left = False  # a program was found to differ: the function runs uncompiled
        self._cached: dict[Any, list[CachedProgram]] = {}
        self._refused: dict[Any, int] = {}
        self._failures: dict[Any, str] = {}
        self._quick = ProgramLookup(floats=not self._pure)
        self._lock = lock()

    def __reduce_ex__(self, protocol: Any) -> Any:
        """Return how it is copied and pickled: by name, like a function, if a module has it under that name."""
        name = getattr(self, "__qualname__", None)
        found: Any = sys.modules.get(self.__module__)
        for part in name.split(".") if name else ():
            found = getattr(found, part, None)
        return name if name and found is self else super().__reduce_ex__(protocol)

    def __getstate__(self) -> dict[str, Any]:
        """Return the parts of a copy: programs are captured anew, and the function comes with its own attributes."""
        own = ("_cached", "_refused", "_failures", "_quick", "_lock", "_is_left")
        given = getattr(self.function, "__dict__", {})
        return {name: v for name, v in vars(self).items() if name not in own and given.get(name, own) is not v}

    def __setstate__(self, state: dict[str, Any]) -> None:
        functools.update_wrapper(self, state["function"])
        vars(self).update(state)
        self._begin()

    @property
    def programs(self) -> list[Program]:
        """The programs that are kept."""
        return [cached.program for entry in list(self._cached.values()) for cached in entry]

    def clear(self) -> None:
        """Forget all programs, and release what they hold."""
        with self._lock:
            for key in list(self._cached):
                self._forget(key)
            self._quick.clear()
            self._refused.clear()
            self._failures.clear()
            self._is_left = False

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else types.MethodType(self, instance)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        found = self._quick.find(args, kwargs)
        if found:
            programs, leaves, treedef, raw = found
            for cached in programs:
                values = cached.guarded_inputs(leaves)
                if type(values) is list:
                    quick = cached.quick
                    if quick is not None and not raw:
                        run, make = quick
                        try:
                            outs = run(*values)
                        except Exception as error:
                            if run is cached.runner and not cached.may_continue:
                                cached.explain(error, values)
                                raise
                            outs = None  # it runs again below: the operations raise it themselves
                        if outs is not None:
                            return make(outs, leaves, None)
                    outcome = self._run(cached, values, leaves, args, kwargs, raw=raw)
                    if outcome is not MISSED:
                        return outcome
        if mode.recorder() is not None:  # part of another program
            return self.function(*args, **kwargs)
        now = mode.current()
        try:
            leaves, treedef = tree.flatten((args, kwargs))
        except RecursionError:  # a container holds itself
            return self.function(*args, **kwargs)
        key = None if self._is_left else self._key(leaves, treedef, now)
        if key is None or mode.batch_levels.get() or (now is not None and (now.levels or now.saved or now.profiler)):
            return self._eager(args, kwargs, leaves)
        differing = None
        programs = self._cached.get(key, [])
        for cached in programs:
            difference = cached.guarded_inputs(leaves)
            if isinstance(difference, list):
                self._quick.learn(args, kwargs, leaves, treedef, programs)
                outcome = self._run(cached, difference, leaves, args, kwargs, raw=is_raw(leaves))
                if outcome is not MISSED:
                    return outcome
                lines = ", ".join(dict.fromkeys(c.line for c in cached.conditions))
                difference = f"a value that decides ({lines})" if lines else "whether an operation raises"
            differing = differing or difference
        if self._refused.get(key, 0) >= REFUSALS:
            return self._eager(args, kwargs, leaves)
        with self._lock:
            return self._capture(key, args, kwargs, leaves, treedef, differing)

    def _key(self, leaves: list[Any], treedef: tree.TreeDef, now: Any) -> Any:
        """Return the key under which programs are kept; None if none can be kept."""
        parts: list[Any] = []
        inputs = () if self._pure else floats_in(leaves, treedef)
        for at, leaf in enumerate(leaves):
            kind = type(leaf)
            parts.append(kind)
            if isinstance(leaf, Tensor):
                if leaf._spec.backend.is_batched:
                    return None
                parts += (key_of(leaf._spec), following(leaf._node))
            elif kind is float and at in inputs:
                continue
            elif isinstance(leaf, float | complex):  # NumPy's: repr tells -0.0 from 0.0
                parts.append(repr(leaf))
            elif kind in PLAIN:
                parts.append(leaf)
            else:
                owner = None if isinstance(leaf, NUMBERS) else owner_of(leaf)
                parts.append(ByIdentity(leaf) if owner is None else key_of(owner.spec(leaf)))
        ids = [id(leaf._raw if isinstance(leaf, Tensor) else leaf) for leaf in leaves if type(leaf) not in PLAIN]
        if len(set(ids)) < len(ids):  # one array in several places, or one tensor
            own = [id(leaf) for leaf in leaves if type(leaf) not in PLAIN]
            parts += (tuple(map(ids.index, ids)), tuple(map(own.index, own)))
        grad = now is None or now.grad
        inference = now is not None and now.inference
        order = tuple(orders_in(treedef))
        return treedef, order, tuple(parts), grad, inference, dtypes.get_default_dtype(), default_backend().name

    def _eager(self, args: tuple[Any, ...], kwargs: dict[str, Any], leaves: Sequence[Any]) -> Any:
        """Call the function uncompiled, with the caller's own containers if they contain no raw array."""
        values = list(map(as_passed, leaves))
        given = passed(args, kwargs, leaves, values)
        with written_back(leaves, values, (args, kwargs), given):
            returned = self.function(*given[0], **given[1])
        return bare_all(returned) if is_raw(leaves) else returned

    # -- capture ------------------------------------------------------------------------------------------------------

    def find(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> CachedProgram | None:
        """Return the kept program for such a call, for callers that run it themselves; None if there is none yet.

        Raises
        ------
        CaptureError
            If there can be no program, as an earlier call has shown.
        """
        leaves, treedef = tree.flatten((args, kwargs))
        key = self._key(leaves, treedef, mode.current())
        for cached in self._cached.get(key, ()):
            if isinstance(cached.guarded_inputs(leaves), list):
                return cached
        if key in self._failures:
            raise CaptureError(self._failures[key])
        return None

    def record(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> CachedProgram:
        """Call the function only for its program, which is kept for `find`; tensors may have no elements.

        Raises
        ------
        CaptureError
            If no program can hold the call, if the call does more than compute results from its inputs, or if it fails.
        """
        leaves, treedef = tree.flatten((args, kwargs))
        key = self._key(leaves, treedef, mode.current())
        with self._lock:
            try:
                cached = self._program(args, kwargs, leaves, treedef)
            except CaptureError as error:
                while len(self._failures) > MAX_PROGRAMS:
                    self._failures.pop(next(iter(self._failures)))
                self._failures[key] = str(error)
                raise
            entry = self._cached.setdefault(key, [])
            entry[:] = [cached, *entry][:MAX_BRANCHES]
            while len(self._cached) > MAX_PROGRAMS:
                self._forget(next(iter(self._cached)))
        return cached

    def compare(self, cached: CachedProgram, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Call the function once more for its program, and check that it is the one that is kept.

        Raises
        ------
        CompileError
            If it differs.
        """
        leaves, treedef = tree.flatten((args, kwargs))
        with self._lock:
            try:
                what = other_program(cached, self._program(args, kwargs, leaves, treedef), leaves)
            except CaptureError as error:
                what = f"something no program can hold ({str(error).removeprefix('capture: ')})"
        if what:
            raise CompileError(
                f"compile: a program of {name_of(self.function)} differs from the function in {what}.\n  {UNSEEN}"
                f"{errors.called()}"
            )

    def _program(
        self, args: tuple[Any, ...], kwargs: dict[str, Any], leaves: list[Any], treedef: tree.TreeDef
    ) -> CachedProgram:
        """Return the program of a call that only computes results from its inputs."""
        is_blank = any(isinstance(leaf, Tensor) and isinstance(leaf._raw, Blank) for leaf in leaves)
        tracer = (BlankTracer if is_blank else Tracer)(observes_numbers=not self._pure, effects=self._effects)
        try:
            _, cached, _ = self._recorded(args, kwargs, leaves, treedef, tracer)
        except CaptureError as error:
            raise CaptureError(str(tracer.failure or error)) from None
        except Exception as error:
            raise CaptureError(f"capture: the call raises {type(error).__name__}: {error}") from error
        finally:
            if isinstance(tracer, BlankTracer):
                tracer.put_back()
        reason = str(tracer.failure) if cached is None else cached.side_effect()
        if cached is None or reason:
            raise CaptureError(reason)
        return cached

    def _recorded(
        self,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        leaves: list[Any],
        treedef: tree.TreeDef,
        tracer: Tracer | None = None,
    ) -> tuple[Any, CachedProgram | None, Tracer]:
        """Call the function; return its result, the program of the call, if one can hold it, and the recorder."""
        tracer = tracer or Tracer(observes_numbers=not self._pure, effects=self._effects)
        inputs = () if self._pure else floats_in(leaves, treedef)
        taken = [tracer.float_argument(leaf) if at in inputs else leaf for at, leaf in enumerate(leaves)]
        given, values = introduced(tracer, taken)
        first = tracer.first_node = next_seq()
        cached = None
        try:
            found = self._followed(tracer, args, kwargs, leaves, values)
            if tracer.failure is None:
                arguments = Structure(treedef, tuple(given))
                call = TracedCall(tracer, arguments, values, found, first, self.function, self._pure)
                try:
                    cached = build_program(call, self._options)
                except CaptureError as error:
                    tracer.decline(error)
        finally:
            tracer.forget_all()  # after an error, too: its traceback may live on, with the recorder in it
        return found.returned, cached, tracer

    def _followed(
        self, tracer: Tracer, args: tuple[Any, ...], kwargs: dict[str, Any], leaves: list[Any], values: list[Any]
    ) -> CaptureResult:
        """Call the function while the recorder traces it, and restore the modes."""
        positional, named = passed(args, kwargs, leaves, values)
        before = left = mode.get_mode()
        try:
            try:
                mode.push(recorder=tracer)
                with written_back(leaves, values, (args, kwargs), (positional, named)):
                    if self._pure:
                        return call_as_pure(self.function, positional, named, values)
                    return captured(tracer, self.function, positional, named, values)
            finally:
                left = mode.get_mode()
                mode.set_mode(before)
                tracer.is_open = False
        finally:
            if mode.restore_left_modes(left, before, tracer):
                tracer.decline(CaptureError(MODE_LEFT))

    def _capture(
        self,
        key: Any,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        leaves: list[Any],
        treedef: tree.TreeDef,
        differing: str | None,
    ) -> Any:
        """Call the function, and keep the program of the call."""
        returned, cached, tracer = self._recorded(args, kwargs, leaves, treedef)
        if cached is not None:
            entry = self._cached.setdefault(key, [])
            if self._explain and entry:
                warnings.warn(f"captured again: {differing} differs", CompileWarning, stacklevel=3)
            if len(entry) >= MAX_BRANCHES:
                self._refused[key] = REFUSALS
                self._warn(
                    f"{name_of(self.function)} has {MAX_BRANCHES} programs that differ in {differing}: from now on it runs"
                    " uncompiled where none of them holds"
                )
            else:
                entry.insert(0, cached)
                while len(self._cached) > MAX_PROGRAMS:
                    self._forget(next(iter(self._cached)))
        elif tracer.failure is not None and not tracer.may_retry:
            if self._fullgraph:
                reason = str(tracer.failure).removeprefix("capture: ")
                raise CompileError(f"{name_of(self.function)} is not one program: {reason}")
            while len(self._refused) > MAX_PROGRAMS:
                self._refused.pop(next(iter(self._refused)))
            self._refused[key] = self._refused.get(key, 0) + 1
            reason = str(tracer.failure).removeprefix("capture: ")
            if self._refused[key] == 1:
                self._warn(f"{name_of(self.function)} runs uncompiled: {reason}")
        return bare_all(returned) if is_raw(leaves) else returned

    def _forget(self, key: Any) -> None:
        """Release the programs of one kind of call."""
        self._cached.pop(key).clear()  # the list that the fast lookup uses

    def _warn(self, text: str) -> None:
        warnings.warn(text, CompileWarning, stacklevel=4)

    # -- replay -------------------------------------------------------------------------------------------------------

    def _run(
        self,
        cached: CachedProgram,
        values: list[Any],
        leaves: Sequence[Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        *,
        raw: bool,
    ) -> Any:
        """Replay a cached program on inputs; return `MISSED` if a value branches otherwise than in the capture."""
        cached.calls = calls = cached.calls + 1
        if self._check and (calls == 1 if self._check == "first" else calls & (calls + 1) == 0):
            return self._compare(cached, values, leaves, args, kwargs)
        if cached.only_computes:
            try:
                outs = cached.runner(*values)
            except Stopped:
                return MISSED
            except Exception as error:
                if cached.may_continue:
                    return MISSED
                cached.explain(error, values)
                raise
            maker = cached.result_maker
            if maker is None or raw:
                return cached.build_results(outs, values, leaves, raw=raw)
            if self._check != "doubling" and cached.stopping is cached.program:
                cached.quick = cached.quick_run(), maker
            return maker(outs, leaves, None)
        before = [held.copy() for held in cached.held_by_python]
        targets = cached.write_targets(leaves)
        try:
            if cached.prologue:
                settings = iter(cached.settings)
                for item in cached.prologue:
                    if item[0] == "effect":
                        item[1]()
                    else:
                        at, get = next(settings)
                        values[at] = cached.setting(at, get())
            for at, number in cached.keys:
                seed, counter = cached.program.source_of(number).get_state()
                values[at] = seed, counter + 1  # to be undone if the following is interrupted
                values[at] = cached.program.draw(number)
            try:
                outs = cached.run(values)
            except Exception as error:
                if not (cached.may_continue or isinstance(error, Stopped)):
                    raise
                any(map(dict.update, cached.held_by_python, before))  # each returns None
                rewind_generators(cached, values)
                return MISSED
            made: dict[int, Tensor] | None = {} if cached.writes_gradients else None
            returned = cached.build_results(outs, values, leaves, raw=raw, tensors=made)
            for at, do in cached.epilogue_outputs:
                do(cached.backend.item(outs[at]))
            if cached.placed_writes:  # last, in one call: a call has all of its effects, or none
                cached.write(outs, targets, made or {})
        except BaseException:
            if not any(target.is_written for target in targets):
                any(map(dict.update, cached.held_by_python, before))  # each returns None
                rewind_generators(cached, values)
            raise
        return returned

    def _compare(
        self,
        cached: CachedProgram,
        values: list[Any],
        leaves: Sequence[Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> Any:
        """Call the function uncompiled, and check that a replay gives the same result."""
        targets = [at_place(link, leaves) for _, link, _ in cached.placed_writes]
        keys: list[Any] = []
        settings: list[Any] = []
        first = next_seq()
        returned = mode.within(mode.SETTINGS, settings, noting, keys, self._eager, args, kwargs, leaves)
        # where the function branched otherwise, it drew others: the program stops there, before it takes what is missing
        for (at, _), key in zip(cached.keys, chain(keys, repeat((0, 0))), strict=False):
            values[at] = key
        for (at, _), value in zip(cached.settings, chain(settings, repeat(0.0)), strict=False):
            values[at] = cached.from_number(value)
        try:
            outs = cached.run(values)
        except Stopped:
            return returned  # another program's call
        except Exception as error:  # noqa: BLE001 (it is told)
            if not cached.may_continue:
                self._report_difference(f"an error, {type(error).__name__}: {error}", error)
            return returned
        if len(keys) != len(cached.keys) or len(settings) != len(cached.settings):
            self._report_difference("how many random numbers it draws, or settings it reads")
            return returned
        if cached.hooks:
            from agrad.compiled.purity import are_alike, hooks_on  # noqa: PLC0415 (only where hooks are compared)

            if not are_alike(hooks_on(graph_of(returned, first)), [hook for _, hook in cached.hooks]):
                self._report_difference("which hooks it registers, or what they read")
                return returned
        answers = ReplayResults(cached, values, outs)
        what = next(differences(cached, answers, leaves, returned, targets, exact=self._options["exact"]), None)
        if what is not None:
            self._report_difference(what)
        return returned

    def _report_difference(self, what: str, error: Exception | None = None) -> None:
        """Report how a replay differs from the function: by an error, or a warning, after which it runs uncompiled."""
        text = (
            f"a replay of {name_of(self.function)} differs from the function in {what}. The call has completed:"
            " its effects are those of the uncompiled function."
        )
        if self._check != "first" or self._fullgraph:
            raise CompileError(f"compile: {text}\n  {UNSEEN}{errors.called()}") from error
        with self._lock:
            self.clear()
            self._is_left = True
        warnings.warn(
            f"{text} From now on it runs uncompiled.\n  {UNSEEN}{errors.called()}", CompileWarning, stacklevel=5
        )


#: Possible reasons for a replay to differ from the function.
UNSEEN = (
    "The function depends on something that no program sees: changes by other threads or processes, a file, the clock, or"
    " for one that is compiled as pure, Python's state. Pass it as an argument, keep it in a tensor, or do not compile the function."
)

#: Returned by a replay if another program must run.
MISSED = object()

#: After this many failed captures, one kind of call runs uncompiled.
REFUSALS = 2

#: PyTorch's names of the ways to compile. They are the same here, except for "reduce-overhead" on a backend that knows
#: it.
MODES = (None, "default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs")


class ByIdentity:
    """An argument that is neither an array nor a plain value: found by identity, and kept alive."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value: Any = value

    def __hash__(self) -> int:
        return id(self.value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ByIdentity) and other.value is self.value


def floats_in(leaves: Sequence[Any], treedef: tree.TreeDef) -> Container[int]:
    """Return the positions of the floats that are arguments themselves: those in containers are part of the key."""
    if float not in map(type, leaves):
        return ()
    found, at = set[int](), 0
    for child in (*treedef.children[0].children, *treedef.children[1].children):
        if child.kind is None and type(leaves[at]) is float:
            found.add(at)
        at += child.num_leaves
    return found


def orders_in(treedef: tree.TreeDef) -> Iterator[Any]:
    """Return in which order the keys of dicts were inserted, and the factory for missing entries."""
    if treedef._order:
        yield treedef._order
    if treedef._factory is not None:
        yield ByIdentity(treedef._factory)
    for child in treedef.children:
        if child.children:
            yield from orders_in(child)


def passed(
    args: tuple[Any, ...], kwargs: dict[str, Any], leaves: Sequence[Any], values: Sequence[Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return arguments with other leaves: containers whose leaves are all unchanged are the caller's own."""
    if all(map(operator.is_, leaves, values)):
        return args, kwargs
    positional, named = tree.flatten((args, kwargs))[1].children
    at = 0

    def own(argument: Any, structure: tree.TreeDef) -> Any:
        nonlocal at
        start, at = at, at + structure.num_leaves
        if all(map(operator.is_, leaves[start:at], values[start:at])):
            return argument
        made = tree.unflatten(structure, values[start:at])
        _take_over(argument, made)
        return made

    given = tuple(map(own, args, positional.children))
    by_name = {name: own(kwargs[name], child) for name, child in zip(named.keys, named.children, strict=True)}
    return given, {name: by_name[name] for name in kwargs}


def _take_over(before: Any, made: Any) -> None:
    """Give a container that replaces the caller's its attributes that are not entries."""
    inside = children_of(before)
    if not inside:
        return
    own = getattr(made, "__dict__", None)
    if type(own) is dict:
        own.update({name: value for name, value in vars(before).items() if name not in own})
    for part, copy in zip(inside, children_of(made) or (), strict=True):
        _take_over(part, copy)


class written_back:  # noqa: N801 (a context manager, which a capture may not make by contextlib's instrumented code)
    """Copy everything that is written within the block to replacements of the caller's arrays and containers to the originals."""

    def __init__(self, leaves: Sequence[Any], values: Sequence[Any], arguments: Any, given: Any) -> None:
        pairs = zip(leaves, values, strict=True)
        self._lent = [(a, t, t._raw) for a, t in pairs if isinstance(t, Tensor) and not isinstance(a, Tensor)]
        self._copies = [*copies_in(arguments, given)] if self._lent else []

    def __enter__(self) -> None:
        pass

    def __exit__(self, *error: object) -> None:
        for array, tensor, before in self._lent:
            if tensor._raw is not before and hasattr(type(array), "__setitem__"):
                array[...] = tensor._raw
        own = {id(tensor): array for array, tensor, _ in self._lent}
        own.update((id(copy), container) for container, copy, _, _ in self._copies)
        for container, copy, items, attributes in self._copies:
            if not are_same(items, now := items_of(copy)):
                container.clear()
                cached = [(key, own.get(id(value), value)) for key, value in now]
                if isinstance(container, dict):
                    container.update(cached)
                else:
                    container.extend(value for _, value in cached)
            held = getattr(copy, "__dict__", {})
            if not are_same(attributes, [*held.items()]):
                vars(container).clear()
                vars(container).update({name: own.get(id(value), value) for name, value in held.items()})


def copies_in(before: Any, made: Any) -> Iterator[tuple[Any, Any, list[tuple[Any, Any]], list[tuple[Any, Any]]]]:
    """Return the caller's containers that have copies, with these, and with their entries and attributes."""
    if before is made or children_of(before) is None:
        return
    yield before, made, items_of(made), [*getattr(made, "__dict__", {}).items()]
    for part, copy in zip(children_of(before) or (), children_of(made) or (), strict=True):
        yield from copies_in(part, copy)


def items_of(container: Any) -> list[tuple[Any, Any]]:
    """Return the entries of a mutable container, with its keys; nothing for other objects."""
    if isinstance(container, dict):
        return [*container.items()]
    return [*enumerate(container)] if isinstance(container, list | deque) else []


def are_same(before: list[tuple[Any, Any]], now: list[tuple[Any, Any]]) -> bool:
    """Return whether the same keys hold the same objects, in the same order."""
    return len(before) == len(now) and all(
        a is b and (key is other or key == other) for (key, a), (other, b) in zip(before, now, strict=True)
    )


def call_as_pure(
    function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], leaves: Sequence[Any]
) -> CaptureResult:
    """Call a function and look only at its tensors: everything else it reads is taken to be constant."""
    returned = function(*args, **kwargs)
    roots = [function, *(leaf for leaf in leaves if not isinstance(leaf, Tensor))]
    return CaptureResult(returned, Reach(roots), [], set(), {}, {})


@overload
def compile(
    function: F,
    *,
    check: Any = "first",
    explain: bool = False,
    exact: bool = False,
    threads: int | None = None,
    executor: Any = None,
    mode: str | None = None,
    fullgraph: bool = False,
    pure: bool = False,
    effects: str | None = None,
    dynamic: bool | None = None,
    backend: str = "inductor",
    options: dict[str, Any] | None = None,
    disable: bool = False,
) -> F: ...
@overload
def compile(
    function: None = None,
    *,
    check: Any = "first",
    explain: bool = False,
    exact: bool = False,
    threads: int | None = None,
    executor: Any = None,
    mode: str | None = None,
    fullgraph: bool = False,
    pure: bool = False,
    effects: str | None = None,
    dynamic: bool | None = None,
    backend: str = "inductor",
    options: dict[str, Any] | None = None,
    disable: bool = False,
) -> Callable[[F], F]: ...
def compile(
    function: Any = None,
    *,
    check: Any = "first",
    explain: bool = False,
    exact: bool = False,
    threads: int | None = None,
    executor: Any = None,
    mode: str | None = None,
    fullgraph: bool = False,
    pure: bool = False,
    effects: str | None = None,
    dynamic: bool | None = None,  # noqa: ARG001 (changes nothing)
    backend: str = "inductor",
    options: dict[str, Any] | None = None,
    disable: bool = False,
) -> Any:
    """Return a function equivalent to `function` that runs a captured program from its second call on.

    The first call with tensors of given shapes and dtypes runs the function and records what it does (see
    `agrad.func.capture`); later calls replay that. Gradients of the results run a captured backward pass. The semantics
    are those of the
    function: random draws continue their sequence, outer tensors are looked up at every call, writes (updates of
    parameters, `.grad`, running statistics) happen at every call, and branches on values are followed: each path is
    captured when it is first taken. Anything that no program can hold (shapes that depend on values, Python code that
    sees values) runs uncompiled, with one `CompileWarning` that says what and where.

    Parameters
    ----------
    function : callable, optional
        Takes tensors, arrays, numbers and containers of them; without it, a decorator.
    check : {"first", "doubling", False}, optional
        Which calls are compared with the function itself: the 2nd of each program, the 2nd, 4th, 8th, 16th..., or none.
        A compared call runs the function, whose results and effects count. If a replay on the same inputs differs by
        more than rounding (by more than ten times the change that one unit in the last place of its inputs causes),
        ``"first"`` warns once with a `CompileWarning`, and the function runs uncompiled from then on; ``"doubling"`` is
        for tests, and raises a `CompileError`.
    explain : bool, optional
        Warn whenever something is captured again, and say why.
    exact : bool, optional
        Keep the order of sums, so that a replay gives the same bits as the function, and compare bit for bit; otherwise
        the last bits of sums over many elements may differ.
    threads : int, optional
        How many threads may work on large arrays. Default: as many as the environment allows.
    executor : str or Executor, optional
        Runs the programs, and those of their gradients: the name of an installed executor (``python -m agrad`` lists
        them), or an executor object. Programs that it cannot run, run without it. Default: the backend itself.
    mode : {"default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs"}, optional
        As in PyTorch: ``"reduce-overhead"`` launches the kernels of a program as one CUDA graph if it runs on CuPy and
        a graph can hold them, and otherwise emits one `CompileWarning`; it keeps the memory that they work on. Other
        backends ignore it; the other modes have no effect.
    fullgraph : bool, optional
        Raise a `CompileError`, after the call, if the function would run uncompiled with a warning.
    pure : bool, optional
        Declare that the function depends only on arguments and tensors, and only computes results and writes to
        tensors:
        everything else that it reads is constant from the capture on, floats among the arguments select the program,
        and Python's actions are not observed. For functions whose Python code cannot be read (compiled or generated
        code, other libraries), and the fastest to call; the 2nd call is always compared.
    effects : {"first"}, optional
        With ``"first"``, output (print, loggers) does not prevent compiling: it is written when the function itself
        runs, at captures and compared calls, and at no other call.
    dynamic, backend, options : optional
        Accepted for PyTorch compatibility: each kind of call has a program of its own, there is one backend,
        "inductor", and options are ignored.
    disable : bool, optional
        Return the function unchanged.

    Returns
    -------
    callable
        The compiled function; `programs` lists its programs, `clear()` forgets them. If no argument is a tensor, and one is an
        array or a number, its results are arrays.

    Raises
    ------
    BackendError
        If there is no executor of that name, or it does not work here.
    CompileError
        From a compared call, if a replay differs and `check` is ``"doubling"``; with `fullgraph` also with other values
        of `check`, and if no program can hold the call.
    ValueError
        If `check`, `effects`, `mode` or `backend` is unknown.
    RuntimeError
        If both a mode and options are passed.

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
            executor=executor,
            mode=mode,
            fullgraph=fullgraph,
            pure=pure,
            effects=effects,
            backend=backend,
            options=options,
            disable=disable,
        )
    if check not in ("doubling", "first", False):
        raise ValueError(f"check must be 'first', 'doubling' or False, not {check!r}")
    if pure and not check:
        check = "first"
    if effects not in (None, "first"):
        raise ValueError(f"effects must be 'first' or None, not {effects!r}")
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
    more: dict[str, Any] = {"mode": mode} if mode == "reduce-overhead" else {}
    if executor is not None:
        executor_named(executor)
        more["executor"] = executor
    check = check or "first" if pure else check
    return CompiledFunction(
        function, check, explain, fullgraph, pure=pure, effects=effects, exact=exact, threads=threads, **more
    )
