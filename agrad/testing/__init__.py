"""For tests: derivatives against finite differences, sample operands for every op, and what the kit asks of a plugin."""

from __future__ import annotations

from agrad.testing.gradcheck import GradcheckError, gradcheck, gradgradcheck
from agrad.testing.harness import Harness, InexactHarness

__all__ = ["GradcheckError", "Harness", "InexactHarness", "gradcheck", "gradgradcheck"]
