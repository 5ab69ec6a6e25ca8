"""Puts the stand-in for CuPy in its place for a run of pytest, so that the kit runs on a device that is emulated.

``PYTHONPATH=tests/backends pytest -p emulated_cupy --pyargs agrad.testing.suite --agrad-backend=cupy``
"""

from __future__ import annotations

import fake_cupy
import pytest


@pytest.hookimpl(tryfirst=True)
def pytest_configure():
    fake_cupy.install()  # not when the file is imported, which doctests do
