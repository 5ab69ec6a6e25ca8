"""Compiled code on disk: objects in the user's own directory, each under the hash of its source.

They are code, so only the user's own files are read: the directory must belong to the user who runs this process, and
be inaccessible to others. A file that is incomplete, or does not match its name, is removed and created anew.
`AGRAD_NATIVE_CACHE` in the environment names another directory, or disables the cache: ``off``.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import secrets
import stat
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path

#: The environment variable.
VARIABLE = "AGRAD_NATIVE_CACHE"

#: The beginning of a file, whose last byte is the version of the format. The digests of its key and of its contents
#: follow.
MAGIC = b"agrad native\x00\x01"

#: Bytes of a digest.
DIGEST = hashlib.sha256().digest_size

#: The total size of the cache in bytes; beyond it, the least recently used files are removed.
LIMIT = 2**28


def directory() -> Path | None:
    """Return where objects are kept; None if they are not."""
    named = os.environ.get(VARIABLE, "")
    if named == "off" or not hasattr(os, "getuid"):  # where files have no owner to compare, nothing is kept
        return None
    if named:
        return Path(named)
    home = Path("~").expanduser()
    if not home.is_absolute():
        return None
    if sys.platform == "darwin":
        return home / "Library" / "Caches" / "agrad" / "native"
    given = Path(os.environ.get("XDG_CACHE_HOME", ""))
    return (given if given.is_absolute() else home / ".cache") / "agrad" / "native"


@functools.cache
def _refuse(path: Path, why: str) -> None:
    """Warn, once, that a directory is not used."""
    warnings.warn(
        f"compiled code is not kept in {path}, which {why}: chmod 700 it, name another directory by {VARIABLE}, or set that to off",
        RuntimeWarning,
        stacklevel=2,
    )


@contextlib.contextmanager
def _opened() -> Iterator[int | None]:
    """Return the directory as a descriptor, so that it stays the one that was checked; None if nothing is kept."""
    path = directory()
    if path is None:
        yield None
        return
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError:  # for example without a home, or with a read-only one
        yield None
        return
    try:
        about = os.fstat(folder)
        if about.st_uid != os.getuid():
            _refuse(path, "belongs to somebody else")
        elif stat.S_IMODE(about.st_mode) & 0o077:
            _refuse(path, "is open to others")
        else:
            yield folder
            return
        yield None
    finally:
        os.close(folder)


def key_of(*parts: str) -> bytes:
    """Return the digest of an object's source."""
    found = hashlib.sha256()
    for part in parts:
        text = part.encode()
        found.update(len(text).to_bytes(8, "little") + text)
    return found.digest()


def read(key: bytes) -> bytes | None:
    """Return the object of a key; None if there is none, or it is incomplete."""
    with _opened() as folder:
        if folder is None:
            return None
        name = key.hex()
        try:
            file = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=folder)
        except OSError:
            return None
        with open(file, "rb") as stream:
            about = os.fstat(file)
            own = stat.S_ISREG(about.st_mode) and about.st_uid == os.getuid() and not about.st_mode & 0o022
            data = stream.read() if own and about.st_size <= LIMIT else b""
        head, found = data[: len(MAGIC) + 2 * DIGEST], data[len(MAGIC) + 2 * DIGEST :]
        with contextlib.suppress(OSError):
            if head == MAGIC + key + hashlib.sha256(found).digest():
                os.utime(name, dir_fd=folder)
                return found
            os.unlink(name, dir_fd=folder)
        return None


def write(key: bytes, found: bytes) -> None:
    """Keep the object of a key: all of it, or nothing."""
    with _opened() as folder:
        if folder is None:
            return
        part = f".{secrets.token_hex(8)}"
        try:
            file = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600, dir_fd=folder)
            try:
                with open(file, "wb") as stream:
                    stream.write(MAGIC + key + hashlib.sha256(found).digest() + found)
                os.replace(part, key.hex(), src_dir_fd=folder, dst_dir_fd=folder)
            except BaseException:
                os.unlink(part, dir_fd=folder)
                raise
            _clear(folder)
        except OSError:  # the disk is full, or only read: the next process compiles again
            return


def _clear(folder: int) -> None:
    """Delete the least recently used files, and leftovers of interrupted processes, if there is too much."""
    abouts = []
    for name in os.listdir(folder):
        with contextlib.suppress(OSError):  # another process deleted it
            about = os.stat(name, dir_fd=folder, follow_symlinks=False)
            abouts.append((about.st_mtime, about.st_size, name))
    total = sum(size for _, size, _ in abouts)
    for _, size, name in sorted(abouts) if total > LIMIT else ():
        if total <= LIMIT * 3 // 4:
            return
        with contextlib.suppress(OSError):
            os.unlink(name, dir_fd=folder)
            total -= size
