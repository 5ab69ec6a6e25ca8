"""The part of agrad that every run of pytest loads: the options of its conformance kit, and nothing more.

It stands outside the package because importing a module of the package imports agrad: a run of pytest that does not use
the kit must not pay for it, nor must a test of ``import agrad`` find it imported already. What the options do is in
`agrad.testing.kit`, which is imported where one of them is given.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from typing import Any

import pytest


def pytest_addoption(parser: Any) -> None:
    """Add the options."""
    group = parser.getgroup("agrad", "the conformance kit of agrad (pytest --pyargs agrad.testing.suite)")
    group.addoption("--agrad-backend", metavar="NAME", help="backend (or device) that agrad.testing.suite tests")
    group.addoption(
        "--agrad-plugin",
        action="append",
        default=[],
        metavar="MODULE[:OBJECT]",
        help="plugin to register first, for one without entry point: a module or a file.py, and what in it",
    )
    group.addoption("--agrad-executor", metavar="NAME", help="executor by which agrad.testing.suite runs programs")
    group.addoption("--agrad-quick", action="store_true", help="one sample per operation")
    group.addoption("--agrad-every", action="store_true", help="every sample in the longer tests too, which take a few")
    group.addoption("--agrad-xfails", metavar="FILE", help="tests expected to fail: lines of `test id  # reason`")
    group.addoption(
        "--agrad-report", action="append", default=[], metavar="FILE", help="write a report: .json, .html or .txt"
    )
    parser.addini("agrad_backend", "as --agrad-backend", default="")
    parser.addini("agrad_traceback", "full: show agrad's own frames too", default="")


def pytest_configure(config: Any) -> None:
    """Bring in the kit where it is asked for."""
    config.addinivalue_line("markers", "agrad_requires(*capabilities): what a backend must be able to do (agrad's kit)")
    asked = ("agrad_backend", "agrad_plugin", "agrad_xfails", "agrad_report")
    if any(map(config.getoption, asked)) or config.getini("agrad_backend"):
        from agrad.testing import kit  # noqa: PLC0415 (see above)

        config.pluginmanager.register(kit.Kit(config), "agrad-kit")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: Any, call: Any) -> Iterator[None]:
    """Leave agrad's own frames out of the errors of a test that uses it, as terminals do."""
    shown = sys.modules.get("agrad.view.tracebacks")
    if call.excinfo is not None and shown is not None:
        shown.explain(call.excinfo.value)
        full = "full" in (os.environ.get("AGRAD_TRACEBACK"), item.config.getini("agrad_traceback"))
        if not full and not item.config.pluginmanager.has_plugin("agrad-kit"):
            call.excinfo.traceback = type(call.excinfo.traceback)(shown.without_own(call.excinfo.tb))
    return (yield)
