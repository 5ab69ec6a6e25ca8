"""What agrad asks of CPython beyond the language: frames, instructions, reference counts, classes, the collector, signals, profilers.

Each trick appears here once, with its reason and with what is lost on interpreters that lack it. No other file uses
`sys._getframe`, `opcode`, `gc` or similar itself; only `agrad.compiled` also handles code objects, which it makes.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import opcode
import operator
import sys
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from types import CodeType, FrameType
from typing import Any

# -- frames -----------------------------------------------------------------------------------------------------------

#: ``getframe(1)`` is the caller's frame. Messages use it to name the user's line. This is CPython's own function, because a
#: wrapper would cost more than everything else an operation records; PyPy and GraalPy have it too.
getframe: Callable[[int], FrameType] = sys._getframe


#: ``place_in(frame)`` is the code that a frame runs and its current instruction. Nodes store these two: the frame would keep
#: all of its locals alive and move on to later lines.
place_in: Callable[[FrameType], tuple[CodeType, int]] = operator.attrgetter("f_code", "f_lasti")


def line_number(code: CodeType, instruction: int) -> int:
    """Return the source line of an instruction, or the line of the ``def`` where the code object does not say.

    `PEP 626 <https://peps.python.org/pep-0626/>`_ adds ``co_lines``; code made by tools may have a table without lines.
    """
    line = code.co_firstlineno
    for start, stop, number in code.co_lines():
        if start <= instruction < stop and number is not None:
            line = number
    return line


def span_of(code: CodeType) -> tuple[int, int, int, int] | None:
    """Return first line, first column, last line and last column of a code object's source; None where it has none.

    Columns count bytes of UTF-8 (`PEP 657 <https://peps.python.org/pep-0657/>`_). With ``-X no_debug_ranges`` there are none.
    """
    positions = [(a, b, c, d) for a, c, b, d in code.co_positions() if None not in (a, b, c, d) and (a, b) != (c, d)]
    if not positions:
        return None
    first: Any = min((a, b) for a, b, _, _ in positions)
    last: Any = max((c, d) for _, _, c, d in positions)
    return (*first, *last)


# -- instructions -----------------------------------------------------------------------------------------------------

#: ``x[key] = value``. Every version so far has this instruction.
_STORES = opcode.opmap.get("STORE_SUBSCR")

#: ``x[key] = value`` and ``x += value`` (``x[a:b] = value`` has its own from Python 3.12 on). Before a call by name, as in
#: ``x.__setitem__(key, value)``, there is a different instruction.
_ASSIGNS = {opcode.opmap[name] for name in ("STORE_SUBSCR", "STORE_SLICE", "BINARY_OP") if name in opcode.opmap}

#: ``x += value``: BINARY_OP with NB_INPLACE_ADD. In versions without it, no instruction matches.
_ADDS_IN_PLACE = bytes((opcode.opmap.get("BINARY_OP", 0), 13))


def stores_an_item(frame: FrameType) -> bool:
    """Return whether a frame is in ``x[key] = value``. Messages use it for better advice, and do without it elsewhere."""
    return frame.f_code.co_code[frame.f_lasti] == _STORES


def assigns(frame: FrameType) -> bool:
    """Return whether a frame is in an item or in-place assignment, not in a method call by name."""
    return frame.f_code.co_code[frame.f_lasti] in _ASSIGNS


def adds_in_place(frame: FrameType) -> bool:
    """Return whether a frame is in ``x += value``: a list tries ``x + value`` before it extends itself."""
    return frame.f_code.co_code[frame.f_lasti : frame.f_lasti + 2] == _ADDS_IN_PLACE


#: The instructions between those that make a call, and a call with keywords.
_CACHE, _PRECALL, _CALL = (opcode.opmap.get(name, 0) for name in ("CACHE", "PRECALL", "CALL"))
_KEYWORDS = {opcode.opmap[name] for name in ("KW_NAMES", "CALL_KW") if name in opcode.opmap}
#: ``a, b = value``, ``value[0]`` and ``value[1]``: the instructions after a call whose result is used as a pair.
_UNPACKS = bytes((opcode.opmap["UNPACK_SEQUENCE"], 2))
_CONSTANTS = {opcode.opmap[name] for name in ("LOAD_CONST", "LOAD_SMALL_INT") if name in opcode.opmap}
#: ``value[key]``: from Python 3.14 on it is BINARY_OP with NB_SUBSCR.
_SUBSCRIPT = bytes(
    (opcode.opmap["BINARY_SUBSCR"], 0) if "BINARY_SUBSCR" in opcode.opmap else (opcode.opmap["BINARY_OP"], 26)
)


def takes_a_pair(frame: FrameType) -> bool:
    """Return whether a frame uses the result of a call without keywords as a pair: ``a, b = f()``, ``f()[0]``, ``f()[1]``."""
    code = frame.f_code
    text, place = code.co_code, frame.f_lasti
    while place > 0 and text[place] in (_CACHE, _PRECALL, _CALL):
        place -= 2
    if text[place] in _KEYWORDS:
        return False
    place = frame.f_lasti + 2
    while place < len(text) and text[place] == _CACHE:
        place += 2
    if text[place : place + 2] == _UNPACKS:
        return True
    if place < len(text) and text[place] in _CONSTANTS:
        value = code.co_consts[text[place + 1]] if text[place] == opcode.opmap["LOAD_CONST"] else text[place + 1]
        return value.__class__ is int and value in (0, 1) and text[place + 2 : place + 4] == _SUBSCRIPT
    return False


_IDENTITY = (lambda x: x).__code__.co_code


def is_identity(function: Any) -> bool:
    """Return whether a function returns its only argument, as ``lambda x: x`` does; False for functions written in C.

    Where an interpreter compiles two such functions differently, a rule costs one extra call.
    """
    code = getattr(function, "__code__", None)
    return code is not None and code.co_code == _IDENTITY


# -- reference counts -------------------------------------------------------------------------------------------------

#: The number of references to an object, including that of the call.
references: Callable[[Any], int] = sys.getrefcount


def _references_of_one() -> int:
    alone = object()
    return references(alone)


#: The result of `references` for an object that only one local variable holds. An array with no more references goes to
#: the user as is, else as a copy. A build that counts otherwise (as free-threaded ones do for immortal objects) copies more.
ALONE = _references_of_one()


class _Probe:
    def __setitem__(self, key: int, counts: list[int]) -> None:
        counts.append(references(self))


def _references_of_targets() -> list[int]:
    counts: list[int] = []
    _Probe()[0] = counts
    _Probe().__setitem__(0, counts)
    return counts


#: The result of `references` in ``__setitem__`` for the target of an assignment that only that call holds, and for the
#: target of a call by name, which passes the target on without holding it itself.
_TARGET, _TARGET_BY_NAME = _references_of_targets()


def is_temporary(count: int, target: Any) -> bool:
    """Return whether an assignment to a target is lost: the caller's caller assigns to an object it has just made.

    Parameters
    ----------
    count : int
        The result of `references` for the target, in ``__setitem__``.
    target : object
        The target.
    """
    if count > _TARGET:
        return False
    frame = getframe(2)
    if count > _TARGET_BY_NAME and not assigns(frame):
        return False  # x.__setitem__(key, value)
    # newer interpreters pass a local variable to a call without counting it
    return sys.version_info < (3, 14) or not any(value is target for value in frame.f_locals.values())


# -- classes ----------------------------------------------------------------------------------------------------------


@functools.cache
def _place_of_version() -> int | None:
    """Return where in a class CPython notes its version, which is found by looking at one; None where it is not found.

    That number is another one, and never an earlier one, when an attribute of the class or of a base of it is looked up after
    a member was set or deleted; in between it is 0. CPython's own caches of attributes live by it.
    """
    if sys.implementation.name != "cpython":
        return None
    import ctypes  # noqa: PLC0415 (agrad is imported sooner without)

    class Seen:
        pass

    size = type.__basicsize__ // 4  # type: ignore[operator]

    def words() -> list[int]:
        return list((ctypes.c_uint32 * size).from_address(id(Seen)))

    def looked_up() -> list[int]:
        getattr(Seen, "member", None)
        return words()

    first = looked_up()
    Seen.member = 1  # type: ignore[attr-defined]
    changed, second = words(), looked_up()
    Seen.member = 2  # type: ignore[attr-defined]
    again, third = words(), looked_up()
    found = [
        4 * at for at in range(size) if 0 < first[at] < second[at] < third[at] < 2**31 and changed[at] == again[at] == 0
    ]
    return found[0] if len(found) == 1 else None


def version_of(kind: type) -> Any:
    """Return an object whose ``value`` stays as it is as long as no member of a class or of its bases changes; None: unknown.

    It is 0 where no attribute was looked up since a change, and to be asked for as long as the class is there.
    """
    place = _place_of_version()
    if place is None:
        return None
    import ctypes  # noqa: PLC0415 (as above)

    return ctypes.c_uint32.from_address(id(kind) + place)


# -- the collector ----------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def uncollected() -> Iterator[None]:
    """Create many long-lived objects without collecting garbage meanwhile, which takes a third of the time.

    Finalizers of objects in cycles do not run meanwhile either. Without a collector there is nothing to do.
    """
    was = gc.isenabled()
    try:
        gc.disable()  # an interrupt right after this still reaches the `finally`
        yield
    finally:
        if was:
            gc.enable()


#: Free objects that only a cycle holds, such as the frames of an exception.
collect: Callable[[], int] = gc.collect

#: The objects that others refer to directly.
referents: Callable[..., list[Any]] = gc.get_referents


# -- signals ----------------------------------------------------------------------------------------------------------


def assign_all(*assignments: Iterable[None]) -> None:
    """Run assignments, all or none, whenever a signal arrives.

    A signal handler, as for Ctrl-C, may raise when a Python function begins, jumps backwards, or has just called a C function.
    All of this is a single call of a C function, which does nothing between two assignments.

    Keep what is replaced alive elsewhere until this returns, so that no finalizer runs between two assignments. In a
    `finally`, where nothing may raise before the first assignment, call a C function directly.

    Parameters
    ----------
    *assignments : iterable of None
        Iterators written in C over functions written in C: ``map(setattr, objects, names, values)``, ``starmap(setattr, triples)``.
        Each assignment returns None, so that `any` runs through all.
    """
    any(chain.from_iterable(assignments))


# -- profile functions ------------------------------------------------------------------------------------------------


def report_calls(told: Callable[[FrameType], None]) -> Callable[[], bool] | None:
    """Report each function that begins to run in this thread, until the returned function is called.

    Python reports to a profile function, or to a trace function where an active profiler cannot be chained, such as cProfile
    before Python 3.12. A function that is already set continues to be called.

    Parameters
    ----------
    told : callable
        Gets the frame of the function. If it raises, that function does not begin, and Python reports no further calls.

    Returns
    -------
    callable or None
        Restores the previous state, and returns whether Python has reported all calls since; None where neither slot is free.
    """
    before: Any = sys.getprofile()
    get, put = sys.getprofile, sys.setprofile
    if before is not None and not callable(before):
        before, get, put = None, sys.gettrace, sys.settrace  # type: ignore[assignment]
        if get() is not None:
            return None

    has_raised = False

    def note(frame: FrameType, event: Any, argument: Any) -> None:
        nonlocal has_raised
        if event == "call":
            try:
                told(frame)
            except BaseException:
                has_raised = True  # Python removes a function that raises
                raise
        if before is not None:
            before(frame, event, argument)

    def put_back() -> bool:
        is_whole = get() is note
        if is_whole or (has_raised and get() is None):
            put(before)
        return is_whole

    put(note)
    return put_back


class unprofiled:  # noqa: N801 (used as a function is)
    """Run code without reporting it to a profile function; a profiler written in C, which could not be restored, still sees it.

    Not a `contextlib` generator, whose own functions would be reported.
    """

    def __enter__(self) -> None:
        profile = sys.getprofile()
        self._profile = profile if callable(profile) else None
        if self._profile is not None:
            sys.setprofile(None)

    def __exit__(self, *_: object) -> None:
        if self._profile is not None:
            sys.setprofile(self._profile)
