"""Functions that a solver calls often: as they are at first, then as programs."""

from __future__ import annotations

import time
import types
from collections.abc import Callable
from typing import Any

from agrad import tree
from agrad.compiled.cached import Kept
from agrad.compiled.comparing import equal_in_bits
from agrad.compiled.compiling import BRANCHES, Compiled
from agrad.core import mode
from agrad.core.tensor import Tensor
from agrad.ops.creation import asarray
from agrad.program.program import Leaf, Stopped
from agrad.program.recording import CaptureError

#: How many calls go before the one that is captured, which costs as much as about a hundred of them.
BEFORE = 100

#: How many calls with plain arrays, which are quicker, go before a capture in the midst of a solver's run.
BEFORE_WITHIN = 1000

#: How many replays on plain arrays are compared with the function; the last of them also by the time they take.
COMPARED = 5


class Often(Compiled):
    """A function that is called often, with tensors of the same shapes, none of which is differentiated.

    Other than `compile` it says nothing where no program can hold what the function does, but goes on as it is: where that
    draws, writes or changes Python's state, and where the first replay gives something else.
    """

    def __init__(self, function: Any) -> None:
        super().__init__(function, check=False, explain=False, exact=True, threads=1)
        self._before = BEFORE
        self._is_open = True
        self._ways: list[Kept] = []

    def __call__(self, *tensors: Tensor) -> Any:
        """Call the function."""
        for kept in self._ways:
            values = kept.enter(tensors)
            if type(values) is list:
                if not kept.calls:
                    return self._compared(kept, values, tensors)
                try:
                    outs = self._outputs(kept, values)
                except Stopped:
                    continue
                except Exception:
                    if not kept.goes_on:
                        raise
                    return self.function(*tensors)
                return kept.returned(outs, values, tensors, whole=False)
        self._before -= 1
        if self._before >= 0 or not self._is_open or not _is_usual():
            return self.function(*tensors)
        returned, new, _ = self._recorded(tensors, {}, *tree.flatten((tensors, {})))
        if new is None or new.keys or new.puts or new.prologue or new.epilogue or len(self._ways) == BRANCHES:
            self._give_up()
        else:
            self._ways.insert(0, new)
        return returned

    def _compared(self, kept: Kept, values: list[Any], tensors: tuple[Tensor, ...]) -> Any:
        """Call the function, and keep its program only if that gives the same."""
        kept.calls = 1
        found = self.function(*tensors)
        try:
            outs = self._outputs(kept, values)
        except Stopped:
            return found
        except Exception:  # noqa: BLE001 (the function gave something)
            self._give_up()
            return found
        replayed = kept.returned(outs, values, tensors, whole=False)
        pairs = zip(tree.flatten(found)[0], tree.flatten(replayed)[0], strict=True)
        if not all(equal_in_bits(kept.backend, *(asarray(x)._raw for x in pair)) for pair in pairs):
            self._give_up()
        return found

    def _give_up(self) -> None:
        self._ways, self._is_open = [], False


def _is_usual() -> bool:
    """Return whether nothing wants to know of the single operations."""
    now = mode.current()
    return (now is None or (now.simple_in is not None and now.anomaly is None)) and not mode.batch_levels.get()


class OftenPlain:
    """A function of plain arrays that solvers call often, with what is known of it from one run of a solver to the next.

    It is kept among the attributes of the function, and so as long as that.
    """

    _leads_to = ()  # nothing of this is state of the function

    def __init__(self, function: types.FunctionType) -> None:
        self.function = function
        self._calls, self._compared, self._is_open = 0, 0, True
        self._programs = Compiled(function, check=False, explain=False, exact=True, threads=1)

    @classmethod
    def of(cls, function: Any) -> OftenPlain | None:
        """Return what is known of a function; None for what has no attributes of its own to keep it in."""
        if not isinstance(function, types.FunctionType):
            return None
        known = vars(function).get("_often_plain")
        if known is None or known.function is not function:  # functools.wraps copies attributes
            known = vars(function)["_often_plain"] = cls(function)
        return known

    def during(self, plain: Callable[[float, Any], Any], args: tuple[Any, ...], place: int) -> Callable[..., Any]:
        """Return what a solver is to call in one run, in which nothing but the function changes what the function reads.

        Parameters
        ----------
        plain : callable
            ``plain(t, y)``: the array that the function gives.
        args : tuple
            The function's arguments, the state and the time at the start among them.
        place : int
            Of the state among these; the time is the other one of the first two.
        """
        if not self._is_open:
            return plain
        quick: Callable[[float, Any], Any] | None = None
        program: Callable[[float, Any], Any] | None = None
        left = 0 if self._calls >= BEFORE else BEFORE_WITHIN

        def called(t: float, y: Any) -> Any:
            nonlocal quick, program, left
            if quick is not None:
                return quick(t, y)
            self._calls += 1
            left -= 1
            if left == -1:
                program = self._program(args, place)
            if program is None:
                return plain(t, y)
            if self._compared >= COMPARED:
                quick = program
                return program(t, y)
            start = time.perf_counter()
            found = program(t, y)
            between = time.perf_counter()
            wanted = plain(t, y)
            self._compared += 1
            is_slower = self._compared == COMPARED and between - start > time.perf_counter() - between
            if is_slower or not equal_in_bits(self._backend, self._backend.as_array(wanted), found):
                self._is_open, program = False, None
            return wanted

        return called

    def _program(self, args: tuple[Any, ...], place: int) -> Callable[[float, Any], Any] | None:
        """Return a program of what the function gives; None where it does more than compute one array of its arguments."""
        if not _is_usual():
            return None
        try:
            kept = self._programs.find(args, {})
            if kept is None:
                kept, self._compared = self._programs.record(args, {}), 0
        except CaptureError:
            kept = None
        if (
            kept is None
            or kept.keys
            or not kept.one
            or type(kept.leaves[0][0]) is not Leaf
            or kept.backward is not None
        ):
            self._is_open = False
            return None
        values, at = kept.gather(tree.flatten((args, {}))[0]), kept.leaves[0][1]
        run, array = kept.program.runner(kept.backend, exact=True, threads=1), kept.backend.asarray
        places = {leaf: number for number, leaf in kept.from_arguments}
        state, moment = places[place], places[1 - place]
        used = {number for step in kept.program.steps for number in step.refs}
        has_time = kept.program.inputs[moment] in used
        self._backend = kept.backend

        def program(t: float, y: Any) -> Any:
            values[state] = y
            if has_time:
                values[moment] = array(t)
            return run(*values)[at]

        return program
