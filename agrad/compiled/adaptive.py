"""Functions that a solver calls often: run unchanged at first, then as programs."""

from __future__ import annotations

import ctypes
import types
from collections.abc import Callable
from dataclasses import replace
from typing import Any, ClassVar, Self

from agrad import tree
from agrad.compiled.cached import CachedProgram
from agrad.compiled.comparing import equal_in_bits
from agrad.compiled.compiling import MAX_BRANCHES, CompiledFunction
from agrad.core import mode
from agrad.core.tensor import Tensor
from agrad.ops.creation import asarray
from agrad.plugin.manager import chosen_executor
from agrad.program.c_functions import CFunction, CFunctionError
from agrad.program.executing import NATIVE, may_choose_native
from agrad.program.program import Leaf, Number, Stopped
from agrad.program.recording import CaptureError

#: The number of calls before the one that is captured; capturing costs as much as about a hundred calls.
CALLS_BEFORE_CAPTURE = 100

#: The number of calls with plain arrays, which are quicker, before a capture during a solver's run.
CALLS_BEFORE_CAPTURE_IN_A_RUN = 1000

#: The number of calls of an integrand, or of a right side, before it is compiled to machine code: compiling takes less
#: time than these calls took.
CALLS_BEFORE_C = 5000

#: The number of replays on plain arrays that are compared with the function.
COMPARED_REPLAYS = 5


class AdaptiveFunction(CompiledFunction):
    """A function that is called often, with tensors of the same shapes, none of which is differentiated.

    The executor chosen by `use_executor` where it is created runs its programs; without one, from a certain number of
    calls on, they run as machine
    code where agrad may choose that: with the same bits as the function.

    Unlike `compile` it is silent: where no program can hold the function's behaviour (it draws, writes or changes
    Python's state), or the first replay gives another result, it keeps calling the function.
    """

    def __init__(self, function: Any) -> None:
        self._chosen = chosen_executor()
        super().__init__(function, check=False, explain=False, exact=True, threads=1, executor=self._chosen)
        self._before, self._left = CALLS_BEFORE_CAPTURE, CALLS_BEFORE_C
        self._is_open = True
        self._cached_programs: list[CachedProgram] = []

    def __call__(self, *tensors: Tensor) -> Any:
        """Call the function."""
        self._left -= 1
        if not self._left and self._chosen is None and may_choose_native():
            self._options = {**self._options, "executor": NATIVE}
            self._cached_programs = [
                replace(cached, options=self._options, calls=0) for cached in self._cached_programs
            ]
        for cached in self._cached_programs:
            values = cached.guarded_inputs(tensors)
            if type(values) is list:
                if not cached.calls:
                    return self._compared(cached, values, tensors)
                try:
                    outs = cached.run(values)
                except Stopped:
                    continue
                except Exception:
                    if not cached.may_continue:
                        raise
                    return self.function(*tensors)
                return cached.build_results(outs, values, tensors, raw=False)
        self._before -= 1
        if self._before >= 0 or not self._is_open or not _is_usual():
            return self.function(*tensors)
        returned, new, _ = self._recorded(tensors, {}, *tree.flatten((tensors, {})))
        if (
            new is None
            or new.keys
            or new.placed_writes
            or new.prologue
            or new.epilogue
            or len(self._cached_programs) == MAX_BRANCHES
        ):
            self._decline()
        else:
            self._cached_programs.insert(0, new)
        return returned

    def _compared(self, cached: CachedProgram, values: list[Any], tensors: tuple[Tensor, ...]) -> Any:
        """Call the function, and keep its program only if that gives the same result."""
        cached.calls = 1
        found = self.function(*tensors)
        try:
            outs = cached.run(values)
        except Stopped:
            return found
        except Exception:  # noqa: BLE001 (the function gave something)
            self._decline()
            return found
        replayed = cached.build_results(outs, values, tensors, raw=False)
        pairs = zip(tree.flatten(found)[0], tree.flatten(replayed)[0], strict=True)
        if not all(equal_in_bits(cached.backend, *(asarray(x)._raw for x in pair)) for pair in pairs):
            self._decline()
        return found

    def _decline(self) -> None:
        self._cached_programs, self._is_open = [], False


def _is_usual() -> bool:
    """Return whether nothing observes the single operations."""
    now = mode.current()
    return (now is None or (now.simple_in is not None and now.anomaly is None)) and not mode.batch_levels.get()


class _FunctionRecord:
    """The data about a function that is called often: stored among the attributes of the function, so it lives as long."""

    _leads_to = ()  # none of this is state of the function
    #: The attribute that stores it.
    _kept_as: ClassVar[str]

    def __init__(self, function: types.FunctionType) -> None:
        self.function = function

    @classmethod
    def of(cls, function: Any) -> Self | None:
        """Return the data about a function; None if the function cannot have attributes."""
        if not isinstance(function, types.FunctionType):
            return None
        known: Self | None = vars(function).get(cls._kept_as)
        if known is None or known.function is not function:  # functools.wraps copies attributes
            known = vars(function)[cls._kept_as] = cls(function)
        return known


class AdaptivePlainFunction(_FunctionRecord):
    """A function of plain arrays that solvers call often, with its data from one run of a solver to the next."""

    _kept_as = "_adaptive_plain"

    def __init__(self, function: types.FunctionType) -> None:
        super().__init__(function)
        self._calls, self._compared, self._is_open = 0, 0, True
        self._programs = CompiledFunction(function, check=False, explain=False, exact=True, threads=1)

    def during(self, plain: Callable[[float, Any], Any], args: tuple[Any, ...], place: int) -> Callable[..., Any]:
        """Return the function for a solver to call in one run, during which only the function itself changes what it reads.

        Parameters
        ----------
        plain : callable
            ``plain(t, y)``: the array that the function returns.
        args : tuple
            The function's arguments, the state and the time at the start among them.
        place : int
            Of the state among these; the time is the other one of the first two.
        """
        if not self._is_open:
            return plain
        quick: Callable[[float, Any], Any] | None = None
        program: Callable[[float, Any], Any] | None = None
        left = 0 if self._calls >= CALLS_BEFORE_CAPTURE else CALLS_BEFORE_CAPTURE_IN_A_RUN

        def called(t: float, y: Any) -> Any:
            nonlocal quick, program, left
            self._calls += 1
            left -= 1
            if left == -1 or (self._calls == CALLS_BEFORE_C and program is not None):
                program, quick = self._program(args, place), None
            if quick is not None:
                return quick(t, y)
            if program is None:
                return plain(t, y)
            if self._compared >= COMPARED_REPLAYS:
                quick = program
                return program(t, y)
            found, wanted = program(t, y), plain(t, y)
            self._compared += 1
            if not equal_in_bits(self._backend, self._backend.as_array(wanted), found):
                self._is_open, program = False, None
            return wanted

        return called

    def _program(self, args: tuple[Any, ...], place: int) -> Callable[[float, Any], Any] | None:
        """Return a program of the function's result; None if the function does more than compute one array from its arguments."""
        if not _is_usual():
            return None
        try:
            cached = self._programs.find(args, {})
            if cached is None or self._calls == CALLS_BEFORE_C:
                self._compared = 0
            cached = cached or self._programs.record(args, {})
        except CaptureError:
            cached = None
        if (
            cached is None
            or cached.keys
            or not cached.returns_one
            or type(cached.leaves[0][0]) is not Leaf
            or cached.backward is not None
        ):
            self._is_open = False
            return None
        values, at = cached.gather(tree.flatten((args, {}))[0]), cached.leaves[0][1]
        executor = chosen_executor() or (NATIVE if self._calls >= CALLS_BEFORE_C and may_choose_native() else None)
        run, array = (
            cached.program.runner(cached.backend, executor=executor, exact=True, threads=1),
            cached.backend.asarray,
        )
        places = {leaf: number for number, leaf in cached.from_arguments}
        state, moment = places[place], places[1 - place]
        used = {number for step in cached.program.steps for number in step.refs}
        has_time = cached.program.inputs[moment] in used
        self._backend = cached.backend

        def program(t: float, y: Any) -> Any:
            values[state] = y
            if has_time:
                values[moment] = array(t)
            return run(*values)[at]

        return program


class AdaptiveCFunction(_FunctionRecord):
    """A function of numbers that SciPy's integrators call often: from a certain number of calls on, a C function with the same bits.

    Attributes
    ----------
    calls : int
        How often it has been called.
    """

    _kept_as = "_adaptive_in_c"

    def __init__(self, function: types.FunctionType) -> None:
        super().__init__(function)
        self.calls: int = 0
        self._is_open: bool = True
        self._programs = CompiledFunction(function, check=False, explain=False, exact=True, threads=1)
        self._cached: list[list[Any]] = []  # programs, each with its C function and the key it is found by

    def taken(
        self, number: Callable[..., float], place: tuple[Any, ...], args: tuple[Any, ...]
    ) -> tuple[Any, tuple[float, ...]]:
        """Return the function for a SciPy integrator to call in one run, and the numbers for it to pass after its own.

        Parameters
        ----------
        number : callable
            The function's result for numbers, as a float.
        place : tuple
            The function's own first arguments, numbers or tensors of them; both functions are first compared near
            these.
        args : tuple
            Its further arguments.
        """
        captures = self.calls >= CALLS_BEFORE_C and self._is_open and _is_usual() and may_choose_native()
        if captures:
            found = self._in_c(number, place, args)
            if found is not None:
                return found
            captures = self._is_open

        def counted(*xs: float) -> float:
            nonlocal captures
            self.calls += 1
            if not captures:
                return number(*xs)
            captures = False
            like = [tensor_like(x, one) if isinstance(one, Tensor) else x for x, one in zip(xs, place, strict=True)]
            return self._captured((*like, *args), lambda: number(*xs))

        return counted, ()

    def _captured(self, args: tuple[Any, ...], number: Callable[[], float]) -> float:
        """Call the function, and keep its program."""
        leaves, treedef = tree.flatten((args, {}))
        key = self._programs._key(leaves, treedef, mode.current())
        returned, new, _ = self._programs._recorded(args, {}, leaves, treedef)
        if new is None or len(self._cached) == MAX_BRANCHES:
            self._is_open = False
        else:
            self._cached.insert(0, [new, None, key])
        return number() if isinstance(returned, Tensor) and returned._is_followed() else float(returned)

    def _in_c(
        self, number: Callable[..., float], place: tuple[Any, ...], args: tuple[Any, ...]
    ) -> tuple[Any, tuple[float, ...]] | None:
        """Return the C function, and the further numbers that it takes; None if there is no program for such a call."""
        leaves, treedef = tree.flatten(((*place, *args), {}))
        key = self._programs._key(leaves, treedef, mode.current())
        for row in self._cached:
            cached, made, known = row
            values = cached.guarded_inputs(leaves) if known == key else None
            if type(values) is not list:
                continue
            first = _taking(cached, len(place))
            if first is None:
                break
            rest = [at for at in range(len(values)) if at not in first]
            hosts = [cached.backend.to_host(cached.backend.as_array(values[at])) for at in rest]
            numbers = tuple(float(x) for host in hosts for x in host.reshape(-1).tolist())
            if made is None:
                made = _made(cached, (*first, *rest))
                if made is None or not _gives_the_same(made, number, place, numbers):
                    break
                row[1] = made
            return made.low_level_callable, numbers
        else:
            return None
        self._is_open = False
        return None


def tensor_like(number: float, like: Tensor) -> Tensor:
    """Return a number as a tensor of the dtype and on the device of another one."""
    return asarray(number, dtype=like.dtype, device=like.device)


def _gives_the_same(
    made: CFunction, number: Callable[..., float], place: tuple[Any, ...], numbers: tuple[float, ...]
) -> bool:
    """Return whether two C functions give the same results at some points."""
    for factor in (1.0, 0.9375, 1.0625):
        xs = [factor * float(x) for x in place]
        inputs = (*xs, *numbers)
        if made.ctypes(len(inputs), (ctypes.c_double * len(inputs))(*inputs)) != number(*xs):
            return False
    return True


def _made(cached: CachedProgram, places: tuple[int, ...]) -> CFunction | None:
    """Return the C function of a program, with its inputs in another order."""
    program = cached.program
    inputs = tuple(program.inputs[at] for at in places)
    program = program.replaced(inputs=inputs, outputs=(program.outputs[cached.leaves[0][1]],), outside={})
    try:
        found: CFunction = program.cfunc(exact=True)
    except CFunctionError:
        return None
    return found


def _taking(cached: CachedProgram, count: int) -> list[int] | None:
    """Return the positions, among a program's inputs, of its first arguments, numbers; None if it does more than compute one of them."""
    program, backend = cached.program, cached.backend
    fails = any(step.op.startswith("linalg.") for step in program.steps)
    alone = cached.only_computes and not cached.conditions and not cached.settings and cached.backward is None
    if (
        fails
        or not alone
        or not cached.returns_one
        or backend.name != "numpy"
        or type(cached.leaves[0][0]) not in (Leaf, Number)
    ):
        return None
    place = {number: at for at, number in enumerate(program.inputs)}
    by_leaf = {at: number for number, at in cached.from_arguments} | {at: place[n] for n, at in cached.floats.items()}
    return [by_leaf[at] for at in range(count)] if all(at in by_leaf for at in range(count)) else None
