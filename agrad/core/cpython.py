"""What agrad asks of CPython beyond the language: frames, instructions, reference counts, classes, the collector, signals, profilers.

Each trick stands here once, with the reason for it, and what is lost where an interpreter has no such thing. Nothing above
uses `sys._getframe`, `opcode`, `gc`, or their kin itself; `agrad.compiled` knows code objects besides, which it makes.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import opcode
import sys
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from types import CodeType, FrameType
from typing import Any

# -- frames -----------------------------------------------------------------------------------------------------------

#: ``getframe(1)`` is the frame of the caller. Messages name the user's line by it. It is CPython's own function, as a call
#: in between would cost more than the rest of what an operation notes down; PyPy and GraalPy have it too.
getframe: Callable[[int], FrameType] = sys._getframe


def place_in(frame: FrameType) -> tuple[CodeType, int]:
    """Return the code that a frame runs and the instruction where it is.

    The frame itself would keep all of its locals alive and move on to later lines; generated entries note these two.
    """
    return frame.f_code, frame.f_lasti


def line_number(code: CodeType, instruction: int) -> int:
    """Return the line that an instruction was compiled of, that of the ``def`` where the code object does not say.

    `PEP 626 <https://peps.python.org/pep-0626/>`_ has ``co_lines``; code that tools make may have a table without lines.
    """
    line = code.co_firstlineno
    for start, stop, number in code.co_lines():
        if start <= instruction < stop and number is not None:
            line = number
    return line


def span_of(code: CodeType) -> tuple[int, int, int, int] | None:
    """Return the first line and column of what a code object was compiled of, and the last ones; None where it has none.

    Columns count bytes of UTF-8 (`PEP 657 <https://peps.python.org/pep-0657/>`_). With ``-X no_debug_ranges`` there are none.
    """
    positions = [(a, b, c, d) for a, c, b, d in code.co_positions() if None not in (a, b, c, d) and (a, b) != (c, d)]
    if not positions:
        return None
    first: Any = min((a, b) for a, b, _, _ in positions)
    last: Any = max((c, d) for _, _, c, d in positions)
    return (*first, *last)


# -- instructions -----------------------------------------------------------------------------------------------------

#: ``x[key] = value``. Every version so far has it.
_STORES = opcode.opmap.get("STORE_SUBSCR")

#: ``x[key] = value`` and ``x += value`` (``x[a:b] = value`` has one of its own from Python 3.12 on): before a call by name,
#: as in ``x.__setitem__(key, value)``, stands another instruction.
_ASSIGNS = {opcode.opmap[name] for name in ("STORE_SUBSCR", "STORE_SLICE", "BINARY_OP") if name in opcode.opmap}

#: ``x += value``: BINARY_OP with NB_INPLACE_ADD. Where a version has none, no place is one.
_ADDS_IN_PLACE = bytes((opcode.opmap.get("BINARY_OP", 0), 13))


def stores_an_item(frame: FrameType) -> bool:
    """Return whether a frame is in ``x[key] = value``. A message that knows advises better; without, it advises less."""
    return frame.f_code.co_code[frame.f_lasti] == _STORES


def assigns(frame: FrameType) -> bool:
    """Return whether a frame is in an assignment to an item or in place, and not in a call of a method by its name."""
    return frame.f_code.co_code[frame.f_lasti] in _ASSIGNS


def adds_in_place(frame: FrameType) -> bool:
    """Return whether a frame is in ``x += value``: a list is asked for ``x + value`` before it extends itself."""
    return frame.f_code.co_code[frame.f_lasti : frame.f_lasti + 2] == _ADDS_IN_PLACE


#: What stands between the instructions that make a call, and a call with keywords.
_CACHE, _PRECALL, _CALL = (opcode.opmap.get(name, 0) for name in ("CACHE", "PRECALL", "CALL"))
_KEYWORDS = {opcode.opmap[name] for name in ("KW_NAMES", "CALL_KW") if name in opcode.opmap}
#: ``a, b = value``, ``value[0]`` and ``value[1]``: what follows a call whose result is taken for a pair.
_UNPACKS = bytes((opcode.opmap["UNPACK_SEQUENCE"], 2))
_CONSTANTS = {opcode.opmap[name] for name in ("LOAD_CONST", "LOAD_SMALL_INT") if name in opcode.opmap}
#: ``value[key]``: from Python 3.14 on it is BINARY_OP with NB_SUBSCR.
_SUBSCRIPT = bytes(
    (opcode.opmap["BINARY_SUBSCR"], 0) if "BINARY_SUBSCR" in opcode.opmap else (opcode.opmap["BINARY_OP"], 26)
)


def takes_a_pair(frame: FrameType) -> bool:
    """Return whether a frame takes what a call without keywords gives for a pair: ``a, b = f()``, ``f()[0]`` or ``f()[1]``."""
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
    """Return whether a function of one argument gives just that, as ``lambda x: x`` does; False of what is written in C.

    Where an interpreter compiles two such functions differently, a rule costs a call more.
    """
    code = getattr(function, "__code__", None)
    return code is not None and code.co_code == _IDENTITY


# -- reference counts -------------------------------------------------------------------------------------------------

#: How many references there are to an object, that of the call included.
references: Callable[[Any], int] = sys.getrefcount


def _references_of_one() -> int:
    alone = object()
    return references(alone)


#: What `references` gives for an object that one local variable holds and nothing else. An array with no more is given to
#: the user as it is, else a copy. A build that counts otherwise (free-threaded ones count immortal objects so) copies more.
ALONE = _references_of_one()


class _Probe:
    def __setitem__(self, key: int, counts: list[int]) -> None:
        counts.append(references(self))


def _references_of_targets() -> list[int]:
    counts: list[int] = []
    _Probe()[0] = counts
    _Probe().__setitem__(0, counts)
    return counts


#: What `references` gives in ``__setitem__`` for the target of an assignment that nothing but that call holds, and for that of
#: a call by name, which hands the target over without holding it itself.
_TARGET, _TARGET_BY_NAME = _references_of_targets()


def is_temporary(count: int, target: Any) -> bool:
    """Return whether nobody will see what is assigned to a target: the caller's caller assigns to what it has just made.

    Parameters
    ----------
    count : int
        `references` of the target, in ``__setitem__``.
    target : object
        It.
    """
    if count > _TARGET:
        return False
    frame = getframe(2)
    if count > _TARGET_BY_NAME and not assigns(frame):
        return False  # x.__setitem__(key, value)
    # newer interpreters lend a local variable to a call without counting it
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
    """Make many objects that stay without looking for garbage among them, which takes a third of the time.

    Nor do finalizers of what goes in circles run in between. Without a collector there is nothing to do.
    """
    was = gc.isenabled()
    try:
        gc.disable()  # an interrupt that comes right after it finds the way back, too
        yield
    finally:
        if was:
            gc.enable()


#: Let go of what is held in a circle alone, as the frames of an exception are.
collect: Callable[[], int] = gc.collect

#: What objects refer to directly.
referents: Callable[..., list[Any]] = gc.get_referents


# -- signals ----------------------------------------------------------------------------------------------------------


def assign_all(*assignments: Iterable[None]) -> None:
    """Run assignments, all or none, whenever a signal arrives.

    The handler of a signal, as Ctrl-C, may raise when a function written in Python begins, jumps backwards, or has called one
    written in C. All of this is one call of such a function, which does nothing between two assignments but the next.

    What is replaced must be held elsewhere until this has returned, so that no finalizer runs between two of them. In a
    `finally`, where nothing may raise before the first, a function written in C has to be called itself.

    Parameters
    ----------
    *assignments : iterable of None
        Iterators written in C over functions written in C: ``map(setattr, objects, names, values)``, ``starmap(setattr, triples)``.
        Each assignment gives None, so that `any` runs through all.
    """
    any(chain.from_iterable(assignments))


# -- profile functions ------------------------------------------------------------------------------------------------


def tell_of_calls(told: Callable[[FrameType], None]) -> Callable[[], bool] | None:
    """Let Python tell of each function of this thread that begins to run, until what is returned is called.

    Python tells a profile function, or a trace function where a profiler is at work that cannot be called as well, as cProfile
    before Python 3.12. One that is set goes on being told.

    Parameters
    ----------
    told : callable
        Is given the frame of the function. Where it raises an error, that function does not begin, and Python tells of no
        calls any more.

    Returns
    -------
    callable or None
        Puts things back, and returns whether Python has told of all calls since; None where neither place is free.
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
                has_raised = True  # Python drops what raises an error
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


class untold:  # noqa: N801 (used as a function is)
    """Run code of which a profile function is not told; a profiler written in C, which could not be put back, is.

    No generator, as `contextlib` would make of one, whose own functions it would be told of.
    """

    def __enter__(self) -> None:
        profile = sys.getprofile()
        self._profile = profile if callable(profile) else None
        if self._profile is not None:
            sys.setprofile(None)

    def __exit__(self, *_: object) -> None:
        if self._profile is not None:
            sys.setprofile(self._profile)
