"""A pytest plugin for HIPS autograd's own tests: ``autograd`` is agrad.compat.autograd, but their check_grads judges.

``HIPS_CHECKOUT`` is the path of a checkout of https://github.com/HIPS/autograd. What is expected to fail stands in
``hips-xfails.txt``, each with a reason; it is an error if one of them passes. ``nox -s hips -- PATH`` runs it.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path

import pytest

from agrad.compat import autograd

EXPECTED = Path(__file__).with_name("hips-xfails.txt")


def expected():
    """Give the reason by test."""
    lines = EXPECTED.read_text(encoding="utf-8").splitlines()
    return dict(line.split("  # ", 1) for line in lines if line and not line.startswith("#"))


def pytest_configure(config):
    autograd.install()
    judge = Path(os.environ["HIPS_CHECKOUT"], "autograd", "test_util.py")
    spec = importlib.util.spec_from_file_location("autograd.test_util", judge)
    module = importlib.util.module_from_spec(spec)
    sys.modules["autograd.test_util"] = autograd.test_util = module
    spec.loader.exec_module(module)


def pytest_collection_modifyitems(config, items):
    reasons = expected()
    for item in items:
        name = f"{item.path.name}::{item.name}"
        if name in reasons:
            item.add_marker(pytest.mark.xfail(reason=reasons.pop(name), strict=True))
    whole = not config.option.keyword and all(Path(arg).is_dir() for arg in config.args)
    if whole and reasons:
        raise pytest.UsageError(f"hips-xfails.txt names tests that there are none of: {', '.join(reasons)}")
