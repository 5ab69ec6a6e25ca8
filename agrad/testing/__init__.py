"""For tests: derivatives against finite differences, sample operands for every op, and a plugin's interface to the kit."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agrad.core import names as _names
from agrad.testing.gradcheck import GradcheckError, gradcheck, gradgradcheck
from agrad.testing.harness import Harness, InexactHarness

__all__ = ["GradcheckError", "Harness", "InexactHarness", "gradcheck", "gradgradcheck"]

if not TYPE_CHECKING:
    __getattr__, __dir__ = _names.of(__name__)
