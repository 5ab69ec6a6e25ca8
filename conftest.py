"""For doctests, which stand outside `tests`: the ops that an example declares are forgotten after it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from agrad.core.op import OPS
from agrad.plugin import manager
from agrad.plugin.backend import forget_kernels


@pytest.fixture(autouse=True)
def _examples_leave_no_ops(request: pytest.FixtureRequest) -> Iterator[None]:
    before = set(OPS) if isinstance(request.node, pytest.DoctestItem) else None
    yield
    if before is not None and set(OPS) != before:
        for name in set(OPS) - before:
            del OPS[name]
        for row in manager.backends():
            forget_kernels(manager.get(row.name))
