"""Saving containers of tensors to a file and loading them, without pickle: loading runs no code from the file.

A file is an uncompressed zip archive that any tool can open. ``tree.json`` holds the structure and, per tensor, shape,
dtype, byte order, device and whether it requires a gradient; ``tensors/0``, ``tensors/1``... hold the elements as raw
little-endian bytes in row-major order.

In ``tree.json``, None, True, integers, finite floats, strings and lists represent themselves. Everything else is an
object with one key that names its kind::

    {"tuple": [...]}                     {"dict": [[key, value], ...]}     {"tensor": 0}
    {"int": "0x10000000000000000"}       {"float": "nan"}                  {"complex": [re, im]}
    {"bytes": "YmFzZTY0"}                {"program": {...}}                {"array": 0}

If reading ``tree.json`` takes more than 64 MiB of memory, ``memory`` next to ``version`` says how much: together with
the sizes of the tensors it bounds the allocations of `load`, so that a small file cannot fill the memory.
"""

from __future__ import annotations

import binascii
import functools
import math
import os
import re
import reprlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import IO, Any, NamedTuple

from agrad.core import errors
from agrad.core.backend import backend_of
from agrad.core.tensor import Tensor, wrap
from agrad.numpy.protocol import to_numpy
from agrad.ops.creation import asarray
from agrad.plugin import manager
from agrad.serialization import files
from agrad.serialization.archive import Archive, FormatError

# json, tempfile and zipfile are imported at the first save or load, to keep `import agrad` fast.

__all__ = ["load", "save"]

VERSION = 1
SPOOL_BYTES = 2**24  # What passes through a stream waits in memory up to this size, then on disk.
PIECE = 2**20
Writer = Callable[[IO[bytes]], object]
DRAFT = ".agrad-draft"  # The suffix of a file that will replace another when it is complete.
TREE_BYTES = 2**26  # The memory that tree.json may take without declaring it.
PER_LETTER = 9  # The text exists as bytes and as str, and the strings in it may take four bytes per letter, twice.


class Codec(NamedTuple):
    """Further kinds of objects in files, written as containers.

    Attributes
    ----------
    kind : type
        Its class.
    plain : callable
        Converts an object to a container of tensors.
    made : callable
        Rebuilds an object from such a container, without trusting it: raises `FormatError`.
    """

    kind: type
    plain: Callable[[Any], Any]
    made: Callable[[Any], Any]


#: By the key that stands for it in ``tree.json``.
KINDS: dict[str, Codec] = {}


def register(name: str, kind: Codec) -> None:
    """Register a further kind of object that can be saved and loaded."""
    KINDS[name] = kind


DEPTH = 200  # The nesting limit of containers: everything saved can be loaded, from any stack depth.


def save(obj: Any, file: str | os.PathLike[str] | IO[bytes]) -> None:
    """Write a container of tensors to a file.

    Parameters
    ----------
    obj
        Dicts with str or int keys, lists and tuples, in any nesting, of tensors, arrays, None, bool, int, float,
        complex, str and bytes, and of programs (`agrad.func.Program`), with the outer tensors they use. A tensor that
        occurs twice is stored once and comes back as one tensor; a list or an array that occurs twice comes back as
        two. Of a tensor's graph only ``requires_grad`` is kept.
    file
        A path or a binary file object. A path is replaced only once everything is written: if saving fails, the old
        file and its permissions are unchanged. Temporary files of a process that was killed while saving are removed at
        the next save to that path. Likewise, nothing is written to a file object if `obj` cannot be saved. A path that
        ends in ``.safetensors`` is written in `that format <https://github.com/huggingface/safetensors>`__,
        which other libraries read: `obj` is then a dict of tensors by name, like a module's ``state_dict()``.

    Raises
    ------
    ImportError
        If a safetensors file is requested, and the library is not installed.
    TypeError
        If the container holds anything else; the message says where.
    ValueError
        If the container contains itself, or is nested more than 200 deep.
    BlockingIOError
        If ``write`` of a file object reports that it wrote nothing.

    See Also
    --------
    load

    Examples
    --------
    >>> import io
    >>> import agrad as ag
    >>> file = io.BytesIO()
    >>> ag.save({"weight": ag.asarray([1.0, 2.0]), "epoch": 3}, file)
    >>> ag.load(file)
    {'weight': tensor([1., 2.]), 'epoch': 3}
    """
    write = _safetensors_writer(obj) if _is_safetensors(file) else _writer(obj)  # Most mistakes show here.

    if not isinstance(file, (str, os.PathLike)):
        _write_through(write, file)
        return

    path = os.path.realpath(file)  # A symbolic link stays one.
    there = os.path.exists(path)
    if there and not os.path.isfile(path):
        with open(path, "wb") as stream:  # A pipe or device must not be replaced; a folder raises the usual error.
            _write_through(write, stream)
        return
    folder, name = os.path.split(path)
    start = os.path.join(folder, f".{os.fsdecode(os.fsencode(name)[:200])}.")  # A name has at most 255 bytes.
    for entry in files.beginning(start):
        if entry.name.endswith(DRAFT):
            with suppress(OSError), files.abandoned(entry.path) as left:  # Another process may have removed it.
                if left:
                    os.remove(entry.path)
    # The file that replaces another must not have wider permissions.
    draft = files.locked(lambda: f"{start}{os.urandom(4).hex()}{DRAFT}", 0o600 if there else 0o666)
    try:
        with draft:
            write(draft)
            draft.flush()
            os.fsync(draft.fileno())
            if there:
                os.chmod(draft.name, os.stat(path).st_mode & 0o7777)
            # Windows cannot replace open files; elsewhere the draft stays locked until it is in place.
            if os.name == "nt":
                draft.close()
            os.replace(draft.name, path)
    except BaseException:
        with suppress(FileNotFoundError):
            os.remove(draft.name)
        raise


def save_aside(obj: Any, path: str) -> None:
    """Like `save`, but to a new file that only this process uses: without a draft, and without waiting for the disk."""
    write = _writer(obj)
    with open(path, "xb") as stream:
        write(stream)


def load(
    file: str | os.PathLike[str] | IO[bytes],
    map_location: str | None = None,
    *,
    device: str | None = None,
    weights_only: bool = True,  # noqa: ARG001 (no file holds code)
) -> Any:
    """Read a file written by `save`, or a safetensors file.

    Parameters
    ----------
    file
        A path or a binary file object. A path that ends in ``.safetensors`` is read in that format, whoever wrote it.
    device, map_location
        The device of all tensors, under this library's name or PyTorch's, as ``"numpy"`` or ``"cupy:0"``. Default: the
        device that each was saved from; for files of
        safetensors, which do not record it, the default device.
    weights_only
        True or False, as in scripts for PyTorch: no file holds code, so both read the same.

    Returns
    -------
    Any
        The container. Its tensors are leaves. A program has its own tensors in place of the outer ones.

    Raises
    ------
    ImportError
        As `save`.
    ValueError
        If the file was not written by `save`, is damaged or truncated, has a newer format, or holds a tensor of a
        device that does not exist here (`device` chooses another). Its members must be stored uncompressed: allocations
        do not exceed what the file holds and declares.
    BackendError
        If `device` is unknown or unusable.
    TypeError
        If `map_location` is a function or a dict, or passed together with `device`.

    See Also
    --------
    save

    Examples
    --------
    >>> import io
    >>> import agrad as ag
    >>> file = io.BytesIO()
    >>> ag.save([ag.asarray([True, False]), ("text", 1.5)], file)
    >>> ag.load(file, device="numpy")
    [tensor([ True, False]), ('text', 1.5)]
    """
    if map_location is not None:
        if callable(map_location) or isinstance(map_location, Mapping) or device is not None:
            raise TypeError(f"load() takes one device for all tensors, as device or as map_location{errors.called()}")
        device = map_location
    if device is not None:
        manager.device_of(device)  # A mistake of the caller's, whatever the file contains.
    name = str(file if isinstance(file, (str, os.PathLike)) else getattr(file, "name", "the file object"))
    try:
        if _is_safetensors(file):
            return _load_safetensors(file, device)
        with _seekable(file) as stream:
            archive = Archive(stream)
            entries, tree = _read_header(archive)
            members = archive.tensors(len(entries))
            for index, (member, entry) in enumerate(zip(members, entries, strict=True)):
                if member.size != entry["nbytes"]:
                    raise FormatError(
                        f"tensors/{index} has {member.size} bytes instead of {reprlib.repr(entry['nbytes'])}"
                    )
            tensors = [_make(archive.read(members[i]), i, entry, device) for i, entry in enumerate(entries)]
        return _decode(tree, tensors)
    except FormatError as error:
        raise ValueError(f"cannot load {name}: {error}") from error.__cause__
    except RecursionError:
        raise ValueError(f"cannot load {name}: its containers are nested too deeply") from None


@contextmanager
def _seekable(file: str | os.PathLike[str] | IO[bytes]) -> Iterator[IO[bytes]]:
    """Open a path; copy sources that are not seekable, such as pipes, piece by piece."""
    import tempfile  # noqa: PLC0415

    if isinstance(file, (str, os.PathLike)):
        with open(file, "rb") as opened, _seekable(opened) as stream:
            yield stream
    elif file.seekable():
        yield file
    else:
        with tempfile.SpooledTemporaryFile(SPOOL_BYTES) as spool:
            while piece := file.read(PIECE):
                spool.write(piece)
            if piece is None:
                raise BlockingIOError("cannot load from a stream that has nothing yet: it does not block")
            yield spool


# -- structure --------------------------------------------------------------------------------------------------------


class _Encoder:
    """Writes a container as tree.json has it, and collects its tensors."""

    def __init__(self) -> None:
        self.tensors: list[Tensor] = []
        self._numbers: dict[int, int] = {}  # The position of each tensor in the list, by its id.
        self._open: set[int] = set()  # The ids of the enclosing containers.

    def encode(self, obj: Any, path: str = "") -> Any:
        kind = type(obj)  # Exact classes: a subclass, such as IntEnum or numpy.float64, would not be restored as such.
        if obj is None or kind is bool or kind is str:
            return obj
        if kind is int:
            return obj if -(2**63) <= obj < 2**63 else {"int": hex(obj)}
        if kind is float:
            return obj if math.isfinite(obj) else {"float": repr(obj)}
        if kind is complex:
            return {"complex": [self.encode(obj.real), self.encode(obj.imag)]}
        if kind is bytes:
            return {"bytes": binascii.b2a_base64(obj, newline=False).decode("ascii")}
        if isinstance(obj, Tensor):
            if id(obj) not in self._numbers:
                obj._leaves_transform("save()")
                self._numbers[id(obj)] = len(self.tensors)
                self.tensors.append(obj)
            return {"tensor": self._numbers[id(obj)]}
        owner = backend_of(obj)
        if owner is not None and owner.as_array(obj) is obj:  # a NumPy scalar would be restored as an array
            if id(obj) not in self._numbers:
                self._numbers[id(obj)] = len(self.tensors)
                self.tensors.append(asarray(obj))
            return {"array": self._numbers[id(obj)]}
        for name, other in KINDS.items():
            if isinstance(obj, other.kind):
                return {name: self.encode(other.plain(obj), path)}
        if kind not in {dict, list, tuple}:
            hint = "; make it a tensor with agrad.asarray" if hasattr(obj, "__array__") else ""
            if hasattr(obj, "load_state_dict"):
                hint = (
                    "; save its state, and load it into one that is made anew:\n  agrad.save(model.state_dict(), path)"
                    "\n  model.load_state_dict(agrad.load(path))\n  A file holds no code"
                )
            raise TypeError(f"cannot save {kind.__module__}.{kind.__qualname__}{_at(path)}{hint}.\n  {_SUPPORTED}")
        if id(obj) in self._open:
            raise ValueError(f"cannot save a {kind.__name__} that contains itself{_at(path)}")
        if len(self._open) == DEPTH:
            raise ValueError(f"cannot save containers nested more than {DEPTH} deep{_at(path[:80])}")
        self._open.add(id(obj))
        code = self._container(obj, path)
        self._open.remove(id(obj))
        return code

    def _container(self, obj: Any, path: str) -> Any:
        if type(obj) is not dict:
            items = [self.encode(item, f"{path}[{index}]") for index, item in enumerate(obj)]
            return {"tuple": items} if type(obj) is tuple else items
        for key in obj:
            if type(key) not in {str, int}:
                raise TypeError(f"cannot save the key {key!r} of the dict{_at(path)}: keys are str or int")
        return {"dict": [[self.encode(key), self.encode(obj[key], f"{path}[{key!r}]")] for key in obj]}


_SUPPORTED = "A file holds tensors, arrays, programs, None, bool, int, float, complex, str and bytes in dict, list and tuple, no subclasses."


def _at(path: str) -> str:
    return f" at {path}" if path else ""


def _decode(code: Any, tensors: list[Tensor]) -> Any:
    match code:
        case None | bool() | int() | str():
            return code
        case float() if math.isfinite(code):
            return code
        case list():
            return [_decode(item, tensors) for item in code]
        case {"tuple": list(items), **rest} if not rest:
            return tuple(_decode(item, tensors) for item in items)
        case {"dict": list(pairs), **rest} if not rest and all(isinstance(p, list) and len(p) == 2 for p in pairs):
            found = {_key(_decode(key, tensors)): _decode(value, tensors) for key, value in pairs}
            if len(found) == len(pairs):
                return found
        case {"tensor": int(number), **rest} if not rest and type(number) is int and 0 <= number < len(tensors):
            return tensors[number]
        case {"array": int(number), **rest} if not rest and type(number) is int and 0 <= number < len(tensors):
            return tensors[number]._spec.backend.asarray(tensors[number]._raw, copy=True)
        case {"int": str(digits), **rest} if not rest:
            return _parsed(lambda: int(digits, 16))
        case {"float": "nan" | "inf" | "-inf" as word, **rest} if not rest:
            return float(word)
        case {"complex": [real, imag], **rest} if not rest:
            parts = _decode(real, tensors), _decode(imag, tensors)
            if all(type(part) is float for part in parts):
                return complex(*parts)
        case {"bytes": str(text), **rest} if not rest:
            return _parsed(lambda: binascii.a2b_base64(text, strict_mode=True))
        case dict() if len(code) == 1 and code.keys() <= KINDS.keys():
            name = next(iter(code))
            return KINDS[name].made(_decode(code[name], tensors))
    raise FormatError(f"tree.json has {reprlib.repr(code)}, which means nothing in format version {VERSION}")


def _key(key: Any) -> str | int:
    if type(key) is str or type(key) is int:
        return key
    raise FormatError(f"tree.json has the key {reprlib.repr(key)}: keys are str or int")


def _parsed(parse: Callable[[], Any]) -> Any:
    try:
        return parse()
    except ValueError as error:
        raise FormatError(f"tree.json is damaged: {error!s:.200}") from error


# -- archive ----------------------------------------------------------------------------------------------------------


def _writer(obj: Any) -> Writer:
    """Return the function that writes a container, which is checked now."""
    encoder = _Encoder()
    return functools.partial(_write, encoder.encode(obj), encoder.tensors)


def _write(tree: Any, tensors: list[Tensor], stream: IO[bytes]) -> None:
    import json  # noqa: PLC0415
    import zipfile  # noqa: PLC0415

    def member(name: str) -> zipfile.ZipInfo:
        info = zipfile.ZipInfo(name)  # Its date is fixed, so that equal contents give equal files.
        info.external_attr = 0o644 << 16
        return info

    with zipfile.ZipFile(stream, "w", zipfile.ZIP_STORED) as archive:
        entries = []
        for index, tensor in enumerate(tensors):  # One at a time: the bytes are a copy of the tensor.
            dtype, data = to_bytes(tensor)
            archive.writestr(member(f"tensors/{index}"), data)
            entries.append(
                {
                    "shape": list(tensor.shape),
                    "dtype": dtype,
                    "byteorder": "little",
                    "nbytes": len(data),
                    "requires_grad": tensor.requires_grad,
                    "device": str(tensor.device),
                }
            )
        header = {"format": "agrad", "version": VERSION, "tensors": entries, "tree": tree}
        text = json.dumps(header, allow_nan=False).encode("ascii")
        memory = _memory(text, len(entries)) + 1000  # Which the statement itself takes, and more.
        if memory > TREE_BYTES:
            text = json.dumps({"format": "agrad", "version": VERSION, "memory": memory} | header).encode("ascii")
        archive.writestr(member("tree.json"), text)


def _write_through(write: Writer, stream: IO[bytes]) -> None:
    """Write to a stream only once everything is ready to be written."""
    import tempfile  # noqa: PLC0415

    with tempfile.SpooledTemporaryFile(SPOOL_BYTES) as spool:
        write(spool)
        spool.seek(0)
        while piece := spool.read(PIECE):
            rest = memoryview(piece)
            while rest:
                written = stream.write(rest)
                if not written:
                    raise BlockingIOError(
                        f"the stream took none of {len(rest)} bytes: its write returned {written}, as those do that do"
                        " not block; save to an io.BytesIO first"
                    )
                rest = rest[written:]


def _read_header(archive: Archive) -> tuple[list[dict[str, Any]], Any]:
    import json  # noqa: PLC0415

    found = re.match(_STATED, archive.read(archive.tree, 100))
    stated = max(int(found[1]), TREE_BYTES) if found else TREE_BYTES

    def check(memory: int) -> None:
        if memory > stated:
            raise FormatError(f"its tree.json needs {memory} bytes of memory, and it says {stated}")

    check(PER_LETTER * archive.tree.size)
    data = archive.read(archive.tree)
    check(_memory(data, 0))
    header = _parsed(lambda: json.loads(data.decode("ascii"), parse_constant=_no_number))
    match header:
        case {"format": "agrad", "version": int(version)} if type(version) is int and version > VERSION:
            raise FormatError(
                f"it has format version {reprlib.repr(version)}, and this agrad reads up to {VERSION}: update agrad"
            )
        case {"format": "agrad", "version": int(version), "tensors": list(entries), "tree": tree} if (
            type(version) is int and version == VERSION
        ):
            check(_memory(data, len(entries)))
            for index, entry in enumerate(entries):
                _check_entry(index, entry)
            return entries, tree
    raise FormatError("its tree.json is not one of agrad.save")


#: The beginning of tree.json if it needs much memory.
_STATED = rb'\{"format": "agrad", "version": 1, "memory": (\d{1,18})[,}]'


def _memory(text: bytes | bytearray, tensors: int) -> int:
    """Return a bound of the memory that reading tree.json takes, without the elements of tensors.

    Every value but the first follows one of the marks counted. A tensor has an object in Python, and on Dask a graph.
    """
    return PER_LETTER * len(text) + 72 * sum(map(text.count, (b"[", b"{", b",", b":"))) + 3000 * tensors


def _no_number(word: str) -> float:
    raise ValueError(f"{word} is no JSON")


def _check_entry(index: int, entry: Any) -> None:
    match entry:
        case {"byteorder": str(order)} if order != "little":
            raise FormatError(f"tensor {index} has byte order {order[:20]!r}; only 'little' is defined")
        case {
            "shape": list(shape),
            "dtype": str(),
            "byteorder": "little",
            "nbytes": int(nbytes),
            "requires_grad": bool(),
            "device": str(),
        } if all(type(size) is int and size >= 0 for size in (*shape, nbytes)):
            return
    raise FormatError(f"tree.json describes tensor {index} incompletely")


def _make(data: bytearray, index: int, entry: dict[str, Any], device: str | None) -> Tensor:
    shape, dtype = tuple(entry["shape"]), entry["dtype"]
    try:
        tensor: Tensor = from_bytes(data, dtype, shape, device or entry["device"])
        if entry["requires_grad"]:
            tensor.requires_grad_()
    except errors.BackendError as error:
        place = f"tensor {index} was saved on {entry['device'][:80]!r}; load(file, device=...) puts it elsewhere"
        raise FormatError(f"{place}.\n  {error!s:.400}") from error
    except MemoryError:
        raise
    except Exception as error:
        what = f"tensor {index} is no {dtype[:20]} array of shape {reprlib.repr(shape)}"
        raise FormatError(f"{what}: {error!s:.200}") from error
    return tensor


def to_bytes(tensor: Tensor) -> tuple[str, bytes]:
    """Return a tensor's dtype name and its elements as little-endian bytes in row-major order."""
    array = to_numpy(tensor.detach())
    return str(array.dtype.name), array.astype(array.dtype.newbyteorder("<"), copy=False).tobytes()


def from_bytes(data: bytearray, dtype_name: str, shape: tuple[int, ...], device: str | None = None) -> Tensor:
    """Create a tensor from the output of `to_bytes`; on a host it may use the memory it receives."""
    backend, full = manager.device_of(device)
    raw = backend.from_buffer(data, dtype_name, shape, full)
    return wrap(raw, backend.spec(raw))


# -- safetensors ------------------------------------------------------------------------------------------------------


def _is_safetensors(file: Any) -> bool:
    return isinstance(file, (str, os.PathLike)) and os.fsdecode(file).endswith(".safetensors")


def _safetensors() -> Any:
    try:
        import safetensors.numpy  # noqa: PLC0415
    except ImportError as error:
        raise ImportError(
            f"files that end in .safetensors need the library: pip install safetensors ({error})"
        ) from error
    return safetensors


def _safetensors_writer(obj: Any) -> Writer:
    """Return the function that writes a dict of tensors by name."""
    library = _safetensors()
    if not isinstance(obj, dict):
        raise TypeError(f"a file of safetensors holds a dict of tensors by name, not {type(obj).__name__}")
    arrays = {}
    for name, tensor in obj.items():
        if type(name) is not str or not isinstance(tensor, Tensor):
            raise TypeError(
                f"a file of safetensors holds tensors by name, not {type(tensor).__name__} at [{name!r}]; without"
                " .safetensors at its end, the file takes nested containers, numbers and strings"
            )
        tensor._leaves_transform("save()")
        array = to_numpy(tensor.detach())
        # safetensors.numpy writes an array's memory without regard to its strides.
        arrays[name] = array if array.flags.c_contiguous else array.copy(order="C")
    try:
        data = library.numpy.save(arrays)
    except library.SafetensorError as error:  # a dtype that the format does not have
        raise TypeError(f"cannot save as safetensors: {error}") from error
    return lambda stream: stream.write(data)


def _load_safetensors(path: Any, device: str | None) -> dict[str, Tensor]:
    library = _safetensors()
    with open(path, "rb") as stream:
        data = stream.read()
    try:
        arrays = library.numpy.load(data)
    except library.SafetensorError as error:
        raise FormatError(f"it is no file of safetensors: {error}") from error
    return {
        name: from_bytes(bytearray(array.tobytes()), array.dtype.name, array.shape, device)
        for name, array in arrays.items()
    }
