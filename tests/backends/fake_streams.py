"""Streams, events, memory pools and captures of the stand-in for CuPy.

Work is done when it is queued, so the order of streams shows in no number; `RACES` gets what no event orders. In a capture
work is done too, so that shapes are known, and what it gave is overwritten with garbage when the capture ends: only a
launch of the graph computes it. What CUDA or CuPy 14 refuse in a capture is refused with their words.
"""

from __future__ import annotations

import contextlib
import os
import threading

import numpy as np


class CUDARuntimeError(RuntimeError):
    def __init__(self, status, text):
        super().__init__(text)
        self.status = status


class _Thread(threading.local):
    def __init__(self):
        self.devices = [0]
        self.streams = []
        self.allocator = None


THREAD = _Thread()

#: Two uses of one memory, by two streams, of which neither waits for the other.
RACES = []

#: Graphs that were made, and launches of them.
CAPTURED, LAUNCHED = [], []

#: Pools that were made beside the common one, and how many bytes one may hand out.
POOLS, LIMIT = [], [float("inf")]

#: By id of an array that owns memory: the array, its last write as (stream, tick), and the last read of each stream.
_uses = {}


class Stream:
    made = 0

    def __init__(self, null=False, non_blocking=False):
        self.device_id, self.null, self.non_blocking = THREAD.devices[-1], null, non_blocking
        self.capture, self.clock = None, {}
        Stream.made += 1

    def __enter__(self):
        assert self.device_id == THREAD.devices[-1], "a stream of another device than the current one"
        THREAD.streams.append(self)
        return self

    def __exit__(self, *exc):
        THREAD.streams.pop()

    def begin_capture(self, mode=None):
        if self.null:
            raise RuntimeError("cannot capture on the default (legacy) stream")
        assert self.non_blocking, "work on the legacy stream would be an error during the capture"
        self.capture = Capture()

    def end_capture(self):
        capture, self.capture = self.capture, None
        if capture is None:
            raise CUDARuntimeError(401, "cudaErrorIllegalState: the operation cannot be performed in the present state")
        if capture.is_invalid:
            raise CUDARuntimeError(901, "cudaErrorStreamCaptureInvalidated: operation failed due to a previous error")
        return Graph(capture)

    def is_capturing(self):
        if self.capture is not None and self.capture.is_invalid:
            raise RuntimeError("the stream was capturing, but an error has invalidated the capture sequence")
        return self.capture is not None

    def synchronize(self):
        if self.capture is not None:
            self.capture.is_invalid = True
            message = "cudaErrorStreamCaptureUnsupported: operation not permitted when stream is capturing"
            raise CUDARuntimeError(900, message)

    def record(self, event=None):
        event = Event() if event is None else event
        assert self.capture is None, "events within a capture are not imitated"
        event.clock = dict(self.clock)
        return event

    def wait_event(self, event):
        assert self.capture is None, "events within a capture are not imitated"
        for stream, tick in event.clock.items():
            self.clock[stream] = max(tick, self.clock.get(stream, 0))

    def touch(self, read, written):
        """Note that work of this stream reads and writes memory, which what it waits for must have left."""
        now = self.clock[self] = self.clock.get(self, 0) + 1
        for arrays, writes in ((read, False), (written, True)):
            for array in map(owner, arrays):
                _, last, reads = _uses.setdefault(id(array), (array, None, {}))
                before = ([last] if last else []) + (list(reads.items()) if writes else [])
                RACES.extend((self, other) for other, tick in before if self.clock.get(other, 0) < tick)
                if writes:
                    _uses[id(array)] = array, (self, now), {}
                else:
                    reads[self] = now


class Event:
    def __init__(self, block=False, disable_timing=False):
        self.clock = {}

    def record(self, stream=None):
        (current() if stream is None else stream).record(self)


class Capture:
    def __init__(self):
        self.work, self.made, self.is_invalid = [], [], False


class Graph:
    def __init__(self, capture):
        self.work = capture.work
        for array in capture.made:
            np.copyto(array, np.array(np.nan if array.dtype.kind in "fc" else 77).astype(array.dtype))
        CAPTURED.append(len(self.work))

    def launch(self, stream=None):
        stream = current() if stream is None else stream
        assert stream.capture is None, "graphs within graphs are not imitated"
        LAUNCHED.append(stream)
        for do, read, written in self.work:
            do()
            stream.touch(read, written)


class MemoryPool:
    def __init__(self):
        self.bytes, self.freed = 0, 0
        POOLS.append(self)

    def malloc(self, size):
        self.bytes += size
        if self.bytes > LIMIT[0]:
            raise MemoryError(f"Out of memory allocating {size:,} bytes")

    def free_all_blocks(self):
        self.freed += 1


@contextlib.contextmanager
def using_allocator(allocator=None):
    before, THREAD.allocator = THREAD.allocator, allocator
    try:
        yield
    finally:
        THREAD.allocator = before


_null = [Stream(null=True), Stream(null=True)]
_null[1].device_id = 1
Stream.null = _null[0]


def current():
    device = THREAD.devices[-1]
    return next((stream for stream in reversed(THREAD.streams) if stream.device_id == device), _null[device])


def owner(array):
    while isinstance(array.base, np.ndarray):
        array = array.base
    return array


def done(function, operands, results, *, written=()):
    """Note work that a function has done: what it read, the arrays it gave, and the operands it wrote to."""
    stream = current()
    fresh = [made for made in results if not any(np.may_share_memory(made, operand) for operand in operands)]
    if not fresh and not written:
        return  # a view
    if THREAD.allocator is not None:
        for made in fresh:
            THREAD.allocator(made.nbytes)
    if stream.capture is not None:
        assert THREAD.allocator is not None, "the memory of a graph comes from the common pool"

        def again():
            found = function()
            parts = found if isinstance(found, tuple | list) else [found]
            arrays = [part for part in parts if isinstance(part, np.ndarray | np.generic)]
            for mine, part in zip(results, arrays, strict=False):
                if any(mine is made for made in fresh):
                    np.copyto(mine, part)

        stream.capture.work.append((again, operands, [*fresh, *written]))
        stream.capture.made += fresh
    elif Stream.made > 2:
        stream.touch(operands, [*fresh, *written])


def waits():
    """Refuse to wait for the device in a capture."""
    if current().capture is not None:
        raise RuntimeError("the current stream is capturing, so synchronous API calls are disallowed")


def sends():
    """Refuse to send an array to the device in a capture."""
    if current().capture is not None:
        raise RuntimeError("the current stream is capturing, so H2D transfers are disallowed")


def calls(library):
    """Refuse a call of a library of CUDA in a capture."""
    if current().capture is not None:
        raise NotImplementedError(f"calling {library} API during stream capture is currently unsupported")


def ends_the_process():
    """Do as Thrust in a capture, whose error CuPy 13.6 to 14.1 do not catch."""
    if current().capture is not None:
        os._exit(134)
