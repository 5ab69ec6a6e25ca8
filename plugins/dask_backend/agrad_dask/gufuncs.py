"""`apply_gufunc`: a function of some last axes, on blocks of the others; xarray's `apply_ufunc` calls it for tensors in chunks.

May import Dask; imported when `agrad_dask.apply_gufunc` is first used.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from dask.array.gufunc import _parse_gufunc_signature

import agrad as ag
from agrad import Tensor
from agrad.plugin.backend import array_of, called, internal
from agrad_dask.blocks import Axes, BlocksCall

internal(__file__)


def apply_gufunc(
    function: Callable[..., Any],
    signature: str,
    *args: Any,
    vectorize: bool = False,
    output_dtypes: Any = None,
    output_sizes: dict[str, int] | None = None,
    allow_rechunk: bool = False,
    **kwargs: Any,
) -> Any:
    """Call a function of some last axes on blocks of the others, like Dask's `apply_gufunc`; differentiable, including everything it uses.

    Parameters
    ----------
    function : callable
        Takes tensors in memory, a block of each array: its last axes are those of the signature, the others broadcast.
        Returns a tensor, or a tuple of them, with such axes. It is captured as by `map_blocks`.
    signature : str
        The last axes of arguments and results, by name: ``"(t),(t)->(p)"``.
    *args : array or number
        Dask arrays, tensors, arrays in memory (which are cut too) or numbers.
    vectorize : bool, optional
        The function takes no axes in front: it is mapped over them, by `vmap`.
    output_dtypes : dtype or list of dtype, optional
        The dtypes of the results. They follow from the function: others are an error.
    output_sizes : dict, optional
        The lengths of axes by name. They also follow from the function.
    allow_rechunk : bool, optional
        Merge axes of the signature into one block if they are in several, which may take much memory.
    **kwargs
        Passed to the function.

    Returns
    -------
    Tensor or tuple of Tensor
        On Dask.

    Raises
    ------
    ValueError
        If the number of arguments differs from the signature's, an axis of the signature is in several blocks, or the
        results differ from signature, `output_dtypes` or `output_sizes`.
    TypeError
        For arguments of Dask's function that have no meaning here: ``axes``, ``axis``, ``keepdims``, ``meta``.
    CaptureError, CompileError
        As in `map_blocks`.

    Examples
    --------
    >>> import agrad as ag, agrad_dask
    >>> x = ag.ones((4, 6), device="dask", chunks=(2, 6), requires_grad=True)
    >>> agrad_dask.apply_gufunc(lambda x: ag.mean(x, axis=-1), "(t)->()", x).chunks
    ((2, 2),)
    """
    for key in ("axes", "axis", "keepdims", "meta"):
        said = kwargs.pop(key, None)
        if said is not None and said is not False:
            raise TypeError(
                f"agrad_dask.apply_gufunc takes no {key}=: the axes of the signature are the last ones, and what the function"
                f" gives is known from its program{called()}"
            )
    taken, given = _parse_gufunc_signature(signature)
    if len(args) != len(taken):
        raise ValueError(f"the signature {signature} is of {len(taken)} arguments, got {len(args)}{called()}")
    core = tuple(map(len, taken))
    for i, (x, names) in enumerate(zip(args, taken, strict=True)):
        if _ndim(x) < len(names):
            raise ValueError(
                f"argument {i} has {_ndim(x)} axes, and the signature {signature} asks for {len(names)}{called()}"
            )
    args = tuple(_in_one(i, x, names, allow_rechunk) for i, (x, names) in enumerate(zip(args, taken, strict=True)))
    results = given if isinstance(given, list) else [given]
    mapped = _over_cells(function, core) if vectorize else function

    def work(call: BlocksCall) -> list[Tensor]:
        loop = tuple(range(len(call.sources)))
        axes: list[Axes] = [(*loop, *(None,) * len(names)) for names in results]
        made = call.run(axes)
        _check(made, results, len(loop), output_dtypes, output_sizes or {})
        return made

    return BlocksCall("apply_gufunc", mapped, args, kwargs, core).through(work)


def _ndim(x: Any) -> int:
    return getattr(x, "ndim", 0)


def _in_one(i: int, x: Any, names: Sequence[str], allow_rechunk: bool) -> Any:
    """Return an argument with its last axes in one block each."""
    count = _ndim(x) - len(names)
    lengths = dict(enumerate(getattr(x, "chunks", ()) or ()))
    several = {axis: name for axis, name in enumerate(names, count) if len(lengths.get(axis, ())) > 1}
    if several and not allow_rechunk:
        axis, name = next(iter(several.items()))
        raise ValueError(
            f"the axis {name} of argument {i} has {len(lengths[axis])} blocks, and the function takes it whole:"
            f" x.rechunk({{{axis}: -1}}) puts it into one, allow_rechunk=True does so here{called()}"
        )
    return x.rechunk(dict.fromkeys(several, -1)) if several else x


@functools.lru_cache(maxsize=16)
def _over_cells(function: Callable[..., Any], core: tuple[int, ...]) -> Callable[..., Any]:
    """Return the function of blocks that maps a function of one cell over the axes in front."""

    @functools.wraps(function)
    def of_blocks(*blocks: Any, **kwargs: Any) -> Any:
        return _mapped(functools.partial(function, **kwargs), blocks, core)

    return of_blocks


def _mapped(function: Callable[..., Any], blocks: Sequence[Any], core: tuple[int, ...]) -> Any:
    """Map a function over the leading axes of blocks, where axes that are missing, or of length 1, are shared."""
    front = [_ndim(x) - n for x, n in zip(blocks, core, strict=True)]
    ndim = max(front)
    if not ndim:
        return function(*blocks)
    here = [n == ndim for n in front]
    size = max(x.shape[0] for x, has in zip(blocks, here, strict=True) if has)
    one = [x[0, ...] if has and x.shape[0] != size else x for x, has in zip(blocks, here, strict=True)]
    dims = tuple(0 if has and x.shape[0] == size else None for x, has in zip(blocks, here, strict=True))
    return ag.vmap(lambda *inner: _mapped(function, inner, core), in_dims=dims)(*one)


def _check(
    made: Sequence[Tensor], results: Sequence[Sequence[str]], ndim: int, dtypes: Any, sizes: dict[str, int]
) -> None:
    """Raise ValueError if results differ from their declaration."""
    said = dtypes if isinstance(dtypes, list | tuple) else [dtypes] * len(made)
    for y, names, dtype in zip(made, results, said, strict=True):
        own = array_of(y).dtype
        if dtype is not None and own != np.dtype(getattr(dtype, "name", dtype)):
            raise ValueError(
                f"output_dtypes= says {np.dtype(dtype)}, and the function gives {own}: say that, or convert in the function,"
                f" agrad.astype{called()}"
            )
        for name, length in zip(names, y.shape[ndim:], strict=False):
            if sizes.get(name, length) != length:
                raise ValueError(
                    f"output_sizes= says {sizes[name]} for {name}, and the function gives {length}{called()}"
                )
