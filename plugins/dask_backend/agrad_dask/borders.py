"""Blocks with borders from their neighbours: which parts of which blocks each is put together of, and the transpose of that.

An `Exchange` says it axis by axis, as data. The task that needs such a block puts it together itself; where none does, and for
blocks so large that only parts of them shall travel, there are tasks for it (`Assembled`, `Needs`).

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

#: For how many ways of cutting arrays it is kept what blocks are made of.
KEPT = 256

#: Of blocks of more bytes, parts are copied by tasks of their own: these alone travel from worker to worker, and are kept.
LARGE = 2**19

#: Where a block stands, along each axis.
At = tuple[int, ...]

internal(__file__)


class Piece(NamedTuple):
    """A part of a block along an axis, and what it is made of.

    Attributes
    ----------
    block : int
        Which block it is taken from; -1: it is a constant.
    start, length : int
        Which of its elements.
    to : int
        Where they go.
    how : str
        ``"flipped"``; ``"repeated"``, one element so many times, and its transpose, ``"summed"``; or ``""``.
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
        """What of the block is taken."""
        if self.how == "flipped":
            return slice(self.start + self.length - 1, self.start - 1 if self.start else None, -1)
        return slice(self.start, self.start + (1 if self.how == "repeated" else self.length))

    @property
    def at(self) -> slice:
        """Where it goes."""
        return slice(self.to, self.to + (1 if self.how == "summed" else self.length))


class Along(NamedTuple):
    """What blocks are made of along an axis.

    Attributes
    ----------
    given, made : tuple of int
        The lengths of the blocks that they are made of, and their own.
    pieces : tuple of tuple of Piece
        Of each: its own elements first.
    """

    given: tuple[int, ...]
    made: tuple[int, ...]
    pieces: tuple[tuple[Piece, ...], ...]

    @property
    def takes(self) -> bool:
        """Whether each block is a part of the one that stands at its place."""
        return all(
            len(own) == 1 and own[0][::3] == (i, 0) and own[0].length == n
            for i, (own, n) in enumerate(zip(self.pieces, self.made, strict=True))
        )

    @property
    def widens(self) -> bool:
        """Whether each block is the one that stands at its place, with zeros around it."""
        return all(
            len(own) == 1 and own[0][:2] == (i, 0) and own[0].length == n
            for i, (own, n) in enumerate(zip(self.pieces, self.given, strict=True))
        )

    @property
    def overlaps(self) -> bool:
        """Whether pieces of a block meet, and are added up."""
        ends = (sorted((piece.at.start, piece.at.stop) for piece in own) for own in self.pieces)
        return any(end > start for own in ends for (_, end), (start, _) in itertools.pairwise(own))

    def transposed(self) -> Along:
        """Return the transpose: what is taken from a block is added to it."""
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
        """Return what does both, `first` before; None where its pieces would be taken apart."""
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
    """What blocks have beside their own elements along an axis.

    Attributes
    ----------
    axis : int
        Which.
    lengths : tuple of int
        Of the blocks without it.
    before, after : tuple of int
        Per block, how many elements are in front and behind.
    kind : str or number
        What stands beyond the ends of the array.
    """

    axis: int
    lengths: tuple[int, ...]
    before: tuple[int, ...]
    after: tuple[int, ...]
    kind: Any

    @classmethod
    def of(cls, x: Tensor, axis: int, depth: Any, kind: Any) -> Border:
        """Return that of an array, by depth and boundary; blocks are no shorter than it."""
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
        """Return what puts it around blocks."""
        own = (Piece(i, 0, n, self.before[i]) for i, n in enumerate(self.lengths))
        sides = [[self._beside(i, front=front) for front in (True, False)] for i in range(len(self.lengths))]
        pieces = [(each, *filter(None, both)) for each, both in zip(own, sides, strict=True)]
        return Along(self.lengths, self.whole, tuple(pieces))

    def cut(self) -> Along:
        """Return what cuts it off."""
        pieces = [(Piece(i, self.before[i], n, 0),) for i, n in enumerate(self.lengths)]
        return Along(self.whole, self.lengths, tuple(pieces))

    def _beside(self, i: int, *, front: bool) -> Piece | None:
        """Return one of the two borders of a block, None where it is empty."""
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
    """A part that is copied or added: of which of the blocks it is what, where it goes, and along which axes it is summed."""

    block: int
    taken: tuple[slice, ...]
    at: tuple[slice, ...]
    summed: tuple[int, ...]
    value: float


@dataclass(frozen=True, eq=False)
class Assembly:
    """How a block is put together, the same for all that are made alike.

    Attributes
    ----------
    shape : tuple of int
        Its own.
    moves : tuple of Move
        Its pieces.
    whole : bool
        They are all of it, or its first one is.
    adds : bool
        They are added up.
    """

    shape: tuple[int, ...]
    moves: tuple[Move, ...]
    whole: bool
    adds: bool

    @property
    def is_view(self) -> bool:
        """Whether it lies in the memory of what it is made of."""
        return self.whole and len(self.moves) == 1 and self.moves[0].block == 0 and not self.moves[0].summed

    @property
    def elements(self) -> int:
        """How many it makes."""
        return 0 if self.is_view else math.prod(self.shape)

    def __call__(self, values: Sequence[Any], first: int, part: int | None, cut: int | None) -> Any:
        """Put a block together.

        Parameters
        ----------
        values : sequence
            What the task is given, from `first` on what this block is made of: arrays, or of several results the number `part`.
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
    """What blocks of an array are made of blocks of another that has as many: a linear map, or with constants beside it.

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
        """The chunks of the array whose blocks are taken."""
        return tuple(each.given for each in self.along)

    @property
    def made(self) -> tuple[tuple[int, ...], ...]:
        """The chunks of the array that is made."""
        return tuple(each.made for each in self.along)

    @once
    def transposed(self) -> Exchange:
        """The map the other way."""
        return exchange(tuple(each.transposed() for each in self.along))

    @once
    def linear(self) -> Exchange:
        """The map with 0 in the place of constants."""
        if not self._constants:
            return self
        return exchange(
            tuple(
                each._replace(pieces=tuple(tuple(p._replace(value=0.0) for p in own) for own in each.pieces))
                for each in self.along
            )
        )

    def beside(self, lengths: tuple[int, ...]) -> Exchange:
        """Return the map on arrays with one more axis, the last, along which blocks have these lengths and stay as they are."""
        return exchange((*self.along, same(lengths)))

    def kind(self, at: At) -> At:
        """Return what blocks have in common that are put together alike."""
        return tuple(kinds[i] for kinds, i in zip(self._kinds, at, strict=True))

    def places(self, at: At) -> Iterator[At]:
        """Return where the blocks stand that one is made of, the one at its own place first."""
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


@functools.lru_cache(maxsize=KEPT)
def exchange(along: tuple[Along, ...]) -> Exchange:
    """Return the exchange, one object for all that are equal."""
    return Exchange(along)


def same(lengths: tuple[int, ...]) -> Along:
    """Return what leaves blocks as they are."""
    return Along(lengths, lengths, tuple((Piece(i, 0, n, 0),) for i, n in enumerate(lengths)))


@functools.lru_cache(maxsize=KEPT)
def putting(
    chunks: tuple[tuple[int, ...], ...], axes: tuple[int | None, ...], borders: tuple[Border, ...]
) -> Exchange | None:
    """Return what puts borders around the blocks of an array; None, if there are none.

    Parameters
    ----------
    axes : tuple of (int or None)
        Which of the borders' axes each of the array is.
    """
    own = {border.axis: border for border in borders}
    if own.keys().isdisjoint(axes):
        return None
    cut = zip(chunks, axes, strict=True)
    return exchange(tuple(own[a].put() if a in own else same(lengths) for lengths, a in cut))


@functools.lru_cache(maxsize=KEPT)
def cutting(chunks: tuple[tuple[int, ...], ...], borders: tuple[Border, ...]) -> Exchange:
    """Return what cuts borders off the blocks of an array, whose chunks these are without."""
    own = {border.axis: border for border in borders}
    return exchange(tuple(own[a].cut() if a in own else same(lengths) for a, lengths in enumerate(chunks)))


@functools.lru_cache(maxsize=KEPT)
def both(first: Exchange | None, second: Exchange | None) -> Exchange | None:
    """Return the exchange that does two, one after the other; None: there is none, or none that does it at once."""
    if first is None or second is None:
        return first or second
    along = [b.after(a) for a, b in zip(first.along, second.along, strict=True)]
    return None if None in along else exchange(tuple(each for each in along if each is not None))


class Source(NamedTuple):
    """What the blocks of an array are made of.

    Attributes
    ----------
    base : str
        The name of the blocks that they are made of.
    part : int or None
        Which of the several results that each of those is.
    exchange : Exchange or None
        How.
    nbytes : float
        What the largest of those takes.
    graph : HighLevelGraph
        That makes them.
    """

    base: str
    part: int | None
    exchange: Exchange | None
    nbytes: float
    graph: HighLevelGraph


def source(x: Any, exchange: Exchange | None) -> Source:
    """Return what the blocks of an array are made of, after an exchange: not of its own, if those are put together of others."""
    layer = x.dask.layers[x.name]
    if isinstance(layer, Assembled) and layer.stands:
        joined = both(layer.source.exchange, exchange)
        if joined is not None or exchange is None:
            return layer.source._replace(exchange=joined)
    nbytes = x.dtype.itemsize * math.prod(max(lengths, default=0) for lengths in x.chunks)
    return Source(x.name, None, exchange, nbytes, x.dask)


class Needed:
    """What a task needs for blocks that are put together alike of the blocks of one name: of several results, perhaps.

    Parameters
    ----------
    source : Source
        What they are made of.
    parts : tuple of (int or None)
        Which of the results.
    name : str
        Of tasks that cut parts of large blocks, which are put into
    tasks : dict
        these.
    key : callable, optional
        Takes a place, gives the key of the block that stands there.
    """

    def __init__(
        self,
        source: Source,
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
        """Return how the blocks at a place are put together, of what the task is given from a number on."""
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
        How; None: the block is what is given.
    first : int
        From where on the task is given what it is made of.
    part : int or None
        Which of several results that is.
    cut : int or None
        All but the first are cut by now; which of the parts it is.
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
    """One of several results of tasks, put together to blocks; a task that needs these does that itself.

    Parameters
    ----------
    name : str
        Of the blocks.
    source : Source
        What they are made of.
    grid : tuple of int
        How many tasks there are along each axis.
    axes : tuple of (int or None)
        Along which of these each axis of a block is cut.
    added : tuple of int
        Those that are not cut, but have several tasks: they are axes in front, of length 1.
    said : dict
        Chunks and dtype.
    """

    def __init__(
        self,
        name: str,
        source: Source,
        grid: At,
        axes: tuple[int | None, ...],
        added: tuple[int, ...],
        said: dict[str, Any],
    ) -> None:
        super().__init__(collection_annotations=said)
        self.name, self.source, self.grid, self.axes, self.added = name, source, grid, axes, added

    @property
    def stands(self) -> bool:
        """Whether blocks stand where the tasks do."""
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
