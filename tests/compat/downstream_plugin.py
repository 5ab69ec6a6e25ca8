"""A pytest plugin for the tests of libraries built on HIPS autograd: ``autograd`` is agrad.compat.autograd there.

What is expected to fail stands in ``downstream-xfails.txt``, each with a reason; it is an error if one of them passes. The
environment's ``DOWNSTREAM`` names the library. ``nox -s downstream`` runs it.
"""

from __future__ import annotations

import os
import random
from pathlib import Path

import numpy as np
import pytest

from agrad.compat import autograd

EXPECTED = Path(__file__).with_name("downstream-xfails.txt")


def expected(library):
    """Give the reason by test, of one library."""
    lines = EXPECTED.read_text(encoding="utf-8").splitlines()
    rows = (line.split("  # ", 1) for line in lines if line and not line.startswith("#"))
    return {test.partition(" ")[2]: reason for test, reason in rows if test.partition(" ")[0] == library}


def pytest_configure(config):
    autograd.install()


def pytest_collection_modifyitems(config, items):
    reasons = expected(os.environ["DOWNSTREAM"])
    for item in items:
        name = f"{item.path.name}::{item.nodeid.partition('::')[2]}"
        if name in reasons:
            item.add_marker(pytest.mark.xfail(reason=reasons[name], strict=True))


@pytest.fixture(autouse=True)
def seeded():
    """Draw the same numbers in every run: pymanopt's own fixture wants other libraries."""
    random.seed(42)
    np.random.seed(42)


@pytest.fixture
def block():
    """Let no window of lifelines' plots stay open: its own fixture is in its repository alone."""
    return False
