"""Read the zip archives of `agrad.save`: stored members only, and nothing is read before its position is checked."""

from __future__ import annotations

import binascii
import os
import struct
from collections.abc import Iterator
from typing import IO, Any, NamedTuple

# As in the zip format's APPNOTE.TXT: every record begins with a signature.
_END = struct.Struct("<4s4H2LH")  # disk, disk of the directory, count there, count, size, offset, length of a comment
_END64 = struct.Struct(
    "<4sQ2H2L4Q"
)  # own size, versions, disk, disk of the directory, count there, count, size, offset
_LOCATOR = struct.Struct("<4sLQL")  # disk, offset of the record before, number of disks
_ENTRY = struct.Struct("<4s6H3L5H2L")  # of the directory: see `_entry`
_LOCAL = struct.Struct("<4s5H3L2H")  # before a member's bytes: see `read`
_MAX16, _MAX32 = 2**16 - 1, 2**32 - 1  # in a short field: the value is in a 64-bit field
_UTF8 = 0x800  # the only flag without effect here: names are ASCII
_PIECE = 2**20


class FormatError(Exception):
    """The file cannot be read, or its content is not ours."""


class Member(NamedTuple):
    """A member as the directory describes it."""

    name: str
    crc: int
    size: int
    offset: int


class Archive:
    """A zip archive at the end of a stream; anything before it is skipped.

    Parameters
    ----------
    stream : binary file object
        It can be sought in.

    Raises
    ------
    FormatError
        If it is not an archive of uncompressed members called ``tree.json`` and ``tensors/...``.
    """

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream
        stream.seek(0, os.SEEK_END)
        self._length = stream.tell()
        self._tail = self._length - _END.size  # where the directory must have ended
        if self._tail < 0:
            raise FormatError(_damaged("it is too short"))
        self.count: int
        mark, disk, home, here, self.count, size, offset, comment = self._unpack(_END, self._tail)
        if mark != b"PK\5\6" or disk or home or comment or here != self.count:
            raise FormatError(_damaged("it does not end as a zip archive does"))
        place = self._tail - _LOCATOR.size - _END64.size
        if place >= 0 and self._unpack(_LOCATOR, place + _END64.size)[0] == b"PK\6\7":
            size, offset = self._large(place, size, offset)
        self._directory = self._tail - size
        self._start = self._directory - offset
        if self._start < 0 or self.count * _ENTRY.size > size:
            raise FormatError(_damaged("its directory does not lie where it says"))

        trees, room = [], self._directory - self._start
        for member in self._members():
            room -= _LOCAL.size + len(member.name) + member.size
            if room < 0:
                raise FormatError(_damaged("its members are longer than it is"))
            if member.name == "tree.json":
                trees.append(member)
            elif not member.name.startswith("tensors/") or len(member.name) > 32:
                raise FormatError(
                    f"it is not a file of agrad.save: it holds {member.name!a:.80} beside tree.json and tensors"
                )
        if len(trees) != 1:
            raise FormatError(
                f"it is not, or not wholly, a file of agrad.save: it has {len(trees)} members 'tree.json'"
            )
        self.tree: Any = trees[0]

    def _large(self, place: int, size: int, offset: int) -> tuple[int, int]:
        """Read the end of the directory in fields of 64 bits; return its size and offset."""
        short, self._tail = (self.count, size, offset), place
        mark, own, _, _, disk, home, here, *large = self._unpack(_END64, place)
        self.count, size, offset = large
        _, locator_disk, found, disks = self._unpack(_LOCATOR, place + _END64.size)
        if mark != b"PK\6\6" or own != _END64.size - 12 or disk or home or locator_disk or disks != 1:
            raise FormatError(_damaged("it does not end as a zip archive does"))
        if here != self.count or found != offset + size:
            raise FormatError(_damaged("its directory does not lie where it says"))
        for value, limit, full in zip(short, (_MAX16, _MAX32, _MAX32), large, strict=True):
            if value not in (limit, full):
                raise FormatError(_damaged("it contradicts itself about its directory"))
        return size, offset

    def tensors(self, count: int) -> list[Member]:
        """Return the members ``tensors/0``... in this order, checked to be complete and not to overlap.

        Parameters
        ----------
        count : int
            The number that tree.json describes.

        Returns
        -------
        list of Member
            As many.
        """
        if self.count != count + 1:
            raise FormatError(
                f"it is not, or not wholly, a file of agrad.save: tree.json describes {count} tensors,"
                f" and {self.count - 1} are there"
            )
        found = {member.name: member for member in self._members()}
        end = 0
        for member in sorted(found.values(), key=lambda member: member.offset):
            if member.offset < end:
                raise FormatError(_damaged(f"{member.name} lies within another member"))
            end = member.offset + _LOCAL.size + len(member.name) + member.size
        try:
            return [found[f"tensors/{index}"] for index in range(count)]
        except KeyError as error:
            raise FormatError(f"it is not, or not wholly, a file of agrad.save: no member {error}") from None

    def read(self, member: Member, most: int | None = None) -> bytearray:
        """Return a member's bytes, checked against their sum; or its first `most` bytes, unchecked."""
        place = self._start + member.offset
        mark, _, flags, method, _, _, crc, packed, size, *lengths = self._unpack(_LOCAL, place)
        begin = place + _LOCAL.size + sum(lengths)
        name = self._bytes(place + _LOCAL.size, lengths[0])
        if mark != b"PK\3\4" or flags & ~_UTF8 or method or name != member.name.encode("ascii"):
            raise FormatError(_damaged(f"{member.name} does not lie where its directory says"))
        if {packed, size} - {member.size, _MAX32} or crc != member.crc or begin + member.size > self._directory:
            raise FormatError(_damaged(f"{member.name} is not of the size that its directory says"))
        if most is not None:
            return self._bytes(begin, min(most, member.size))
        data = self._bytes(begin, member.size)
        if binascii.crc32(data) != member.crc:
            raise FormatError(_damaged(f"the checksum of {member.name} is wrong"))
        return data

    def _members(self) -> Iterator[Member]:
        """Read the directory, one entry at a time: it may have any length."""
        place = self._directory
        for _ in range(self.count):
            mark, _, _, flags, method, _, _, crc, packed, size, *lengths, disk, _, _, offset = self._unpack(
                _ENTRY, place
            )
            place += _ENTRY.size
            end = place + sum(lengths)
            if mark != b"PK\1\2" or end > self._tail:
                raise FormatError(_damaged("its directory does not lie where it says"))
            # Names written by agrad contain no Latin letters beyond ASCII; the message shows them escaped.
            name = self._bytes(place, lengths[0]).decode("latin-1")
            if name.endswith("/data.pkl"):
                raise FormatError(
                    "it is a file of torch.save, whose pickled code is not run; in PyTorch write the state_dict with"
                    " safetensors.torch.save_file(state_dict, 'weights.safetensors'), which agrad.load reads"
                )
            if method or flags & ~_UTF8:
                how = f"is compressed (method {method})" if method else f"is encrypted or streamed (flags {flags:#x})"
                raise FormatError(f"its member {name!a:.80} {how}: agrad.save stores bytes as they are")
            if _MAX32 in (packed, size, offset):
                extra = self._bytes(place + lengths[0], lengths[1])
                size, packed, offset = _extended(extra, size, packed, offset)
            if packed != size or disk or offset + _LOCAL.size + lengths[0] + size > self._directory - self._start:
                raise FormatError(_damaged(f"{name!a:.80} does not lie where its directory says"))
            yield Member(name, crc, size, offset)
            place = end
        if place != self._tail:
            raise FormatError(_damaged("its directory is longer than it says"))

    def _unpack(self, form: struct.Struct, place: int) -> tuple[Any, ...]:
        return form.unpack(self._bytes(place, form.size))

    def _bytes(self, place: int, count: int) -> bytearray:
        if place + count > self._length:
            raise FormatError(_damaged("it is too short"))
        self._stream.seek(place)
        data, done = bytearray(count), 0
        while done < count:
            piece = self._stream.read(min(count - done, _PIECE))
            if isinstance(piece, str):
                raise TypeError("load reads bytes, and the file object gave str: open it in binary mode")
            if not piece:
                raise FormatError(_damaged("it is too short"))
            data[done : done + len(piece)] = piece
            done += len(piece)
        return data


def _extended(extra: bytearray, *fields: int) -> list[int]:
    """Return short fields with the saturated ones replaced by the 64-bit ones in the extra field 1."""
    while extra:
        kind, length = struct.unpack_from("<2H", extra) if len(extra) >= 4 else (0, 0)
        if len(extra) < 4 + length:
            break
        if kind == 1:
            large = [value for (value,) in struct.iter_unpack("<Q", extra[4 : 4 + length - length % 8])]
            if len(large) < fields.count(_MAX32):
                break
            return [large.pop(0) if field == _MAX32 else field for field in fields]
        del extra[: 4 + length]
    else:
        return list(fields)
    raise FormatError(_damaged("an entry of its directory is cut off"))


def _damaged(what: str) -> str:
    return f"it is truncated, damaged, or was not written by agrad.save ({what})"
