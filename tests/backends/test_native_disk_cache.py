"""Compiled code on disk: it is the user's own and whole, or it is made anew."""

from __future__ import annotations

import ctypes
import os
import stat
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import agrad as ag

pytest.importorskip("llvmlite", reason="the native executor needs llvmlite: pip install agrad-numpy[native]")

from agrad_numpy.native import disk_cache, jit

if not jit.availability()[0]:
    pytest.skip(jit.availability()[1], allow_module_level=True)
if not hasattr(os, "getuid"):
    pytest.skip("files have no owner to compare", allow_module_level=True)

TEXT = "define i64 @f() {\n  ret i64 7\n}"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Return a directory that is not there yet."""
    monkeypatch.setenv(disk_cache.VARIABLE, str(tmp_path / "some" / "where"))
    disk_cache._refuse.cache_clear()
    return tmp_path / "some" / "where"


@pytest.fixture
def compiles(monkeypatch):
    """Return a list that grows with what LLVM compiles."""
    found, code = [], jit.CompiledModule._code

    def counted(self, text, machine):
        found.append(text)
        return code(self, text, machine)

    monkeypatch.setattr(jit.CompiledModule, "_code", counted)
    return found


def run(text=TEXT):
    compiled = jit.CompiledModule(text)
    return ctypes.CFUNCTYPE(ctypes.c_int64)(compiled.address("f"))()


def only(folder):
    (file,) = folder.iterdir()
    return file


def test_code_is_compiled_once(folder, compiles):
    assert [run(), run(), run(TEXT.replace("7", "8")), run()] == [7, 7, 8, 7]
    assert compiles == [TEXT, TEXT.replace("7", "8")]
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert {stat.S_IMODE(file.stat().st_mode) for file in folder.iterdir()} == {0o600}


def test_programs_have_the_same_bits(folder, compiles):
    def f(x):
        return ag.sum(ag.sin(x) @ ag.exp(x))

    x = np.random.default_rng(0).standard_normal((40, 40))
    found = []
    for _ in range(2):
        step = ag.compile(ag.func.value_and_grad(f), executor="native")
        for _ in range(3):
            value, gradient = step(ag.asarray(x))
        found.append((np.asarray(value.detach()).tobytes(), np.asarray(gradient.detach()).tobytes()))
        count = len(compiles)
    assert found[0] == found[1]
    assert 0 < count == len(compiles)
    assert len({*compiles}) == count  # the second one's were there


TELLS = """
import warnings
import numpy as np
import agrad as ag
from agrad_numpy.native import jit

compiles, code = [], jit.CompiledModule._code
jit.CompiledModule._code = lambda self, text, machine: (compiles.append(text), code(self, text, machine))[1]
x = np.linspace(0.1, 1.0, 9)
function = ag.compile(lambda x: (ag.log(x) * x, x * x * x, 1.0 / x, ag.sqrt(x)), check=False)
for _ in range(3):
    function(x)
for bad in (0.5, 0.0, -1.0, 1e308, 0.5):
    x[4] = bad
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        found = function(x)
    print([np.asarray(part).tobytes().hex() for part in found], sorted(str(one.message) for one in seen))
((kept,),) = function._cached.values()
print(kept.runner, getattr(kept.runner, "_misses", 0), len(compiles), any("flags.test" in text for text in compiles), sep=",")
"""


def test_another_process_is_told_of_floating_point_errors_too(folder, tmp_path):
    """What tells is filled in where code from the disk is loaded."""
    found, script = [], tmp_path / "tells.py"
    script.write_text(TELLS)
    for executor in ("text", "native", "native"):
        done = subprocess.run(
            [sys.executable, script],
            env={**os.environ, "AGRAD_EXECUTOR": executor},
            check=True,
            capture_output=True,
            text=True,
        )
        *lines, last = done.stdout.splitlines()
        found.append((lines, last))
    text, first, second = found
    assert text[0] == first[0] == second[0]
    assert "divide by zero" in text[0][1]
    assert first[1] == "<native, chosen>,3,2,True"  # the way in, and the program
    assert second[1] == "<native, chosen>,3,0,False"  # nothing is compiled


@pytest.mark.parametrize("damage", ["cut", "flipped", "empty", "renamed", "foreign", "writable"])
def test_what_is_not_whole_is_made_anew(folder, compiles, damage):
    run()
    file = only(folder)
    data = file.read_bytes()
    if damage == "cut":
        file.write_bytes(data[:-1])
    elif damage == "flipped":
        file.write_bytes(data[:-9] + bytes([data[-9] ^ 1]) + data[-8:])
    elif damage == "empty":
        file.write_bytes(b"")
    elif damage == "renamed":  # the code of another text
        run(TEXT.replace("7", "8"))
        (other,) = {*folder.iterdir()} - {file}
        other.replace(file)
    elif damage == "foreign":
        file.write_bytes(b"\x7fELF" + data)
    else:
        file.chmod(0o666)
    count = len(compiles)
    assert run() == 7
    assert len(compiles) == count + 1
    assert only(folder).read_bytes() == data
    assert run() == 7
    assert len(compiles) == count + 1


def test_links_are_not_followed(folder, compiles, tmp_path):
    run()
    file = only(folder)
    moved = tmp_path / "moved"
    file.replace(moved)
    file.symlink_to(moved)
    assert run() == 7
    assert len(compiles) == 2
    assert not file.is_symlink()


def test_a_directory_that_is_open_to_others_is_refused(folder, compiles):
    folder.mkdir(parents=True)
    folder.chmod(0o755)
    with pytest.warns(RuntimeWarning, match="is open to others: chmod 700"):
        run()
    assert run() == 7
    assert len(compiles) == 2
    assert not [*folder.iterdir()]


def test_a_directory_of_somebody_else_is_refused(folder, monkeypatch):
    folder.mkdir(parents=True, mode=0o700)
    here = os.getuid()
    monkeypatch.setattr(os, "getuid", lambda: here + 1)
    with pytest.warns(RuntimeWarning, match="belongs to somebody else"):
        run()
    assert not [*folder.iterdir()]


def test_a_directory_that_is_a_link_is_refused(folder, tmp_path):
    folder.parent.mkdir()
    (tmp_path / "real").mkdir(mode=0o700)
    folder.symlink_to(tmp_path / "real")
    assert run() == 7
    assert not [*(tmp_path / "real").iterdir()]


def test_it_can_be_turned_off(monkeypatch, compiles, tmp_path):
    monkeypatch.setenv(disk_cache.VARIABLE, "off")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert disk_cache.directory() is None
    assert [run(), run()] == [7, 7]
    assert len(compiles) == 2
    assert not [*tmp_path.iterdir()]


def test_the_users_own_directory(monkeypatch, tmp_path):
    monkeypatch.delenv(disk_cache.VARIABLE, raising=False)
    monkeypatch.setattr("sys.platform", "linux")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    assert disk_cache.directory() == tmp_path / ".cache" / "agrad" / "native"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "other"))
    assert disk_cache.directory() == tmp_path / "other" / "agrad" / "native"
    monkeypatch.setattr("sys.platform", "darwin")
    assert disk_cache.directory() == tmp_path / "Library" / "Caches" / "agrad" / "native"


def test_the_oldest_go_where_there_is_too_much(folder, monkeypatch):
    monkeypatch.setattr(disk_cache, "LIMIT", 5000)
    keys = [disk_cache.key_of(str(k)) for k in range(10)]
    for at, key in enumerate(keys[:4]):
        disk_cache.write(key, b"x" * 1000)
        os.utime(folder / key.hex(), (at, at))
    assert disk_cache.read(keys[0]) == b"x" * 1000  # and so the newest
    disk_cache.write(keys[4], b"x" * 1000)
    assert [disk_cache.read(key) is not None for key in keys[:5]] == [True, False, False, True, True]


def test_threads_write_at_the_same_time(folder):
    key = disk_cache.key_of("all")
    with ThreadPoolExecutor(8) as pool:
        [*pool.map(lambda k: disk_cache.write(key, b"y" * 100_000), range(40))]
    assert disk_cache.read(key) == b"y" * 100_000
    assert only(folder).name == key.hex()
