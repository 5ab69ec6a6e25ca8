from __future__ import annotations

import collections
import contextlib
import importlib
import io
import json
import math
import os
import signal
import stat
import struct
import subprocess
import sys
import threading
import time
import zipfile
from typing import NamedTuple

import numpy as np
import pytest

import agrad as ag

STATE = {
    "name": "ünï\x00 \ud800",
    "layers": [{"weight": 1, "bias": None}, ()],
    3: (True, -5, 2**63 - 1, 2**63, -(2**200)),
    "floats": [0.1, -0.0, 5e-324, 1.7976931348623157e308, math.inf, -math.inf],
    "complex": [1 - 2j, complex(-0.0, math.inf)],
    "bytes": [b"", bytes(range(256))],
    "empty": [{}, [], (), ""],
    "": {-1: 0},
}


def saved(obj):
    file = io.BytesIO()
    ag.save(obj, file)
    return file


def again(obj):
    return ag.load(saved(obj))


def rewritten(file, change):
    """Give a copy of a file after `change` of its tree.json."""
    result = io.BytesIO()
    with zipfile.ZipFile(file) as old, zipfile.ZipFile(result, "w") as new:
        for name in old.namelist():
            data = old.read(name)
            if name == "tree.json":
                header = json.loads(data)
                change(header)
                data = json.dumps(header)
            new.writestr(name, data)
    return result


# -- round trips ------------------------------------------------------------------------------------------------------


def test_plain_values_come_back_as_they_were():
    result = again(STATE)
    assert result == STATE
    assert repr(result) == repr(STATE)  # Types, signs of zeros and the order of keys.


def test_nan_comes_back():
    result = again([math.nan, complex(math.nan, 1.0)])
    assert math.isnan(result[0])
    assert math.isnan(result[1].real)
    assert result[1].imag == 1.0


@pytest.mark.parametrize("obj", [None, 1, "text", 2.5, [], ()])
def test_the_top_may_be_anything(obj):
    assert again(obj) == obj
    assert type(again(obj)) is type(obj)


@pytest.mark.parametrize(
    ("dtype", "values"),
    [
        ("bool", [True, False]),
        ("int8", [-128, 127]),
        ("int16", [-(2**15), 2**15 - 1]),
        ("int32", [-(2**31), 2**31 - 1]),
        ("int64", [-(2**63), 2**63 - 1]),
        ("uint8", [0, 255]),
        ("uint16", [0, 2**16 - 1]),
        ("uint32", [0, 2**32 - 1]),
        ("uint64", [0, 2**64 - 1]),
        ("float32", [1.5, -math.inf]),
        ("float64", [0.1, -0.0]),
        ("complex64", [1 - 2j, 0.5]),
        ("complex128", [0.1 + 0.2j, -1j]),
    ],
)
def test_every_dtype(dtype, values):
    result = again(ag.asarray(values, dtype=dtype))
    assert ag.isdtype(result.dtype, getattr(ag, dtype))
    assert result.tolist() == values
    assert repr(result.tolist()) == repr(ag.asarray(values, dtype=dtype).tolist())


@pytest.mark.parametrize("shape", [(), (0,), (2, 0, 3), (1,), (2, 3), (1, 2, 1)])
def test_every_shape(shape):
    result = again(ag.ones(shape))
    assert result.shape == shape
    assert result.sum().item() == math.prod(shape)


@pytest.mark.parametrize("backend", ["dask"], indirect=True)
def test_empty_shapes_of_large_sizes(backend):
    assert again(ag.zeros((10**6, 0), device=backend, dtype="int8")).shape == (10**6, 0)


def test_layout_of_the_memory_does_not_matter():
    x = ag.reshape(ag.arange(6.0), (2, 3))
    assert again(x.T).tolist() == [[0.0, 3.0], [1.0, 4.0], [2.0, 5.0]]
    assert again(x[:, ::-2]).tolist() == [[2.0, 0.0], [5.0, 3.0]]


def test_requires_grad_is_kept_and_the_graph_is_not():
    leaf = ag.tensor([1.0], requires_grad=True)
    first, second, third = again([leaf, leaf * 2, leaf.detach()])
    assert [first.requires_grad, second.requires_grad, third.requires_grad] == [True, True, False]
    assert second.grad_fn is None
    (second * 3).sum().backward()
    assert second.grad.tolist() == [3.0]
    assert leaf.grad is None


def test_loading_under_no_grad():
    file = saved(ag.tensor([1.0], requires_grad=True))
    with ag.no_grad():
        assert ag.load(file).requires_grad


def test_a_shared_tensor_is_stored_once_and_stays_one():
    weight = ag.asarray([1.0, 2.0])
    file = saved({"encoder": weight, "decoder": [weight], "copy": ag.asarray([1.0, 2.0])})
    with zipfile.ZipFile(file) as archive:
        assert archive.namelist() == ["tensors/0", "tensors/1", "tree.json"]
    result = ag.load(file)
    assert result["encoder"] is result["decoder"][0]
    assert result["encoder"] is not result["copy"]


def test_loaded_tensors_are_independent_of_the_file_and_of_each_other():
    file = saved([ag.zeros(2), ag.zeros(2)])
    first, second = ag.load(file)
    first += 1
    assert second.tolist() == [0.0, 0.0]
    assert ag.load(file)[0].tolist() == [0.0, 0.0]


def test_device():
    file = saved(ag.asarray([1.0], device="numpy"))
    assert ag.load(file).device == "numpy"
    assert ag.load(file, device="numpy").device == "numpy"


def test_a_missing_backend_is_named_with_the_way_out():
    def elsewhere(header):
        header["tensors"][0]["device"] = "nowhere:3"

    file = rewritten(saved(ag.asarray([1.0])), elsewhere)
    message = r"tensor 0 was saved on 'nowhere:3'; load\(file, device=\.\.\.\) puts it elsewhere\.\n  unknown backend"
    with pytest.raises(ValueError, match=message):
        ag.load(file)
    with pytest.raises(ag.BackendError, match="unknown backend 'elsewhere'"):
        ag.load(file, device="elsewhere")
    assert ag.load(file, device="numpy").tolist() == [1.0]


# -- the format -------------------------------------------------------------------------------------------------------


def test_the_format():
    file = saved({"w": ag.tensor([[1.0, -2.0]], dtype="float32", requires_grad=True), 1: (b"\x00", 0.5)})
    with zipfile.ZipFile(file) as archive:
        assert all(info.compress_type == zipfile.ZIP_STORED for info in archive.infolist())
        assert archive.read("tensors/0") == struct.pack("<2f", 1.0, -2.0)
        assert json.loads(archive.read("tree.json")) == {
            "format": "agrad",
            "version": 1,
            "tensors": [
                {
                    "shape": [1, 2],
                    "dtype": "float32",
                    "byteorder": "little",
                    "nbytes": 8,
                    "requires_grad": True,
                    "device": "numpy",
                }
            ],
            "tree": {"dict": [["w", {"tensor": 0}], [1, {"tuple": [{"bytes": "AA=="}, 0.5]}]]},
        }


def test_equal_content_gives_equal_files():
    assert saved([STATE, ag.ones(3)]).getvalue() == saved([STATE, ag.ones(3)]).getvalue()


# -- files ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [str, lambda path: path], ids=["str", "Path"])
def test_paths(tmp_path, make):
    path = make(tmp_path / "state.agrad")
    ag.save({"x": ag.ones(2)}, path)
    ag.save({"x": ag.zeros(2)}, path)
    assert ag.load(path)["x"].tolist() == [0.0, 0.0]
    assert os.listdir(tmp_path) == ["state.agrad"]


def test_a_name_without_a_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    ag.save(1, "state")
    assert ag.load("state") == 1


def test_a_file_object_may_have_content_before(tmp_path):
    with open(tmp_path / "state", "w+b") as file:
        file.write(b"header")
        ag.save([1, ag.ones(1)], file)
        file.seek(0)
        assert ag.load(file)[1].tolist() == [1.0]


def test_a_stream_without_seek():
    read, write = os.pipe()

    def send():
        with open(write, "wb") as file:
            ag.save([ag.arange(3.0)], file)

    sender = threading.Thread(target=send)
    sender.start()
    with open(read, "rb") as file:
        assert ag.load(file)[0].tolist() == [0.0, 1.0, 2.0]
    sender.join()


class Broken(io.BytesIO):
    def __init__(self):
        super().__init__()
        self.written = 0

    def write(self, data):
        self.written += len(data)
        return super().write(data)


@pytest.mark.parametrize("bad", [object(), [ag.ones], {"x": {1, 2}}])
def test_a_failed_save_leaves_nothing(tmp_path, bad):
    path = tmp_path / "state"
    ag.save("old", path)
    stream = Broken()
    for file in (path, tmp_path / "new", stream):
        with pytest.raises(TypeError):
            ag.save([ag.ones(3), bad], file)
    assert ag.load(path) == "old"
    assert os.listdir(tmp_path) == ["state"]
    assert stream.written == 0


def test_a_save_that_fails_while_writing_leaves_the_old_file(tmp_path, monkeypatch):
    from agrad import serialization

    def failing(tensor):
        raise KeyboardInterrupt

    path = tmp_path / "state"
    ag.save("old", path)
    monkeypatch.setattr(serialization, "to_bytes", failing)
    with pytest.raises(KeyboardInterrupt):
        ag.save([ag.ones(3)], path)
    stream = Broken()
    with pytest.raises(KeyboardInterrupt):
        ag.save([ag.ones(3)], stream)
    assert ag.load(path) == "old"
    assert os.listdir(tmp_path) == ["state"]
    assert stream.written == 0


@pytest.mark.skipif(sys.platform == "win32", reason="modes and links are POSIX")
def test_mode_and_symbolic_link_stay(tmp_path):
    path, link = tmp_path / "state", tmp_path / "link"
    ag.save(1, path)
    ordinary = tmp_path / "ordinary"
    ordinary.write_bytes(b"")
    assert stat.S_IMODE(path.stat().st_mode) == stat.S_IMODE(ordinary.stat().st_mode)
    path.chmod(0o600)
    link.symlink_to(path)
    ag.save(2, link)
    assert link.is_symlink()
    assert ag.load(path) == 2
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


@pytest.mark.skipif(sys.platform == "win32", reason="modes are POSIX")
@pytest.mark.parametrize("mode", [0o600, 0o640, 0o400])
def test_a_draft_is_never_open_to_more_than_what_it_replaces(tmp_path, monkeypatch, mode):
    from agrad import serialization

    path, seen = tmp_path / "state", []
    ag.save(1, path)
    path.chmod(mode)
    real = serialization.to_bytes

    def looking(tensor):
        seen.extend(stat.S_IMODE(entry.stat().st_mode) for entry in os.scandir(tmp_path))
        return real(tensor)

    monkeypatch.setattr(serialization, "to_bytes", looking)
    ag.save([ag.ones(2)], path)
    assert len(seen) == 2
    assert not [oct(found) for found in seen if found & ~mode & 0o077]
    assert stat.S_IMODE(path.stat().st_mode) == mode


SAVES = """
import os, signal, sys
import agrad as ag
from agrad import serialization

def to_bytes(tensor):
    os.kill(os.getpid(), signal.SIGKILL)

serialization.to_bytes = to_bytes
ag.save([ag.ones(2)], sys.argv[1])
"""


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs SIGKILL, and locks that end with a process")
def test_the_draft_of_a_killed_process_goes_with_the_next_save(tmp_path):
    path, other = tmp_path / "state", tmp_path / "state.old"
    ag.save("old", path)
    done = subprocess.run([sys.executable, "-c", SAVES, str(path)], check=False)
    assert done.returncode == -signal.SIGKILL
    assert len(os.listdir(tmp_path)) == 2
    assert ag.load(path) == "old"
    ag.save("other", other)
    assert len(os.listdir(tmp_path)) == 3  # another file's draft is none of its business
    ag.save("new", path)
    assert sorted(os.listdir(tmp_path)) == ["state", "state.old"]
    assert ag.load(path) == "new"


@pytest.mark.skipif(sys.platform == "win32", reason="a file that is read cannot be replaced")
def test_a_draft_in_use_stays(tmp_path, monkeypatch):
    from agrad import serialization

    path, real, results = tmp_path / "state", serialization.to_bytes, []

    def nested(tensor):
        monkeypatch.setattr(serialization, "to_bytes", real)
        thread = threading.Thread(target=lambda: results.append(ag.save([ag.zeros(2)], path)))
        thread.start()
        thread.join()
        results.append(ag.load(path)[0].tolist())
        return real(tensor)

    monkeypatch.setattr(serialization, "to_bytes", nested)
    ag.save([ag.ones(2)], path)
    assert results == [None, [0.0, 0.0]]
    assert ag.load(path)[0].tolist() == [1.0, 1.0]
    assert os.listdir(tmp_path) == ["state"]


def test_processes_that_save_to_one_path(tmp_path):
    path = tmp_path / "state"
    source = "import sys, agrad as ag\nfor i in range(30): ag.save([ag.full((1000,), i)], sys.argv[1])"
    processes = [subprocess.Popen([sys.executable, "-c", source, str(path)]) for _ in range(3)]
    assert [process.wait() for process in processes] == [0, 0, 0]
    assert ag.load(path)[0].tolist() == [29.0] * 1000
    assert os.listdir(tmp_path) == ["state"]


KILLS = int(os.environ.get("AGRAD_KILLED_SAVES", "4"))


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs SIGKILL, and locks that end with a process")
def test_killed_at_any_moment_the_old_file_or_the_new_is_there(tmp_path):
    """``AGRAD_KILLED_SAVES=150`` kills as many processes."""
    path = tmp_path / "state"
    source = (
        "import sys, agrad as ag\ni = 0\n"
        "while True:\n    ag.save([i, ag.full((50_000,), i)], sys.argv[1]); i += 1; print(i, flush=True)"
    )
    for number in range(KILLS):
        with subprocess.Popen([sys.executable, "-c", source, str(path)], stdout=subprocess.PIPE) as process:
            process.stdout.readline()
            time.sleep(0.003 * (number % 17))
            process.kill()
        found = ag.load(path)
        assert found[1].tolist() == [found[0]] * 50_000
        assert stat.S_IMODE(path.stat().st_mode) & 0o111 == 0
    ag.save("last", path)
    assert os.listdir(tmp_path) == ["state"]


@pytest.mark.parametrize("length", [1, 200, 250, 255])
def test_long_names(tmp_path, length):
    path = tmp_path / ("n" * length)
    ag.save(length, path)
    ag.save(length, path)
    assert ag.load(path) == length


class Slow(io.RawIOBase):
    """A raw stream that takes a few bytes at a time, and after `most` none."""

    def __init__(self, most, says):
        self.taken, self.most, self.says = b"", most, says

    def writable(self):
        return True

    def write(self, data):
        if len(self.taken) >= self.most:
            return self.says
        self.taken += bytes(data[:7])
        return len(data[:7])


def test_a_stream_that_takes_less_than_it_is_given():
    stream = Slow(10**6, None)
    ag.save([ag.arange(100)], stream)
    assert ag.load(io.BytesIO(stream.taken))[0].tolist() == list(range(100))


@pytest.mark.parametrize("says", [None, 0])
def test_a_stream_that_takes_nothing(says):
    with pytest.raises(BlockingIOError, match=f"took none of .* bytes: its write returned {says}"):
        ag.save([ag.arange(100)], Slow(100, says))


def test_a_stream_that_gives_less_than_it_is_asked_for():
    class Trickle(io.BytesIO):
        def read(self, size=-1):
            return super().read(min(size, 5) if size > 0 else size)

    assert again([ag.arange(100)])[0].tolist() == ag.load(Trickle(saved([ag.arange(100)]).getvalue()))[0].tolist()


def test_text_streams(tmp_path):
    path = tmp_path / "state"
    ag.save(1, path)
    with open(path, encoding="latin-1") as file, pytest.raises(TypeError, match="open it in binary mode"):
        ag.load(file)


@pytest.mark.skipif(not os.path.exists("/dev/null"), reason="needs /dev/null")
def test_a_device_is_written_to_and_not_replaced():
    ag.save([1, ag.ones(2)], "/dev/null")
    assert not os.path.isfile("/dev/null")


def test_missing_file_and_folder(tmp_path):
    with pytest.raises(FileNotFoundError):
        ag.load(tmp_path / "none")
    with pytest.raises(FileNotFoundError):
        ag.save(1, tmp_path / "none" / "state")
    with pytest.raises(IsADirectoryError):
        ag.save(1, tmp_path)


# -- what cannot be saved ---------------------------------------------------------------------------------------------


class Pair(NamedTuple):
    a: int
    b: int


class Text(str):
    __slots__ = ()


@pytest.mark.parametrize(
    ("obj", "message"),
    [
        ({"layers": [0, {3: {1}}]}, r"cannot save builtins\.set at \['layers'\]\[1\]\[3\]\."),
        (object(), r"cannot save builtins\.object\."),
        ([Pair(1, 2)], r"Pair at \[0\]"),
        ((collections.OrderedDict(),), r"cannot save collections\.OrderedDict at \[0\]"),
        ([Text("a")], r"Text at \[0\]"),
        ({"a": {(1, 2): 3}}, r"cannot save the key \(1, 2\) of the dict at \['a'\]: keys are str or int"),
        ({True: 1}, "cannot save the key True of the dict: keys are str or int"),
    ],
)
def test_unsupported_objects_are_named_with_their_path(obj, message):
    with pytest.raises(TypeError, match=message):
        saved(obj)


def test_raw_arrays_come_back_as_arrays():
    numpy = pytest.importorskip("numpy")
    array = numpy.arange(6, dtype="int32").reshape(2, 3).T
    found = again({"x": [array, array], "t": ag.asarray(array)})
    first, second = found["x"]
    assert type(first) is type(second) is numpy.ndarray
    assert isinstance(found["t"], ag.Tensor)
    assert first.dtype == array.dtype
    assert numpy.array_equal(first, array)
    first[0, 0] = 9  # it may be written to, and is nobody else's
    assert numpy.array_equal(second, array)
    with pytest.raises(TypeError, match="dtype object"):
        saved(numpy.asarray([None]))


def test_raw_scalars_are_told_to_become_tensors():
    numpy = pytest.importorskip("numpy")
    with pytest.raises(TypeError, match=r"numpy\.float64 at \[0\]; make it a tensor with agrad\.asarray"):
        saved([numpy.float64(1.0)])


def test_a_container_that_contains_itself():
    loop = {"a": []}
    loop["a"].append(loop)
    with pytest.raises(ValueError, match=r"a dict that contains itself at \['a'\]\[0\]"):
        saved(loop)
    twice = [1]
    assert again([twice, twice]) == [[1], [1]]


def test_containers_that_are_nested_too_deeply():
    def nested(depth):
        obj = 1
        for _ in range(depth):
            obj = {"a": obj}
        return obj

    assert again(nested(200)) == nested(200)
    with pytest.raises(ValueError, match="cannot save containers nested more than 200 deep at"):
        saved(nested(201))


def test_a_tree_that_needs_memory_says_so():
    obj = [0] * 800_000
    file = saved(obj)
    with zipfile.ZipFile(file) as archive:
        assert 2**26 < json.loads(archive.read("tree.json"))["memory"] < 2**28
    assert ag.load(file) == obj
    with pytest.raises(ValueError, match=r"needs \d+ bytes of memory, and it says"):
        ag.load(rewritten(file, lambda header: header.pop("memory")))


# -- what cannot be loaded --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("content", [b"", b"not a zip file", b"PK\x03\x04", b"\x80\x04K\x01." * 100])
def test_foreign_files(tmp_path, content):
    path = tmp_path / "foreign"
    path.write_bytes(content)
    with pytest.raises(
        ValueError, match=r"cannot load .*foreign: it is truncated, damaged, or was not written by agrad"
    ):
        ag.load(path)
    with pytest.raises(ValueError, match="cannot load the file object"):
        ag.load(io.BytesIO(content))


def test_foreign_zip_files():
    for name, content in [("data.pkl", b""), ("tree.json", b"[1]"), ("tree.json", b'{"format": "other"}')]:
        file = io.BytesIO()
        with zipfile.ZipFile(file, "w") as archive:
            archive.writestr(name, content)
        with pytest.raises(ValueError, match=r"cannot load the file object: .*tree\.json"):
            ag.load(file)


def test_every_truncation_is_found():
    content = saved({"x": ag.ones(3), "y": [1, 2.5]}).getvalue()
    for length in range(len(content)):
        with pytest.raises(ValueError, match="cannot load"):
            ag.load(io.BytesIO(content[:length]))


def test_no_flipped_byte_changes_a_value():
    content = saved([ag.asarray([1.0, 2.0]), "text"]).getvalue()
    unnoticed = 0
    for position in range(len(content)):
        damaged = bytearray(content)
        damaged[position] ^= 0xFF
        with contextlib.suppress(ValueError):
            result = ag.load(io.BytesIO(bytes(damaged)))
            unnoticed += 1  # A byte that carries nothing, such as the date.
            assert [result[0].tolist(), result[1]] == [[1.0, 2.0], "text"]
    assert unnoticed < len(content) / 2


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("version", 2, "format version 2, and this agrad reads up to 1: update agrad"),
        ("version", 0, "is not one of agrad.save"),
        ("version", True, "is not one of agrad.save"),
        ("tensors", [], "tree.json describes 0 tensors, and 1 are there"),
        ("tensors", [{}], "describes tensor 0 incompletely"),
        ("tensors", None, "is not one of agrad.save"),
        ("tree", {"tensor": -1}, "means nothing"),
        ("tree", {"tensor": 1}, "means nothing in format version 1"),
        ("tree", {"array": 1}, "means nothing in format version 1"),
        ("tree", {"array": 0, "more": 0}, "means nothing"),
        ("tree", {"tensor": False}, "means nothing"),
        ("tree", {"set": []}, "means nothing"),
        ("tree", {"tuple": [], "more": 1}, "means nothing"),
        ("tree", {"int": "zz"}, "damaged"),
        ("tree", {"float": "1.5"}, "means nothing"),
        ("tree", {"bytes": "*"}, "damaged"),
        ("tree", {"complex": [1.0]}, "means nothing"),
        ("tree", {"dict": [["a", 1], ["a", 2]]}, "means nothing"),
        ("tree", {"dict": [[None, 1]]}, "keys are str or int"),
    ],
)
def test_a_tree_that_save_would_not_write(key, value, message):
    file = rewritten(saved([ag.ones(2)]), lambda header: header.__setitem__(key, value))
    with pytest.raises(ValueError, match=message):
        ag.load(file)


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("nbytes", 15, r"tensors/0 has 16 bytes instead of 15"),
        ("byteorder", "big", "tensor 0 has byte order 'big'"),
        ("shape", [-2, -1], "describes tensor 0 incompletely"),
        ("shape", "2", "describes tensor 0 incompletely"),
        ("dtype", 8, "describes tensor 0 incompletely"),
        ("dtype", "float99", r"tensor 0 is no float99 array of shape \(2,\)"),
        ("dtype", "object", r"tensor 0 is no object array of shape \(2,\)"),
        ("dtype", "float32", r"tensor 0 is no float32 array of shape \(2,\)"),
        ("shape", [3], r"tensor 0 is no float64 array of shape \(3,\)"),
        ("requires_grad", "yes", "describes tensor 0 incompletely"),
    ],
)
def test_an_entry_that_save_would_not_write(key, value, message):
    file = rewritten(saved([ag.ones(2)]), lambda header: header["tensors"][0].__setitem__(key, value))
    with pytest.raises(ValueError, match=message):
        ag.load(file)


# -- safetensors ------------------------------------------------------------------------------------------------------


@pytest.fixture
def library():
    pytest.importorskip("safetensors")
    return importlib.import_module("safetensors.numpy")


DTYPES = [
    "bool",
    "int8",
    "uint8",
    "int16",
    "uint16",
    "int32",
    "uint32",
    "int64",
    "uint64",
    "float16",
    "float32",
    "float64",
]
ARRAYS = {dtype: np.arange(6).reshape(2, 3).astype(dtype) for dtype in [*DTYPES, "complex64"]} | {
    "transposed": np.arange(6.0).reshape(2, 3).T,
    "every other": np.arange(6.0)[::2],
    "0-d": np.asarray(3),
    "empty": np.zeros((0, 2)),
}


def test_safetensors_are_those_of_the_library(library, tmp_path):
    path = tmp_path / "arrays.safetensors"
    ag.save({name: ag.asarray(array) for name, array in ARRAYS.items()}, path)
    written = library.load(path.read_bytes())
    library.save_file({name: array.copy() for name, array in ARRAYS.items()}, path, {"made by": "another"})
    read = ag.load(path)
    for name, array in ARRAYS.items():
        np.testing.assert_array_equal(written[name], array, strict=True)
        np.testing.assert_array_equal(read[name].numpy(), array, strict=True)
        assert not read[name].requires_grad


def test_a_module_goes_through_safetensors(library, tmp_path):
    def make():
        return ag.nn.Sequential(ag.nn.Linear(3, 4), ag.nn.BatchNorm1d(4))

    net, other = make(), make()
    net(ag.randn(5, 3))
    ag.save(net.state_dict(), tmp_path / "net.safetensors")
    other.load_state_dict(ag.load(str(tmp_path / "net.safetensors"), device="numpy"))
    for name, tensor in net.state_dict().items():
        np.testing.assert_array_equal(other.state_dict()[name].numpy(), tensor.numpy(), strict=True)


@pytest.mark.parametrize(
    ("obj", "message"),
    [
        ([ag.ones(2)], "a dict of tensors by name, not list"),
        ({1: ag.ones(2)}, r"not Tensor at \[1\]"),
        ({"epoch": 3}, r"not int at \['epoch'\]"),
        ({"z": ag.ones(2, dtype=ag.complex128)}, 'Unknown dtype "complex128"'),
    ],
)
def test_what_safetensors_cannot_hold_leaves_the_file_as_it_was(library, tmp_path, obj, message):
    path = tmp_path / "net.safetensors"
    ag.save({"a": ag.ones(2)}, path)
    before = path.read_bytes()
    with pytest.raises(TypeError, match=message):
        ag.save(obj, path)
    assert [file.read_bytes() for file in tmp_path.iterdir()] == [before]


@pytest.mark.parametrize("cut", [0, 7, -1])
def test_damaged_safetensors_are_named(library, tmp_path, cut):
    path = tmp_path / "net.safetensors"
    ag.save({"a": ag.ones(2)}, path)
    path.write_bytes(path.read_bytes()[:cut])
    with pytest.raises(ValueError, match=r"cannot load .*net\.safetensors: it is no file of safetensors"):
        ag.load(path)


def test_safetensors_without_the_library_say_what_to_install(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "safetensors", None)
    monkeypatch.setitem(sys.modules, "safetensors.numpy", None)
    with pytest.raises(ImportError, match="need the library: pip install safetensors"):
        ag.save({"a": ag.ones(2)}, tmp_path / "net.safetensors")
    assert not list(tmp_path.iterdir())


def test_a_whole_module_is_refused_with_the_lines_to_write():
    with pytest.raises(TypeError) as raised:
        ag.save({"model": ag.nn.Linear(2, 1)}, io.BytesIO())
    message = str(raised.value)
    assert message.startswith("cannot save agrad.nn.layers.Linear at ['model']; save its state")
    assert "\n  agrad.save(model.state_dict(), path)\n  model.load_state_dict(agrad.load(path))\n" in message


def test_a_directory_with_sizes_of_64_bits(tmp_path, monkeypatch):
    """As zipfile writes the extra fields of archives beyond 4 GiB."""
    ag.save({"w": ag.asarray([1.0, 2.0, 3.0]), "name": "x"}, tmp_path / "small.agrad")
    monkeypatch.setattr(zipfile, "ZIP64_LIMIT", 1)
    with zipfile.ZipFile(tmp_path / "small.agrad") as small, zipfile.ZipFile(tmp_path / "large.agrad", "w") as large:
        for member in small.namelist():
            large.writestr(member, small.read(member))
    data = (tmp_path / "large.agrad").read_bytes()
    assert b"PK\6\6" in data
    assert b"\xff\xff\xff\xff" in data[data.index(b"PK\1\2") :]
    found = ag.load(tmp_path / "large.agrad")
    assert found["name"] == "x"
    assert found["w"].tolist() == [1.0, 2.0, 3.0]
