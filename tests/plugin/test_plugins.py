"""Plugins: registered by hand or found by an entry point, faulty or well, and what they may replace."""

from __future__ import annotations

import ast
import gc
import importlib
import os
import re
import subprocess
import sys
import textwrap
import weakref
from pathlib import Path

import numpy as np
import pytest

import agrad as ag
from agrad.core.backend import backend_of
from agrad.plugin import manager
from agrad.plugin.hookspecs import hookimpl

ROOT = Path(__file__).parent.parent.parent


class Mine(ag.Backend):
    """NumPy under another name, for arrays of a type of its own."""

    name = "mine"

    def namespace(self):
        import array_api_compat.numpy

        return array_api_compat.numpy


class MyArray(np.ndarray):
    pass


class MyPlugin:
    def __init__(self, backend):
        self.backend = backend

    @hookimpl
    def agrad_backends(self):
        return [self.backend]

    @hookimpl
    def agrad_backend_of(self, array_type):
        return self.backend.name if array_type is MyArray else None


# -- registered by hand -----------------------------------------------------------------------------------------------


def test_register(registered):
    with pytest.raises(ag.BackendError, match="unknown backend 'mine'"):
        ag.zeros(2, device="mine")
    registered(MyPlugin(Mine()))
    assert ag.zeros(2, device="mine").device == "mine"
    assert "mine" in [row.name for row in ag.backends()]
    assert ag.asarray(np.ones(2).view(MyArray)).device == "mine"
    assert ag.asarray(np.ones(2)).device == "numpy"


def test_an_interrupt_leaves_no_part_of_a_plugin_behind(registered):
    class Interrupted(MyPlugin):
        @hookimpl
        def agrad_executors(self):  # which agrad asks for after the backends
            raise KeyboardInterrupt

    before = [row.name for row in ag.backends()]
    with pytest.raises(KeyboardInterrupt):
        manager.register(Interrupted(Mine()))
    assert [row.name for row in ag.backends()] == before
    assert ag.zeros(2, device="numpy").device == "numpy"
    registered(MyPlugin(Mine()))  # by the same name of a backend
    assert ag.zeros(2, device="mine").device == "mine"


def test_registering_twice_is_refused(registered):
    plugin = registered(MyPlugin(Mine()))
    with pytest.raises(ValueError, match="already registered"):
        ag.register(plugin)


def test_two_plugins_of_one_class(registered):
    class Other(Mine):
        name = "other"

    registered(MyPlugin(Mine()))
    registered(MyPlugin(Other()))
    assert {"mine", "other"} <= {row.name for row in ag.backends()}


def test_a_name_that_is_taken(registered):
    class Impostor(Mine):
        name = "numpy"

    with pytest.warns(RuntimeWarning, match=r"plugin 'MyPlugin' failed: .* already provides a backend named 'numpy'"):
        registered(MyPlugin(Impostor()))
    assert type(manager.get("numpy")).__name__ == "NumpyBackend"
    (row,) = (row for row in ag.backends() if row.name == "MyPlugin")
    assert not row.available
    assert "already provides a backend named 'numpy'" in row.reason


@pytest.mark.parametrize("given", [None, "", "a:b", "a b", "a\n", 5, ("a",), ["a"], b"a", "cpu"])
def test_a_name_that_is_none(registered, given):
    class Misnamed(Mine):
        name = given

    message = (
        f"BackendError: a backend is named {given!r}: its name is a str without ':' and white space, and not empty"
    )
    with pytest.warns(RuntimeWarning, match=re.escape(f"the agrad plugin 'MyPlugin' failed: {message}")):
        registered(MyPlugin(Misnamed()))
    (row,) = (row for row in ag.backends() if row.name == "MyPlugin")
    assert row.reason.startswith(message)
    still_works()


# -- faulty ones ------------------------------------------------------------------------------------------------------


def still_works():
    x = ag.asarray([1.0, 2.0], requires_grad=True)
    (x * x).sum().backward()
    assert x.grad.tolist() == [2.0, 4.0]


def test_a_hook_that_raises(registered):
    class Faulty:
        @hookimpl
        def agrad_backends(self):
            raise OSError("no moon")

    with pytest.warns(RuntimeWarning, match="the agrad plugin 'Faulty' failed: OSError: no moon"):
        registered(Faulty())
    (row,) = (row for row in ag.backends() if row.name == "Faulty")
    assert (row.available, row.reason) == (False, "OSError: no moon")
    still_works()


VERSIONS = {
    "older": ({"contract": 1}, 1, "join(others) takes the place of absorbs"),
    "does not say so": ({"absorbs": frozenset({"numpy"})}, 1, "join(others) takes the place of absorbs"),
    "oldest": ({"contract": 0}, 0, "it is no longer supported"),
    "newer": ({"contract": 99}, 99, "install a newer agrad"),
}


@pytest.mark.parametrize("which", VERSIONS)
def test_a_contract_of_another_version(which, registered):
    members, version, advice = VERSIONS[which]
    with pytest.warns(RuntimeWarning) as caught:
        registered(MyPlugin(type("Other", (Mine,), members)()))
    text = (
        f"the backend 'mine' of the plugin 'MyPlugin' is written for version {version} of the contract, this is"
        f" {ag.CONTRACT}: {advice}"
    )
    assert text in str(caught[0].message)
    assert "docs/plugin.md" in str(caught[0].message)
    (row,) = (row for row in ag.backends() if row.name == "MyPlugin")
    assert row.reason.startswith(f"BackendError: {text}")
    with pytest.raises(ag.BackendError, match="unknown backend 'mine'"):
        ag.zeros(2, device="mine")
    still_works()


def test_the_advice_names_what_is_there():
    import agrad.testing
    from agrad.plugin import hookspecs

    (advice,) = manager.CHANGES.values()
    assert all(name in advice for name in ("join(others)", "Harness", "agrad_harness"))
    assert not hasattr(ag.Backend, "absorbs")
    assert ag.Backend.join
    assert agrad.testing.Harness.specimen
    assert hookspecs.agrad_harness


def test_what_is_no_backend(registered):
    class Faulty:
        @hookimpl
        def agrad_backends(self):
            return ["mine"]

    with pytest.warns(RuntimeWarning, match="plugin 'Faulty' failed: AttributeError"):
        registered(Faulty())
    still_works()


def test_a_claim_that_raises_is_passed_over(registered):
    class Faulty:
        @hookimpl(tryfirst=True)
        def agrad_backend_of(self, array_type):
            raise OSError("no moon")

    registered(MyPlugin(Mine()))
    registered(Faulty())
    with pytest.warns(RuntimeWarning, match="the agrad plugin 'Faulty' failed: OSError: no moon"):
        assert ag.asarray(np.ones(2).view(MyArray)).device == "mine"
    with pytest.raises(TypeError, match="must be Tensor, not object"):
        ag.sin(object())
    still_works()
    assert "OSError: no moon" in [row.reason for row in ag.backends()]


def test_plugins_are_asked_once_about_a_class_that_none_claims(registered):
    asked = []

    class Asked:
        @hookimpl
        def agrad_backend_of(self, array_type):
            asked.append(array_type)

    class Thing:
        pass

    class Array:
        dtype, shape = np.dtype("f8"), ()

    registered(Asked())
    for _ in range(3):
        assert backend_of(Thing()) is None
        assert backend_of(Array()) is None
    assert asked == [Thing, Array]

    class Claims:
        @hookimpl
        def agrad_backend_of(self, array_type):
            return "numpy" if array_type is Array else None

    registered(Claims())
    assert backend_of(Array()).name == "numpy"
    assert backend_of(Thing()) is None
    known = weakref.ref(Thing)
    asked.clear()
    del Thing
    gc.collect()
    assert known() is None


def test_a_plugin_that_failed_to_say_is_asked_again(registered):
    answers = []

    class Array:
        pass

    class Faulty:
        @hookimpl(tryfirst=True)
        def agrad_backend_of(self, array_type):
            return answers.pop()() if array_type is Array else None

    registered(Faulty())
    answers += [lambda: "numpy", lambda: 1 / 0]
    with pytest.warns(RuntimeWarning, match="division by zero"):
        assert backend_of(Array()) is None
    assert backend_of(Array()).name == "numpy"


def test_a_kernel_hook_that_raises_is_passed_over(registered):
    class Faulty:
        @hookimpl
        def agrad_kernel(self, op, backend):
            raise OSError("no moon")

    registered(Faulty())
    with pytest.warns(RuntimeWarning, match="the agrad plugin 'Faulty' failed: OSError: no moon"):
        assert ag.sin(ag.asarray([0.0])).tolist() == [0.0]
    still_works()


def installed(folder, module, source):
    """Write a distribution with an entry point of agrad's, as pip would install it."""
    (folder / f"{module}.py").write_text(textwrap.dedent(source))
    info = folder / f"{module}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {module}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[agrad]\n{module} = {module}\n")


def python(source, path, *options):
    kept = {k: v for k, v in os.environ.items() if not k.startswith("AGRAD_")}
    done = subprocess.run(
        [sys.executable, *options, "-c", textwrap.dedent(source)],
        capture_output=True,
        text=True,
        check=False,
        env=kept | {"PYTHONPATH": str(path)},
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout, done.stderr


#: Runs a program in each of some folders, as if it had been started there.
IN_FORKS = """
import contextlib, os, sys, warnings
import agrad, numpy
with contextlib.suppress(ImportError):
    import dask.array  # which rows of backends ask for
warnings.filterwarnings("ignore", ".*fork", DeprecationWarning)  # of a process with threads: BLAS's
for folder in sys.argv[1:]:
    if child := os.fork():
        assert os.waitpid(child, 0)[1] == 0, open(f"{folder}/2").read()
        continue
    for stream in (1, 2):
        os.dup2(os.open(f"{folder}/{stream}", os.O_CREAT | os.O_WRONLY), stream)
    sys.path.insert(0, folder)
    exec(open(f"{folder}/program.py").read(), {"__name__": "__main__"})
    break
"""


def in_forks(folders, source, *options):
    """Run a program by the plugins in each folder: in forks, which import libraries once. Give what they print, by name."""
    for folder in folders.values():
        (folder / "program.py").write_text(textwrap.dedent(source))
    kept = {k: v for k, v in os.environ.items() if not k.startswith("AGRAD_")}
    command = [sys.executable, *options, "-c", IN_FORKS, *map(str, folders.values())]
    subprocess.run(command, check=True, env=kept, timeout=120)
    return {name: [(folder / stream).read_text() for stream in "12"] for name, folder in folders.items()}


FAULTS = {
    "import": ("import nonsense_library", "ModuleNotFoundError: No module named 'nonsense_library'"),
    "syntax": ("def f(:", "SyntaxError"),
    "hook": (
        """
        import pluggy
        @pluggy.HookimplMarker("agrad")
        def agrad_backends():
            raise OSError("no moon")
        """,
        "OSError: no moon",
    ),
    "signature": (
        """
        import pluggy
        @pluggy.HookimplMarker("agrad")
        def agrad_backend_of(array_type, nonsense):
            ...
        """,
        "PluginValidationError",
    ),
    "contract": (
        """
        import agrad, pluggy
        class Old(agrad.Backend):
            name, contract = "old", 0
        @pluggy.HookimplMarker("agrad")
        def agrad_backends():
            return [Old()]
        """,
        "BackendError: the backend 'old' of the plugin 'faulty' is written for version 0 of the contract",
    ),
}


@pytest.fixture(scope="module")
def faulty(tmp_path_factory):
    """Give what a program prints where a plugin is installed that has a fault, by its name."""
    folders = {fault: tmp_path_factory.mktemp(fault) for fault in FAULTS}
    for fault, folder in folders.items():
        installed(folder, "faulty", FAULTS[fault][0])
    return in_forks(
        folders,
        """
        import agrad as ag
        x = ag.asarray([1.0, 2.0], requires_grad=True)
        (x * x).sum().backward()
        print(x.grad.tolist())
        (row,) = (row for row in ag.backends() if row.name == "faulty")
        print(row.available, row.reason)
        """,
    )


@pytest.mark.parametrize("fault", FAULTS)
def test_a_faulty_installed_plugin_is_a_warning_and_a_row(fault, faulty):
    (out, err), reason = faulty[fault], FAULTS[fault][1]
    first, second = out.splitlines()[:2]
    assert first == "[2.0, 4.0]"
    assert second.startswith(f"False {reason}") or reason in second
    assert err.count("RuntimeWarning: the agrad plugin 'faulty' failed: ") == 1
    assert reason in err


def test_a_faulty_installed_plugin_where_warnings_are_errors(tmp_path):
    installed(tmp_path, "faulty", "import nonsense_library")
    out, _ = python(
        """
        import agrad as ag
        try:
            ag.zeros(2)
        except RuntimeWarning as warning:
            print(warning)
        print(ag.zeros(2))
        """,
        tmp_path,
        *("-W", "error"),
    )
    assert out.splitlines() == [
        "the agrad plugin 'faulty' failed: ModuleNotFoundError: No module named 'nonsense_library'",
        "tensor([0., 0.])",
    ]


def test_a_faulty_plugin_in_python_m_agrad(tmp_path):
    installed(tmp_path, "faulty", "import nonsense_library")
    done = listed(tmp_path)
    (line,) = (line for line in done.stdout.splitlines() if line.startswith("faulty"))
    assert line.split(maxsplit=3)[1:] == ["-", "-", "no: ModuleNotFoundError: No module named 'nonsense_library'"]
    assert (done.returncode, done.stderr) == (1, "")


def listed(path, *options):
    """Run ``python -m agrad`` where distributions are installed in a folder."""
    command = [sys.executable, "-m", "agrad", *options]
    env = os.environ | {"PYTHONPATH": f"{path}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"}
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120, env=env)


def test_the_table_is_strict_about_names():
    assert listed("", "--strict", "numpy").returncode == 0
    done = listed("", "--strict", "numpy", "--strict", "nonsense")
    assert done.returncode == 1
    assert done.stdout.splitlines()[-1] == "Not available: nonsense"


def test_a_plugin_that_exits_is_a_row(tmp_path):
    installed(tmp_path, "faulty", "import sys; sys.exit(3)")
    out, err = python(
        """
        import agrad as ag
        print(ag.zeros(2).tolist())
        print([row.reason for row in ag.backends() if row.name == "faulty"])
        """,
        tmp_path,
    )
    assert out.splitlines() == ["[0.0, 0.0]", "['SystemExit: 3']"]
    assert err.count("the agrad plugin 'faulty' failed: SystemExit: 3") == 1


def test_a_backend_whose_module_exits_is_a_row(tmp_path):
    installed(tmp_path, "late_plugin", LATE_PLUGIN.format(backends={"late": "late_backend:Late"}))
    (tmp_path / "late_backend.py").write_text("import sys; sys.exit('no licence')")
    done = listed(tmp_path)
    assert done.returncode == 1
    assert "no: late_backend:Late: SystemExit: no licence" in done.stdout


def test_the_warning_is_at_the_users_line(tmp_path):
    installed(tmp_path, "faulty", "import nonsense_library")
    (tmp_path / "program.py").write_text("import agrad as ag\n\n\nag.zeros(2)\n")
    _, err = python("import runpy; runpy.run_module('program', run_name='__main__')", tmp_path)
    assert f"{tmp_path}/program.py:4: RuntimeWarning: the agrad plugin 'faulty' failed" in err


def test_a_folder_of_a_librarys_name_is_no_library(tmp_path, monkeypatch, registered):
    (tmp_path / "nonsense_library").mkdir()
    monkeypatch.syspath_prepend(tmp_path)

    class Empty(Mine):
        def namespace(self):
            return importlib.import_module("nonsense_library")

    registered(MyPlugin(Empty()))
    (row,) = (row for row in ag.backends() if row.name == "mine")
    assert not row.available
    assert row.reason == f"not installed ({tmp_path / 'nonsense_library'} is a folder of that name, without a module)"


# -- several plugins for one thing ------------------------------------------------------------------------------------

CLAIM = """
    import array_api_compat.numpy, numpy, pluggy
    import agrad
    marker = pluggy.HookimplMarker("agrad")
    class Mine(agrad.Backend):
        name = "{name}"
        def namespace(self):
            return array_api_compat.numpy
    @marker
    def agrad_backends():
        return [Mine()]
    @marker
    def agrad_backend_of(array_type):
        return "{name}" if array_type.__name__ == "Sub" else None
"""
USE_OF_CLAIM = """
    import numpy, agrad as ag
    class Sub(numpy.ndarray):
        pass
    for _ in range(2):
        print(ag.asarray(numpy.ones(2).view(Sub)).device)
"""


@pytest.mark.parametrize("name", ["aa_sub", "zz_sub", "quantity", "agrad_sub"])
def test_a_subclass_of_numpys_arrays_belongs_to_its_own_plugin(name, tmp_path):
    installed(tmp_path, name, CLAIM.format(name=name))
    out, err = python(USE_OF_CLAIM, f"{tmp_path}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
    assert (out.split(), err) == ([name, name], "")


def test_two_plugins_for_one_type_are_told_of(tmp_path):
    for name in ("bb", "aa", "cc"):
        installed(tmp_path, name, CLAIM.format(name=name))
    out, err = python(USE_OF_CLAIM, f"{tmp_path}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
    claims = " and ".join(f"{n!r} of the distribution {n!r}, for {n!r}" for n in ("cc", "bb", "aa"))
    assert err.count("RuntimeWarning") == 1
    assert f"__main__.Sub is claimed by the plugins {claims}; it counts as one of 'cc'." in err
    assert out.split() == ["cc", "cc"]  # whatever the order of the folder


def test_two_distributions_of_one_entry_point_name(tmp_path):
    for distribution in ("counted", "other"):
        installed(tmp_path, distribution, CLAIM.format(name=distribution))
        (tmp_path / f"{distribution}-1.0.dist-info/entry_points.txt").write_text(f"[agrad]\nmine = {distribution}\n")
    done = listed(tmp_path)
    first, second = (line for line in done.stdout.splitlines() if line.startswith(("counted", "mine")))
    assert done.returncode == 1
    assert first.split()[0] == "counted"
    assert second.startswith("mine of other ")
    assert second.endswith("no: BackendError: 'counted' also has an entry point of that name: rename one of them")


# -- hooks ------------------------------------------------------------------------------------------------------------


def test_a_misspelt_hook_is_a_row_with_the_nearest_name(registered):
    class Misspelt:
        @hookimpl
        def agrad_backend(self):
            return [Mine()]

        @hookimpl
        def agrad_backend_off(self, array_type):
            return "mine"

    says = (
        "there is no hook 'agrad_backend': did you mean 'agrad_backends'? and"
        " no hook 'agrad_backend_off': did you mean 'agrad_backend_of'?"
    )
    with pytest.warns(RuntimeWarning, match=re.escape(f"the agrad plugin 'Misspelt' failed: BackendError: {says}")):
        registered(Misspelt())
    (row,) = (row for row in ag.backends() if row.name == "Misspelt")
    assert (row.available, row.failed, row.reason) == (False, True, f"BackendError: {says}")
    still_works()


def test_a_well_installed_plugin_is_found(tmp_path):
    installed(
        tmp_path,
        "well",
        """
        import agrad, pluggy
        class Well(agrad.Backend):
            name = "well"
            def namespace(self):
                import array_api_strict
                return array_api_strict
        backend = Well()
        marker = pluggy.HookimplMarker("agrad")
        @marker
        def agrad_backends():
            return [backend]
        @marker
        def agrad_backend_of(array_type):
            return "well" if array_type.__module__.startswith("array_api_strict") else None
        """,
    )
    out, _ = python(
        """
        import agrad as ag
        from agrad.backends import well as xp
        x = xp.asarray([1.0, 2.0], requires_grad=True)
        (x * x).sum().backward()
        print(x.grad.device, x.grad.tolist(), type(x.grad._raw).__module__)
        """,
        tmp_path,
        *("-W", "error"),
    )
    assert out.split() == ["well", "[2.0,", "4.0]", "array_api_strict._array_object"]


# -- paths ------------------------------------------------------------------------------------------------------------

LATE_PLUGIN = """
    import pluggy
    marker = pluggy.HookimplMarker("agrad")
    @marker
    def agrad_backends():
        return {backends!r}
    @marker
    def agrad_backend_of(array_type):
        return "late" if array_type.__module__.startswith("array_api_strict") else None
"""
LATE_BACKEND = """
    import {library}
    import agrad
    class Late(agrad.Backend):
        name = "late"
        {more}
        def namespace(self):
            return array_api_strict
    def function(): ...
"""


def test_a_backend_by_its_path_is_imported_when_it_is_needed(tmp_path):
    installed(tmp_path, "late_plugin", LATE_PLUGIN.format(backends={"late": "late_backend:Late"}))
    (tmp_path / "late_backend.py").write_text(
        textwrap.dedent(LATE_BACKEND.format(library="array_api_strict", more="contract = 2"))
    )
    out, _ = python(
        """
        import sys
        import agrad as ag
        ag.zeros(2)
        print("late_plugin" in sys.modules, "late_backend" in sys.modules)
        x = ag.zeros(2, device="late")
        print("late_backend" in sys.modules, x.device, ag.asarray(x._raw).device)
        from agrad.plugin import manager
        print(manager.get("late") is manager.get("late"), [row.available for row in ag.backends() if row.name == "late"])
        """,
        tmp_path,
        *("-W", "error"),
    )
    assert out.split() == ["True", "False", "True", "late", "late", "True", "[True]"]


BAD_PATHS = {
    "module": ("late_backed:Late", "", "", "late_backed:Late: ModuleNotFoundError: No module named 'late_backed'"),
    "attribute": ("late_backend:Early", "", "", "late_backend:Early: AttributeError: module 'late_backend' has no"),
    "object": ("late_backend:function", "", "", "late_backend:function: TypeError: it is a function, not a Backend"),
    "class": ("late_backend:array_api_strict.Array", "", "", "late_backend:array_api_strict.Array: "),
    "library": ("late_backend:Late", "nonsense_library, ", "", "not installed (No module named 'nonsense_library')"),
    "name": ("late_backend:Late", "", "name = 'early'", "it is named 'early', its plugin says 'late'"),
    "version": ("late_backend:Late", "", "contract = 1", "the plugin 'late_plugin' is written for version 1 of the"),
}


@pytest.fixture(scope="module")
def lost(tmp_path_factory):
    """Give what a program prints where the path of a backend leads to none, by what is wrong."""
    folders = {fault: tmp_path_factory.mktemp(fault) for fault in BAD_PATHS}
    for fault, folder in folders.items():
        path, library, more, _ = BAD_PATHS[fault]
        installed(folder, "late_plugin", LATE_PLUGIN.format(backends={"late": path}))
        text = LATE_BACKEND.format(library=library + "array_api_strict", more=more)
        (folder / "late_backend.py").write_text(textwrap.dedent(text))
    return in_forks(
        folders,
        """
        import agrad as ag
        print(ag.zeros(2).tolist())
        for _ in range(2):
            (row,) = (row for row in ag.backends() if row.name == "late")
            print(row.available, row.reason.replace(chr(10), " "))
            for use in (lambda: ag.zeros(2, device="late"), lambda: ag.use_backend("late").__enter__()):
                try:
                    use()
                except ag.BackendError as error:
                    print(str(error).replace(chr(10), " "))
        """,
        *("-W", "error"),
    )


@pytest.mark.parametrize("fault", BAD_PATHS)
def test_a_path_that_leads_to_no_backend_is_a_row(fault, lost):
    (out, _), reason = lost[fault], BAD_PATHS[fault][-1]
    first, *rest = out.splitlines()
    assert first == "[0.0, 0.0]"
    assert len(rest) == 6
    for line in rest:
        assert line.startswith(("False ", "the late backend is not available: "))
        assert reason in line


@pytest.mark.parametrize("path", ["late_backend", "late_backend:", ":Late", "late backend:Late"])
def test_what_is_no_path_is_an_error_of_the_plugin(path, registered):
    class Faulty:
        @hookimpl
        def agrad_backends(self):
            return {"late": path}

    with pytest.warns(RuntimeWarning, match=f"the backend 'late' is given as {path!r}, which is not a path such as"):
        registered(Faulty())
    with pytest.raises(ag.BackendError, match="unknown backend 'late'"):
        ag.zeros(2, device="late")
    still_works()


# -- missing ones -----------------------------------------------------------------------------------------------------

BLOCK = """
    import importlib.metadata, sys
    real = importlib.metadata.entry_points
    importlib.metadata.entry_points = lambda **k: [e for e in real(**k) if e.name not in {blocked!r}]
"""


@pytest.mark.parametrize(
    ("library", "name", "extra"),
    [
        ("cupy", "cupy.ndarray", "cuda12"),
        ("dask", "dask.array.core.Array", "dask"),
        ("numpy", "numpy.ndarray", "numpy"),
    ],
)
def test_a_missing_plugin_is_named(library, name, extra, tmp_path):
    module, _, kind = name.rpartition(".")
    program = (
        BLOCK.format(blocked={library})
        + f"""
    import agrad as ag
    array = type({kind!r}, (), {{"__module__": {module!r}, "dtype": None, "shape": ()}})()
    for call in (ag.asarray, ag.sin, lambda a: ag.namespace({library!r}), lambda a: ag.zeros(2, device={library!r})):
        try:
            call(array)
        except ag.BackendError as error:
            print(str(error).replace(chr(10), " "))
    """
    )
    out, _ = python(program, tmp_path)
    first, second, third, fourth = out.splitlines()
    remedy = f'pip install "agrad[{extra}]", or in a clone: pip install -e plugins/{library}_backend'
    assert first == second == f"No backend for {name}. Install agrad-{library}.   {remedy}"
    assert third == fourth
    assert third.startswith(f"unknown backend '{library}'.")
    assert f"Install it with {remedy}.   Called at <string>:" in third


def test_no_backend_at_all(tmp_path):
    program = (
        BLOCK.format(blocked={"numpy", "dask", "cupy"})
        + """
    import agrad as ag, runpy
    for call in (lambda: ag.zeros(2), lambda: ag.asarray([1.0]), lambda: ag.add(1.0, 2.0), ag.namespace):
        try:
            call()
        except ag.BackendError as error:
            print(error)
    print(ag.backends())
    runpy.run_module("agrad", run_name="__main__")
    """
    )
    out, _ = python(program, tmp_path)
    lines = out.splitlines()
    remedy = 'pip install "agrad[numpy]", or in a clone: pip install -e plugins/numpy_backend'
    assert lines[:4] == [f"no backend is installed. Install one, for instance NumPy's: {remedy}"] * 4
    assert lines[4] == "()"
    assert lines[-1] == f"No backend is installed. Install one, for instance NumPy's: {remedy}"


def test_several_backends_without_numpy_ask_for_a_choice(tmp_path):
    program = (
        BLOCK.format(blocked={"numpy", "dask", "cupy"})
        + """
    import agrad as ag, pluggy
    hookimpl = pluggy.HookimplMarker("agrad")
    import array_api_compat.numpy

    def plugin(backend_name):
        class B(ag.Backend):
            name = backend_name
            def namespace(self):
                return array_api_compat.numpy
        class P:
            @hookimpl
            def agrad_backends(self):
                return [B()]
            @hookimpl
            def agrad_backend_of(self, array_type):
                return backend_name if array_type.__name__ == "ndarray" else None
        return P()

    ag.register(plugin("one"))
    print(ag.zeros(2).device)
    ag.register(plugin("two"))
    try:
        ag.zeros(2)
    except ag.BackendError as error:
        print(error)
    ag.set_default_backend("two")
    print(ag.zeros(2, device="one").device)
    """
    )
    out, _ = python(program, tmp_path)
    assert out.splitlines() == [
        "one",
        "several backends are installed (one, two); choose one with ag.set_default_backend(name)",
        "one",
    ]


def test_numbers_that_only_numpy_could_read_are_refused_without_its_plugin(tmp_path):
    program = (
        BLOCK.format(blocked={"numpy", "dask", "cupy"})
        + """
    import agrad as ag, numpy, pluggy, types
    hookimpl = pluggy.HookimplMarker("agrad")

    class Boxed:  # neither __getitem__ nor __float__
        def __init__(self, value):
            self.value = value
        shape = property(lambda x: x.value.shape)
        dtype = property(lambda x: x.value.dtype)
        def __array__(self, dtype=None, copy=None):
            return self.value

    class B(ag.Backend):
        name = "boxed"
        def namespace(self):
            return types.SimpleNamespace(
                isdtype=numpy.isdtype, reshape=lambda x, shape, /: Boxed(x.value.reshape(shape))
            )

    class P:
        @hookimpl
        def agrad_backends(self):
            return [B()]
        @hookimpl
        def agrad_backend_of(self, array_type):
            return "boxed" if array_type is Boxed else None

    ag.register(P())
    x = ag.asarray(Boxed(numpy.asarray([2.5])))
    for read in (x.tolist, x.item, x.__bool__, x.__repr__):
        try:
            read()
        except ag.UnsupportedOp as error:
            print(str(error).splitlines())
    """
    )
    out, _ = python(program, tmp_path)
    lines = list(map(ast.literal_eval, out.splitlines()))
    assert [line[0].partition(" is not")[0] for line in lines] == ["tolist", "item", "item", "tolist"]
    for op, (what, _, remedy) in zip(("tolist", "item", "item", "tolist"), lines, strict=True):
        assert what.startswith(f"{op} is not supported by the boxed backend: Boxed has no methods to read elements by")
        assert "unknown backend 'numpy'" in what
        assert 'pip install "agrad[numpy]"' in what
        assert remedy == f"  The backend's author may define Backend.{op}."


# -- kernels ----------------------------------------------------------------------------------------------------------


class Replaces:
    """A plugin that replaces one kernel of one backend."""

    def __init__(self, op, backend, kernel):
        self.op, self.backend, self.kernel = op, backend, kernel

    @hookimpl
    def agrad_kernel(self, op, backend):
        return self.kernel if (op, backend.name) == (self.op, self.backend) else None


def test_a_plugin_replaces_one_kernel(registered, strict_backend):
    x = ag.asarray([0.0, 1.0], requires_grad=True)
    before = ag.exp(x).tolist()  # it may have been called before
    calls = []

    def exp(x, /):
        calls.append(x)
        return np.exp(x) + 1000.0

    registered(Replaces("exp", "numpy", exp))
    y = ag.exp(x)
    assert y.tolist() == [1001.0, 1000.0 + np.e]
    y.sum().backward()
    assert x.grad.tolist() == [1001.0, 1000.0 + np.e]  # the rule is the op's: it saved the kernel's result
    assert ag.sin(x).tolist() == np.sin([0.0, 1.0]).tolist()
    assert ag.exp(ag.asarray([0.0], device="strict")).tolist() == [1.0]
    assert len(calls) == 1
    for plugin in list(manager.plugins().get_plugins()):
        if isinstance(plugin, Replaces):
            manager.plugins().unregister(plugin)
    manager.forget_kernels(manager.get("numpy"))
    assert ag.exp(x).tolist() == before


def test_a_replaced_kernel_serves_rules_too(registered):
    calls = []

    def cos(x, /):
        calls.append(x)
        return np.cos(x)

    x = ag.asarray([0.5], requires_grad=True)
    y = ag.sin(x)
    registered(Replaces("cos", "numpy", cos))
    y.backward()
    assert len(calls) == 1
    np.testing.assert_allclose(x.grad.numpy(), np.cos([0.5]))


def test_a_plugin_adds_what_a_backend_lacks(registered):
    class Lacks(Mine):
        lacks = {"exp": "no exponentials on weekdays"}

    backend = Lacks()
    registered(MyPlugin(backend))
    x = ag.ones(2, device="mine")
    with pytest.raises(ag.UnsupportedOp, match="exp is not supported by the mine backend: no exponentials on weekdays"):
        ag.exp(x)
    registered(Replaces("exp", "mine", np.exp))
    assert type(ag.exp(x)) is ag.Tensor


def test_what_a_backend_lacks(registered):
    class Lacks(Mine):
        lacks = {"cos": "it knows sines only", "linalg.outer": "no outer products"}

    registered(MyPlugin(Lacks()))
    x = ag.ones(2, device="mine", requires_grad=True)
    with pytest.raises(ag.UnsupportedOp) as caught:
        ag.cos(x)
    assert (caught.value.op, caught.value.backend, caught.value.reason) == ("cos", "mine", "it knows sines only")
    assert isinstance(caught.value, NotImplementedError)
    with pytest.raises(ag.UnsupportedOp, match=r"linalg\.outer is not supported by the mine backend: no"):
        ag.linalg.outer(x, x)


def test_what_a_namespace_does_not_have(registered):
    class Small(Mine):
        def namespace(self):
            import types

            import array_api_compat.numpy as compat

            small = types.SimpleNamespace(**{k: v for k, v in vars(compat).items() if k != "hypot"})
            small.__name__ = "small"
            return small

    registered(MyPlugin(Small()))
    x = ag.ones(2, device="mine")
    with pytest.raises(
        ag.UnsupportedOp, match="hypot is not supported by the mine backend: its namespace has no function"
    ):
        ag.hypot(x, x)


# -- derivatives ------------------------------------------------------------------------------------------------------


class GivesRule:
    """A plugin that gives the derivative of one operation on one backend."""

    def __init__(self, op, backend, **derivatives):
        self.op, self.backend, self.derivatives = op, backend, derivatives

    @hookimpl
    def agrad_rule(self, op, backend):
        return self.derivatives if (op, backend) == (self.op, self.backend) else None


def sevenfold(xp, g, x):
    return xp.broadcast_to(g * 7.0, x.shape)


def test_a_derivative_of_ones_own_for_one_operation_on_one_backend(registered, strict_backend):
    x = ag.asarray([1.0, 3.0], requires_grad=True)
    assert ag.grad(ag.mean(x), x)[0].tolist() == [0.5, 0.5]  # what was generated for it has the other rule in it
    registered(GivesRule("mean", "numpy", vjp={"x": sevenfold}, jvp=lambda xp, t_x: xp.sum(t_x) * 7.0))
    assert ag.grad(ag.mean(x), x)[0].tolist() == [7.0, 7.0]
    assert ag.mean(x).item() == 2.0
    assert ag.func.jvp(ag.mean, (ag.ones(2),), (ag.ones(2),))[1].item() == 14.0
    assert ag.func.vmap(ag.func.grad(ag.mean))(ag.ones((2, 3))).tolist() == [[7.0] * 3] * 2
    (g,) = ag.grad(ag.mean(x * x), x, create_graph=True)
    assert g.tolist() == [14.0, 42.0]
    assert ag.grad(g.sum(), x)[0].tolist() == [14.0, 14.0]
    assert ag.func.capture(ag.func.grad(ag.mean))(ag.ones(2))(ag.ones(2)).tolist() == [7.0, 7.0]
    on_strict = ag.asarray([1.0, 3.0], device="strict", requires_grad=True)
    assert ag.grad(ag.mean(on_strict), on_strict)[0].tolist() == [0.5, 0.5]


def test_a_derivative_of_an_operator(registered):
    x = ag.asarray([1.0, 3.0], requires_grad=True)
    assert ag.grad((-x).sum(), x)[0].tolist() == [-1.0, -1.0]
    registered(GivesRule("negative", "numpy", vjp={"x": lambda g: g * -2.0}))
    assert ag.grad((-x).sum(), x)[0].tolist() == [-2.0, -2.0]
    with pytest.raises(NotImplementedError, match="negative"):
        ag.func.jvp(ag.negative, (ag.ones(2),), (ag.ones(2),))
    for plugin in list(manager.plugins().get_plugins()):
        if isinstance(plugin, GivesRule):
            manager.plugins().unregister(plugin)
    registered(MyPlugin(Mine()))  # with which all are asked again
    assert ag.grad((-x).sum(), x)[0].tolist() == [-1.0, -1.0]


def test_reflected_operators_of_an_operation_with_a_rule_of_ones_own(registered):
    """They are no generated code then, and have the number on the left all the same; what is no operand may answer itself."""
    registered(
        GivesRule("divide", "numpy", vjp={"x1": lambda g, x2: g / x2, "x2": lambda g, x1, x2: -5.0 * g * x1 / x2**2})
    )
    registered(GivesRule("subtract", "numpy", vjp={"x1": lambda g: g, "x2": lambda g: -g}))
    x = ag.asarray([2.0, 4.0], requires_grad=True)
    assert (1.0 / x).tolist() == [0.5, 0.25]
    assert (1.0 - x).tolist() == [-1.0, -3.0]
    assert (x / 2.0).tolist() == [1.0, 2.0]
    assert (np.asarray([8.0, 8.0]) / x).tolist() == [4.0, 2.0]
    assert ag.grad((4.0 / x).sum(), x)[0].tolist() == [-5.0, -1.25]

    class Answers:
        def __rtruediv__(self, other):
            return "answered"

    assert x / Answers() == "answered"
    with pytest.raises(TypeError):
        object() / x


@pytest.mark.parametrize(
    ("derivatives", "says"),
    [
        ({"vjp": {"x": lambda xp, g, y: g}}, "mean: the derivative by x asks for 'y', which is not known here"),
        ({"vjp": {}}, "mean: no derivative is given by x"),
        ({"vjp": {"x": sevenfold, "z": sevenfold}}, "a derivative is given for 'z', which is no operand"),
        ({"jpv": {}}, "TypeError"),
    ],
)
def test_a_derivative_that_does_not_fit_is_the_failure_of_its_plugin(derivatives, says, registered):
    with pytest.warns(RuntimeWarning, match=f"the agrad plugin 'GivesRule' failed: .*{says}"):
        registered(GivesRule("mean", "numpy", **derivatives))
    x = ag.asarray([1.0, 3.0], requires_grad=True)
    assert ag.grad(ag.mean(x), x)[0].tolist() == [0.5, 0.5]
    still_works()


# -- the example of the README ----------------------------------------------------------------------------------------

EXAMPLE = ROOT / "examples" / "minimal_backend.py"


def test_the_minimal_backend_is_minimal():
    tree = ast.parse(EXAMPLE.read_text())
    lines = {line for node in tree.body[1:] for line in range(node.lineno, node.end_lineno + 1)}
    text = EXAMPLE.read_text().splitlines()
    assert sum(bool(text[line - 1].strip()) for line in lines) <= 30


def test_the_minimal_backend(registered):
    """In a process of its own: another backend may have claimed the type here."""
    out = subprocess.run([sys.executable, "-W", "error", EXAMPLE], capture_output=True, text=True, check=True).stdout
    assert out.splitlines() == [
        "mine",
        "27.0",
        "<class 'array_api_strict._array_object.Array'>",
        "tensor([[3.5000, 5.5000],",
        "        [4.5000, 6.5000]], device='mine')",
    ]


def test_the_minimal_backend_passes_part_of_the_kit(tmp_path):
    """The namespace and the claim on types: it goes by the module, so it claims the library's dtypes too."""
    chosen = ("--agrad-quick", "-k", "test_namespace or test_registration or test_creation")
    kit = (sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--pyargs", "agrad.testing.suite", *chosen)
    command = [*kit, f"--agrad-plugin={EXAMPLE}", "--agrad-backend=mine"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert done.returncode == 0, done.stdout


def test_the_minimal_backend_in_more_detail(tmp_path):
    out, _ = python(
        f"""
        import sys, runpy
        sys.path.insert(0, {str(EXAMPLE.parent)!r})
        import minimal_backend, array_api_strict, numpy as np
        import agrad as ag

        a, b = np.arange(6.0).reshape(2, 3), np.linspace(-1, 1, 12).reshape(3, 4)
        x, w = (ag.asarray(array_api_strict.asarray(v), requires_grad=True) for v in (a, b))
        y = ag.tanh(x @ w) * 2.0 + 1.0
        (y * y).sum().backward()
        t = np.tanh(a @ b)
        g = 2 * (2 * t + 1) * 2 * (1 - t**2)
        np.testing.assert_allclose(x.grad.to_device("numpy").numpy(), g @ b.T)
        np.testing.assert_allclose(w.grad.numpy(), a.T @ g)
        z = ag.asarray(a, requires_grad=True)
        (z.to_device("mine") * 3.0)[0, ...].sum().backward()
        print(z.grad.tolist(), z.grad.device)
        h = ag.autograd.grad(ag.autograd.grad((x**3).sum(), x, create_graph=True)[0].sum(), x)[0]
        np.testing.assert_allclose(h.numpy(), 6 * a)
        """,
        tmp_path,
        *("-W", "error"),
    )
    assert out.strip() == "[[3.0, 3.0, 3.0], [0.0, 0.0, 0.0]] numpy"
