"""What HIPS autograd's older programs import."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

from agrad.compat.autograd.test_util import check_grads

__all__ = ["quick_grad_check"]


def quick_grad_check(
    fun: Callable[..., Any], arg0: Any, extra_args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
) -> None:
    """Compare the gradient of a function with finite differences; deprecated there for `check_grads`."""
    warnings.warn("quick_grad_check is deprecated: use check_grads", DeprecationWarning, stacklevel=2)
    check_grads(lambda x: fun(x, *extra_args, **(kwargs or {})), modes=["rev"], order=1)(arg0)
