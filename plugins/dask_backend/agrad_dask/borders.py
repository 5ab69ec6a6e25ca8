"""Blocks with borders from their neighbours: the parts of blocks from which each is assembled, and the transpose of that.

An `Exchange` describes this axis by axis, as data. The task that needs such a block assembles it itself; if no task
does, and for blocks so large that only parts of them should be sent, there are separate tasks (`Assembled`, `Needs`).

May import Dask; is imported with `agrad_dask.blocks`.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from dask._task_spec import Task, TaskRef
from dask.array.overlap import ensure_minimum_chunksize
from dask.highlevelgraph import HighLevelGraph, Layer

from agrad import Tensor
from agrad.plugin.backend import called, internal, once

#: For how many ways of cutting arrays the assembly of blocks is cached.
MAX_LAYOUTS = 256

#: For larger blocks, in bytes, parts are copied by separate tasks: only these are sent between workers, and kept.
LARGE = 2**19

#: The position of a block, along each axis.
At = tuple[int, ...]

internal(__file__)


class Piece(NamedTuple):
    """A part of a block along an axis, and its source.

    Attributes
    ----------
    block : int
        The block it is taken from; -1: it is a constant.
    start, length : int
        The range of its elements there.
    to : int
        Where they go.
    how : str
        ``"flipped"``; ``"repeated"``, one element several times, and its transpose, ``"summed"``; or ``""``.
    value : number
        The constant.
    """

    block: int
    start: int
    length: int
    to: int
    how: str = ""
    value: float = 0.0

    @property
    def taken(self) -> slice:
        """The slice of the block to take."""
        if self.how == "flipped":
            return slice(self.start + self.length - 1, self.start - 1 if self.start else None, -1)
        return slice(self.start, self.start + (1 if self.how == "repeated" else self.length))

    @property
    def at(self) -> slice:
        """Where it goes."""
        return slice(self.to, self.to + (1 if self.how == "summed" else self.length))


class Along(NamedTuple):
    """The assembly of blocks along an axis.

    Attributes
    ----------
    given, made : tuple of int
        The lengths of the source blocks, and of the assembled ones.
    pieces : tuple of tuple of Piece
        For each block, its pieces: its own elements first.
    """

    given: tuple[int, ...]
    made: tuple[int, ...]
    pieces: tuple[tuple[Piece, ...], ...]

    @property
    def takes(self) -> bool:
        """Whether each block is a part of the one at its position."""
        return all(
            len(own) == 1 and own[0][::3] == (i, 0) and own[0].length == n
            for i, (own, n) in enumerate(zip(self.pieces, self.made, strict=True))
        )

    @property
    def widens(self) -> bool:
        """Whether each block is the one at its position, surrounded by zeros."""
        return all(
            len(own) == 1 and own[0][:2] == (i, 0) and own[0].length == n
            for i, (own, n) in enumerate(zip(self.pieces, self.given, strict=True))
        )

    @property
    def overlaps(self) -> bool:
        """Whether pieces of a block overlap, and are summed."""
        ends = (sorted((piece.at.start, piece.at.stop) for piece in own) for own in self.pieces)
        return any(end > start for own in ends for (_, end), (start, _) in itertools.pairwise(own))

    def transposed(self) -> Along:
        """Return the transpose: a piece taken from a block is added to it."""
        other = {"repeated": "summed", "summed": "repeated"}
        found: list[list[Piece]] = [[] for _ in self.given]
        for rank in (slice(1), slice(1, None)):
            for i, own in enumerate(self.pieces):
                for piece in own[rank]:
                    if piece.block >= 0:
                        back = Piece(i, piece.to, piece.length, piece.start, other.get(piece.how, piece.how))
                        found[piece.block].append(back)
        return Along(self.made, self.given, tuple(map(tuple, found)))

    def after(self, first: Along) -> Along | None:
        """Return the composition with `first`; None if its pieces would have to be split."""
        if first.takes:
            starts = [own[0].start for own in first.pieces]
            pieces = [
                tuple(p if p.block < 0 else p._replace(start=p.start + starts[p.block]) for p in own)
                for own in self.pieces
            ]
        elif self.widens:
            both = zip(first.pieces, self.pieces, strict=True)
            pieces = [tuple(p._replace(to=p.to + own[0].to) for p in inner) for inner, own in both]
        else:
            return None
        return Along(first.given, self.made, tuple(pieces))


class Border(NamedTuple):
    """The elements that blocks have along an axis in addition to their own.

    Attributes
    ----------
    axis : int
        Which.
    lengths : tuple of int
        The lengths of the blocks without them.
    before, after : tuple of int
        For each block, how many elements come before and after.
    kind : str or number
        The values beyond the ends of the array.
    """

    axis: int
    lengths: tuple[int, ...]
    before: tuple[int, ...]
    after: tuple[int, ...]
    kind: Any

    @classmethod
    def of(cls, x: Tensor, axis: int, depth: Any, kind: Any) -> Border:
        """Return the border of an array, by depth and boundary; blocks are no shorter than it."""
        if isinstance(kind, str) and kind not in ("none", "reflect", "periodic", "nearest"):
            raise ValueError(
                f'boundary is "none", "reflect", "periodic", "nearest" or a number, got {kind!r}{called()}'
            )
        before, after = depth if isinstance(depth, tuple) else (depth, depth)
        lengths = ensure_minimum_chunksize(max(before, after), x.chunks[axis])
        within, ends = len(lengths) - 1, kind != "none"
        return cls(axis, lengths, (before * ends, *(before,) * within), (*(after,) * within, after * ends), kind)

    @property
    def whole(self) -> tuple[int, ...]:
        """The lengths of the blocks with it."""
        return tuple(map(sum, zip(self.before, self.lengths, self.after, strict=True)))

    def put(self) -> Along:
        """Return the map that adds it to blocks."""
        own = (Piece(i, 0, n, self.before[i]) for i, n in enumerate(self.lengths))
        sides = [[self._beside(i, front=front) for front in (True, False)] for i in range(len(self.lengths))]
        pieces = [(each, *filter(None, both)) for each, both in zip(own, sides, strict=True)]
        return Along(self.lengths, self.whole, tuple(pieces))

    def cut(self) -> Along:
        """Return the map that trims it."""
        pieces = [(Piece(i, self.before[i], n, 0),) for i, n in enumerate(self.lengths)]
        return Along(self.whole, self.lengths, tuple(pieces))

    def _beside(self, i: int, *, front: bool) -> Piece | None:
        """Return one of the two borders of a block, None if it is empty."""
        count = self.before[i] if front else self.after[i]
        to = 0 if front else self.before[i] + self.lengths[i]
        j = i - 1 if front else i + 1
        if not count:
            return None
        if 0 <= j < len(self.lengths) or self.kind == "periodic":
            j %= len(self.lengths)
            return Piece(j, self.lengths[j] - count if front else 0, count, to)
        if self.kind == "reflect":
            return Piece(i, 0 if front else self.lengths[i] - count, count, to, "flipped")
        if self.kind == "nearest":
            return Piece(i, 0 if front else self.lengths[i] - 1, count, to, "repeated")
        return Piece(-1, 0, count, to, "", self.kind)


class Move(NamedTuple):
    """A part that is copied or added: its source block and range, its destination, and the axes along which it is summed."""

    block: int
    taken: tuple[slice, ...]
    at: tuple[slice, ...]
    summed: tuple[int, ...]
    value: float


@dataclass(frozen=True, eq=False)
class Assembly:
    """How to assemble a block; the same for all blocks of a kind.

    Attributes
    ----------
    shape : tuple of int
        Its own.
    moves : tuple of Move
        Its pieces.
    whole : bool
        Whether they cover all of it, or the first one does.
    adds : bool
        They are added up.
    """

    shape: tuple[int, ...]
    moves: tuple[Move, ...]
    whole: bool
    adds: bool

    @property
    def is_view(self) -> bool:
        """Whether it shares the memory of its source."""
        return self.whole and len(self.moves) == 1 and self.moves[0].block == 0 and not self.moves[0].summed

    @property
    def elements(self) -> int:
        """The bytes of its result."""
        return 0 if self.is_view else math.prod(self.shape)

    def __call__(self, values: Sequence[Any], first: int, part: int | None, cut: int | None) -> Any:
        """Put a block together.

        Parameters
        ----------
        values : sequence
            The task's arguments, of which this block's sources begin at `first`: arrays, or of several results the
            number `part`.
        cut : int or None
            All but the first are such parts by now, this one among others.
        """
        block = values[first] if part is None else values[first][part]
        if self.is_view:
            return block[self.moves[0].taken]
        made = (np.empty_like if self.whole else np.zeros_like)(block, shape=self.shape)
        begun = not self.adds
        for n, taken, at, summed, value in self.moves:
            if n < 0:
                made[at] = value
                continue
            if n and cut is not None:
                piece = values[first + n][cut]
            else:
                piece = (values[first + n] if part is None else values[first + n][part])[taken]
            if summed:
                piece = np.sum(piece, axis=summed, keepdims=True, dtype=piece.dtype)
            if self.adds and begun:
                there = made[at]
                there += piece
            else:
                made[at] = piece
            begun = True
        return made


class Exchange:
    """How to assemble the blocks of an array from the blocks of another with the same number of them: a linear map, possibly with constants.

    Parameters
    ----------
    along : tuple of Along
        By axes.
    """

    def __init__(self, along: tuple[Along, ...]) -> None:
        self.along = along
        self.adds = any(each.overlaps for each in along)
        self._kinds: list[list[int]] = []
        self._samples: list[list[int]] = []
        for each in along:
            found: dict[Any, int] = {}
            lengths = zip(each.made, each.pieces, strict=True)
            alike = [(n, tuple(p[1:] for p in own), tuple(p.block < 0 for p in own)) for n, own in lengths]
            self._kinds.append([found.setdefault(one, len(found)) for one in alike])
            self._samples.append([self._kinds[-1].index(kind) for kind in range(len(found))])
        self._blocks = [[tuple(piece.block for piece in own) for own in each.pieces] for each in along]
        self._constants = any(-1 in own for each in self._blocks for own in each)
        self._assemblies: dict[At, Assembly] = {}

    @property
    def given(self) -> tuple[tuple[int, ...], ...]:
        """The chunks of the source array."""
        return tuple(each.given for each in self.along)

    @property
    def made(self) -> tuple[tuple[int, ...], ...]:
        """The chunks of the assembled array."""
        return tuple(each.made for each in self.along)

    @once
    def transposed(self) -> Exchange:
        """The transposed map."""
        return exchange(tuple(each.transposed() for each in self.along))

    @once
    def linear(self) -> Exchange:
        """The map with 0 in place of constants."""
        if not self._constants:
            return self
        return exchange(
            tuple(
                each._replace(pieces=tuple(tuple(p._replace(value=0.0) for p in own) for own in each.pieces))
                for each in self.along
            )
        )

    def beside(self, lengths: tuple[int, ...]) -> Exchange:
        """Return the map on arrays with one more axis, the last, along which blocks have these lengths and are not changed."""
        return exchange((*self.along, same(lengths)))

    def kind(self, at: At) -> At:
        """Return the key that blocks share which are assembled in the same way."""
        return tuple(kinds[i] for kinds, i in zip(self._kinds, at, strict=True))

    def places(self, at: At) -> Iterator[At]:
        """Return the positions of a block's sources, the one at its own position first."""
        found = itertools.product(*[blocks[i] for blocks, i in zip(self._blocks, at, strict=True)])
        return (place for place in found if -1 not in place) if self._constants else found

    def assembly(self, kind: At) -> Assembly:
        """Return how blocks of a kind are put together."""
        found = self._assemblies.get(kind)
        if found is None:
            found = self._assemblies[kind] = self._assembly([self._samples[a][k] for a, k in enumerate(kind)])
        return found

    def _assembly(self, at: Sequence[int]) -> Assembly:
        own = [each.pieces[i] for each, i in zip(self.along, at, strict=True)]
        shape = tuple(each.made[i] for each, i in zip(self.along, at, strict=True))
        moves, number = [], 0
        for pieces in itertools.product(*own):
            constants = [piece.value for piece in pieces if piece.block < 0]
            summed = tuple(axis for axis, piece in enumerate(pieces) if piece.how == "summed")
            taken, to = tuple(piece.taken for piece in pieces), tuple(piece.at for piece in pieces)
            block, value = (-1, constants[-1]) if constants else (number, 0.0)
            number += not constants
            moves.append(Move(block, taken, to, summed, value))
        filled = [math.prod(there.stop - there.start for there in move.at) for move in moves]
        whole = (filled[0] if self.adds else sum(filled)) == math.prod(shape)
        return Assembly(shape, tuple(moves), whole, self.adds)


@functools.lru_cache(maxsize=MAX_LAYOUTS)
def exchange(along: tuple[Along, ...]) -> Exchange:
    """Return the exchange, one object for all that are equal."""
    return Exchange(along)


def same(lengths: tuple[int, ...]) -> Along:
    """Return the identity map."""
    return Along(lengths, lengths, tuple((Piece(i, 0, n, 0),) for i, n in enumerate(lengths)))


@functools.lru_cache(maxsize=MAX_LAYOUTS)
def putting(
    chunks: tuple[tuple[int, ...], ...], axes: tuple[int | None, ...], borders: tuple[Border, ...]
) -> Exchange | None:
    """Return the map that adds borders to the blocks of an array; None if there are none.

    Parameters
    ----------
    axes : tuple of (int or None)
        For each axis of the array, the number of the borders' axis.
    """
    own = {border.axis: border for border in borders}
    if own.keys().isdisjoint(axes):
        return None
    cut = zip(chunks, axes, strict=True)
    return exchange(tuple(own[a].put() if a in own else same(lengths) for lengths, a in cut))


@functools.lru_cache(maxsize=MAX_LAYOUTS)
def cutting(chunks: tuple[tuple[int, ...], ...], borders: tuple[Border, ...]) -> Exchange:
    """Return the map that trims borders from the blocks of an array with these chunks without them."""
    own = {border.axis: border for border in borders}
    return exchange(tuple(own[a].cut() if a in own else same(lengths) for a, lengths in enumerate(chunks)))


@functools.lru_cache(maxsize=MAX_LAYOUTS)
def both(first: Exchange | None, second: Exchange | None) -> Exchange | None:
    """Return the composition of two exchanges; None if it does not exist, or needs more than one step."""
    if first is None or second is None:
        return first or second
    along = [b.after(a) for a, b in zip(first.along, second.along, strict=True)]
    return None if None in along else exchange(tuple(each for each in along if each is not None))


class BlockSource(NamedTuple):
    """The source of an array's blocks.

    Attributes
    ----------
    base : str
        The name of the source blocks.
    part : int or None
        The number of the result to use, if each of these has several.
    exchange : Exchange or None
        How.
    nbytes : float
        The bytes of the largest of them.
    graph : HighLevelGraph
        That makes them.
    """

    base: str
    part: int | None
    exchange: Exchange | None
    nbytes: float
    graph: HighLevelGraph


def source(x: Any, exchange: Exchange | None) -> BlockSource:
    """Return the source of the blocks of an array after an exchange: not its own, if those are assembled from others."""
    layer = x.dask.layers[x.name]
    if isinstance(layer, Assembled) and layer.stands:
        joined = both(layer.source.exchange, exchange)
        if joined is not None or exchange is None:
            return layer.source._replace(exchange=joined)
    nbytes = x.dtype.itemsize * math.prod(max(lengths, default=0) for lengths in x.chunks)
    return BlockSource(x.name, None, exchange, nbytes, x.dask)


class Needed:
    """The inputs a task needs for blocks of one kind, assembled from blocks of one name; possibly several results.

    Parameters
    ----------
    source : BlockSource
        The source blocks.
    parts : tuple of (int or None)
        The numbers of the results.
    name : str
        The graph for tasks that cut parts of large blocks, to which
    tasks : dict
        these.
    key : callable, optional
        Takes a place, returns the key of the block there.
    """

    def __init__(
        self,
        source: BlockSource,
        parts: tuple[int | None, ...],
        name: str,
        tasks: dict[Any, Any],
        key: Callable[[At], Any] | None = None,
    ) -> None:
        self.exchange, self.parts, self.name, self.tasks = source.exchange, parts, name, tasks
        self.key = key or (lambda place: (source.base, *place))
        self.cuts = source.exchange is not None and source.nbytes > LARGE

    def at(self, at: At) -> list[TaskRef]:
        """Return it for a place."""
        if self.exchange is None:
            return [TaskRef(self.key(at))]
        refs = [TaskRef(self.key(place)) for place in self.exchange.places(at)]
        if self.cuts and len(refs) > 1:
            for move in self.exchange.assembly(self.exchange.kind(at)).moves:
                if move.block > 0:
                    key = (f"{self.name}-{move.block}", *at)
                    self.tasks[key] = Task(key, parts_of, refs[move.block], self.parts, move.taken)
                    refs[move.block] = TaskRef(key)
        return refs

    def puts(self, at: At, first: int) -> tuple[Put, ...]:
        """Return how to assemble the blocks at a place from the task's arguments, beginning at a number."""
        assembly = None if self.exchange is None else self.exchange.assembly(self.exchange.kind(at))
        return tuple(Put(assembly, first, part, i if self.cuts else None) for i, part in enumerate(self.parts))


def parts_of(block: Any, parts: tuple[int | None, ...], taken: tuple[slice, ...]) -> list[Any]:
    """Return a copy of a part of a block, or of some of several results; of one that is asked for twice it is the same."""
    made = {part: (block if part is None else block[part])[taken].copy() for part in dict.fromkeys(parts)}
    return [made[part] for part in parts]


class Put(NamedTuple):
    """How a task puts a block together.

    Attributes
    ----------
    assembly : Assembly or None
        The recipe; None: the block is the argument itself.
    first : int
        The position of its first source among the task's arguments.
    part : int or None
        The number of the result, if these have several.
    cut : int or None
        Whether all but the first are already cut; then the numbers of the parts.
    """

    assembly: Assembly | None
    first: int
    part: int | None
    cut: int | None

    def __call__(self, values: Sequence[Any]) -> Any:
        if self.assembly is None:
            return values[self.first] if self.part is None else values[self.first][self.part]
        return self.assembly(values, self.first, self.part, self.cut)


def put_together(put: Put, axes: int, *values: Any) -> Any:
    """Return a block, with axes of length 1 in front."""
    made = put(values)
    return made[(None,) * axes] if axes else made


class Assembled(Layer):
    """One of several results of tasks, assembled into blocks; a task that needs these assembles them itself.

    Parameters
    ----------
    name : str
        Of the blocks.
    source : BlockSource
        Their source.
    grid : tuple of int
        The number of tasks along each axis.
    axes : tuple of (int or None)
        The axis of these along which each axis of a block is cut.
    added : tuple of int
        Axes that are not cut, but have several tasks: they become axes in front, of length 1.
    said : dict
        Chunks and dtype.
    """

    def __init__(
        self,
        name: str,
        source: BlockSource,
        grid: At,
        axes: tuple[int | None, ...],
        added: tuple[int, ...],
        said: dict[str, Any],
    ) -> None:
        super().__init__(collection_annotations=said)
        self.name, self.source, self.grid, self.axes, self.added = name, source, grid, axes, added

    @property
    def stands(self) -> bool:
        """Whether blocks and tasks have the same positions."""
        return self.axes == tuple(range(len(self.grid)))

    @once
    def mapping(self) -> dict[Any, Any]:
        """The tasks."""
        tasks: dict[Any, Any] = {}
        placed = *self.added, *self.axes
        places = [range(1 if axis is None else self.grid[axis]) for axis in self.axes]
        for front in itertools.product(*(range(self.grid[axis]) for axis in self.added)):
            names = "-".join(map(str, (f"{self.name}-cut", *front)))
            needed = Needed(
                self.source, (self.source.part,), names, tasks, functools.partial(self._base, placed, front)
            )
            for place in itertools.product(*places):
                key = self.name, *front, *place
                tasks[key] = Task(key, put_together, *needed.puts(place, 0), len(front), *needed.at(place))
        return tasks

    def _base(self, placed: tuple[int | None, ...], front: At, place: At) -> Any:
        """Return the key of the task for a block."""
        at = {axis: i for axis, i in zip(placed, (*front, *place), strict=True) if axis is not None}
        return (self.source.base, *(at.get(axis, 0) for axis in range(len(self.grid))))

    def __getitem__(self, key: Any) -> Any:
        return self.mapping[key]

    def __iter__(self) -> Iterator[Any]:
        return iter(self.mapping)

    def __len__(self) -> int:
        return len(self.mapping)

    def is_materialized(self) -> bool:
        return "mapping" in self.__dict__

    def get_output_keys(self) -> set[Any]:
        grid = [self.grid[axis] for axis in self.added] + [1 if axis is None else self.grid[axis] for axis in self.axes]
        return {(self.name, *at) for at in itertools.product(*map(range, grid))}
