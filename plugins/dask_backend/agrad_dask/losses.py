"""A caller's loss: the function with its arguments, and its programs for the numbers of rows that its runs have.

May import Dask; is imported with `agrad_dask.lowering`.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import agrad as ag
from agrad import Tensor, tree
from agrad.plugin.backend import internal
from agrad.plugin.programs import (
    Argnums,
    CaptureError,
    Kept,
    Leaf,
    Number,
    check_argnums,
    give_all,
    name_of,
    split_aux,
)
from agrad_dask.programs import BlockProgram, PerShape, like

#: The rows of a run are limited to about this size in bytes, and its results to about this size, so that they stay in
#: the processor's caches;
PIECE_BYTES, MADE_BYTES = 2**21, 2**26
#: but they have at least this multiple of the bytes that the program allocates for any number of rows: with fewer,
#: nothing is gained.
FIXED = 4
#: The largest number of different row counts for which the loss is captured.
KINDS = 16

internal(__file__)


@dataclass(frozen=True, eq=False)
class Loss:
    """The caller's function, and how it is differentiated.

    Attributes
    ----------
    function : callable
        The caller's.
    argnums : int or tuple of int
        By which arguments.
    """

    function: Callable[..., Any]
    argnums: Argnums
    reduce: str
    has_aux: bool

    #: The name of the user's call,
    caller: ClassVar[str] = "value_and_grad"
    #: the equivalent for arrays in memory,
    in_memory: ClassVar[str] = "agrad.func.value_and_grad"
    #: and the number of arguments before those of the function.
    before: ClassVar[int] = 0
    #: Whether the user gets the value too.
    gives_value: ClassVar[bool] = True

    def run(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[list[Tensor], Any]:
        """Return value and gradients, in a list, and the auxiliary values."""
        leaves, structure = tree.flatten((args, kwargs))
        parameters = []
        for place in self.places(structure):
            leaves[place] = ag.asarray(leaves[place]).detach().requires_grad_()
            parameters.append(leaves[place])
        args, kwargs = tree.unflatten(structure, leaves)
        value, aux = self.value(args, kwargs)
        made: Any = [ag.zeros_like(t) for t in parameters]
        if parameters and value.grad_fn is not None:
            made = ag.autograd.grad(value, parameters, materialize_grads=True)
        aux = tree.map(lambda leaf: leaf.detach() if isinstance(leaf, Tensor) else leaf, aux)
        return [t.detach() for t in (value, *made)], aux

    def value(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Tensor, Any]:
        """Return the value, checked, and the auxiliary values."""
        value, aux = self.function(*args, **kwargs), None
        if self.has_aux:
            value, aux = split_aux(value, "value_and_grad(loss)(*args)")
        if not isinstance(value, Tensor):
            raise TypeError(f"the loss must return a 0-d tensor, not {type(value).__name__}")
        if value.ndim:
            raise RuntimeError(
                f"the loss must return a scalar, got a tensor of shape {value.shape}: reduce it, for instance with"
                f" .{self.reduce}()"
            )
        if value.is_complex():
            raise RuntimeError(f"the loss must return a real scalar, got {value.dtype}")
        return value, aux

    def places(self, structure: tree.TreeDef) -> list[int]:
        """Return the positions of the parameters among the leaves of all arguments."""
        starts = [0, *itertools.accumulate(child.num_leaves for child in structure.children[0].children)]
        return [place for k in self._chosen(structure) for place in range(starts[k], starts[k + 1])]

    def parameters(self, structure: tree.TreeDef) -> list[tree.TreeDef]:
        """Return the structures of the arguments that are parameters."""
        return [structure.children[0].children[k] for k in self._chosen(structure)]

    def _chosen(self, structure: tree.TreeDef) -> list[int]:
        count = len(structure.children[0].children) - self.before
        return [k + self.before for k in check_argnums(self.argnums, count)]

    def given(self, found: list[Tensor], structure: tree.TreeDef, gives: Any, *, raw: bool) -> Any:
        """Return the summed results, without the value, in the form for the caller.

        Parameters
        ----------
        found : list of Tensor
            The gradients.
        structure : TreeDef
            Of all arguments.
        gives : list
            The form of the derivatives with respect to each parameter.
        raw : bool
            All parameters are arrays or numbers.
        """
        return self.like_parameters(give_all(gives, found), structure)

    def like_parameters(self, leaves: Iterable[Any], structure: tree.TreeDef) -> Any:
        """Assemble leaves into the structure of the parameters: one argument, or a tuple of several."""
        each = iter(leaves)
        made = [tree.unflatten(one, itertools.islice(each, one.num_leaves)) for one in self.parameters(structure)]
        return made[0] if isinstance(self.argnums, int) else tuple(made)

    def __str__(self) -> str:
        code = getattr(self.function, "__code__", None)
        where = f" ({code.co_filename}:{code.co_firstlineno})" if code else ""
        return f"the loss {name_of(self.function)}{where}"


@dataclass(frozen=True, eq=False)
class BoundLoss:
    """A loss and its arguments except the data.

    Attributes
    ----------
    leaves : list
        Those of the arguments: raw parameters, None in place of data, the others unchanged.
    places : list of int
        The positions of the parameters among the leaves.
    data : tuple of int
        The positions of the data.
    """

    loss: Loss
    leaves: list[Any]
    structure: tree.TreeDef
    places: list[int]
    data: tuple[int, ...]

    def like(self, arrays: Sequence[Any], rows: int) -> Any:
        """Return the arguments for a number of rows of the data, which have no elements."""
        return self.arguments(like(array._meta, (rows, *array.shape[1:])) for array in arrays)

    def arguments(self, blocks: Iterable[Any], parameters: Iterable[Any] = ()) -> Any:
        """Return the arguments for some rows, at other parameters if given."""
        leaves = self.leaves.copy()
        for place, parameter in zip(self.places, parameters, strict=False):
            leaves[place] = parameter
        for place, block in zip(self.data, blocks, strict=True):
            leaves[place] = ag.asarray(block)
        return tree.unflatten(self.structure, leaves)

    def value(self, blocks: Iterable[Any], parameters: Iterable[Tensor]) -> Tensor:
        """Return the value for some rows at some parameters."""
        return self.loss.value(*self.arguments(blocks, parameters))[0]

    @property
    def parameters(self) -> list[Tensor]:
        """The parameters, anew."""
        return [ag.asarray(self.leaves[place]).detach().requires_grad_() for place in self.places]


# -- programs ---------------------------------------------------------------------------------------------------------


class AuxValues(NamedTuple):
    """The auxiliary values computed by a program: for chunks of how many rows, and which values."""

    rows: int
    values: list[Any]


class ChunkPrograms(NamedTuple):
    """The programs that run in the chunks of one call.

    Attributes
    ----------
    kinds : dict of int to BlockProgram
        By number of rows.
    most : int
        The largest number of rows of a run; 0: a run has a whole chunk.
    reason : str
        Why the function itself runs on the rest; "" if there is none.
    whole : bool
        Whether all numbers of rows are included.
    """

    kinds: dict[int, BlockProgram]
    most: int
    reason: str
    whole: bool


#: The programs if nothing is captured.
NOTHING = ChunkPrograms({}, 0, "", whole=False)


def captured(
    programs: PerShape, loss: BoundLoss, arrays: Sequence[Any], sizes: Sequence[int], *, split: bool
) -> ChunkPrograms:
    """Capture the loss for all numbers of rows that its runs have, or find earlier captures.

    Parameters
    ----------
    programs : PerShape
        Of `Loss.run`.
    arrays : sequence of dask.array.Array
        The data.
    sizes : sequence of int
        Those numbers of rows, the most frequent first.
    split : bool
        Whether a run may have some rows of a chunk.
    """
    most = rows_of_runs(programs, loss, arrays, max(sizes)) if split and sizes else 0
    found = _captured_pieces(programs, loss, arrays, sizes, most)
    if most and not found.kinds:  # it may be one that only takes whole chunks
        return _captured_pieces(programs, loss, arrays, sizes, 0)
    return found


def rows_of_runs(programs: PerShape, loss: BoundLoss, arrays: Sequence[Any], largest: int) -> int:
    """Return the number of rows of a run, for chunks of at most a number of rows; 0 if a run takes a whole chunk."""
    row = max(1, sum(array.dtype.itemsize * math.prod(array.shape[1:]) for array in arrays))
    most = min(largest, max(1, PIECE_BYTES // row))

    def made(rows: int) -> int:
        program = programs.of(*loss.like(arrays, rows)).program
        return sum(about.nbytes for about in program.shapes.values())

    try:
        few = made(most)
        if most == largest and few <= MADE_BYTES:
            return 0
        each = max(row, (made(2 * most) - few) // most)
    except CaptureError:
        return most
    return max(1, min(most, MADE_BYTES // each), FIXED * (few - each * most) // each)


def _captured_pieces(
    programs: PerShape, loss: BoundLoss, arrays: Sequence[Any], sizes: Sequence[int], most: int
) -> ChunkPrograms:
    """Capture the loss for pieces of chunks with at most this many rows; 0: for whole ones."""
    pieces = [(most, rows % most) if 0 < most < rows else (rows,) for rows in sizes]
    every = [rows for rows in dict.fromkeys(itertools.chain.from_iterable(pieces)) if rows]
    kept: dict[int, Kept] = {}
    kinds: dict[int, BlockProgram] = {}
    reason = f"its chunks have {len(every)} different numbers of rows" if len(every) > KINDS else ""
    for rows in every[:KINDS]:
        args, kwargs = loss.like(arrays, rows)
        try:
            found = programs.of(args, kwargs)
        except CaptureError as error:
            reason = str(error).removeprefix("capture: ")
            continue
        kept[rows] = found
        given = found.gather(tree.flatten((args, kwargs))[0])
        places = [(at, loss.data.index(place)) for at, place in found.from_arguments if place in loss.data]
        for at, _ in places:
            given[at] = None
        kinds[rows] = BlockProgram(
            found.program,
            tuple(((rows, *array.shape[1:]), array.dtype) for array in arrays),
            given,
            tuple(places),
            tuple(at for at, _ in found.keys),
            tuple(at for _, at in found.leaves if at >= 0),
        )
    if kept:
        programs.confirm(kept[min(kept)], *loss.like(arrays, min(kept)))
    return ChunkPrograms(kinds, most if kinds else 0, reason, whole=bool(every) and len(kinds) == len(every))


def filled(aux: Any, kinds: dict[int, BlockProgram], parameters: int) -> Any:
    """Return the auxiliary values as the loss returned them, given those computed by a program."""
    if not isinstance(aux, AuxValues):
        return aux
    results = kinds[aux.rows].program.results
    assert results is not None
    values = iter(aux.values)
    leaves: list[Any] = [None] * (1 + parameters)
    for leaf in results.leaves[1 + parameters :]:
        if isinstance(leaf, Number):
            leaves.append(float(next(values)))
        elif isinstance(leaf, Leaf):
            leaves.append(next(values) if leaf.raw else ag.asarray(next(values)))
        else:
            leaves.append(leaf)
    return tree.unflatten(results.treedef, leaves)[1]
