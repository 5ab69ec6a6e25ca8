"""What tests share that is no fixture. Test folders are no packages: pytest puts this one on the path."""

from __future__ import annotations

import dis
import itertools
import linecache
import os
import sys
import warnings

import pytest

import agrad as ag
import agrad_numpy

#: How the files of the code begin that `in_agrad` watches.
OWN = (*(os.path.join(os.path.dirname(package.__file__), "") for package in (ag, agrad_numpy)), "<agrad")


def in_agrad(code):
    """Whether code is agrad's own: a folder's name says nothing, as a whole environment may lie in one called agrad."""
    return code.co_filename.startswith(OWN)


def some_of(cells, n):
    """Leave all but every n-th of a test's cells to `nox -s everything -- long`; a tuple is several parameters."""

    def left(cell):
        return pytest.param(*(cell if type(cell) is tuple else (cell,)), marks=pytest.mark.long)

    return [left(cell) if i % n else cell for i, cell in enumerate(cells)]


_NUMBERS = itertools.count()


def with_text(text, names, file=None):
    """Define what a text defines; what is compiled of it finds its lines. Files of that name there need not be."""
    file = file or os.path.join(os.path.dirname(__file__), "texts", f"{next(_NUMBERS)}.py")
    linecache.cache[file] = len(text), None, text.splitlines(keepends=True), file
    exec(compile(text, file, "exec", dont_inherit=True), names)
    return names


class Interrupt:
    """Raise KeyboardInterrupt where a signal handler may run, at the n-th such place in the code that is watched.

    That is after a call, a jump back and the begin of a function.
    """

    def __init__(self, n, watched):
        self.left = n
        self.watched = watched
        self.last = {}  # by frame, the instruction that ran last

    def __call__(self, frame, event, arg):
        if not self.watched(frame.f_code):
            return None
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        return self.step

    def step(self, frame, event, arg):
        if event == "opcode":
            last = self.last.get(frame, "RESUME")
            self.last[frame] = dis.opname[frame.f_code.co_code[frame.f_lasti]]
            if last.startswith(("CALL", "RESUME")) or "JUMP_BACKWARD" in last:
                self.left -= 1
                if self.left == 0:
                    raise KeyboardInterrupt
        return self.step


def interrupted(interrupt, work, *args):
    """Run something under a tracer that interrupts it; tell whether it came to its end."""
    tracing = sys.gettrace()
    try:
        sys.settrace(interrupt)
        work(*args)
    except KeyboardInterrupt:
        pass
    finally:
        sys.settrace(tracing)
    return interrupt.left > 0


def cluster_of(**options):
    """Start a cluster of Dask's with one thread a worker; the port of its dashboard is whichever is free."""
    distributed = pytest.importorskip("distributed")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of what it imports and listens on
        return distributed.LocalCluster(dashboard_address=":0", threads_per_worker=1, silence_logs=60, **options)
