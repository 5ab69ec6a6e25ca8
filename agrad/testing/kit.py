"""What the kit's options do within pytest: plugins registered, expected failures read, a report written.

`_agrad_pytestplugin` registers a `Kit` where one of the options is given; the tests are in `agrad.testing.suite`.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
from pathlib import Path
from typing import Any

import pytest

import agrad as ag
from agrad.testing import report


def load_plugin(text: str) -> Any:
    """Return what ``MODULE[:OBJECT]`` names: a module, by name or as a file, or an object in it; a class is called.

    Raises
    ------
    pytest.UsageError
        If there is no such module or object.
    """
    place, _, name = text.rpartition(":") if ":" in text[2:] else (text, "", "")  # not the colon of C:\\
    try:
        if place.endswith(".py"):
            spec = importlib.util.spec_from_file_location(Path(place).stem, place)
            assert spec is not None
            assert spec.loader is not None
            found: Any = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(found)
        else:
            found = importlib.import_module(place)
        if name:
            found = getattr(found, name)
    except (ImportError, AttributeError, OSError) as error:
        raise pytest.UsageError(f"--agrad-plugin={text}: {type(error).__name__}: {error}") from error
    return found() if isinstance(found, type) else found


def read_xfails(path: str) -> dict[str, str]:
    """Read a file of expected failures: per line the end of a test's id, `` # `` and the reason.

    Raises
    ------
    pytest.UsageError
        If the file cannot be read, or a line gives no reason.
    """
    try:
        lines = Path(path).read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise pytest.UsageError(f"--agrad-xfails={path}: {error}") from error
    found = {}
    for line in lines:
        test, _, reason = (part.strip() for part in line.partition(" #"))
        if not test or test.startswith("#"):
            continue
        if not reason:
            raise pytest.UsageError(f"{path}: no reason is given for {test} (write `{test}  # reason`)")
        found[test] = reason
    return found


class Kit:
    """The kit in one run of pytest."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        self.records: list[report.Record] = []
        for text in config.getoption("agrad_plugin"):
            ag.register(load_plugin(text))
        path = config.getoption("agrad_xfails")
        self.xfails = read_xfails(path) if path else {}
        self.file = config.getoption("agrad_report")
        if self.file and report.writer(self.file) is None:
            raise pytest.UsageError(f"--agrad-report={self.file}: a report is written as .json, .html or .txt")

    @property
    def backend(self) -> str:
        """The backend (or device) under test, as the options have it."""
        return str(self.config.getoption("agrad_backend") or self.config.getini("agrad_backend"))

    @pytest.hookimpl(tryfirst=True)  # before a selection takes tests away
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Mark what is expected to fail, and note what each test is about: reports of workers carry it along."""
        missing = dict(self.xfails)
        for item in items:
            base = getattr(getattr(item, "cls", None), "is_agrad_conformance", False)
            if not base:
                continue
            name = f"{item.path.name}::{item.nodeid.partition('::')[2]}"  # ids begin with the way from where one is
            for test, reason in self.xfails.items():
                if name.endswith(test):
                    item.add_marker(pytest.mark.xfail(reason=reason, strict=True))
                    missing.pop(test, None)
            parameters = getattr(getattr(item, "callspec", None), "params", {})
            about = {
                "area": item.module.__name__.rpartition(".test_")[2],  # type: ignore[attr-defined]
                "test": item.originalname.removeprefix("test_"),  # type: ignore[attr-defined]
                "op": str(parameters.get("op", "")),
                "dtype": str(parameters.get("dtype", "")),
                "id": item.name,
            }
            item.user_properties.append(("agrad", about))
        files = {item.path.name for item in items}
        missing = {test: reason for test, reason in missing.items() if test.partition("::")[0] in files}
        if missing:
            raise pytest.UsageError(f"--agrad-xfails: no test has the name {', '.join(missing)}")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note how a test ended."""
        self._note(report)

    def _note(self, done: pytest.TestReport) -> None:
        about: Any = dict(done.user_properties).get("agrad")
        if about is None or (done.when != "call" and done.passed):
            return
        outcome, reason = "ok", ""
        if hasattr(done, "wasxfail"):
            outcome, reason = ("lacks", str(done.wasxfail)) if done.skipped else ("failed", "passes unexpectedly")
        elif done.skipped:
            outcome = "skipped"
            reason = str(done.longrepr[2] if isinstance(done.longrepr, tuple) else done.longrepr)
        elif done.failed:
            outcome, reason = "failed", str(done.longreprtext).strip().splitlines()[-1] if done.longreprtext else ""
        self.records.append({**about, "outcome": outcome, "reason": reason.removeprefix("Skipped: ")})

    def pytest_sessionfinish(self) -> None:
        """Write the report."""
        if self.file and not os.environ.get("PYTEST_XDIST_WORKER"):
            made = report.make(self.backend, self.records)
            report.write(made, self.file)

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """Say how the backend did."""
        if self.records:
            made = report.make(self.backend, self.records)
            terminalreporter.section("agrad conformance")
            terminalreporter.write_line(report.summary(made))
            if self.file:
                terminalreporter.write_line(f"The report is in {self.file}.")
