"""What the caller's environment says does not reach the tests; and the ops that a doctest declares are forgotten.

Examples that are run are agrad's own: docstrings that refer to another library's are not followed by these. What is collected
is nothing to the garbage collector. Processes that share the tests say of one that passes that it has passed.
"""

from __future__ import annotations

import gc
import importlib.util
import os
from collections.abc import Iterator

import pytest
from _pytest.runner import runtestprotocol

from agrad.core.kernels import forget_kernels
from agrad.core.op import OPS
from agrad.ops import docs
from agrad.plugin import manager

# Tests say what they need, also to the programs that they start: those shall print what they print in a fresh shell.
SETTINGS = (
    *("AGRAD_BACKEND", "AGRAD_CUPY_SYNC", "AGRAD_TRACEBACK", "PYTEST_ADDOPTS"),
    *("COLUMNS", "FORCE_COLOR", "LINES", "NO_COLOR", "PYTHON_COLORS", "PY_COLORS"),
    *("PYTHONDEVMODE", "PYTHONINSPECT", "PYTHONOPTIMIZE", "PYTHONPROFILEIMPORTTIME", "PYTHONVERBOSE", "PYTHONWARNINGS"),
)
for name in SETTINGS:
    os.environ.pop(name, None)
os.environ["AGRAD_NATIVE_CACHE"] = "off"  # nothing is written to the user's directories

docs.ORIGINALS = False

#: What pytest shows by `--durations`, in seconds.
SHOWN = 0.005

#: What extends a library needs it.
collect_ignore = [] if importlib.util.find_spec("xarray") else ["agrad/chunk_manager.py", "agrad/xarray.py"]


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[object]:
    """Let the collector pass over the tests themselves: they are millions of objects, and stay until the end."""
    usual = gc.get_threshold()
    gc.set_threshold(0)  # not gc.disable(): Dask asks when it is imported, and would turn the collector off for good
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.set_threshold(*usual)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
    """Have a worker of pytest-xdist report a test that passes once: of its set-up and teardown only where they take long."""
    if not hasattr(item.config, "workerinput"):
        return None
    item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    for report in runtestprotocol(item, log=False, nextitem=nextitem):
        if report.when == "call" or not report.passed or report.duration > SHOWN:
            item.ihook.pytest_runtest_logreport(report=report)
    item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    return True


@pytest.fixture(scope="module", autouse=True)
def _of_new_objects() -> None:
    """Let the collector, which many tests call, pass over what those of earlier files have left: mostly, loaded modules."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def _examples_leave_no_ops(request: pytest.FixtureRequest) -> Iterator[None]:
    before = set(OPS) if isinstance(request.node, pytest.DoctestItem) else None
    yield
    added = (
        set() if before is None else {n for n in set(OPS) - before if not OPS[n].entry.__module__.startswith("agrad.")}
    )
    if added:
        for name in added:
            del OPS[name]
        for row in manager.backends():
            if row.available:
                forget_kernels(manager.get(row.name))
