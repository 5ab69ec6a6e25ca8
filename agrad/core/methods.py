"""What files above put on `Tensor` (`core.tensor.attached`), as type checkers see it: methods.pyi beside this file.

The stub is written from the source of those files by ``docs/make_methods.py``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from agrad.core.tensor import Tensor


class Methods:
    """The base of `Tensor`."""

    __slots__ = ()


class Picked(NamedTuple):
    """Elements picked along an axis, and their indices there: what PyTorch's `max(dim)` and its kin give."""

    values: Tensor
    indices: Tensor


class Sorted(NamedTuple):
    """What `Tensor.sort` gives."""

    values: Tensor
    indices: Tensor
