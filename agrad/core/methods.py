"""The members that higher files add to `Tensor` (`core.tensor.attached`), for type checkers: methods.pyi beside this file.

``docs/make_methods.py`` writes the stub from the source of those files.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from agrad.core.tensor import Tensor


class Methods:
    """The base of `Tensor`."""

    __slots__ = ()


class Picked(NamedTuple):
    """Elements selected along an axis, and their indices there: the result of PyTorch's `max(dim)` and similar."""

    values: Tensor
    indices: Tensor


class Sorted(NamedTuple):
    """The result of `Tensor.sort`."""

    values: Tensor
    indices: Tensor
