"""The capture of one call: it runs the instrumented function, and returns its result, and what the result depends on.

A net (`net`) detects code that runs without instrumentation: then the capture is abandoned.
"""

from __future__ import annotations

import _weakrefset
import enum
import sys
import types
import weakref
from collections.abc import Callable, Container, Iterator, Sequence
from typing import Any, NamedTuple

from agrad.compiled.calling import Tracker, is_generated
from agrad.compiled.effects import add_imported
from agrad.compiled.guards import PLAIN, Link, SameFacts, facts_of, is_array, is_plain, links_along
from agrad.compiled.instrumentation import CURRENT, FILES, own_files
from agrad.compiled.rewriting import instrumented, is_instrumented
from agrad.compiled.tracing import Tracer
from agrad.compiled.tracking import (
    ARGUMENT,
    CONTAINERS,
    FRESH,
    MUTABLE,
    Tracked,
    may_be_kernel,
    whose,
)
from agrad.core import errors
from agrad.core.cpython import report_calls, uncollected
from agrad.core.tensor import Tensor
from agrad.core.tree import children_of
from agrad.plugin import manager
from agrad.program.closures import Found, Reach
from agrad.program.recording import CaptureError, Recorded, RecordingBackend


class OutsideReads:
    """The values that a call has found outside, in the order of reading: the counterpart of `Reach`, which only inspects the function."""

    def __init__(self, order: Sequence[Found]) -> None:
        self._order = list(order)

    def __iter__(self) -> Iterator[Found]:
        return iter(self._order)

    def looked_at(self) -> Iterator[Found]:
        """Return the values found."""
        return iter(self._order)


class CaptureResult(NamedTuple):
    """The record of a captured call.

    Attributes
    ----------
    returned : object
        What the function returned.
    seen : OutsideReads or Reach
        The values it found outside of its arguments.
    conditions : list of Link
        The places that must be unchanged.
    codes : set of code
        The code of the functions that ran.
    facts_used : dict of int to Found
        The outer tensors and arrays whose properties it used, by ``id``.
    identity_used : dict of int to Found
        Those whose identity it used.
    distinct : list of (object, Found)
        Arguments, and outer tensors that they were compared with and differ from.
    optimizer_state : container of int
        The ``id`` of the paths to tensors in the state of an optimiser, whose properties no condition checks.
    """

    returned: Any
    seen: OutsideReads | Reach
    conditions: list[Link]
    codes: set[types.CodeType]
    facts_used: dict[int, Found]
    identity_used: dict[int, Found]
    distinct: Sequence[tuple[Any, Found]] = ()
    optimizer_state: Container[int] = ()

    def guard_the_rest(self, taken: Container[int]) -> Iterator[Link]:
        """Return the conditions on outer tensors and arrays.

        Parameters
        ----------
        taken : container of int
            The ``id`` of those that are inputs of the program, which compares their specs itself.
        """
        done: set[Any] = set()
        for found in self.seen:
            value = found.value
            if found.before is None or not (isinstance(value, Tensor) or is_array(value)):
                continue
            if found.step == ("attribute", "grad") or id(found) in self.optimizer_state:
                continue
            has_facts, same = id(value) in self.facts_used, id(value) in self.identity_used
            if id(value) in taken and not has_facts and not same:
                continue
            place = id(found.before.value), found.step
            if str(place) in done:
                continue
            done.add(str(place))
            *way, last = links_along(found.origin)
            yield from way
            if same:
                yield last
            if has_facts or not (same and id(value) in taken):  # the same tensor may have other data
                yield Link(SameFacts(last.get, facts_of(value)), last.key, True, f"what {last.name} is")


def captured(
    tracer: Tracer, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], leaves: Sequence[Any]
) -> CaptureResult:
    """Call a function, instrumented, and return its result, and what the result depends on.

    Parameters
    ----------
    tracer : Tracer
        Records the call, and is told if no program can hold it.
    function : callable
        The function.
    args, kwargs : tuple and dict
        Its arguments.
    leaves : sequence
        The leaves of these.
    """
    tracker = Tracker(tracer)
    met: dict[int, types.CodeType] = {}
    before = CURRENT.tracker
    add_imported()  # while Python reports nothing: earlier than in the call
    put_back = net(tracker, met)
    with uncollected():  # code that runs when an object is released is not the function's
        try:
            try:
                introduce(tracker, function, args, kwargs, leaves)
                CURRENT.tracker = tracker
                returned = tracker.call(function, args, kwargs)
            finally:
                CURRENT.tracker = before
                if not put_back():
                    tracer.decline(CaptureError(f"capture: {PROFILED}"))
            if tracer.failure is None:
                _close(tracker, returned)
        finally:
            order, links = tracker.order, [*tracker.links.values()]
            facts_used, identity_used, distinct = tracker.facts_used, tracker.identity_used, tracker.distinct
            optimizer_state = tracker.optimizer_state
            tracker.restore()
    seen, codes = OutsideReads(order), set(met.values())
    return CaptureResult(returned, seen, links, codes, facts_used, identity_used, distinct, optimizer_state)


#: Why there is no program if Python does not report which functions run.
PROFILED = (
    "a profiler and a debugger (or coverage) are active together, or the function starts one of them: Python does not tell"
    " which functions run, so it is unknown what they read"
)


def introduce(tracker: Tracker, function: Any, args: Any, kwargs: Any, leaves: Sequence[Any]) -> None:
    """Tell a tracker about the function and its arguments."""
    tracker.fresh(args)
    tracker.fresh(kwargs)
    pending = [*args, *kwargs.values()]
    ids = {id(leaf): leaf for leaf in leaves}
    while pending:
        value = pending.pop()
        if type(value) in PLAIN:
            continue
        if isinstance(value, Tensor):
            tracker.arguments[id(value)] = value
            tracker.see_hooks(value, Found(value))
        elif id(value) in ids:
            tracker.root(value)
            tracker.ensure(value)
        elif id(value) not in tracker.known:
            tracker.known[id(value)] = Tracked(value, ARGUMENT)
            tracker.ensure(value)
            pending += children_of(value) or ()
    tracker.root(function)
    tracker.ensure(function)


def _close(tracker: Tracker, returned: Any) -> None:
    """Give up if the call has changed something, or returned something that no program could."""
    if tracker.raised is not None:
        tracker.decline(f"the function goes on after an error, {type(tracker.raised).__name__}")
    tracker.check_unchanged()
    for table, name in tracker.filled_tables:
        tracker.require(len, table, len(table), name, ("len", id(table)))
    pending, given = [returned], set[int]()
    while pending:
        value = pending.pop()
        kind = type(value)
        if isinstance(value, MUTABLE):
            if id(value) in given:
                tracker.decline(f"it returns one {kind.__name__} in two places")
                return
            given.add(id(value))
        if id(value) in tracker.tagged:
            tracker.decline("it returns a tensor with an added attribute")
            return
        if kind in PLAIN or isinstance(value, Tensor) or is_array(value):
            continue
        inside = children_of(value)
        if inside is None:
            if is_output(tracker, value):
                continue
            tracker.decline(f"it returns {'a new' if tracker.at(value).status == FRESH else 'a'} {kind.__name__}")
            return
        if isinstance(value, CONTAINERS) and tracker.is_outside(value) and not is_plain(value):
            tracker.decline(f"it returns {tracker.called(value)}, a container from outside")
            return
        pending += inside
    _end_generators(tracker)


def _end_generators(tracker: Tracker) -> None:
    """End the generators that an object created by the call holds: they go with it, and may run code then."""
    left = [made for made in (reference() for reference in tracker.created_generators) if made is not None]
    if not left or tracker.tracer.failure is not None:
        return
    before, CURRENT.tracker = CURRENT.tracker, tracker
    try:
        for made in left:
            made.close()
    finally:
        CURRENT.tracker = before
    tracker.check_unchanged()


def is_output(tracker: Tracker, value: Any) -> bool:
    """Return whether an object that is neither a number nor an array can be the result of a program: an outer object."""
    if (
        isinstance(value, type | types.ModuleType | enum.Enum)
        or is_plain(value)
        or type(value).__module__.startswith("numpy.dtypes")
    ):
        return True
    tracked = tracker.at(value)
    if isinstance(value, int | float | complex):  # a number of an array library
        return tracked.status != ARGUMENT
    return tracked.status != FRESH or errors.PACKAGE in str(
        sys.modules[type(value).__module__].__dict__.get("__file__")
    )


def net(tracker: Tracker, met: dict[int, types.CodeType]) -> Callable[[], bool]:
    """Make Python report each function that runs, until the returned function is called; give up on one that is not instrumented.

    The returned function says whether none was missed. Code that ran is put into `met`, by its id, because the hash of
    code covers everything it holds.
    """
    known: dict[int, bool] = {}  # by id of code that may run: whether it is instrumented

    def note(frame: types.FrameType) -> None:
        has_hooks = known.get(id(frame.f_code))
        if has_hooks is None:
            has_hooks = _met(tracker, frame, met, known)
        if has_hooks and tracker.native == "agrad" and CURRENT.tracker is tracker:
            _hand_over(tracker, frame)

    return report_calls(note) or (lambda: False)


def _is_agrads(frame: types.FrameType | None) -> bool:
    """Return whether library code runs for agrad or an array library, and not for the user's code."""
    if frame is None or not is_instrumented(frame.f_code):
        return True
    return _works_for(frame) in ("agrad", "arrays", "")


def _works_for(frame: types.FrameType | None) -> str:
    """Return whose code the library code runs for; "" if there is none."""
    while frame is not None and (whose(frame.f_code.co_filename) == "library" or frame.f_code.co_filename in FILES):
        frame = frame.f_back
    return "" if frame is None else whose(frame.f_code.co_filename)


def _is_step(tracker: Tracker, frame: types.FrameType | None) -> bool:
    """Return whether the user's kernel of an operation runs as a recorded step, which replays run as well.

    A value computed from constants only becomes a constant, whose kernel runs only once.
    """
    while frame is not None and not is_instrumented(frame.f_code) and frame.f_code is not WRITES:
        frame = frame.f_back
    if frame is None or frame.f_code is not WRITES:
        return False
    given = frame.f_locals["args"]
    return any(isinstance(part, Recorded) and tracker.varies(part.ref.number) for part in given)


#: The code that runs a step and records it.
WRITES = RecordingBackend.record_call.__code__


def _is_called_by_agrad(frame: types.FrameType | None) -> bool:
    """Return whether the next code outside of libraries is agrad's own: a statement such as ``x[0] = y`` may have called it."""
    while frame is not None and whose(frame.f_code.co_filename) == "library" and not is_instrumented(frame.f_code):
        frame = frame.f_back
    file = "" if frame is None else frame.f_code.co_filename
    return whose(file) in ("agrad", "arrays") and file not in FILES


def _is_in_a_hook(frame: types.FrameType | None) -> bool:
    """Return whether code runs for a plugin's hook, whose answer agrad keeps for all calls."""
    while frame is not None and not is_instrumented(frame.f_code) and whose(frame.f_code.co_filename) != "agrad":
        frame = frame.f_back
    return frame is not None and frame.f_code.co_filename == manager.__file__


def _hand_over(tracker: Tracker, frame: types.FrameType) -> None:
    """Record what agrad's own code passes to a function that it calls back: unknown objects are agrad's own."""
    code = frame.f_code
    count = code.co_argcount + code.co_kwonlyargcount + bool(code.co_flags & 0x04) + bool(code.co_flags & 0x08)
    given = frame.f_locals
    for name in code.co_varnames[:count]:
        value = given.get(name)
        if type(value) not in PLAIN and not isinstance(value, Tensor) and not tracker.is_known(value):
            tracker.fresh_all(value)


#: The files of the tracker that call none of the user's code.
OURS = own_files("capturing", "rewriting", "effects", "tracking")


def _met(tracker: Tracker, frame: types.FrameType, met: dict[int, types.CodeType], known: dict[int, bool]) -> bool:
    """Record a function that begins to run; return whether it is instrumented."""
    code = frame.f_code
    met[id(code)] = code
    has_hooks = is_instrumented(code)
    if has_hooks or is_generated(code) or tracker.tracer.failure is not None:
        known[id(code)] = has_hooks
        return has_hooks
    kind = whose(code.co_filename)
    if id(code) in tracker.deferred and CURRENT.tracker is tracker:
        tracker.decline(f"{code.co_qualname} in {code.co_filename.rpartition('/')[2]} runs unseen")
        return False
    if kind in ("agrad", "arrays") or code.co_filename in (
        weakref.__file__,
        _weakrefset.__file__,
    ):  # code that runs when an object is released
        known[id(code)] = False
        return False
    is_text = code.co_name in ("<module>", "__create_fn__") and code.co_filename.startswith(
        "<"
    )  # code that a library has generated itself
    is_beneath = tracker.native_depth > 0 or _is_called_by_agrad(frame.f_back)
    if is_beneath and (kind != "user" or is_text) and _is_agrads(frame.f_back):
        return False
    if tracker.native_depth and kind == "user" and may_be_kernel(code.co_filename) and _is_agrads(frame.f_back):
        return False
    if tracker.runs_kernels and tracker.native_depth and kind == "user" and _is_step(tracker, frame.f_back):
        return False
    if _is_in_a_hook(frame.f_back):
        return False
    if kind == "library" and frame.f_back is not None:
        if frame.f_back.f_code.co_filename in OURS:
            return False
        if not tracker.native_depth and _works_for(frame.f_back) in (
            "agrad",
            "arrays",
        ):  # `x[i] = 1.0` calls agrad's own
            return False
    if CURRENT.tracker is not tracker:
        return False
    name = f"{code.co_qualname} in {code.co_filename.rpartition('/')[2]}"
    if kind == "user" and code.co_name[:1] != "<" and instrumented(code) is None:
        tracker.decline(f"{name} is called, and its source is not available")
    else:
        tracker.decline(f"{name} runs unseen")
    return False
