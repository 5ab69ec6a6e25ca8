"""For tests: derivatives against finite differences, and sample operands for every op."""

from __future__ import annotations

from agrad.testing.gradcheck import GradcheckError, gradcheck, gradgradcheck

__all__ = ["GradcheckError", "gradcheck", "gradgradcheck"]
