"""The resources of a cluster's workers, and the errors if one of them has too little memory: before a run, or after it.

A worker that exceeds its limit is killed, and its task is tried elsewhere, where the worker is killed again. Dask's
final error names neither an operation nor a line.
"""

from __future__ import annotations

import math
import warnings
from typing import Any, NamedTuple

from dask.utils import format_bytes

from agrad.plugin.backend import called, getframe, internal
from agrad_dask import origins

internal(__file__)


class ChunkWarning(UserWarning):
    """The chunks slow a computation down, or are too large for a worker; the message names better ones."""


class LargestBlock(NamedTuple):
    """The largest block of a computation.

    Attributes
    ----------
    nbytes : float
        What it takes.
    what : str
        What makes it.
    """

    nbytes: float
    what: str


class Workers(NamedTuple):
    """The workers of a cluster.

    Attributes
    ----------
    memory : int
        The memory of the smallest of them; 0 if it is not limited.
    threads : int
        The number of tasks it runs at a time.
    """

    memory: int
    threads: int

    @classmethod
    def of(cls, client: Any) -> Workers:
        """Ask a client for its workers."""
        found = client.scheduler_info(n_workers=-1)["workers"].values()
        limited = [cls(each["memory_limit"], each["nthreads"]) for each in found if each.get("memory_limit")]
        return min(limited, key=lambda each: each.memory / each.threads, default=cls(0, 1))

    def fit(self, block: LargestBlock) -> str:
        """Return the advice that would make it fit."""
        # a task holds some such blocks, operands and results, and the process something itself
        times = max(2, math.ceil(4 * self.threads * block.nbytes / max(1, self.memory)))
        fewer = " or threads_per_worker=1," if self.threads > 1 else ""
        return (
            f"Make the chunks {times} times smaller, {format_bytes(int(block.nbytes / times))} each: chunks= where the data is"
            f" opened or an array is made, or x.rechunk(). Or give workers more memory:{fewer} memory_limit= of the cluster."
        )

    def __str__(self) -> str:
        tasks = "a task" if self.threads == 1 else f"{self.threads} tasks"
        return f"{format_bytes(self.memory)} for {tasks} at a time"

    def lost(self, error: Any, what: str, block: LargestBlock) -> MemoryError:
        """Create the error that names the operation in which a worker was lost.

        Parameters
        ----------
        error : KilledWorker or None
            Dask's error; None if data that all tasks need were lost with the worker.
        what : str
            What ran.
        """
        has = f"a worker has {self}" if self.memory else "nobody limits the memory of workers"
        times = "" if error is None else f" {error.allowed_failures + 1} times,"
        first = (
            f"a worker of the cluster was lost in a task of {what},{times} as a rule because its memory did not suffice"
        )
        lines = [
            f"{first}: {has}.",
            *([] if math.isnan(block.nbytes) else self._large(block)),
            "Where it was not the memory, the log of the worker says what ended it.",
        ]
        return MemoryError("\n  ".join(lines))

    def _large(self, block: LargestBlock) -> list[str]:
        size = format_bytes(int(block.nbytes))
        return [f"The largest block takes {size}: {block.what}. A task holds several like it.", self.fit(block)]

    def refuse(self, block: LargestBlock) -> None:
        """Refuse a block that no worker can hold."""
        if self.memory and block.nbytes > self.memory:
            raise MemoryError(
                f"a block takes {format_bytes(int(block.nbytes))}, and a worker of the cluster has {self}: {block.what}.\n "
                f" {self.fit(block)}{called()}"
            )

    def warn(self, block: LargestBlock) -> None:
        """Warn about blocks so large that workers can hold at most one per thread: a task holds several."""
        if self.memory and 2 * self.threads * block.nbytes > self.memory:
            frame = origins.users_frame(getframe(1))
            warnings.warn_explicit(
                f"blocks of {format_bytes(int(block.nbytes))} are much for the workers of this cluster, each of which has {self}:"
                f" {block.what}.\n  {self.fit(block)}",
                ChunkWarning,
                frame.f_code.co_filename,
                frame.f_lineno,
                registry=frame.f_globals.setdefault("__warningregistry__", {}),
            )
