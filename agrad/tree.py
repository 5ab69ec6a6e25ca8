"""Containers of tensors: extracting leaves, putting leaves back, and one vector for all of them.

A container is a dict, list, tuple, namedtuple, dataclass instance or None, in any nesting; None holds nothing.
Everything else is a leaf.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from agrad.core import names as _names
from agrad.core.tensor import Tensor
from agrad.core.tree import TreeDef, flatten, map, unflatten
from agrad.ops.creation import asarray, zeros
from agrad.ops.data_type import astype, isdtype
from agrad.ops.elementwise import real
from agrad.ops.manipulation import concat, reshape

__all__ = ["TreeDef", "flatten", "map", "ravel", "unflatten"]


def ravel(tree: Any) -> tuple[Tensor, Callable[[Any], Any]]:
    """Join all leaves to one vector, for optimisers and solvers that know vectors only.

    Both directions are differentiable.

    Parameters
    ----------
    tree
        A container of tensors, raw arrays and Python numbers. Dtypes may differ, but integers or booleans cannot be
        combined with floating-point numbers: a vector could not represent them exactly.

    Returns
    -------
    vector : Tensor
        All elements, shape (n,), in the order of `flatten`; of the leaves' promoted dtype.
    unravel : callable
        Takes a vector of n elements (a tensor, or anything that `agrad.asarray` accepts) and returns a container like
        `tree`, each leaf a tensor of its original shape and dtype. A raw array is put on the device of `vector`; a
        tensor stays on its device.

    Raises
    ------
    TypeError
        If a leaf is not numeric, or the dtypes cannot be joined; the message says which leaf.

    Examples
    --------
    >>> import agrad as ag
    >>> vector, unravel = ravel({"weight": ag.asarray([[1.0, 2.0], [3.0, 4.0]]), "bias": ag.asarray(5.0)})
    >>> vector
    tensor([5., 1., 2., 3., 4.])
    >>> unravel(vector * 10)["bias"]
    tensor(50.)
    """
    leaves, treedef = flatten(tree)
    paths = treedef.paths()
    device = next((leaf.device for leaf in leaves if isinstance(leaf, Tensor)), None)
    tensors = [_as_tensor(leaf, path, device) for leaf, path in zip(leaves, paths, strict=True)]
    families = [_family(tensor.dtype) for tensor in tensors]
    for path, tensor, family in zip(paths, tensors, families, strict=True):
        if family != families[0]:
            raise TypeError(
                f"cannot ravel {families[0]} and {family} leaves together: {tensors[0].dtype} at {paths[0]}, "
                f"{tensor.dtype} at {path}. Keep the one out of the container, or convert it first."
            )
    shapes = [tensor.shape for tensor in tensors]
    dtypes = [tensor.dtype for tensor in tensors]
    stops: list[int] = []
    for shape in shapes:
        stops.append(math.prod(shape) + (stops[-1] if stops else 0))
    size = stops[-1] if stops else 0
    if tensors:
        flat = [reshape(tensor, (math.prod(shape),)) for tensor, shape in zip(tensors, shapes, strict=True)]
        joined = concat(flat, axis=0)
    else:
        joined = zeros((0,))
    joined_device, joined_complex = joined.device, isdtype(joined.dtype, "complex floating")

    def unravel(vector: Any) -> Any:
        if not isinstance(vector, Tensor):
            vector = asarray(vector)
            if vector.device != joined_device:
                vector = vector.to_device(joined_device)
        if vector.shape != (size,):
            raise ValueError(f"unravel takes a vector of shape ({size},), got {vector.shape}")
        parts = []
        for path, shape, dtype, stop in zip(paths, shapes, dtypes, stops, strict=True):
            part = vector[stop - math.prod(shape) : stop]
            if not isdtype(part.dtype, dtype):
                if joined_complex and isdtype(part.dtype, "complex floating") and isdtype(dtype, "real floating"):
                    part = real(part)
                if not _can_cast(part.dtype, dtype):
                    raise TypeError(f"cannot unravel {part.dtype} numbers into the {dtype} leaf{_at(path)}")
                part = astype(part, dtype)
            parts.append(reshape(part, shape))
        return unflatten(treedef, parts)

    return joined, unravel


def _at(path: str) -> str:
    return f" at {path}" if path else ""


def _as_tensor(leaf: Any, path: str, device: Any) -> Tensor:
    if isinstance(leaf, Tensor):
        return leaf
    try:
        # A number has no device and goes where the tensors are; a raw array stays where it is.
        result = asarray(leaf, device=device if isinstance(leaf, (bool, int, float, complex)) else None)
    except (TypeError, ValueError) as error:
        raise TypeError(f"cannot ravel the {type(leaf).__name__}{_at(path)}: {error}") from error
    if not isdtype(result.dtype, ("bool", "numeric")):
        raise TypeError(f"cannot ravel the {type(leaf).__name__}{_at(path)}: its dtype is {result.dtype}")
    return result


def _family(dtype: Any) -> str:
    if isdtype(dtype, "bool"):
        return "boolean"
    return "integer" if isdtype(dtype, "integral") else "floating-point"


def _can_cast(source: Any, target: Any) -> bool:
    """Whether a cast preserves the kind of number: neither fractions nor imaginary parts are cut off."""
    if _family(source) != _family(target):
        return False
    return isdtype(target, "complex floating") or not isdtype(source, "complex floating")


if not TYPE_CHECKING:
    __getattr__, __dir__ = _names.of(__name__)
