"""Fixtures for all tests: the backends, and how to make and read tensors on each.

A test with the fixture `backend` (or `xp`, `make`) runs on NumPy and on array-api-strict, which raises at any step
outside the standard. Others are asked for with
``@pytest.mark.parametrize("backend", ["numpy", "strict", "dask"], indirect=True)``.
"""

from __future__ import annotations

import functools
import importlib.util
import itertools
import os
import random
from pathlib import Path

import numpy as np
import pytest

import agrad as ag
from agrad import dtypes
from agrad.core.backend import BACKENDS
from agrad.core.kernels import forget_kernels
from agrad.core.op import OPS
from agrad.plugin import manager

# Dask reads them when it is imported, here or by a program that a test starts. (Of the others: the conftest.py above.)
for name in [name for name in os.environ if name.startswith("DASK_")]:
    del os.environ[name]

#: Backends in files of their own are modules like others, also for doctests, where their library is installed.
OPTIONAL = {"mlx": "mlx_backend.py", "torch": "torch_backend.py"}
collect_ignore = [file for library, file in OPTIONAL.items() if not importlib.util.find_spec(library)]

#: Of each file the generators that are its globals, with their states once it is imported.
DRAWS = pytest.StashKey()


def load(name):
    """Import a file of this folder (test folders are no packages)."""
    spec = importlib.util.spec_from_file_location(name, Path(__file__).parent / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@functools.cache
def ready(name):
    """Make a backend usable, or skip the test; that it is usable is asked once, as rows look for every library."""
    if name == "strict":
        if all(row.name != "strict" for row in ag.backends()):
            ag.register(load("strict_backend").StrictPlugin())
        return name
    row = next((row for row in ag.backends() if row.name == name), None)
    if row is None or not row.available:
        pytest.skip(f"{name}: {row.reason if row else 'not installed'}")
    return name


def pytest_addoption(parser):
    parser.addoption("--compiled-steps", action="store_true", help="compile the functions that tests define")
    parser.addoption("--without", help="switch an optimisation off: one of tests/trust/without.py")
    parser.addoption("--shuffle", type=int, metavar="SEED", help="run files, and the tests of each, in random order")


def pytest_configure(config):
    ag.compile.__kwdefaults__["check"] = "doubling"  # whatever a replay gives otherwise is an error here
    if name := config.getoption("--without"):
        import without

        without.WITHOUT[name]()
    if config.getoption("--compiled-steps"):
        import compiled_steps

        compiled_steps.install(Path(__file__).parent)
        config.addinivalue_line("filterwarnings", "ignore::agrad.compiled.compiling.CompileWarning")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config, items):
    if name := config.getoption("--without"):  # nor what looks at the optimisation itself
        shown = [item for item in items if any(name in mark.args for mark in item.iter_markers("shows"))]
        config.hook.pytest_deselected(items=shown)
        items[:] = [item for item in items if item not in shown]
    seed = config.getoption("--shuffle")
    if seed is not None:
        files = {}
        for item in items:
            files.setdefault(item.path, []).append(item)
        drawn = random.Random(seed)
        shuffled = [drawn.sample(files[path], len(files[path])) for path in drawn.sample(sorted(files), len(files))]
        items[:] = itertools.chain.from_iterable(shuffled)


def pytest_collection_finish(session):
    session.config.stash[DRAWS] = {
        module: [(g, g.bit_generator.state) for g in vars(module).values() if isinstance(g, np.random.Generator)]
        for module in {item.module for item in session.items if hasattr(item, "module")}
    }
    if session.config.getoption("--compiled-steps"):
        import compiled_steps

        compiled_steps.collected()


def pytest_terminal_summary(terminalreporter, config):
    if config.getoption("--compiled-steps"):
        import compiled_steps

        for line in compiled_steps.report():
            terminalreporter.write_line(line)


@pytest.fixture(params=["numpy", "strict"])
def backend(request):
    """Give the name of a backend, which is ready."""
    return request.getfixturevalue(f"{request.param}_backend")


@pytest.fixture
def numpy_backend():
    """Give the name of the NumPy backend."""
    return ready("numpy")


@pytest.fixture
def strict_backend():
    """Give the name of the backend that has nothing beyond the standard."""
    return ready("strict")


@pytest.fixture
def dask_backend():
    """Give the name of the Dask backend; tasks run one after another, in this thread."""
    ready("dask")
    import dask

    with dask.config.set(scheduler="synchronous"):
        yield "dask"


@pytest.fixture
def never_computes(dask_backend):
    """Have every computation of Dask fail."""
    import dask

    def scheduler(dsk, keys, **kwargs):
        raise AssertionError("Dask was made to compute")

    with dask.config.set(scheduler=scheduler):
        yield


@pytest.fixture
def xp(backend):
    """Give agrad's namespace bound to the backend."""
    return ag.namespace(backend)


@pytest.fixture
def make(backend):
    """Give a function that makes a tensor of the backend: ``make([1.0, 2.0], requires_grad=True)``."""

    def make(data, dtype=None, requires_grad=False, chunks=2):
        array = np.asarray(data, dtype=dtype)
        if backend == "dask":
            import dask.array as da

            array = da.from_array(array, chunks=chunks if array.ndim else ())
        return ag.asarray(array, device=backend, requires_grad=requires_grad)

    return make


@pytest.fixture
def value():
    """Give a function that reads a tensor (or a raw array) of any backend as a NumPy array."""

    def value(tensor):
        tensor = ag.asarray(tensor).detach()
        return np.asarray(tensor._spec.backend.to_host(tensor._raw))

    return value


@pytest.fixture
def close(value):
    """Give a function that checks a tensor of any backend against numbers: value, shape and, for arrays, dtype."""

    def close(tensor, expected, rtol=1e-12, atol=0.0):
        found = value(tensor)
        if isinstance(expected, np.ndarray):
            assert found.dtype == expected.dtype
        np.testing.assert_allclose(found, expected, rtol=rtol, atol=atol, strict=isinstance(expected, np.ndarray))

    return close


@pytest.fixture
def plugins_as_before(strict_backend):
    """Forget the plugins that a test registers, and their backends; the strict one, which stays, is there before."""
    plugins = manager.plugins().get_plugins()
    kept: tuple[dict | set, ...] = (manager._backends, manager._executors, manager._paths, manager._providers)
    kept += (manager._failures, manager._checked, BACKENDS)
    before = [kind.copy() for kind in kept]
    yield
    for plugin in manager.plugins().get_plugins() - plugins:
        manager.plugins().unregister(plugin)
    for place, old in zip(kept, before, strict=True):
        place.clear()
        place.update(old)
    for known in manager._backends.values():
        forget_kernels(known)
    if any(op._own for op in OPS.values()):
        manager._renew_rules()


@pytest.fixture
def registered(plugins_as_before):
    """Give a function that registers a plugin for the length of the test."""

    def register(plugin, name=None):
        ag.register(plugin, name=name)
        return plugin

    return register


@pytest.fixture(autouse=True)
def _defaults():
    """Leave the process's defaults as they were."""
    before = manager._default, dtypes._default
    yield
    manager._default, dtypes._default = before


@pytest.fixture(autouse=True)
def _draws(request):
    """Have a test draw the same numbers from its file's generators in every order of tests and on every worker."""
    for generator, state in request.config.stash[DRAWS].get(getattr(request.node, "module", None), ()):
        generator.bit_generator.state = state
