"""Backends by name: the table, namespaces, devices, and what creation functions default to."""

from __future__ import annotations

import copy
import os
import pickle
import re
import subprocess
import sys
import textwrap
import threading

import numpy as np
import pytest

import agrad as ag
from agrad.plugin import manager


def python(source, **environment):
    """Run a program in a fresh interpreter and give what it prints."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith("AGRAD_")}
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", textwrap.dedent(source)],
        capture_output=True,
        text=True,
        check=False,
        env=kept | environment,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


# -- the table --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "library"), [("numpy", "numpy"), ("dask", "dask.array")])
def test_what_is_installed_is_available(name, library):
    # Tests of a backend that is not available are skipped: here is said that these are not.
    module = pytest.importorskip(library)
    (row,) = (row for row in ag.backends() if row.name == name)
    assert row.available
    assert row.version == (module if name == "numpy" else pytest.importorskip("dask")).__version__


def test_rows(numpy_backend):
    rows = ag.backends()
    names = [row.name for row in rows]
    assert names == sorted(names)
    row = rows[names.index("numpy")]
    assert row.available
    assert row.version == np.__version__
    assert row.devices == ("numpy",)
    assert row.reason == ""
    assert str(row) == f"numpy: {np.__version__}, numpy"


def test_a_row_of_an_unusable_backend(registered):
    class Broken(ag.Backend):
        name = "broken"

        def availability(self):
            return False, "the moon is in the wrong phase"

    registered(of(Broken()))
    (row,) = (row for row in ag.backends() if row.name == "broken")
    assert not row.available
    assert str(row) == "broken: unavailable: the moon is in the wrong phase"
    with pytest.raises(ag.BackendError, match="the broken backend is not available: the moon is in the wrong phase"):
        ag.zeros(2, device="broken")


def test_availability_that_raises_is_a_reason(registered):
    class Broken(ag.Backend):
        name = "broken"

        def availability(self):
            raise OSError("no such moon")

    registered(of(Broken()))
    (row,) = (row for row in ag.backends() if row.name == "broken")
    assert not row.available
    assert row.reason == "OSError: no such moon"
    with pytest.raises(ag.BackendError, match="the broken backend is not available: OSError: no such moon"):
        ag.zeros(2, device="broken")


def test_the_default_availability_is_that_of_the_namespace(registered):
    class Absent(ag.Backend):
        name = "absent"

        def namespace(self):
            raise ModuleNotFoundError("No module named 'absent'")

    assert Absent().availability() == (False, "not installed (No module named 'absent')")

    class Present(ag.Backend):
        def namespace(self):
            return np

    assert Present().availability() == (True, np.__version__)


def of(*backends):
    """A plugin that gives backends."""
    from agrad.plugin.hookspecs import hookimpl

    class Plugin:
        @hookimpl
        def agrad_backends(self):
            return backends

    return Plugin()


def test_python_m_agrad():
    lines = python(
        "import runpy, sys; sys.argv = ['agrad']; runpy.run_module('agrad', run_name='__main__')"
    ).splitlines()
    assert lines[0] == f"agrad {ag.__version__}, version {ag.CONTRACT} of the backend contract"
    assert lines[1].split() == ["backend", "version", "devices", "available"]
    (line,) = (line for line in lines if line.startswith("numpy "))
    assert line.split() == ["numpy", np.__version__, "numpy", "yes"]
    columns = {line.index(text) for line, text in ((lines[1], "available"), (line, "yes"))}
    assert len(columns) == 1


# -- namespaces -------------------------------------------------------------------------------------------------------


def test_namespaces_are_bound_singletons(backend):
    xp = ag.namespace(backend)
    assert xp is ag.namespace(backend)
    assert xp is getattr(ag.backends, backend)
    assert xp.zeros((2,)).device == backend
    assert xp.asarray([1.0]).__array_namespace__() is xp
    assert xp.sum(xp.ones((3,))).item() == 3.0
    assert repr(xp) == f"<namespace 'agrad.backends.{backend}'>"


def test_import_with_backend_selection():
    from agrad.backends import numpy as xp

    assert xp is ag.namespace("numpy")
    with pytest.raises(ImportError, match="cannot import name 'nonsense'"):
        from agrad.backends import nonsense  # noqa: F401
    with pytest.raises(AttributeError, match=r"unknown backend 'nonsense'. Installed backends: .*numpy"):
        ag.backends.nonsense


def test_namespaces_are_pickled_and_copied_by_name(backend):
    xp = ag.namespace(backend)
    assert pickle.loads(pickle.dumps(xp)) is xp
    assert copy.copy(xp) is xp
    assert copy.deepcopy(xp) is xp


def test_a_pickled_namespace_in_another_process(tmp_path):
    path = tmp_path / "xp.pickle"
    path.write_bytes(pickle.dumps(ag.namespace("numpy")))
    out = python(f"""
        import pickle
        xp = pickle.load(open({str(path)!r}, "rb"))
        print(xp.zeros((2,)))
    """)
    assert out.strip() == "tensor([0., 0.])"


def test_dtypes_are_the_backends_own(backend):
    xp = ag.namespace(backend)
    native = manager.get(backend).namespace()
    assert xp.float32 == native.float32
    assert xp.zeros((1,), dtype=xp.float32).dtype == native.float32
    assert xp.zeros((1,), dtype=xp.float32).dtype in {xp.float32: "a key"}
    for other in (ag.float32, "float32", np.float32, np.dtype("float32")):
        assert xp.zeros((1,), dtype=other).dtype == native.float32
    with pytest.raises(AttributeError, match="has no attribute 'float31'"):
        xp.float31


def test_versions_of_the_standard():
    xp = ag.asarray([1.0]).__array_namespace__(api_version="2024.12")
    assert xp is ag.namespace()
    with pytest.raises(ValueError, match=r"unknown version of the array API standard: '1999\.01'"):
        ag.asarray([1.0]).__array_namespace__(api_version="1999.01")


def test_no_namespace_of_an_unusable_backend():
    with pytest.raises(ag.BackendError, match="unknown backend 'nonsense'"):
        ag.namespace("nonsense")


# -- the default ------------------------------------------------------------------------------------------------------


def test_numpy_is_the_default():
    assert ag.zeros(2).device == "numpy"
    assert ag.default_backend().name == "numpy"


def test_use_backend(strict_backend):
    with ag.use_backend("strict"):
        assert ag.zeros(2).device == "strict"
        assert ag.asarray([1.0]).device == "strict"
        assert ag.namespace() is ag.namespace("strict")
        assert ag.asarray(np.ones(2)).device == "numpy"  # arrays stay where they are
        assert ag.add(2.0, 3.0).device == "strict"
        with ag.use_backend("numpy"):
            assert ag.rand(2).device == "numpy"
        assert ag.rand(2).device == "strict"
    assert ag.zeros(2).device == "numpy"


def test_use_backend_is_undone_after_an_error(strict_backend):
    def fail():
        with ag.use_backend("strict"):
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert ag.zeros(2).device == "numpy"


def test_use_backend_holds_in_its_own_context_only(strict_backend):
    found = []
    with ag.use_backend("strict"):
        thread = threading.Thread(target=lambda: found.append(str(ag.zeros(2).device)))
        thread.start()
        thread.join()
    assert found == ["numpy"]


def test_set_default_backend(strict_backend):
    ag.set_default_backend("strict")
    assert ag.zeros(2).device == "strict"
    with ag.use_backend("numpy"):
        assert ag.zeros(2).device == "numpy"
    found = []
    thread = threading.Thread(target=lambda: found.append(str(ag.zeros(2).device)))
    thread.start()
    thread.join()
    assert found == ["strict"]  # of the whole process


def test_a_device_of_the_backend_may_be_the_default(strict_backend):
    with ag.use_backend("strict:device1"):
        assert ag.zeros(2).device == "strict:device1"
        assert ag.asarray([1.0]).device == "strict:device1"
    ag.set_default_backend("strict:device1")
    assert ag.ones(2).device == "strict:device1"


@pytest.mark.parametrize("choose", [ag.set_default_backend, lambda name: ag.use_backend(name).__enter__()])
def test_an_unusable_default_is_refused_and_changes_nothing(choose, strict_backend):
    with pytest.raises(ag.BackendError, match="unknown backend 'nonsense'"):
        choose("nonsense")
    with pytest.raises(ag.BackendError, match=r"has no device 'strict:9'\. Its devices: strict, strict:device1\."):
        choose("strict:9")
    assert ag.zeros(2).device == "numpy"


def test_environment_variable(dask_backend):
    program = "import agrad as ag; print(ag.zeros(2).device, ag.asarray([1.0]).device, ag.default_backend().name)"
    assert python(program, AGRAD_BACKEND="dask").split() == ["dask"] * 3
    assert python(program).split() == ["numpy"] * 3
    assert python(
        "import agrad as ag; ag.set_default_backend('numpy'); print(ag.zeros(2).device)", AGRAD_BACKEND="dask"
    )
    program = """
        import agrad as ag
        try:
            ag.zeros(2)
        except ag.BackendError as error:
            print(error)
        print(ag.zeros(2, device="numpy").device)
    """
    first, called, second = python(program, AGRAD_BACKEND="nonsense").splitlines()
    assert called == "  Called at <string>:4."
    assert first.startswith("unknown backend 'nonsense'. Installed backends: ")
    assert second == "numpy"


def test_cpu_is_numpy_wherever_a_device_is_named(strict_backend):
    ag.set_default_backend("strict")
    assert ag.zeros(2, device="cpu").device == "numpy"
    with ag.use_backend("cpu"):
        assert ag.zeros(2).device == "numpy"
    assert ag.namespace("cpu").zeros(2).device == "numpy"
    ag.set_default_backend("cpu")
    assert (ag.zeros(2).device, ag.asarray([1.0]).device, ag.default_backend().name) == ("numpy",) * 3
    assert python("import agrad as ag; print(ag.zeros(2).device)", AGRAD_BACKEND="cpu").split() == ["numpy"]
    with pytest.raises(ag.BackendError, match="the numpy backend has no device 'cpu:1'"):
        ag.zeros(2, device="cpu:1")


# -- devices ----------------------------------------------------------------------------------------------------------


def test_device_strings():
    device = ag.zeros(2).device
    assert isinstance(device, ag.Device)
    assert device == "numpy"
    assert (device.backend, device.ordinal, device.type) == ("numpy", "", "numpy")
    cuda = ag.Device("cupy:0")
    assert (cuda.backend, cuda.ordinal, cuda.type) == ("cupy", "0", "cupy")
    assert ag.zeros(2, device="cpu").device == "numpy"  # as PyTorch calls it
    assert ag.zeros(2, device=device).device == "numpy"


@pytest.mark.parametrize(
    "use",
    [
        lambda device: ag.zeros(2, device=device),
        lambda device: ag.asarray([1.0], device=device),
        lambda device: ag.ones(2).to_device(device),
        lambda device: ag.rand(2, device=device),
        lambda device: ag.zeros_like(ag.ones(2), device=device),
    ],
)
def test_wrong_devices(use):
    message = r"unknown backend 'nonsense'. Installed backends: ([a-z]+, )*numpy(, [a-z]+)*\."
    with pytest.raises(ag.BackendError, match=message):
        use("nonsense:0")
    with pytest.raises(
        ag.BackendError, match=re.escape("the numpy backend has no device 'numpy:7'. Its devices: numpy.")
    ):
        use("numpy:7")


def test_creation_puts_tensors_on_the_device(backend):
    for made in (
        ag.zeros((2,), device=backend),
        ag.ones((2,), device=backend),
        ag.empty((2,), device=backend),
        ag.full((2,), 3.0, device=backend),
        ag.arange(3, device=backend),
        ag.linspace(0, 1, 3, device=backend),
        ag.eye(2, device=backend),
        ag.asarray([1.0], device=backend),
        ag.tensor([1.0], device=backend),
        ag.asarray(np.ones(2), device=backend),
        ag.zeros_like(ag.ones(2, device=backend)),
        ag.full_like(ag.ones(2, device=backend), 2.0),
        ag.rand(2, device=backend),
        ag.randn(2, device=backend),
        ag.randint(0, 5, (2,), device=backend),
        ag.randperm(3, device=backend),
    ):
        assert made.device == backend
        assert type(made._raw).__module__.partition(".")[0] == {"strict": "array_api_strict"}.get(backend, backend)
