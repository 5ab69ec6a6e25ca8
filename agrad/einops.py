"""einops on tensors: once this module is imported, `einops.rearrange` and its kin take tensors and keep their graph.

The functions are those of einops, which must be installed; they are also available here, so that one import suffices.
einops asks the subclasses of its ``AbstractBackend`` whether a tensor is theirs, and finds the one below.

Examples
--------
>>> import agrad as ag
>>> from agrad.einops import rearrange
>>> x = ag.arange(6.0, requires_grad=True)
>>> rearrange(x, "(h w) -> w h", w=2)
tensor([[0., 2., 4.],
        [1., 3., 5.]], grad_fn=<PermuteDimsBackward0>)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from einops import asnumpy, einsum, pack, parse_shape, rearrange, reduce, repeat, unpack
from einops._backends import AbstractBackend  # einops requires new backends to be subclasses of this

import agrad as ag
from agrad.core import names as _names

__all__ = ["asnumpy", "einsum", "pack", "parse_shape", "rearrange", "reduce", "repeat", "unpack"]


class _AgradBackend(AbstractBackend):
    """The operations that einops needs from an array library, in agrad's functions."""

    framework_name = "agrad"

    def is_appropriate_type(self, tensor: Any) -> bool:
        return isinstance(tensor, ag.Tensor)

    def from_numpy(self, x: Any) -> Any:
        return ag.asarray(x)

    def to_numpy(self, x: Any) -> Any:
        return x.numpy()  # refuses while a gradient is required

    def arange(self, start: int, stop: int) -> Any:
        return ag.arange(start, stop)

    def reshape(self, x: Any, shape: Any) -> Any:
        return ag.reshape(x, tuple(shape))

    def transpose(self, x: Any, axes: Any) -> Any:
        return ag.permute_dims(x, tuple(axes))

    def reduce(self, x: Any, operation: str, axes: Any) -> Any:
        return getattr(ag, operation)(x, axis=tuple(axes))

    def stack_on_zeroth_dimension(self, tensors: list[Any]) -> Any:
        return ag.stack(tensors)

    def add_axis(self, x: Any, new_position: int) -> Any:
        return ag.expand_dims(x, axis=new_position)

    def tile(self, x: Any, repeats: Any) -> Any:
        return ag.tile(x, tuple(repeats))

    def concat(self, tensors: list[Any], axis: int) -> Any:
        return ag.concat(tensors, axis=axis)

    def is_float_type(self, x: Any) -> bool:
        return bool(ag.isdtype(x.dtype, ("real floating", "complex floating")))

    def einsum(self, pattern: str, *x: Any) -> Any:
        return ag.extra.einsum(pattern, *x)


if not TYPE_CHECKING:
    __getattr__, __dir__ = _names.of(__name__)
