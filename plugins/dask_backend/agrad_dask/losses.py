"""A caller's loss: the function with its arguments, and its programs for the numbers of rows that runs of it have.

May import Dask; is imported with `agrad_dask.lowering`.
"""

from __future__ import annotations

import functools
import itertools
import math
import pickle
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

import agrad as ag
from agrad import random, tree
from agrad.autograd.backward import cotangent_for
from agrad.compiled.cached import Kept
from agrad.compiled.compiling import Compiled
from agrad.core import engine, errors
from agrad.core.backend import backend_of
from agrad.core.operands import from_raw
from agrad.core.tensor import Tensor
from agrad.program.arguments import name_of, split_aux
from agrad.program.program import Leaf, Number, Program
from agrad.program.recording import CaptureError

#: Runs of a program have rows of at most about so many bytes, so that what they make stays in the processor's caches,
PIECE_BYTES = 2**21
#: or of so many times the bytes that the program makes whatever the number of rows.
FIXED = 4
#: For how many numbers of rows at most the loss is captured.
KINDS = 16
#: How programs run in tasks: to the same bits at the first run and later ones, on the thread of the task.
HOW = {"exact": True, "threads": 1}

errors.INTERNAL_FILES.add(__file__)


@dataclass(frozen=True, eq=False)
class Loss:
    """The caller's function, and how it is differentiated.

    Attributes
    ----------
    function : callable
        The caller's.
    chosen : tuple of int
        By which arguments.
    """

    function: Callable[..., Any]
    chosen: tuple[int, ...]
    reduce: str
    has_aux: bool

    def run(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[list[Tensor], Any]:
        """Return value and gradients, in a list, and what the function gives beside."""
        leaves, structure = tree.flatten((args, kwargs))
        parameters = []
        for place in self.places(structure):
            leaves[place] = ag.asarray(leaves[place]).detach().requires_grad_()
            parameters.append(leaves[place])
        args, kwargs = tree.unflatten(structure, leaves)
        value, aux = self.value(args, kwargs)
        found: dict[Any, Any] = {}
        if value._node is not None:
            roots = [(value._node, cotangent_for(0, value._node, None))]
            targets = {t._node for t in parameters}
            found = engine.run(roots, retain_graph=False, create_graph=False, targets=targets, accumulate=False)
        gradients = [found.get(t._node) for t in parameters]
        made = [ag.zeros_like(t) if g is None else from_raw(g) for t, g in zip(parameters, gradients, strict=True)]
        aux = tree.map(lambda leaf: leaf.detach() if isinstance(leaf, Tensor) else leaf, aux)
        return [t.detach() for t in (value, *made)], aux

    def value(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Tensor, Any]:
        """Return the value, checked, and what the function gives beside."""
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
        """Return where the parameters stand among the leaves of all arguments."""
        starts = [0, *itertools.accumulate(child.num_leaves for child in structure.children[0].children)]
        return [place for k in self.chosen for place in range(starts[k], starts[k + 1])]

    def __str__(self) -> str:
        code = getattr(self.function, "__code__", None)
        where = f" ({code.co_filename}:{code.co_firstlineno})" if code else ""
        return f"the loss {name_of(self.function)}{where}"


@dataclass(frozen=True, eq=False)
class Rows:
    """A loss and its arguments except the data.

    Attributes
    ----------
    leaves : list
        Of the arguments: raw parameters, None in place of data, the rest as given.
    places : list of int
        Where the parameters stand among the leaves.
    data : tuple of int
        Where the data stands.
    """

    loss: Loss
    leaves: list[Any]
    structure: tree.TreeDef
    places: list[int]
    data: tuple[int, ...]

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


@dataclass(frozen=True, eq=False)
class Kind:
    """What runs on chunks of some number of rows: the program of a loss, forward and backward.

    Attributes
    ----------
    program : Program
        Gives value, gradients and auxiliary values.
    blocks : tuple of (shape, dtype)
        What the rows of each data array have to be.
    given : list
        The inputs of the program; None in place of rows and keys.
    rows : tuple of (int, int)
        Which input is which data array.
    keys : tuple of int
        Which inputs are keys of draws.
    outs : tuple of int
        Which outputs are value, gradients, and what is computed of the auxiliary values.
    keep : bool
        Whether memory may be kept for the next run.
    """

    program: Program
    blocks: tuple[tuple[tuple[int, ...], Any], ...]
    given: list[Any]
    rows: tuple[tuple[int, int], ...]
    keys: tuple[int, ...]
    outs: tuple[int, ...]
    keep: bool = True

    def fits(self, blocks: Sequence[Any]) -> bool:
        """Return whether rows are what the program was captured for."""
        for block, (shape, dtype) in zip(blocks, self.blocks, strict=True):
            if block.shape != shape or block.dtype != dtype:
                return False
        return True

    def run(self, blocks: Sequence[Any], source: random.Generator) -> list[Any]:
        """Return value, gradients and auxiliary values for some rows."""
        values = self.given.copy()
        for at, which in self.rows:
            values[at] = blocks[which]
        for at in self.keys:
            values[at] = source.key()
        backend = backend_of(blocks[0])
        assert backend is not None
        with backend.quiet():
            outs = self.program.run(backend, values, **HOW, **({} if self.keep else {"keep": False}))
        return [backend.as_array(outs[at]) for at in self.outs]

    def __reduce__(self) -> Any:
        none: dict[str, Any] = {"arguments": None, "results": None, "outside": {}, "sources": {}, "names": {}}
        text = pickle.dumps(self.program.replaced(**none))  # without what runs it here, or is the caller's own
        return kind_of, (text, self.blocks, self.given, self.rows, self.keys, self.outs, self.keep)


def kind_of(text: bytes, *rest: Any) -> Kind:
    """Return what was sent to another process."""
    return Kind(program_of(text), *rest)


@functools.lru_cache(maxsize=64)
def program_of(text: bytes) -> Program:
    """Return a program that was sent to this process, the same one at every call: it keeps what runs it."""
    return pickle.loads(text)  # type: ignore[no-any-return]  # noqa: S301 (as all that Dask sends)


class Filled(NamedTuple):
    """What a program computes of auxiliary values: for chunks of so many rows, and which values."""

    rows: int
    values: list[Any]


class Captured(NamedTuple):
    """What runs in the chunks of one call.

    Attributes
    ----------
    kept : dict of int to Kept
        By numbers of rows, with their guards.
    kinds : dict of int to Kind
        The same, for tasks.
    most : int
        How many rows a run has at most; 0: a run has a whole chunk.
    reason : str
        Why the function itself runs on the rest; "" if there is none.
    whole : bool
        All numbers of rows are there.
    """

    kept: dict[int, Kept]
    kinds: dict[int, Kind]
    most: int
    reason: str
    whole: bool


#: Where nothing is captured.
NOTHING = Captured({}, {}, 0, "", whole=False)


def captured(
    programs: Compiled,
    loss: Rows,
    arrays: Sequence[Any],
    sizes: Sequence[int],
    *,
    source: random.Generator,
    split: bool,
    compare: bool,
) -> Captured:
    """Capture the loss for all numbers of rows that runs have, or find what was captured.

    Parameters
    ----------
    programs : Compiled
        Of `Loss.run`.
    arrays : sequence of dask.array.Array
        The data.
    sizes : sequence of int
        Those numbers of rows, the most frequent first.
    source : Generator
        Of the random numbers that the loss draws meanwhile.
    split : bool
        A run may have some rows of a chunk: what they make stays in the processor's caches. Fewer of them than make up
        for what the program does whatever their number (with the parameters, as a rule) are none the better.
    compare : bool
        Call the function on rows that are made up, and check that a program gives the same: it may depend on something
        that no guard sees.
    """
    row = sum(array.dtype.itemsize * math.prod(array.shape[1:]) for array in arrays)
    most = max(1, PIECE_BYTES // max(1, row)) if split else 0
    with np.errstate(all="ignore"), random.using(source):
        found = _captured_pieces(programs, loss, arrays, sizes, most)
        if most and found.kinds:
            fixed = max(
                sum(about.nbytes for about in kind.program.shapes.values() if rows not in about.shape)
                for rows, kind in found.kinds.items()
            )
            if FIXED * fixed > most * row:
                found = _captured_pieces(programs, loss, arrays, sizes, FIXED * fixed // row)
        if compare and found.kept:
            rows = min(found.kept)
            programs.compare(
                found.kept[rows], *loss.arguments(imagined(array._meta, (rows, *array.shape[1:])) for array in arrays)
            )
    return found


def _captured_pieces(
    programs: Compiled, loss: Rows, arrays: Sequence[Any], sizes: Sequence[int], most: int
) -> Captured:
    """Do that for pieces of chunks of at most so many rows."""
    pieces = [(most, rows % most) if 0 < most < rows else (rows,) for rows in sizes]
    every = [rows for rows in dict.fromkeys(itertools.chain.from_iterable(pieces)) if rows]
    kept: dict[int, Kept] = {}
    kinds: dict[int, Kind] = {}
    reason = f"its chunks have {len(every)} different numbers of rows" if len(every) > KINDS else ""
    for rows in every[:KINDS]:
        args, kwargs = loss.arguments(imagined(array._meta, (rows, *array.shape[1:]), plain=True) for array in arrays)
        try:
            found = programs.find(args, kwargs)
            if found is None:
                made_up = loss.arguments(imagined(array._meta, (rows, *array.shape[1:])) for array in arrays)
                found = programs.record(*made_up)
        except CaptureError as error:
            reason = str(error).removeprefix("capture: ")
            continue
        kept[rows] = found
        given = found.gather(tree.flatten((args, kwargs))[0])
        places = [(at, loss.data.index(place)) for at, place in found.from_arguments if place in loss.data]
        for at, _ in places:
            given[at] = None
        kinds[rows] = Kind(
            found.program,
            tuple(((rows, *array.shape[1:]), array.dtype) for array in arrays),
            given,
            tuple(places),
            tuple(at for at, _ in found.keys),
            tuple(at for _, at in found.leaves if at >= 0),
        )
    return Captured(kept, kinds, most if kinds else 0, reason, whole=bool(every) and len(kinds) == len(every))


def imagined(meta: Any, shape: tuple[int, ...], *, plain: bool = False) -> Any:
    """Return a made-up array like another: numbers between 0 and 1, False, zeros; `plain`: all alike, without memory."""
    if meta.dtype.kind not in "fc":
        made = np.broadcast_to(np.zeros((), meta.dtype), shape)
    elif plain:
        made = np.broadcast_to(np.ones((), meta.dtype), shape)
    else:
        made = np.resize(np.random.default_rng(0).uniform(size=min(4099, math.prod(shape))).astype(meta.dtype), shape)
    backend = backend_of(meta)
    return made if backend is None else backend.asarray(made if plain else np.array(made))


def filled(aux: Any, kept: dict[int, Kept], parameters: int) -> Any:
    """Return auxiliary values as the loss gave them, of those that a program has computed."""
    if not isinstance(aux, Filled):
        return aux
    results = kept[aux.rows].program.results
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
