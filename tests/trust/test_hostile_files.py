"""Files made to break `load`: each raises ValueError or loads, and takes no memory but what it states.

``AGRAD_HOSTILE_FILES=20000 pytest tests/trust/test_hostile_files.py`` draws more of them than usual.
"""

from __future__ import annotations

import binascii
import copy
import io
import json
import os
import random
import re
import struct
import subprocess
import sys
import zipfile
import zlib

import pytest

import agrad as ag

DRAWN = int(os.environ.get("AGRAD_HOSTILE_FILES", "400"))
MOST = 100 * 2**20  # bytes beyond what a file states


# -- zip archives, right in everything that is not asked to be wrong --------------------------------------------------


def member(name, data, **wrong):
    """Describe a member; `wrong` replaces fields of its records."""
    right = {"flags": 0, "method": 0, "crc": binascii.crc32(data), "packed": len(data), "size": len(data)}
    return {"name": name, "data": data, "extra": b"", "comment": b"", "local": {}, **right, **wrong}


def local(m):
    f = m | m["local"]
    name = f["name"].encode("utf-8")
    numbers = (
        20,
        f["flags"],
        f["method"],
        0,
        33,
        f["crc"],
        f["packed"],
        f["size"],
        len(name),
        len(f.get("inner", b"")),
    )
    return struct.pack("<4s5H3L2H", b"PK\3\4", *numbers) + name + f.get("inner", b"")


def archive(members, end=(), before=b"", zip64=None, repeat=1):
    """Give the bytes of an archive; `end` replaces fields of its last record, `zip64` adds records of 64 bits."""
    body, directory = before, b""
    for m in members:
        offset = m.get("offset", len(body) - len(before))
        name = m["name"].encode("utf-8")
        numbers = (20, 20, m["flags"], m["method"], 0, 33, m["crc"], m["packed"], m["size"])
        lengths = (len(name), len(m["extra"]), len(m["comment"]), m.get("disk", 0), 0, m.get("mode", 0o644 << 16))
        directory += (
            struct.pack("<4s6H3L5H2L", b"PK\1\2", *numbers, *lengths, offset) + name + m["extra"] + m["comment"]
        )
        body += local(m) + m["data"]
    directory *= repeat
    count, size, offset = len(members) * repeat, len(directory), len(body) - len(before)
    tail = b""
    if zip64 is not None:
        z = {"own": 44, "count": count, "here": count, "size": size, "offset": offset, "place": offset + size} | zip64
        tail = struct.pack(
            "<4sQ2H2L4Q", b"PK\6\6", z["own"], 45, 45, 0, 0, z["here"], z["count"], z["size"], z["offset"]
        )
        tail += struct.pack("<4sLQL", b"PK\6\7", 0, z["place"], z.get("disks", 1))
        count, size, offset = z.get("short", (2**16 - 1, 2**32 - 1, 2**32 - 1))
    e = {"count": count, "size": size, "offset": offset, "comment": b"", "disk": 0} | dict(end)
    e["here"] = e.get("here", e["count"])
    numbers = (e["disk"], e["disk"], min(e["here"], 65535), min(e["count"], 65535), e["size"], e["offset"])
    last = struct.pack("<4s4H2LH", b"PK\5\6", *numbers, len(e["comment"])) + e["comment"]
    return body + directory + tail + last


def described(shape=(2,), dtype="float64", nbytes=16, **more):
    return {
        "shape": list(shape),
        "dtype": dtype,
        "byteorder": "little",
        "nbytes": nbytes,
        "requires_grad": False,
        "device": "numpy",
        **more,
    }


def text(tree="null", tensors="[]", version="1", more=""):
    return f'{{"format": "agrad", "version": {version},{more} "tensors": {tensors}, "tree": {tree}}}'.encode()


def file_of(tree, **options):
    """Give a file without tensors, right but for its tree, which is JSON."""
    return archive([member("tree.json", text(tree, **options))])


TWO = struct.pack("<2d", 1.0, -2.0)


def with_tensor(data=TWO, entry=(), tree=b'[{"tensor": 0}]', **wrong):
    """Give a file of one tensor, right but for its bytes, its description or fields of its records."""
    entries = json.dumps([described(nbytes=len(data)) | dict(entry)])
    head = text(tree.decode(), entries)
    return archive([member("tensors/0", data, **wrong), member("tree.json", head)])


def compressed(name, data):
    """Describe a member that is compressed."""
    squeeze = zlib.compressobj(1, zlib.DEFLATED, -15)
    packed = squeeze.compress(data) + squeeze.flush()
    return member(name, packed, method=8, size=len(data), crc=binascii.crc32(data))


def written():
    """Give hostile files by name, and two that are right and unusual."""
    head = text('[{"tensor": 0}]', json.dumps([described()]))
    good = [member("tensors/0", TWO), member("tree.json", head)]
    one = member("tree.json", text())
    yield "right", archive(good)
    yield "right, with zip64 records", archive(good, zip64={})
    yield "right, in another order", archive(good[::-1])
    yield "right, with bytes before", archive(good, before=b"#!/bin/sh\n" * 100)

    for method in (1, 8, 9, 12, 14, 93, 95, 99, 65535):
        yield f"method {method}", with_tensor(method=method)
    for flag in (1, 8, 0x20, 0x40, 0x2000):
        yield f"flag {flag:#x}", with_tensor(flags=flag)
        yield f"flag {flag:#x} in the member only", with_tensor(local={"flags": flag})
    yield "compressed in the member only", with_tensor(local={"method": 8})
    yield "another name in the member", with_tensor(local={"name": "tensors/1"})
    yield "a name that is no ASCII", archive([member("tensors/\u0660", TWO), good[1]])
    yield "a long name", archive([member("tensors/" + "0" * 60_000, TWO), good[1]])
    yield "no such tensor", archive([member("tensors/7", TWO), good[1]])
    yield "a path out", archive([*good, member("../../etc/passwd", b"root")])
    yield "a symbolic link", archive([*good, member("tensors/1", b"/etc/passwd", mode=0o120777 << 16)])
    yield "a directory", archive([*good, member("tensors/", b"")])
    yield "two trees", archive([*good, one])
    yield "two tensors of one name", archive([good[0], *good])
    yield (
        "two tensors of one name, two described",
        archive([good[0], good[0], member("tree.json", text("[]", json.dumps([described()] * 2)))]),
    )
    yield "no tree", archive(good[:1])
    yield "no tensor", archive(good[1:])
    yield "nothing", archive([])
    yield "a member within another", archive([good[0], member("tree.json", head, offset=16)])
    yield "a member within the directory", archive([good[0], member("tree.json", head, offset=len(head) + 150)])
    yield "a member beyond the end", archive([good[0], member("tree.json", head, offset=2**31)])
    for field in ("packed", "size"):
        for value in (0, 15, 17, 2**31 - 1, 2**32 - 1):
            yield f"{field} {value}", with_tensor(**{field: value})
            yield f"{field} {value} in the member only", with_tensor(local={field: value})
    for value in (0, 15, 17, 2**31, 2**32 - 1):
        yield f"both sizes {value}", with_tensor(size=value, packed=value)
    yield "another checksum", with_tensor(crc=1)
    yield "longer than its description", with_tensor(entry={"nbytes": 8})
    yield "shorter than its description", with_tensor(entry={"nbytes": 2**40, "shape": [2**37]})
    yield "a longer extra field in the member", with_tensor(local={"inner": bytes(60_000)})
    for extra in EXTRAS:
        yield f"an extra field {extra!r}", with_tensor(extra=extra)
        yield f"an extra field {extra!r} of a large member", with_tensor(extra=extra, size=2**32 - 1, packed=2**32 - 1)
    yield "on another disk", with_tensor(disk=1)
    for field in ("count", "here", "size", "offset", "disk"):
        for value in (0, 1, 3, 65535) if field in ("count", "here", "disk") else (0, 1, 2**31, 2**32 - 1):
            yield f"{field} {value} at the end", archive(good, end={field: value})
    yield "a comment", archive(good, end={"comment": b"hello"})
    yield "bytes after it", archive(good) + b"\0"
    yield "another archive after it", archive(good) + archive([one])
    yield "cut off", archive(good)[:-1]
    for field in ("own", "count", "here", "size", "offset", "place", "disks"):
        for value in (0, 1, 2**31, 2**32 - 1) if field == "disks" else (0, 1, 2**31, 2**63, 2**64 - 1):
            yield f"{field} {value} in zip64", archive(good, zip64={field: value})
    yield "zip64 contradicts", archive(good, zip64={"short": (1, 2, 3)})
    for name, start, stop in [("lists", "[", "]"), ("dicts", '{"dict": [["a", ', "]]}"), ("objects", '{"a":', "}")]:
        yield f"nested {name}", file_of(start * 20_000 + "1" + stop * 20_000)
        yield f"300 nested {name}", file_of(start * 300 + "1" + stop * 300)
        yield f"open {name}", file_of(start * 20_000)
    yield "nested tuples", file_of('{"tuple": [' * 5000 + "]}" * 5000)
    yield "tuple in a key", file_of('{"dict": [[' + "[" * 2000 + "]" * 2000 + ", 1]]}")
    for number in ("NaN", "Infinity", "1e999", "-1e999", "1" * 5000, "1.", "01", "+1", "0x1"):
        yield f"the number {number[:20]}", file_of(number)
    for version in ("true", "false", "1.0", "null", '"1"', "0", "-1", "2", "1e0", "9" * 4000):
        yield f"version {version[:20]}", file_of("1", version=version)
    yield "bytes that are no UTF-8", archive([member("tree.json", text().replace(b"null", b'"\xff\xfe"'))])
    yield "UTF-8 with a mark", archive([member("tree.json", b"\xef\xbb\xbf" + text())])
    yield "UTF-16", archive([member("tree.json", text().decode().encode("utf-16"))])
    yield "UTF-32", archive([member("tree.json", text().decode().encode("utf-32"))])
    yield "no JSON", archive([member("tree.json", b"\0" * 1000)])
    yield "an empty tree", archive([member("tree.json", b"")])
    for code in CODES:
        yield f"the code {code}", file_of(code)

    for dtype in DTYPES:
        yield f"dtype {dtype[:40]!r}", with_tensor(bytes(16), {"dtype": dtype, "shape": [2]})
        yield f"dtype {dtype[:40]!r} without elements", with_tensor(b"", {"dtype": dtype, "shape": [0]})
    for shape in SHAPES:
        yield f"shape {str(shape)[:60]}", with_tensor(entry={"shape": shape})
        for device in ("numpy", "dask"):
            yield (
                f"shape {str(shape)[:60]} of nothing on {device}",
                with_tensor(b"", {"shape": shape, "device": device}),
            )
    for key, value in ENTRIES:
        yield f"{key} {str(value)[:60]}", with_tensor(entry={key: value})
    yield "an int that requires grad", with_tensor(entry={"dtype": "int64", "requires_grad": True})
    yield "a bool of 2", with_tensor(b"\2\3", {"dtype": "bool"})


def heavy():
    """Give files that would take hundreds of megabytes."""
    head = text('[{"tensor": 0}]', json.dumps([described()]))
    yield "a bomb in a tensor", archive([compressed("tensors/0", bytes(2**28)), member("tree.json", head)])
    yield "a bomb in the tree", archive([member("tensors/0", TWO), compressed("tree.json", b" " * 2**28 + head)])
    large = bytes(2**20)
    entries = json.dumps([described((2**17,), nbytes=2**20)] * 2000)
    same = [
        member("tensors/0", large),
        *(member(f"tensors/{i}", b"", crc=binascii.crc32(large)) for i in range(1, 2000)),
    ]
    for m in same[1:]:
        m |= {"offset": 0, "size": 2**20, "packed": 2**20}
    yield "members over one another", archive([*same, member("tree.json", text("[]", entries))])
    crowd = archive([member("tensors/0", b"")], repeat=300_000, zip64={})
    yield "300,000 members", crowd
    yield (
        "300,000 members and a tree",
        archive([member("tree.json", text("[]")), *[member("tensors/0", b"")]], repeat=150_000, zip64={}),
    )
    for name, item in [
        *(("lists", "[]"), ("dicts", '{"dict":[]}'), ("tuples", '{"tuple":[]}'), ("floats", "1e9"), ("texts", '"ab"')),
        *(("pairs", '{"dict":[["a",0]]}'), ("objects", '{"a":0}'), ("ints", '{"int":"0x1234567890"}')),
    ]:
        yield f"many {name}", file_of(f"[{','.join([item] * (2**22 // len(item)))}]")
    yield "a long text", file_of('"' + "a" * 2**23 + '\\ud83d\\ude00"')
    yield "blanks", file_of(" " * 2**26 + "1")
    yield "a long number", file_of("1" * 2**20)
    yield "a long int", file_of('{"int": "0x' + "f" * 2**22 + '"}')
    yield "many entries", file_of("[]", tensors="[" + "[]," * 2**21 + "[]]")
    for more in ("-1", "1e99", '"1"', "9" * 5000, "true"):
        yield f"says that it needs {more[:20]}", file_of(f"[{'[],' * 2**20}[]]", more=f' "memory": {more},')


EXTRAS = [b"\1", b"\1\0\xff\xff", b"\1\0\x08\0" + b"\xff" * 8, b"\1\0\x18\0" + b"\xff" * 24, b"\1\0\0\0"]
CODES = [
    *('{"tensor": 0}', '{"tensor": true}', '{"tensor": -1}', '{"tensor": 1e0}', '{"tensor": null}', "{}"),
    *(
        '{"dict": [[[], 1]]}',
        '{"dict": [[{"tuple": []}, 1]]}',
        '{"dict": [[true, 1]]}',
        '{"dict": [1]}',
        '{"dict": {}}',
    ),
    *('{"dict": [["a", 1], ["a", 2]]}', '{"dict": [[1, 1], [{"int": "0x1"}, 1]]}', '{"dict": [[{"float": "nan"}, 1]]}'),
    *('{"int": ""}', '{"int": 5}', '{"int": "-"}', '{"float": "1"}', '{"float": 1.5}', '{"float": []}'),
    *(
        '{"complex": [1.0]}',
        '{"complex": [1, 2]}',
        '{"complex": ["a", "b"]}',
        '{"complex": [[], []]}',
        '{"complex": 1.0}',
    ),
    *('{"bytes": "é"}', '{"bytes": "\\u00e9"}', '{"bytes": "="}', '{"bytes": "QQ"}', '{"bytes": 1}'),
    *('{"tuple": 1}', '{"tuple": [], "list": []}', '{"object": "os.system"}', '{"tuple": [}', '"\\ud800"', '"\t"'),
]
DTYPES = [
    *("datetime64", "datetime64[s]", "timedelta64", "S8", "S", "V8", "U2", "object", "O", "void", "str", "bytes", "a8"),
    *(">f8", "<f8", "f8", "d", "float", "double", "float64 ", "FLOAT64", "f8,f8", "(2,)f8", "2f8", "i4,", "[", "{}"),
    *(
        "",
        "\0",
        "é",
        "float" + "6" * 10_000,
        "i4," * 20_000,
        "('f8', (2,))",
        "complex",
        "int",
        "bool_",
        "float8",
        "record",
    ),
]
SHAPES = [
    *([-1], [-2], [2, -1], [True, True], [2.0], [float("nan")], [None], ["2"], [[2]], {}, "2", None, 2, [2**64, 0]),
    *([2**63], [2**31, 2**31], [2**32, 2**32], [2**62, 4], [0, 2**70], [10**12, 0], [0, 10**9, 10**9], [2**61, 0]),
    *([1] * 64, [1] * 65, [2] + [1] * 63, [1] * 100_000, [0] * 64, [10**4000], [0, 0], [3, 0, 2, 0], [1, 2], []),
]
ENTRIES = [
    *(("nbytes", -16), ("nbytes", True), ("nbytes", 16.0), ("nbytes", "16"), ("nbytes", None), ("nbytes", 2**70)),
    *(("byteorder", "big"), ("byteorder", "native"), ("byteorder", None), ("byteorder", "b" * 10**6)),
    *(("requires_grad", 1), ("requires_grad", None), ("requires_grad", "true")),
    *(("device", ""), ("device", ":"), ("device", "numpy:7"), ("device", "nowhere"), ("device", "n" * 10**6)),
    *(
        ("device", 0),
        ("device", None),
        ("device", "cpu:0"),
        ("device", "cuda"),
        ("device", "dask:\0"),
        ("device", "None"),
    ),
    *(("dtype", None), ("dtype", 8), ("dtype", ["f8"]), ("shape", [10**400, 0])),
]


# -- drawn ones -------------------------------------------------------------------------------------------------------


def program(w):
    """Give a program as `load` makes it: with a tensor of its own, a draw, a write, constants and keys of several kinds."""

    def step(x, rate, *, rows):
        with ag.no_grad():
            w.sub_(rate * w)
        return {"loss": ag.sum(w[0] * x[..., 1:] + ag.rand(2)), "rows": (x[rows], ag.asarray([1.0, float("nan")]))}

    return kept(ag.func.capture(step)(ag.ones((2, 3)), 0.5, rows=ag.asarray([1, 1])))


def loop(w):
    """Give a program with a loop, likewise."""
    return kept(
        ag.func.capture(lambda x: ag.func.scan(lambda c, row: (ag.sin(c) * w, c * row), x[0], x))(ag.ones((3, 2, 2)))
    )


def kept(made):
    """Give a program as `load` makes it."""
    file = io.BytesIO()
    ag.save(made, file)
    return ag.load(file)


def valid():
    """Give files as `save` writes them, with what they hold."""
    w = ag.tensor([[1.5, -2.0], [0.0, 4.0]], requires_grad=True)
    objects = [
        {"w": w, "again": [w], "n": (1, 2.5, None, True, 1 - 2j), 3: b"\0\1", "big": 2**70, "nan": float("inf")},
        [ag.arange(5), ag.asarray([True, False]), ag.ones((0, 3)), "ü\ud800"],
        {},
        program(w),
        loop(w),
    ]
    for obj in objects:
        file = io.BytesIO()
        ag.save(obj, file)
        yield file.getvalue(), repr(obj)


def numbers_in(rng, data):
    """Overwrite a few fields by numbers that are at the edge of something."""
    for _ in range(rng.randint(1, 3)):
        width = rng.choice([1, 2, 4, 8])
        at = rng.randrange(max(len(data) - 100, 0), len(data)) if rng.random() < 0.5 else rng.randrange(len(data))
        edges = [0, 1, 2 ** (8 * width) - 1, 2 ** (8 * width - 1), len(data), at, rng.getrandbits(8 * width)]
        data[at : at + width] = (rng.choice(edges) % 2 ** (8 * width)).to_bytes(width, "little")


def json_in(rng, content):
    """Change a place in tree.json, and give it its right checksum."""
    with zipfile.ZipFile(io.BytesIO(content)) as old:
        members = {name: old.read(name) for name in old.namelist()}
    header = json.loads(members["tree.json"])
    values = [None, True, -1, 0, 2**64, 1e308, "", "nan", [], [[]], {}, {"tensor": 0}, {"dict": [[1, 1]]}, {"int": "1"}]
    for _ in range(rng.randint(1, 3)):
        place, key = header, rng.choice(["tree", "tensors", "version"] if rng.random() < 0.3 else ["tree", "tensors"])
        while isinstance(place[key], (list, dict)) and place[key] and rng.random() < 0.85:
            place = place[key]
            key = rng.choice(list(place)) if isinstance(place, dict) else rng.randrange(len(place))
        place[key] = copy.deepcopy(rng.choice([*values, place[key], [place[key]] * 2]))
    members["tree.json"] = json.dumps(header).encode()
    return archive([member(name, data) for name, data in members.items()])


def drawn(seed):
    """Give a file that is drawn, and what it may hold (None: anything)."""
    rng = random.Random(seed)
    files = list(valid())
    content, holds = rng.choice(files)
    kind = rng.choice(["flips", "cut", "splice", "numbers", "json", "repeat", "noise"])
    if kind == "json":
        return json_in(rng, content), None
    data = bytearray(content)
    if kind == "flips":
        for _ in range(rng.choice([1, 1, 2, 8])):
            data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    elif kind == "cut":
        first, last = sorted(rng.randrange(len(data) + 1) for _ in range(2))
        del data[first:last]
    elif kind == "splice":
        other, _ = rng.choice(files)
        data = data[: rng.randrange(len(data))] + other[rng.randrange(len(other)) :]
        holds = None
    elif kind == "numbers":
        numbers_in(rng, data)
    elif kind == "repeat":
        first, last = sorted(rng.randrange(len(data) + 1) for _ in range(2))
        data[last:last] = data[first:last] * rng.choice([1, 1, 2, 50])
    else:
        at = rng.randrange(len(data))
        data[at:at] = rng.randbytes(rng.choice([1, 2, 4, 100]))
    return bytes(data), holds


# -- the tests --------------------------------------------------------------------------------------------------------


HARMLESS = {  # What is odd about them says nothing wrong, or is not looked at.
    *("packed 4294967295 in the member only", "size 4294967295 in the member only", "another archive after it"),
    *("a longer extra field in the member", "300 nested lists", "300 nested dicts", 'the code "\\ud800"'),
    *("disk 0 at the end", "disks 1 in zip64", *(f"an extra field {extra!r}" for extra in EXTRAS)),
}


def loaded(name, content, **options):
    """Load a file; give what it holds, or the ValueError."""
    try:
        return ag.load(io.BytesIO(content), **options)
    except Exception as error:  # noqa: BLE001 (every other kind is the failure looked for)
        message = f"{name}: {type(error).__name__}: {error!s:.2000}"
        if type(error) is not ValueError or not re.match(
            r"cannot load the file object: .{,900}\Z", str(error), re.DOTALL
        ):
            raise AssertionError(message) from None
        return error


def test_written_files():
    accepted = set()
    for name, content in written():
        found = loaded(name, content)
        if not isinstance(found, ValueError):
            accepted.add(name)
            if name.startswith("right"):
                assert found[0].tolist() == [1.0, -2.0], name
            if name.startswith("shape"):
                assert found[0].numel() == (0 if "nothing" in name else 2), name
    assert {name for name in accepted if not name.startswith(("right", "shape"))} == HARMLESS
    assert sum(name.startswith("right") for name in accepted) == 4


def test_written_files_on_a_device_of_the_callers(dask_backend):
    for name, content in written():
        if len(content) < 2**16:
            loaded(name, content, device="dask")


def test_drawn_files():
    for seed in range(DRAWN):
        content, holds = drawn(seed)
        found = loaded(f"seed {seed}", content)
        if holds is not None and not isinstance(found, ValueError):
            assert repr(found) == holds, f"seed {seed}: a value has changed"


LOADS = """
import json, resource, sys
import agrad as ag

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)

folder, count = sys.argv[1], int(sys.argv[2])
for i in range(3):
    ag.load(f"{folder}/valid {i}")  # modules load
before, grown = peak(), {}
for i in range(count):
    try:
        ag.load(f"{folder}/{i}")
    except ValueError:
        pass
    grown[i] = peak() - before
print(json.dumps(grown))
"""


@pytest.mark.skipif(sys.platform == "win32", reason="the peak of a process is read as POSIX has it")
def test_memory(tmp_path):
    """In a process of its own, whose peak nothing but loading has raised."""
    for i, (content, _) in enumerate(valid()):
        (tmp_path / f"valid {i}").write_bytes(content)
    names = []
    for files in (((f"seed {seed}", drawn(seed)[0]) for seed in range(DRAWN)), written(), heavy()):
        for name, content in files:
            (tmp_path / str(len(names))).write_bytes(content)
            names.append(name)
    command = [sys.executable, "-W", "error", "-c", LOADS, str(tmp_path), str(len(names))]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    grown = dict(zip(names, json.loads(done.stdout).values(), strict=True))
    assert {name: size for name, size in grown.items() if size > MOST} == {}
