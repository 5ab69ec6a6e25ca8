"""Temporary files of a process that may be killed: it holds them locked while it lives, so that another process can find abandoned ones."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import IO


def locked(name: Callable[[], str], mode: int) -> IO[bytes]:
    """Create a file, open for writing, and lock it until it is closed or the process ends, however it does.

    Parameters
    ----------
    name : callable
        Returns a path that does not exist yet.
    mode : int
        The file's permissions, less those that the process's mask takes away.

    Returns
    -------
    file object
        Its attribute ``name`` is the path.
    """
    while True:
        stream = open(name(), "xb", opener=lambda path, flags: os.open(path, flags, mode))  # noqa: SIM115 (returned)
        if _lock(stream.fileno()) is False:
            stream.close()  # Considered abandoned before it was locked: the other process removes it.
            continue
        try:
            if os.path.samestat(os.fstat(stream.fileno()), os.stat(stream.name)):
                return stream
        except FileNotFoundError:  # As above, and it is gone.
            stream.close()


@contextmanager
def abandoned(path: str) -> Iterator[bool]:
    """Return whether a file is one that a process which has ended had `locked`; while the block runs, it is ours.

    Parameters
    ----------
    path : str
        The file.

    Yields
    ------
    bool
        Return False if it is in use, gone or another user's, or if files cannot be locked.
    """
    try:
        descriptor = os.open(path, os.O_RDWR | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0))
    except OSError:
        yield False
        return
    try:
        yield _lock(descriptor) is True
    finally:
        os.close(descriptor)


def beginning(start: str) -> list[os.DirEntry[str]]:
    """Return the entries of a folder whose paths begin with a prefix; none if the folder cannot be listed."""
    folder, prefix = os.path.split(start)
    try:
        with os.scandir(folder or ".") as entries:
            return [entry for entry in entries if entry.name.startswith(prefix)]
    except OSError:
        return []  # A folder may be writable but not listable.


def _lock(descriptor: int) -> bool | None:
    """Lock an open file, unless another process has: then return False; None if files cannot be locked."""
    try:
        import fcntl  # noqa: PLC0415 (not on Windows)
    except ImportError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # The file system has no locks.
        return None
    return True
